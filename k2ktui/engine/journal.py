"""Records of the state topic: runners' heartbeats, snapshots of group commits, and the journal.

All are compact JSON, documented in ``docs/record-formats.md``. A key begins with the group
(``coordination.commit.group``) and the kind, so that a console consumer's output can be filtered;
the rest of a key, and values, have sorted keys. ``v`` is the version of a value.

- *Runner*: what one running process last said of itself.
- *CommitSnapshot*: what a consumer group had committed on the source.
- *JournalHeader* and *JournalRows*: what a command changed, with what was there before.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from k2ktui.engine.state import MalformedRecord

VERSION = 1
SILENT_AFTER_MS = 15_000
JOURNAL_ENTRIES = 200


class RunnerState(StrEnum):
    """What a runner says of itself, and ``silent``: it has said nothing for too long."""

    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    STOPPED = "stopped"
    SILENT = "silent"


@dataclass(frozen=True, slots=True)
class RunnerKey:
    """Key of a heartbeat: the unique id of the process."""

    runner: str


@dataclass(frozen=True, slots=True)
class SnapshotKey:
    """Key of a snapshot: the consumer group on the source."""

    consumer_group: str


@dataclass(frozen=True, slots=True, order=True)
class JournalKey:
    """Key of a part of a journal entry; the header has no consumer group."""

    id: str
    consumer_group: str = ""


StateKey = RunnerKey | SnapshotKey | JournalKey


@dataclass(frozen=True, slots=True)
class Runner:
    """A heartbeat: what a running pipeline says of itself every few seconds.

    Attributes:
        runner: unique id of the process.
        host, user, pid: where it runs, and as whom.
        started_ms, at_ms: its start and this heartbeat, epoch milliseconds by its own clock.
        state: never ``silent``: that is what a reader finds, see :meth:`standing`.
        lap: number of its last lap.
        slots: number of slots, 0 until it has begun.
        lag_records: source offsets not copied yet, None while unknown.
        last_error: the last that went wrong, "" for nothing.
        version: of k2ktui.
    """

    runner: str
    host: str
    user: str
    pid: int
    started_ms: int
    at_ms: int
    state: RunnerState
    lap: int = 0
    slots: int = 0
    lag_records: int | None = None
    last_error: str = ""
    version: str = ""

    @property
    def key(self) -> RunnerKey:
        """Where it is kept."""
        return RunnerKey(self.runner)

    def standing(self, now_ms: int) -> RunnerState:
        """Return its state as a reader sees it: one that should have spoken by now is silent."""
        late = now_ms - self.at_ms > SILENT_AFTER_MS
        return RunnerState.SILENT if late and self.state is not RunnerState.STOPPED else self.state

    def alive(self, now_ms: int) -> bool:
        """Whether it must be taken to be running."""
        return self.standing(now_ms) not in (RunnerState.STOPPED, RunnerState.SILENT)


@dataclass(frozen=True, slots=True)
class GroupOffset:
    """A committed offset of a group: the next one that it reads."""

    topic: str
    partition: int
    offset: int
    metadata: str = ""


@dataclass(frozen=True, slots=True)
class CommitSnapshot:
    """What a consumer group had committed on the source at ``at_ms``, and its state then."""

    consumer_group: str
    at_ms: int
    state: str
    offsets: tuple[GroupOffset, ...] = ()

    @property
    def key(self) -> SnapshotKey:
        """Where it is kept."""
        return SnapshotKey(self.consumer_group)


@dataclass(frozen=True, slots=True)
class JournalHeader:
    """One change, as a whole.

    Attributes:
        id: of the entry; ids of :func:`new_id` sort by time.
        at_ms: epoch milliseconds.
        who: ``user@host``.
        what: ``apply``, ``undo``, ``sync``, ``offsets set``, ``offsets clear``, …
        plan: id of the plan that was applied, "" for none.
        pipeline: name of the pipeline.
        counts: how many rows had which result.
        undoes: id of the entry that this one takes back, "" for none.
    """

    id: str
    at_ms: int
    who: str
    what: str
    plan: str = ""
    pipeline: str = ""
    counts: Mapping[str, int] = field(default_factory=dict)
    undoes: str = ""

    @property
    def key(self) -> JournalKey:
        """Where it is kept."""
        return JournalKey(self.id)


@dataclass(frozen=True, slots=True)
class JournalRow:
    """One offset that was changed; None is no offset."""

    topic: str
    partition: int
    before: int | None
    before_metadata: str
    after: int | None
    after_metadata: str
    result: str


@dataclass(frozen=True, slots=True)
class JournalRows:
    """What an entry changed of one consumer group.

    For a change of the pipeline's own positions the group is ``coordination.commit.group``, and
    the metadata are the position records as they are on the commit topic.
    """

    id: str
    consumer_group: str
    rows: tuple[JournalRow, ...] = ()

    @property
    def key(self) -> JournalKey:
        """Where they are kept."""
        return JournalKey(self.id, self.consumer_group)


StateRecord = Runner | CommitSnapshot | JournalHeader | JournalRows


def new_id(at_ms: int, salt: str) -> str:
    """Return an id for a journal entry that sorts by time; ``salt`` keeps two apart."""
    return f"{datetime.fromtimestamp(at_ms / 1000, UTC):%Y%m%d-%H%M%S}-{salt}"


def outdated(ids: Collection[str], keep: int = JOURNAL_ENTRIES) -> list[str]:
    """Return the ids of journal entries that go when only the newest ``keep`` are kept."""
    return sorted(ids)[: max(0, len(ids) - keep)]


def state_key(group: str, key: StateKey) -> bytes:
    """Return the key of a record; ``group`` is ``coordination.commit.group``."""
    match key:
        case RunnerKey():
            kind, rest = "runner", {"runner": key.runner}
        case SnapshotKey():
            kind, rest = "commits", {"consumerGroup": key.consumer_group}
        case JournalKey():
            kind, rest = "journal", {"consumerGroup": key.consumer_group, "id": key.id}
    return _dump({"group": group, "kind": kind, **rest})


def state_value(record: StateRecord) -> bytes:
    """Return the value of a record."""
    match record:
        case Runner():
            body = _runner_body(record)
        case CommitSnapshot():
            offsets = [[o.topic, o.partition, o.offset, o.metadata] for o in record.offsets]
            body = {"at": record.at_ms, "offsets": offsets, "state": record.state}
        case JournalHeader():
            body = _header_body(record)
        case JournalRows():
            body = {"rows": [_row_body(row) for row in record.rows]}
    return _dump(dict(sorted({**body, "v": VERSION}.items())))


def _runner_body(runner: Runner) -> dict[str, Any]:
    return {
        "at": runner.at_ms,
        "host": runner.host,
        "lag": runner.lag_records,
        "lap": runner.lap,
        "lastError": runner.last_error,
        "pid": runner.pid,
        "slots": runner.slots,
        "startedAt": runner.started_ms,
        "state": str(runner.state),
        "user": runner.user,
        "version": runner.version,
    }


def _header_body(header: JournalHeader) -> dict[str, Any]:
    return {
        "at": header.at_ms,
        "counts": dict(sorted(header.counts.items())),
        "pipeline": header.pipeline,
        "plan": header.plan,
        "undoes": header.undoes,
        "what": header.what,
        "who": header.who,
    }


def _row_body(row: JournalRow) -> list[Any]:
    return [
        row.topic,
        row.partition,
        row.before,
        row.before_metadata,
        row.after,
        row.after_metadata,
        row.result,
    ]


def read_state_key(raw: bytes | None) -> tuple[str, StateKey]:
    """Return the group and the key of a record of the state topic.

    Raises:
        MalformedRecord: it is not one of ours, or of a kind that this program does not know.
    """
    head = _load(raw, "the key")
    try:
        group, kind = _text(head["group"]), head["kind"]
        match kind:
            case "runner":
                return group, RunnerKey(_text(head["runner"]))
            case "commits":
                return group, SnapshotKey(_text(head["consumerGroup"]))
            case "journal":
                return group, JournalKey(_text(head["id"]), _text(head["consumerGroup"]))
    except (KeyError, TypeError) as error:
        raise MalformedRecord(f"missing or wrong field: {error}") from error
    raise MalformedRecord(f"a record of an unknown kind: {kind!r}")


def read_state_value(key: StateKey, raw: bytes | None) -> StateRecord:
    """Return the record that a value holds.

    Raises:
        MalformedRecord: it is damaged, not one of ours, or of a newer version.
    """
    body = _load(raw, "the value")
    try:
        if body["v"] != VERSION:
            raise MalformedRecord(f"version {body['v']!r}, this program reads version {VERSION}")
        match key:
            case RunnerKey():
                return _runner(key, body)
            case SnapshotKey():
                return _snapshot(key, body)
            case JournalKey(consumer_group=""):
                return _header(key, body)
            case JournalKey():
                rows = tuple(_row(*row) for row in _list(body["rows"]))
                return JournalRows(key.id, key.consumer_group, rows)
    except (KeyError, TypeError, ValueError) as error:
        if isinstance(error, MalformedRecord):
            raise
        raise MalformedRecord(f"missing or wrong field: {error}") from error


def _runner(key: RunnerKey, body: dict[str, Any]) -> Runner:
    return Runner(
        runner=key.runner,
        host=_text(body["host"]),
        user=_text(body["user"]),
        pid=_int(body["pid"]),
        started_ms=_int(body["startedAt"]),
        at_ms=_int(body["at"]),
        state=RunnerState(body["state"]),
        lap=_int(body["lap"]),
        slots=_int(body["slots"]),
        lag_records=_int_or_none(body["lag"]),
        last_error=_text(body["lastError"]),
        version=_text(body["version"]),
    )


def _snapshot(key: SnapshotKey, body: dict[str, Any]) -> CommitSnapshot:
    offsets = tuple(
        GroupOffset(_text(topic), _int(partition), _int(offset), _text(metadata))
        for topic, partition, offset, metadata in _list(body["offsets"])
    )
    return CommitSnapshot(key.consumer_group, _int(body["at"]), _text(body["state"]), offsets)


def _header(key: JournalKey, body: dict[str, Any]) -> JournalHeader:
    counts = body["counts"]
    if not isinstance(counts, dict):
        raise TypeError("counts is no object")
    return JournalHeader(
        id=key.id,
        at_ms=_int(body["at"]),
        who=_text(body["who"]),
        what=_text(body["what"]),
        plan=_text(body["plan"]),
        pipeline=_text(body["pipeline"]),
        counts={name: _int(count) for name, count in counts.items()},
        undoes=_text(body["undoes"]),
    )


def _row(
    topic: object,
    partition: object,
    before: object,
    before_metadata: object,
    after: object,
    after_metadata: object,
    result: object,
) -> JournalRow:
    return JournalRow(
        _text(topic),
        _int(partition),
        _int_or_none(before),
        _text(before_metadata),
        _int_or_none(after),
        _text(after_metadata),
        _text(result),
    )


def _dump(value: dict[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def _load(raw: bytes | None, what: str) -> dict[str, Any]:
    try:
        value = json.loads(raw or b"")
    except (ValueError, RecursionError) as error:
        raise MalformedRecord(f"{what} is not JSON") from error
    if not isinstance(value, dict):
        raise MalformedRecord(f"{what} is not a JSON object")
    return value


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r:.40} is no text")
    return value


def _int(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{value!r:.40} is no whole number")
    return value


def _int_or_none(value: object) -> int | None:
    return None if value is None else _int(value)


def _list(value: object) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError(f"{value!r:.40} is no list")
    return value
