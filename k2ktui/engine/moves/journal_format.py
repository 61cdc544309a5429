"""Encoding of the state topic's records; the schema is in ``docs/internals/record-formats.md``.

Compact JSON. A key begins with the group (``coordination.commit.group``) and the kind, so that a
console consumer's output can be filtered; values have sorted keys. ``v`` is the value's version.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from k2ktui.engine.compare.record import (
    ComparisonKey,
    ComparisonRecord,
    comparison_body,
    read_comparison,
)
from k2ktui.engine.drill.format import drill_body, read_drill
from k2ktui.engine.drill.model import Drill
from k2ktui.engine.drill.rehearsals import (
    Rehearsal,
    RehearsalKey,
    read_rehearsal,
    rehearsal_body,
)
from k2ktui.engine.moves.choice import Choice
from k2ktui.engine.moves.groups import CommittedOffset
from k2ktui.engine.moves.journal import (
    LARGEST_SEQUENCE,
    CommitSnapshot,
    DrillKey,
    JournalHeader,
    JournalKey,
    JournalRow,
    JournalRows,
    RunKind,
    Runner,
    RunnerKey,
    RunnerState,
    SnapshotKey,
    StateKey,
    StateRecord,
    WrittenKey,
)
from k2ktui.engine.moves.pipeline_summary import GroupCount, PipelineSummary, SummaryKey
from k2ktui.engine.moves.written import LARGEST_NUMBER, WrittenCommit, WrittenCommits
from k2ktui.engine.records.cleared import (
    Cleared,
    ClearedKey,
    cleared_body,
    read_cleared,
    read_cleared_key,
)
from k2ktui.engine.records.editions import read_digest
from k2ktui.engine.records.hold import Hold, HoldKey, hold_body, read_hold, read_hold_key
from k2ktui.engine.records.mapping_version import MappingVersion
from k2ktui.engine.records.parity_record import (
    ParityKey,
    ParityRecord,
    parity_body,
    read_parity,
)
from k2ktui.engine.records.run_record import LARGEST_SHARED_SLOTS, LARGEST_TERM
from k2ktui.engine.records.wanted_acls import (
    WantedAclsKey,
    WantedAclsRecord,
    read_wanted_acls,
    wanted_acls_body,
)
from k2ktui.engine.severity import Severity
from k2ktui.engine.strict_json import (
    LARGEST_INT,
    LARGEST_MS,
    MalformedRecord,
    field,
    integer,
    items,
    mapping,
    number,
    parse_object,
    rows,
    text,
)

VERSION = 1
_MOST_COMMITS = 1000
_MOST_RATINGS, _LONGEST_WORD = 100, 100


def state_key(group: str, key: StateKey) -> bytes:
    """Return the key of a record; ``group`` is ``coordination.commit.group``."""
    match key:
        case RunnerKey():
            kind, rest = "runner", {"runner": key.runner}
        case SnapshotKey():
            kind, rest = "commits", {"consumerGroup": key.consumer_group}
            if key.cluster:
                rest["cluster"] = key.cluster
        case JournalKey():
            kind, rest = "journal", {"consumerGroup": key.consumer_group, "id": key.id}
        case DrillKey():
            kind, rest = "drill", {"id": key.id}
        case WrittenKey():
            kind, rest = "written", {"consumerGroup": key.consumer_group}
        case SummaryKey() | WantedAclsKey() | ComparisonKey():
            kind, rest = _ONLY_ONE[type(key)], {}
        case ParityKey():
            kind, rest = "parity", {"name": key.name, "of": key.kind}
        case HoldKey():
            partition = {} if key.partition is None else {"partition": key.partition}
            return _dump({"group": group, "kind": "hold", **partition, "topic": key.topic})
        case RehearsalKey():
            kind, rest = "rehearsal", {"id": key.id}
        case ClearedKey():
            kind, rest = "cleared", {"topic": key.topic} if key.topic else {}
    return _dump({"group": group, "kind": kind, **rest})


# Kinds of which a pipeline has one record.
_ONLY_ONE: Mapping[type, str] = {
    SummaryKey: "summary",
    WantedAclsKey: "acls",
    ComparisonKey: "comparison",
}
_ONLY_KEYS: Mapping[str, StateKey] = {
    "summary": SummaryKey(),
    "acls": WantedAclsKey(),
    "comparison": ComparisonKey(),
}


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
            body = {
                "rows": [_row_body(row) for row in record.rows],
                **_versions_body(record),
                **_choices_body(record),
            }
        case Drill():
            body = drill_body(record)
        case WrittenCommits():
            body = _written_body(record)
        case PipelineSummary():
            body = _summary_body(record)
        case ParityRecord():
            body = parity_body(record)
        case WantedAclsRecord():
            body = wanted_acls_body(record)
        case Hold():
            body = hold_body(record)
        case Rehearsal() | ComparisonRecord() | Cleared():
            body = _short_body(record)
    return _dump(dict(sorted({**body, "v": VERSION}.items())))


def _short_body(record: Rehearsal | ComparisonRecord | Cleared) -> dict[str, Any]:
    if isinstance(record, Rehearsal):
        return rehearsal_body(record)
    return cleared_body(record) if isinstance(record, Cleared) else comparison_body(record)


def _runner_body(runner: Runner) -> dict[str, Any]:
    term = {"term": runner.term} if runner.term else {}
    commit = {} if runner.commit_ms is None else {"commitMs": runner.commit_ms}
    space = {"pidSpace": runner.pid_space} if runner.pid_space else {}
    birth = {"birth": runner.birth} if runner.birth else {}
    kind = {} if runner.kind is RunKind.COPY else {"kind": str(runner.kind)}
    lasts = {"errorAt": runner.error_ms} if runner.error_ms else {}
    names = {"name": runner.name, "digest": runner.digest}
    file = {key: value for key, value in names.items() if value}
    clusters = {"sourceCluster": runner.source, "targetCluster": runner.target}
    pair = {key: value for key, value in clusters.items() if value}
    shared: dict[str, Any] = {}
    if runner.generation:
        shared = {"generation": runner.generation, "owned": list(runner.owned)}
    return {
        **shared,
        **term,
        **kind,
        **commit,
        **space,
        **birth,
        **lasts,
        **file,
        **pair,
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
    ends = [[*where, end] for where, end in sorted(snapshot.ends.items())]
    return {
        **({"ends": ends} if ends else {}),
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
    sequence = {"sequence": header.sequence} if header.sequence else {}
    return {
        **sequence,
        "at": header.at_ms,
        "counts": dict(sorted(header.counts.items())),
        "pipeline": header.pipeline,
        "plan": header.plan,
        "undoes": header.undoes,
        "what": header.operation,
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


def _versions_body(part: JournalRows) -> dict[str, Any]:
    if all(row.before_version is None and row.after_version is None for row in part.rows):
        return {}
    versions = [[_version(row.before_version), _version(row.after_version)] for row in part.rows]
    return {"versions": versions}


def _choices_body(part: JournalRows) -> dict[str, Any]:
    if all(row.choice is None for row in part.rows):
        return {}
    return {
        "choices": [None if row.choice is None else _choice_body(row.choice) for row in part.rows]
    }


def _choice_body(choice: Choice) -> list[Any]:
    return [choice.by, choice.value, choice.source, choice.at_ms]


def _version(version: MappingVersion | None) -> list[int] | None:
    return None if version is None else [version.term, version.position]


def _written_body(written: WrittenCommits) -> dict[str, Any]:
    choices = [
        [*at, *_choice_body(choice)]
        for at, choice in sorted(written.choices.items(), key=lambda item: item[0])
    ]
    return {
        **({"choices": choices} if choices else {}),
        "number": written.number,
        "rows": [
            [topic, partition, [_commit_body(commit) for commit in commits]]
            for (topic, partition), commits in sorted(written.commits.items())
        ],
    }


def _commit_body(commit: WrittenCommit) -> list[Any]:
    body = [commit.offset, commit.metadata, commit.version.term, commit.version.position]
    return [*body, commit.writer, commit.at_ms] if commit.pending else body


def _summary_body(summary: PipelineSummary) -> dict[str, Any]:
    return {
        "at": summary.at_ms,
        "covered": summary.covered,
        "groups": [[str(n.severity.name).lower(), n.word, n.count] for n in summary.groups],
        "lost": summary.lost,
        "reread": summary.reread,
        "retained": summary.retained,
    }


def read_state_key(raw: bytes | None, only: str | None = None) -> tuple[str, StateKey | None]:
    """Return the group and the key of a record of the state topic.

    Args:
        raw: the record's key.
        only: decode the keys of this group only (default: all); other keys are None.

    Raises:
        MalformedRecord: the key is not k2ktui's, or its kind is unknown to this release.
    """
    head = parse_object(raw, "the key")
    group = text(field(head, "group"))
    if only not in (None, group):
        return group, None
    match field(head, "kind"):
        case "runner":
            return group, RunnerKey(text(field(head, "runner")))
        case "commits":
            cluster = text(head.get("cluster", ""))
            return group, SnapshotKey(text(field(head, "consumerGroup")), cluster)
        case "journal":
            return group, JournalKey(text(field(head, "id")), text(field(head, "consumerGroup")))
        case "drill":
            return group, DrillKey(text(field(head, "id")))
        case "written":
            return group, WrittenKey(text(field(head, "consumerGroup")))
        case "summary" | "acls" | "comparison" as kind:
            return group, _ONLY_KEYS[kind]
        case "parity":
            return group, ParityKey(text(field(head, "of")), text(field(head, "name")))
        case "hold":
            return group, read_hold_key(head)
        case "rehearsal":
            return group, RehearsalKey(text(field(head, "id")))
        case "cleared":
            return group, read_cleared_key(head)
    raise MalformedRecord("a record of an unknown kind")


def read_state_value(key: StateKey, raw: bytes | None) -> StateRecord:
    """Decode the value of a record.

    Raises:
        MalformedRecord: the value is damaged, not k2ktui's, or of a newer version.
    """
    body = _body(raw)
    match key:
        case RunnerKey():
            return _runner(key, body)
        case SnapshotKey():
            return _snapshot(key, body)
        case JournalKey(consumer_group=""):
            return _header(key, body)
        case JournalKey():
            return JournalRows(key.id, key.consumer_group, _rows(body))
        case DrillKey():
            return read_drill(key.id, body)
        case WrittenKey():
            return _written(key, body)
        case SummaryKey():
            return _summary(body)
        case ParityKey():
            return read_parity(key, body)
        case WantedAclsKey():
            return read_wanted_acls(body)
        case HoldKey():
            return read_hold(key, body)
        case RehearsalKey() | ComparisonKey() | ClearedKey():
            return _read_short(key, body)


def _read_short(
    key: RehearsalKey | ComparisonKey | ClearedKey, body: dict[str, Any]
) -> Rehearsal | ComparisonRecord | Cleared:
    if isinstance(key, RehearsalKey):
        return read_rehearsal(key, body)
    return read_cleared(key, body) if isinstance(key, ClearedKey) else read_comparison(body)


def _body(raw: bytes | None) -> dict[str, Any]:
    """Return the fields of a value, which this release must know the version of."""
    body = parse_object(raw, "the value")
    version = integer(field(body, "v"))
    if version != VERSION:
        raise MalformedRecord(f"version {version}, this release reads version {VERSION}")
    return body


def _runner(key: RunnerKey, body: dict[str, Any]) -> Runner:
    return Runner(
        runner=key.runner,
        host=text(field(body, "host")),
        user=text(field(body, "user")),
        pid=integer(field(body, "pid")),
        started_ms=integer(field(body, "startedAt"), high=LARGEST_MS),
        at_ms=integer(field(body, "at"), high=LARGEST_MS),
        state=_runner_state(field(body, "state")),
        lap=integer(field(body, "lap")),
        slots=integer(field(body, "slots"), high=LARGEST_INT),
        lag_records=_or_none(field(body, "lag")),
        last_error=text(field(body, "lastError")),
        error_ms=integer(body.get("errorAt", 0), high=LARGEST_MS),
        version=text(field(body, "version")),
        term=integer(body.get("term", 0)),
        commit_ms=None if body.get("commitMs") is None else number(body["commitMs"]),
        pid_space=text(body.get("pidSpace", "")),
        birth=text(body.get("birth", "")),
        kind=_run_kind(body.get("kind", RunKind.COPY)),
        generation=integer(body.get("generation", 0)),
        owned=tuple(
            integer(slot, high=LARGEST_SHARED_SLOTS - 1)
            for slot in items(body.get("owned", []), most=LARGEST_SHARED_SLOTS)
        ),
        name=text(body.get("name", "")),
        digest=read_digest(body["digest"]) if "digest" in body else "",
        source=text(body.get("sourceCluster", "")),
        target=text(body.get("targetCluster", "")),
    )


def _run_kind(value: object) -> RunKind:
    word = text(value)
    if word not in list(RunKind):
        raise MalformedRecord("an unknown kind of run")
    return RunKind(word)


def _runner_state(value: object) -> RunnerState:
    word = text(value)
    if word == RunnerState.SILENT or word not in list(RunnerState):
        raise MalformedRecord("an unknown state")
    return RunnerState(word)


def _snapshot(key: SnapshotKey, body: dict[str, Any]) -> CommitSnapshot:
    offsets = {
        (text(topic), integer(partition, high=LARGEST_INT)): CommittedOffset(
            integer(offset, -1), text(metadata)
        )
        for topic, partition, offset, metadata in rows(field(body, "offsets"), 4)
    }
    cluster = text(field(body, "cluster"))
    if key.cluster not in ("", cluster):
        raise MalformedRecord("the commits of another cluster than that of its key")
    return CommitSnapshot(
        consumer_group=key.consumer_group,
        cluster=cluster,
        names_cluster=key.cluster == cluster,
        at_ms=integer(field(body, "at"), high=LARGEST_MS),
        state=text(field(body, "state")),
        offsets=offsets,
        ends={
            (text(topic), integer(partition, high=LARGEST_INT)): integer(end)
            for topic, partition, end in rows(body.get("ends", []), 3)
        },
    )


def _header(key: JournalKey, body: dict[str, Any]) -> JournalHeader:
    counts = mapping(field(body, "counts"))
    return JournalHeader(
        id=key.id,
        at_ms=integer(field(body, "at"), high=LARGEST_MS),
        who=text(field(body, "who")),
        operation=text(field(body, "what")),
        plan=text(field(body, "plan")),
        pipeline=text(field(body, "pipeline")),
        counts={text(name): integer(count) for name, count in counts.items()},
        undoes=text(field(body, "undoes")),
        sequence=integer(body.get("sequence", 0), high=LARGEST_SEQUENCE),
    )


def _rows(body: dict[str, Any]) -> tuple[JournalRow, ...]:
    journal_rows = [_row(*row) for row in rows(field(body, "rows"), 7)]
    if "choices" in body:
        choices = items(body["choices"])
        if len(choices) != len(journal_rows):
            raise MalformedRecord("rows without choices")
        journal_rows = [
            replace(row, choice=None if choice is None else _choice(choice))
            for row, choice in zip(journal_rows, choices, strict=True)
        ]
    if "versions" not in body:
        return tuple(journal_rows)
    versions = rows(body["versions"], 2)
    if len(versions) != len(journal_rows):
        raise MalformedRecord("rows without versions")
    return tuple(
        replace(row, before_version=_read_version(before), after_version=_read_version(after))
        for row, (before, after) in zip(journal_rows, versions, strict=True)
    )


def _choice(value: object) -> Choice:
    ((by, chosen, source, at_ms),) = rows([value], 4)
    return Choice(text(by), text(chosen), text(source), integer(at_ms, high=LARGEST_MS))


def _read_version(value: object) -> MappingVersion | None:
    if value is None:
        return None
    (pair,) = rows([value], 2)
    return MappingVersion(integer(pair[0], high=LARGEST_TERM), integer(pair[1]))


def _written(key: WrittenKey, body: dict[str, Any]) -> WrittenCommits:
    return WrittenCommits(
        consumer_group=key.consumer_group,
        number=integer(field(body, "number"), high=LARGEST_NUMBER),
        commits={
            (text(topic), integer(partition, high=LARGEST_INT)): tuple(
                _written_commit(commit) for commit in rows(commits, most=_MOST_COMMITS)
            )
            for topic, partition, commits in rows(field(body, "rows"), 3)
        },
        choices={
            (text(topic), integer(partition, high=LARGEST_INT)): _choice(choice)
            for topic, partition, *choice in rows(body.get("choices", []), 6)
        },
    )


def _written_commit(row: list[Any]) -> WrittenCommit:
    if len(row) not in (4, 6):
        raise MalformedRecord("a commit that is neither announced nor read back")
    offset, metadata, term, position = row[:4]
    commit = WrittenCommit(
        integer(offset),
        text(metadata),
        MappingVersion(integer(term, high=LARGEST_TERM), integer(position)),
    )
    if len(row) == 4:
        return commit
    writer, at_ms = text(row[4]), integer(row[5], high=LARGEST_MS)
    if not writer:
        raise MalformedRecord("a commit announced by nobody")
    return replace(commit, writer=writer, at_ms=at_ms)


def _summary(body: dict[str, Any]) -> PipelineSummary:
    return PipelineSummary(
        at_ms=integer(field(body, "at"), high=LARGEST_MS),
        retained=integer(field(body, "retained")),
        covered=integer(field(body, "covered")),
        groups=tuple(
            GroupCount(_severity(severity), text(word, _LONGEST_WORD), integer(count))
            for severity, word, count in rows(field(body, "groups"), 3, most=_MOST_RATINGS)
        ),
        lost=integer(field(body, "lost")),
        reread=integer(field(body, "reread")),
    )


def _severity(value: object) -> Severity:
    name = text(value).upper()
    if name not in Severity.__members__:
        raise MalformedRecord("an unknown severity")
    return Severity[name]


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
        text(topic),
        integer(partition, high=LARGEST_INT),
        _or_none(before),
        text(before_metadata),
        _or_none(after),
        text(after_metadata),
        text(result),
    )


def _or_none(value: object) -> int | None:
    return None if value is None else integer(value)


def _dump(value: dict[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
