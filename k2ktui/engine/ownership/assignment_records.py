"""Records of the assignment topic (docs/internals/ownership.md).

- *Owners*: which run owns which slot; written by the leader.
- *Member*: that a run takes part, and which slots it holds; written by each run every few seconds,
  and removed when it ends.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from k2ktui.engine.ownership.slot_owners import LARGEST_GENERATION, SlotOwners
from k2ktui.engine.records.editions import UNKNOWN_EDITION, Edition, read_digest, read_number
from k2ktui.engine.records.run_record import LARGEST_SHARED_SLOTS
from k2ktui.engine.strict_json import (
    MalformedRecord,
    UnknownVersion,
    dump_object,
    field,
    integer,
    items,
    mapping,
    parse_object,
    text,
)

_VERSION = 1
_LARGEST_BYTES = 8 << 20
_LARGEST_SLOT = LARGEST_SHARED_SLOTS - 1
# What a record is, as its key says. Readers of the commit topic skip it by ``ASSIGNMENT_KINDS``.
_OWNERS, _MEMBER = "owners", "member"


@dataclass(frozen=True, slots=True)
class Member:
    """A run that takes part.

    Attributes:
        runner: its runner id.
        beat: number of this record; a record that does not change is a sign of silence.
        generation: the last generation of owners that it has applied.
        holds: the slots that it has not released.
        outdated: id of the layout of these owners, if it found that the layout has changed.
        pid: its process; 0 if it is not known.
        pid_space: where ``pid`` is one process (``runtime.host.pid_space``); "" if it is not known.
        birth: birth of the process (``runtime.host.birth_of``); "" if it is not known.
        edition: that of its pipeline file; unknown of earlier releases.
        pipeline: name of the pipeline; "" of earlier releases.
    """

    runner: str
    beat: int = 0
    generation: int = 0
    holds: frozenset[int] = frozenset()
    outdated: str = ""
    pid: int = 0
    pid_space: str = ""
    birth: str = ""
    edition: Edition = UNKNOWN_EDITION
    pipeline: str = ""


NO_OWNERS = SlotOwners(0, "")


class AssignmentFold:
    """Folds the records of an assignment topic that belong to one pipeline.

    The last record of a key counts, whatever its generation: compaction keeps only that one, and
    all runs must follow the same one.

    Attributes:
        owners: who owns which slot.
        members: the newest record of each run.
        malformed: number of records of this pipeline that cannot be read.
    """

    def __init__(self, group: str) -> None:
        self._group = group
        self.owners = NO_OWNERS
        self.members: dict[str, Member] = {}
        self.malformed = 0

    def take(self, key: bytes | None, value: bytes | None) -> None:
        """Apply a record; records must arrive in the order of the topic."""
        try:
            kind, group, name = _read_key(key)
        except MalformedRecord:
            return  # of another program
        if group != self._group:
            return
        if value is None:
            if kind == _MEMBER:
                self.members.pop(name, None)
            return
        try:
            if kind == _MEMBER:
                self.members[name] = read_member(name, value)
            else:
                self.owners = read_owners(value)
        except MalformedRecord:
            self.malformed += 1


def owners_key(group: str) -> bytes:
    """Compaction key of the owners; ``group`` is ``coordination.commit.group``."""
    return dump_object({"group": group, "kind": _OWNERS})


def owners_value(slot_owners: SlotOwners) -> bytes:
    """Value of a generation of owners."""
    return dump_object(
        {
            "v": _VERSION,
            "generation": slot_owners.generation,
            "leader": slot_owners.leader,
            "layout": slot_owners.layout,
            "owners": {str(slot): name for slot, name in sorted(slot_owners.owners.items())},
            "releasing": {str(slot): name for slot, name in sorted(slot_owners.releasing.items())},
        }
    )


def member_key(group: str, runner: str) -> bytes:
    """Compaction key of a run that takes part."""
    return dump_object({"group": group, "kind": _MEMBER, "runner": runner})


def member_value(member: Member) -> bytes:
    """Value of a run that takes part."""
    edition = member.edition
    own = {"digest": edition.digest, "edition": edition.number} if edition.digest else {}
    name = {"name": member.pipeline} if member.pipeline else {}
    return dump_object(
        {
            **own,
            **name,
            "v": _VERSION,
            "beat": member.beat,
            "generation": member.generation,
            "holds": sorted(member.holds),
            "outdated": member.outdated,
            "pid": member.pid,
            "pidSpace": member.pid_space,
            "birth": member.birth,
        }
    )


def read_owners(value: bytes) -> SlotOwners:
    """Decode a generation of owners; raises MalformedRecord."""
    body = _body(value, "owners")
    slot_owners = SlotOwners(
        generation=integer(field(body, "generation"), high=LARGEST_GENERATION),
        leader=text(field(body, "leader")),
        layout=text(field(body, "layout")),
        owners=_by_slot(field(body, "owners")),
        releasing=_by_slot(field(body, "releasing")),
    )
    # A slot that was left out would be copied by no run.
    if slot_owners.owners.keys() | slot_owners.releasing.keys() != set(range(slot_owners.slots)):
        raise MalformedRecord("a slot is missing, or appears twice")
    return slot_owners


def read_member(runner: str, value: bytes) -> Member:
    """Decode the record of a run that takes part; raises MalformedRecord."""
    body = _body(value, "a member")
    return Member(
        runner,
        beat=integer(field(body, "beat")),
        generation=integer(field(body, "generation"), high=LARGEST_GENERATION),
        holds=frozenset(
            integer(slot, high=_LARGEST_SLOT)
            for slot in items(field(body, "holds"), most=LARGEST_SHARED_SLOTS)
        ),
        outdated=text(field(body, "outdated")),
        pid=integer(body.get("pid", 0)),
        pid_space=text(body.get("pidSpace", "")),
        birth=text(body.get("birth", "")),
        edition=_read_edition(body),
        pipeline=text(body.get("name", "")),
    )


def _read_edition(body: Mapping[str, object]) -> Edition:
    if "digest" not in body:
        return UNKNOWN_EDITION
    return Edition(read_number(field(body, "edition")), read_digest(body["digest"]))


def _read_key(key: bytes | None) -> tuple[str, str, str]:
    """Return kind, group and runner of a key; the runner is "" for owners."""
    head = parse_object(key, "the key", largest=_LARGEST_BYTES)
    group, kind = text(field(head, "group")), field(head, "kind")
    if kind == _OWNERS:
        return _OWNERS, group, ""
    if kind == _MEMBER:
        return _MEMBER, group, text(field(head, "runner"))
    raise MalformedRecord("the key of another record")


def _body(value: bytes, record: str) -> dict[str, object]:
    body = parse_object(value, "the value", largest=_LARGEST_BYTES)
    if integer(field(body, "v")) != _VERSION:
        raise UnknownVersion(record, "the assignment topic")
    return body


def _by_slot(value: object) -> dict[int, str]:
    names = {}
    for slot, name in mapping(value).items():
        if not (slot.isascii() and slot.isdecimal() and len(slot) < 9 and str(int(slot)) == slot):
            raise MalformedRecord("the number of a slot")
        names[integer(int(slot), high=_LARGEST_SLOT)] = text(name)
    return names
