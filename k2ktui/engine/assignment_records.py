"""The records of the assignment topic, for ``coordination.mode: shared`` (docs/runners.md).

- *Owners*: which run owns which slot; written by the leader.
- *Member*: that a run takes part, and which slots it holds; written by each run every few seconds,
  and removed when it ends.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from k2ktui.engine.editions import UNKNOWN_EDITION, Edition, read_digest, read_number
from k2ktui.engine.run_record import LARGEST_SHARED_SLOTS
from k2ktui.engine.slot_owners import LARGEST_GENERATION, SlotOwners
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


class AssignmentKind(StrEnum):
    """What a record is, as its key says."""

    OWNERS = "owners"
    MEMBER = "member"


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
            if kind is AssignmentKind.MEMBER:
                self.members.pop(name, None)
            return
        try:
            if kind is AssignmentKind.MEMBER:
                self.members[name] = read_member(name, value)
            else:
                self.owners = read_owners(value)
        except MalformedRecord:
            self.malformed += 1


def owners_key(group: str) -> bytes:
    """Compaction key of the owners; ``group`` is ``coordination.commit.group``."""
    return dump_object({"group": group, "kind": AssignmentKind.OWNERS})


def owners_value(found: SlotOwners) -> bytes:
    """Value of a generation of owners."""
    return dump_object(
        {
            "v": _VERSION,
            "generation": found.generation,
            "leader": found.leader,
            "layout": found.layout,
            "owners": {str(slot): name for slot, name in sorted(found.owners.items())},
            "releasing": {str(slot): name for slot, name in sorted(found.releasing.items())},
        }
    )


def member_key(group: str, runner: str) -> bytes:
    """Compaction key of a run that takes part."""
    return dump_object({"group": group, "kind": AssignmentKind.MEMBER, "runner": runner})


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
    found = SlotOwners(
        generation=integer(field(body, "generation"), high=LARGEST_GENERATION),
        leader=text(field(body, "leader")),
        layout=text(field(body, "layout")),
        owners=_by_slot(field(body, "owners")),
        releasing=_by_slot(field(body, "releasing")),
    )
    # A slot that was left out would be copied by no run.
    if found.owners.keys() | found.releasing.keys() != set(range(found.slots)):
        raise MalformedRecord("a slot is missing, or appears twice")
    return found


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


def _read_key(key: bytes | None) -> tuple[AssignmentKind, str, str]:
    """Return kind, group and runner of a key; the runner is "" for owners."""
    head = parse_object(key, "the key", largest=_LARGEST_BYTES)
    group, kind = text(field(head, "group")), field(head, "kind")
    if kind == AssignmentKind.OWNERS:
        return AssignmentKind.OWNERS, group, ""
    if kind == AssignmentKind.MEMBER:
        return AssignmentKind.MEMBER, group, text(field(head, "runner"))
    raise MalformedRecord("the key of another record")


def _body(value: bytes, what: str) -> dict[str, object]:
    body = parse_object(value, "the value", largest=_LARGEST_BYTES)
    if integer(field(body, "v")) != _VERSION:
        raise UnknownVersion(what, "the assignment topic")
    return body


def _by_slot(value: object) -> dict[int, str]:
    found = {}
    for slot, name in mapping(value).items():
        if not (slot.isascii() and slot.isdecimal() and len(slot) < 9 and str(int(slot)) == slot):
            raise MalformedRecord("the number of a slot")
        found[integer(int(slot), high=_LARGEST_SLOT)] = text(name)
    return found
