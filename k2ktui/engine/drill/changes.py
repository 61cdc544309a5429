"""What a drill records of each kind of change, and how it is undone by hand.

The states before and after are JSON in ``Change.before`` and ``Change.after``.

A drill's record is untrusted input, and so are these texts: each kind of change has one reader,
with exact types and bounds. A drill acts on what they return: it denies Write on topics, and sets
quotas and positions. All readers raise :class:`MalformedRecord`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from k2ktui.engine.drill.model import Change, ChangeKind, Drill
from k2ktui.engine.drill.steps import drill_command
from k2ktui.engine.drill.tail import TailChoice
from k2ktui.engine.records.moved_topic import MovedTopic
from k2ktui.engine.records.run_record import LARGEST_TERM
from k2ktui.engine.records.state import SourcePartition
from k2ktui.engine.strict_json import (
    LARGEST_INT,
    LARGEST_MS,
    LONGEST,
    MalformedRecord,
    field,
    integer,
    items,
    mapping,
    number,
    parse,
    parse_object,
    rows,
    text,
)
from k2ktui.engine.topics import LEGAL_TOPIC
from k2ktui.text import safe_text

Entity = tuple[tuple[str, str | None], ...]
"""Types and names of a quota's entity, sorted by type; the name None is the default."""

EVERYONE: Entity = (("client-id", None), ("user", None))
LOWERED_RATE = 1.0
"""Bytes per second that a drill sets; a quota of 0 is not allowed."""

_LEAST_RATE = 1e-9
_LARGEST_EPOCH = (1 << 15) - 1
_LONGEST_NAME = (1 << 15) - 1  # of a string in Kafka's protocol
_LONGEST_ID = 200
_LONGEST_HOST = 4096


@dataclass(frozen=True, slots=True)
class QuotaRates:
    """Producer quotas in bytes per second by entity, before and after a change."""

    before: Mapping[Entity, float]
    after: Mapping[Entity, float]


@dataclass(frozen=True, slots=True)
class MovedPositions:
    """Source offsets of the same partitions before and after a change; None is no position."""

    before: Mapping[SourcePartition, int | None]
    after: Mapping[SourcePartition, int]


_ABORT = "{abort}"
_UNDOS: Mapping[ChangeKind, str] = {
    ChangeKind.SHADOW_GROUPS: f"{_ABORT}; or delete these groups with kafka-consumer-groups",
    ChangeKind.ACLS: f"{_ABORT}; after the target was opened, kafka-acls.sh --remove "
    "--deny-principal 'User:*' --operation Write --topic TOPIC",
    ChangeKind.QUOTAS: f"{_ABORT}; or restore producer_byte_rate of users and clients",
    ChangeKind.OFFSETS: f"{_ABORT}; or k2ktui undo with the journal's entries of these plans",
    ChangeKind.JOB: "k2ktui jobs start -f FILE on that host",
    ChangeKind.EPOCHS: "k2ktui drill release {id} -f FILE, then start the pipeline again",
    ChangeKind.TAIL: "Records that were copied stay; a position is set back with k2ktui offsets "
    "set",
    ChangeKind.POSITIONS: f"{_ABORT}; or k2ktui offsets set -f FORWARD-FILE",
    ChangeKind.RELEASE: "k2ktui jobs stop -f FORWARD-FILE",
    ChangeKind.STARTED_JOB: "k2ktui jobs stop -f FORWARD-FILE on that host",
    ChangeKind.MOVED_TOPICS: f"{_ABORT}; after the target was opened, k2ktui drill release "
    "--topics REGEX -f FILE",
    ChangeKind.RELEASED_TOPICS: _ABORT,
    ChangeKind.RIGHTS: "k2ktui parity undo ENTRY -f FILE; k2ktui journal -f FILE lists the entry",
}


def describe_undo(drill: Drill, kind: ChangeKind) -> str:
    """Return how to take a change back by hand.

    Never the text of the record: people paste commands, and anyone who may write to the state topic
    could have written that one.
    """
    return _UNDOS[kind].format(id=safe_text(drill.id), abort=drill_command(drill, "abort"))


def dump_names(names: Collection[str]) -> str:
    """Return names or ids as a JSON text."""
    return json.dumps(list(names))


def read_denied_topics(change: Change) -> list[str]:
    """Return the topics to which a drill denies Write; each is one topic, never a wildcard."""
    return [_topic(topic) for topic in items(_parse(change.after))]


def read_quota_rates(change: Change) -> QuotaRates:
    """Return the producer quotas before a drill lowered them, and after.

    No drill does so any more. Only quotas that were recorded before were lowered, and that of
    everyone.
    """
    before, after = _rates(change.before), _rates(change.after)
    if after.keys() != {EVERYONE, *before}:
        raise MalformedRecord("a quota is changed whose rate before is not recorded")
    if any(rate != LOWERED_RATE for rate in after.values()):
        raise MalformedRecord("a quota of another rate than drills set")
    return QuotaRates(before, after)


def dump_host(host: str) -> str:
    """Return the host of a job as a JSON text; nothing in a record says what a host runs."""
    return json.dumps({"host": host})


def read_host(change: Change) -> str:
    """Return the host of the job that a drill has started or stopped.

    Records of earlier releases also name its files; they are not read: a host starts only what its
    own record of the job names.
    """
    value = parse_object(change.before, "the state before", largest=LONGEST)
    return text(field(value, "host"), _LONGEST_HOST)


def dump_fenced(term: int, states: Mapping[str, tuple[int, int]]) -> str:
    """Return the term and the producer ids and epochs that fence a pipeline, as a JSON text."""
    return json.dumps({"term": term, "fenced": states})


def read_fenced(change: Change) -> dict[str, tuple[int, int]] | None:
    """Return producer id and epoch by transactional id, as a drill has left them.

    None if they are not recorded yet, or an earlier release has not recorded them.
    """
    if not change.after:
        return None
    value = parse_object(change.after, "the state after", largest=LONGEST)
    integer(field(value, "term"), high=LARGEST_TERM)
    if "fenced" not in value:
        return None
    raw_states = {
        text(name, _LONGEST_NAME): state for name, state in mapping(value["fenced"]).items()
    }
    states = zip(raw_states, rows(list(raw_states.values()), 2), strict=True)
    return {name: (integer(id_, -1), integer(e, -1, _LARGEST_EPOCH)) for name, (id_, e) in states}


def dump_offsets(offsets: Mapping[SourcePartition, int | None]) -> str:
    """Return source offsets by partition as a JSON text."""
    return json.dumps([[at.topic, at.partition, offset] for at, offset in offsets.items()])


def read_moved_positions(change: Change) -> MovedPositions:
    """Return the positions that a drill has moved past the tail."""
    before, after = _offsets(change.before), _offsets(change.after)
    if before.keys() != after.keys():
        raise MalformedRecord("the partitions before and after differ")
    return MovedPositions(before, _known(after))


def dump_tail_choice(choice: TailChoice) -> str:
    """Return what is done with the tail as a JSON text."""
    return json.dumps(str(choice))


def read_tail_choice(change: Change) -> TailChoice:
    """Return what a drill does with the tail; never ``stop``, which changes nothing."""
    choice = text(_parse(change.after), _LONGEST_ID)
    if choice not in (TailChoice.REPLAY, TailChoice.EXPORT, TailChoice.DISCARD):
        raise MalformedRecord("an unknown choice for the tail")
    return TailChoice(choice)


def read_tail_starts(change: Change) -> dict[SourcePartition, int]:
    """Return the offset of the first record of the tail by partition."""
    return _known(_offsets(change.before))


def read_released(change: Change) -> list[str]:
    """Return the ids of the drills that a failback no longer lets fence the forward pipeline."""
    return _ids(change.before)


def read_moved_topics(change: Change) -> list[str]:
    """Return the topics that a drill has moved, or was about to."""
    return [_topic(topic) for topic in items(_parse(change.after))]


def dump_moves(moves: Iterable[MovedTopic]) -> str:
    """Return moved topics as a JSON text."""
    return json.dumps([[m.topic, m.target, m.drill, m.at_ms, m.who] for m in moves])


def read_moves(change: Change) -> list[MovedTopic]:
    """Return the moves that a failback has taken back, as they were before."""
    moves = [
        MovedTopic(
            _topic(topic),
            _topic(target),
            text(drill, _LONGEST_ID),
            integer(at_ms, high=LARGEST_MS),
            text(who, _LONGEST_HOST),
        )
        for topic, target, drill, at_ms, who in rows(_parse(change.before), 5)
    ]
    _unique([move.topic for move in moves], "topic")
    return moves


def read_plans(change: Change) -> list[str]:
    """Return the ids of the plans that a drill has applied, or was about to."""
    return _ids(change.after)


def read_entries(change: Change) -> list[str]:
    """Return the ids of the journal entries with the rights that a drill has created."""
    return _ids(change.after)


PlannedRow = tuple[str, str, int, int | None, int | None]
"""Group, topic, partition, and the committed offset before and after."""


def digest_rows(rows: Iterable[PlannedRow]) -> str:
    """Return a digest of what a plan commits, in any order."""
    lines = sorted(json.dumps(list(row)) for row in rows)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def dump_digests(digests: Mapping[str, str]) -> str:
    """Return the digests of what plans commit, by their ids, as a JSON text."""
    return json.dumps({"digests": dict(digests)})


def read_digests(change: Change) -> dict[str, str]:
    """Return the digest of what each plan of a drill commits, by its id.

    An abort undoes only an entry of the journal that has these rows: anyone who may write to the
    state topic could have written another one. Records of earlier releases have none.
    """
    if not change.before:
        return {}
    value = parse_object(change.before, "the state before", largest=LONGEST)
    digests = mapping(field(value, "digests"))
    return {text(name, _LONGEST_ID): text(digest, _LONGEST_ID) for name, digest in digests.items()}


def _parse(raw: str) -> Any:
    return parse(raw, "the state", largest=LONGEST)


def _ids(raw: str) -> list[str]:
    return [text(id_, _LONGEST_ID) for id_ in items(_parse(raw))]


def _topic(value: object) -> str:
    name = text(value, _LONGEST_NAME)
    if not LEGAL_TOPIC.fullmatch(name):
        raise MalformedRecord("a name that no topic can have")
    return name


def _rates(raw: str) -> dict[Entity, float]:
    pairs = rows(_parse(raw), 2)
    entities = _unique([_entity(entity) for entity, _ in pairs], "quota")
    return dict(zip(entities, (number(rate, _LEAST_RATE) for _, rate in pairs), strict=True))


def _entity(value: object) -> Entity:
    parts = [(text(kind, _LONGEST_ID), _name(name)) for kind, name in rows(value, 2, most=2)]
    kinds = [kind for kind, _ in parts]
    if kinds not in (["client-id"], ["user"], ["client-id", "user"]):
        raise MalformedRecord("a quota of neither a user nor a client")
    return tuple(parts)


def _name(value: object) -> str | None:
    if value is None:
        return None
    name = text(value, _LONGEST_NAME)
    if not name:
        raise MalformedRecord("an empty name of a user or a client")
    return name


def _offsets(raw: str) -> dict[SourcePartition, int | None]:
    triples = rows(_parse(raw), 3)
    where = [SourcePartition(_topic(t), integer(n, high=LARGEST_INT)) for t, n, _ in triples]
    offsets = (None if offset is None else integer(offset) for _, _, offset in triples)
    return dict(zip(_unique(where, "partition"), offsets, strict=True))


def _known(offsets: Mapping[SourcePartition, int | None]) -> dict[SourcePartition, int]:
    known = {at: offset for at, offset in offsets.items() if offset is not None}
    if len(known) < len(offsets):
        raise MalformedRecord("a partition without an offset")
    return known


def _unique(values: list[Any], noun: str) -> list[Any]:
    if len(set(values)) < len(values):
        raise MalformedRecord(f"a {noun} appears twice")
    return values
