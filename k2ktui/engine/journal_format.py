"""How the records of the state topic are written; the schema is in ``docs/record-formats.md``.

Compact JSON. A key begins with the group (``coordination.commit.group``) and the kind, so that a
console consumer's output can be filtered; values have sorted keys. ``v`` is a value's version.
"""

from __future__ import annotations

import json
from typing import Any

from k2ktui.engine.groups import CommittedOffset
from k2ktui.engine.journal import (
    CommitSnapshot,
    JournalHeader,
    JournalKey,
    JournalRow,
    JournalRows,
    Runner,
    RunnerKey,
    RunnerState,
    SnapshotKey,
    StateKey,
    StateRecord,
)
from k2ktui.engine.state import MalformedRecord

VERSION = 1


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
            body = _snapshot_body(record)
        case JournalHeader():
            body = _header_body(record)
        case JournalRows():
            body = {"rows": [_row_body(row) for row in record.rows]}
    return _dump(dict(sorted({**body, "v": VERSION}.items())))


def _runner_body(runner: Runner) -> dict[str, Any]:
    term = {"term": runner.term} if runner.term else {}
    commit = {} if runner.commit_ms is None else {"commitMs": runner.commit_ms}
    return {
        **term,
        **commit,
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


def _snapshot_body(snapshot: CommitSnapshot) -> dict[str, Any]:
    return {
        "at": snapshot.at_ms,
        "cluster": snapshot.cluster,
        "offsets": [
            [topic, partition, committed.offset, committed.metadata]
            for (topic, partition), committed in sorted(
                snapshot.offsets.items(), key=lambda item: item[0]
            )
        ],
        "state": snapshot.state,
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
        if _int(body["v"]) != VERSION:
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
        term=_int(body.get("term", 0)),
        commit_ms=_number_or_none(body.get("commitMs")),
    )


def _snapshot(key: SnapshotKey, body: dict[str, Any]) -> CommitSnapshot:
    offsets = {
        (_text(topic), _int(partition)): CommittedOffset(_int(offset), _text(metadata))
        for topic, partition, offset, metadata in _list(body["offsets"])
    }
    return CommitSnapshot(
        consumer_group=key.consumer_group,
        cluster=_text(body["cluster"]),
        at_ms=_int(body["at"]),
        state=_text(body["state"]),
        offsets=offsets,
    )


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


def _number_or_none(value: object) -> float | None:
    if value is None or (isinstance(value, int | float) and not isinstance(value, bool)):
        return value
    raise TypeError(f"{value!r:.40} is no number")


def _list(value: object) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError(f"{value!r:.40} is no list")
    return value
