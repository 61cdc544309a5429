"""Which run owns which slot, for ``coordination.mode: shared`` (docs/runners.md).

The leader writes generations of owners; each run takes over what it owns and releases the rest.
Owners are advice: producer epochs decide who writes.

As in Kafka Connect's incremental rebalancing (KIP-415), a slot whose owner lives moves in two
generations: in the first it has no owner, so that the old one releases it at the end of a lap; in
the second it has the new one. A slot of a run that is gone moves at once.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from k2ktui.engine.run_record import LARGEST_SLOTS
from k2ktui.engine.strict_json import (
    LARGEST_INT,
    MalformedRecord,
    UnknownVersion,
    dump_object,
    integer,
    mapping,
    parse_object,
    text,
)
from k2ktui.engine.strict_json import field as field_of

_VERSION = 1
_OWNERS = "owners"


@dataclass(frozen=True, slots=True)
class SlotOwners:
    """One generation of owners.

    Attributes:
        generation: number of this generation; a later one replaces it.
        leader: runner id of the run that wrote it.
        owners: runner id by slot; a slot that is being released has none.
        releasing: runner id of the owner before, by slot, of the slots that are being released.
    """

    generation: int
    leader: str
    owners: Mapping[int, str] = field(default_factory=dict)
    releasing: Mapping[int, str] = field(default_factory=dict)

    def of(self, runner: str) -> frozenset[int]:
        """Return the slots that a run owns."""
        return frozenset(slot for slot, owner in self.owners.items() if owner == runner)


def rebalance(
    before: SlotOwners,
    slots: int,
    runners: Collection[str],
    leader: str,
    released: Collection[int] = (),
) -> SlotOwners:
    """Return the next generation of owners; ``before`` itself if nothing changes.

    Every slot without an owner gets one, unless a live run is still releasing it. Then slots move
    from runs with too many, until no two runs differ by more than one.

    Args:
        before: the current generation.
        slots: number of slots.
        runners: the live runs, the leader among them.
        leader: the run that writes it.
        released: slots that their owners have released.
    """
    alive = sorted(set(runners))
    kept = {s: r for s, r in before.owners.items() if s < slots and r in alive}
    waits = {
        s: r
        for s, r in before.releasing.items()
        if s < slots and s not in kept and r in alive and s not in released
    }
    shares: dict[str, list[int]] = {runner: [] for runner in alive}
    for slot, runner in sorted(kept.items()):
        shares[runner].append(slot)
    # Slots that are being released count for no run: they go to the one that has least then.
    for slot in sorted(set(range(slots)) - kept.keys() - waits.keys()):
        shares[min(alive, key=lambda runner: len(shares[runner]))].append(slot)
    highest, fuller = divmod(slots, len(alive))
    for runner in sorted(alive, key=lambda runner: -len(shares[runner])):
        most = highest + (fuller > 0)
        fuller -= len(shares[runner]) >= most and most > highest
        while len(shares[runner]) > most:
            slot = shares[runner].pop()
            if slot in kept:
                waits[slot] = runner
    owners = {slot: runner for runner, mine in shares.items() for slot in mine}
    if owners == dict(before.owners) and waits == dict(before.releasing):
        return before
    return SlotOwners(before.generation + 1, leader, owners, waits)


def owners_key(group: str) -> bytes:
    """Compaction key of the owners; ``group`` is ``coordination.commit.group``."""
    return dump_object({"group": group, "kind": _OWNERS})


def owners_value(found: SlotOwners) -> bytes:
    """Value of a generation of owners."""
    return dump_object(
        {
            "v": _VERSION,
            "generation": found.generation,
            "leader": found.leader,
            "owners": {str(slot): name for slot, name in sorted(found.owners.items())},
            "releasing": {str(slot): name for slot, name in sorted(found.releasing.items())},
        }
    )


def read_owners(key: bytes | None, value: bytes | None) -> tuple[str, SlotOwners] | None:
    """Decode a record of the assignment topic if it holds owners, with its group.

    Raises:
        UnknownVersion: owners of another release.
        MalformedRecord: the record cannot be read.
    """
    head = parse_object(key, "the key")
    if value is None or field_of(head, "kind") != _OWNERS:
        return None
    group = text(field_of(head, "group"))
    body = parse_object(value, "the value")
    if integer(field_of(body, "v")) != _VERSION:
        raise UnknownVersion("owners", group)
    return group, SlotOwners(
        generation=integer(field_of(body, "generation")),
        leader=text(field_of(body, "leader")),
        owners=_by_slot(field_of(body, "owners")),
        releasing=_by_slot(field_of(body, "releasing")),
    )


def _by_slot(value: object) -> dict[int, str]:
    found = {}
    for slot, name in mapping(value).items():
        if not (slot.isascii() and slot.isdecimal() and str(int(slot)) == slot):
            raise MalformedRecord("the number of a slot")
        found[integer(int(slot), high=min(LARGEST_SLOTS, LARGEST_INT))] = text(name)
    return found
