"""Which run owns which slot, for ``coordination.mode: shared`` (docs/internals/ownership.md).

The leader writes generations of owners; each run takes over what it owns and releases the rest.
Owners are advice: producer epochs decide who writes.

As in Kafka Connect's incremental rebalancing (KIP-415), a slot with a live owner moves in two
generations. The first has no owner for it, so that the old one releases it at the end of a lap; the
second has the new owner. A slot of a run that is gone moves at once.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from zlib import crc32

from k2ktui.engine.records.state import SourcePartition

# After the largest comes 1: a record of others may have the largest one.
LARGEST_GENERATION = (1 << 53) - 1


@dataclass(frozen=True, slots=True)
class SlotOwners:
    """One generation of owners.

    Attributes:
        generation: number of this generation, by which runs say what they have applied.
        leader: runner id of the run that wrote it.
        layout: id of the layout that it is for.
        owners: runner id by slot; a slot that is being released has none.
        releasing: runner id of the owner before, by slot, of the slots that are being released.
    """

    generation: int
    leader: str
    layout: str = ""
    owners: Mapping[int, str] = field(default_factory=dict)
    releasing: Mapping[int, str] = field(default_factory=dict)

    @property
    def slots(self) -> int:
        """Number of slots of the layout."""
        return len(self.owners) + len(self.releasing)

    def of(self, runner: str) -> frozenset[int]:
        """Return the slots that a run owns."""
        return frozenset(slot for slot, owner in self.owners.items() if owner == runner)


def shared_slot_of(source: SourcePartition, slots: int) -> int:
    """Return the slot that a source partition belongs to, of a layout with so many slots.

    All runs must agree, whatever they know about other partitions. The partitions of a topic are
    in consecutive slots; topics begin at different ones.
    """
    return (crc32(source.topic.encode()) + source.partition) % slots


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
    staying = {s: r for s, r in before.owners.items() if s < slots and r in alive}
    releasing = {
        s: r
        for s, r in before.releasing.items()
        if s < slots and s not in staying and r in alive and s not in released
    }
    shares: dict[str, list[int]] = {runner: [] for runner in alive}
    for slot, runner in sorted(staying.items()):
        shares[runner].append(slot)
    # Slots that are being released count for no run: they go to the one that has least then.
    for slot in sorted(set(range(slots)) - staying.keys() - releasing.keys()):
        shares[min(alive, key=lambda runner: len(shares[runner]))].append(slot)
    highest, fuller = divmod(slots, len(alive))
    for runner in sorted(alive, key=lambda runner: -len(shares[runner])):
        most = highest + (fuller > 0)
        fuller -= len(shares[runner]) >= most and most > highest
        while len(shares[runner]) > most:
            slot = shares[runner].pop()
            if slot in staying:
                releasing[slot] = runner
    owners = {slot: runner for runner, mine in shares.items() for slot in mine}
    if owners == dict(before.owners) and releasing == dict(before.releasing):
        return before
    generation = before.generation % LARGEST_GENERATION + 1
    return SlotOwners(generation, leader, before.layout, owners, releasing)
