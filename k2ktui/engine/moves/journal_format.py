"""Encoding of the state topic's records; the schema is in ``docs/internals/record-formats.md``.

Compact JSON. A key begins with the group (``coordination.commit.group``) and the kind, so that a
console consumer's output can be filtered; values have sorted keys. ``v`` is the value's version.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from k2ktui.engine.compare.record import COMPARISON_WIRE, ComparisonKey
from k2ktui.engine.drill.format import drill_body, read_drill
from k2ktui.engine.drill.rehearsals import REHEARSAL_WIRE, RehearsalKey
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
    record_key,
)
from k2ktui.engine.moves.pipeline_summary import SUMMARY_WIRE, SummaryKey
from k2ktui.engine.moves.written import LARGEST_NUMBER, WrittenCommit, WrittenCommits
from k2ktui.engine.records.cleared import CLEARED_KEY_WIRE, CLEARED_WIRE, ClearedKey
from k2ktui.engine.records.editions import read_digest
from k2ktui.engine.records.hold import HOLD_KEY_WIRE, HOLD_WIRE, HoldKey
from k2ktui.engine.records.mapping_version import MappingVersion
from k2ktui.engine.records.parity_record import (
    PARITY_KEY_WIRE,
    PARITY_WIRE,
    ParityKey,
)
from k2ktui.engine.records.run_record import LARGEST_SHARED_SLOTS, TERM
from k2ktui.engine.records.wanted_acls import (
    WantedAclsKey,
    read_wanted_acls,
    wanted_acls_body,
)
from k2ktui.engine.strict_json import (
    LARGEST,
    MalformedRecord,
    dump,
    field,
    integer,
    items,
    number,
    parse_object,
    require_version,
    rows,
    text,
)
from k2ktui.engine.wire import (
    COUNT,
    MILLIS,
    NUMBER,
    TEXT,
    Wire,
    WireType,
    list_of,
    map_of,
    optional,
    or_none,
    required,
    row_of,
    table_of,
    tuple_of,
    whole,
    word,
)

VERSION = 1
_MOST_COMMITS = 1000

_CHOICE = row_of(Choice, by=TEXT, value=TEXT, source=TEXT, at_ms=MILLIS)
_ROW_CHOICE = or_none(_CHOICE)
_VERSION_ROW = row_of(MappingVersion, term=TERM, position=COUNT)
_VERSION = or_none(_VERSION_ROW)
_PARTITION = tuple_of(TEXT, NUMBER)

_RUNNER = Wire(
    Runner,
    host=required("host", TEXT),
    user=required("user", TEXT),
    pid=required("pid", COUNT),
    started_ms=required("startedAt", MILLIS),
    at_ms=required("at", MILLIS),
    state=required("state", word(RunnerState, "state", never=RunnerState.SILENT)),
    lap=required("lap", COUNT),
    slots=required("slots", NUMBER),
    lag_records=required("lag", or_none(COUNT)),
    last_error=required("lastError", TEXT),
    error_ms=optional("errorAt", MILLIS, 0),
    version=required("version", TEXT),
    term=optional("term", COUNT, 0),
    commit_ms=optional("commitMs", or_none(WireType(number)), None),
    pid_space=optional("pidSpace", TEXT, ""),
    birth=optional("birth", TEXT, ""),
    kind=optional("kind", word(RunKind, "kind of run"), RunKind.COPY),
    generation=optional("generation", COUNT, 0),
    owned=optional(
        "owned",
        list_of(whole(high=LARGEST_SHARED_SLOTS - 1), LARGEST_SHARED_SLOTS),
        (),
        unless=lambda runner: not runner.generation,
    ),
    name=optional("name", TEXT, ""),
    digest=optional("digest", WireType(read_digest), ""),
    source=optional("sourceCluster", TEXT, ""),
    target=optional("targetCluster", TEXT, ""),
)
_SNAPSHOT = Wire(
    CommitSnapshot,
    cluster=required("cluster", TEXT),
    at_ms=required("at", MILLIS),
    state=required("state", TEXT),
    offsets=required(
        "offsets",
        table_of(
            _PARTITION,
            row_of(CommittedOffset, offset=whole(-1, high=LARGEST), metadata=TEXT),
            columns=(2, 2),
        ),
    ),
    ends=optional("ends", table_of(_PARTITION, COUNT, columns=(2, 1)), {}),
)
_HEADER = Wire(
    JournalHeader,
    at_ms=required("at", MILLIS),
    who=required("who", TEXT),
    operation=required("what", TEXT),
    plan=required("plan", TEXT),
    pipeline=required("pipeline", TEXT),
    counts=required("counts", map_of(COUNT)),
    undoes=required("undoes", TEXT),
    sequence=optional("sequence", whole(high=LARGEST_SEQUENCE), 0),
)
_ROW = row_of(
    JournalRow,
    topic=TEXT,
    partition=NUMBER,
    before=or_none(COUNT),
    before_metadata=TEXT,
    after=or_none(COUNT),
    after_metadata=TEXT,
    result=TEXT,
)
_WRITTEN = Wire(
    WrittenCommits,
    number=required("number", whole(high=LARGEST_NUMBER)),
    commits=required(
        "rows",
        table_of(
            _PARTITION,
            WireType(
                lambda value: tuple(map(_read_commit, rows(value, most=_MOST_COMMITS))),
                lambda commits: list(map(_commit_row, commits)),
            ),
            columns=(2, 1),
        ),
    ),
    choices=optional("choices", table_of(_PARTITION, _CHOICE, columns=(2, 4)), {}),
)


def _commit_row(commit: WrittenCommit) -> list[Any]:
    row = [commit.offset, commit.metadata, commit.version.term, commit.version.position]
    return [*row, commit.writer, commit.at_ms] if commit.pending else row


def _read_commit(row: list[Any]) -> WrittenCommit:
    if len(row) not in (4, 6):
        raise MalformedRecord("a commit that is neither announced nor read back")
    commit = WrittenCommit(integer(row[0]), text(row[1]), _VERSION_ROW.read(row[2:4]))
    if len(row) == 4:
        return commit
    writer, at_ms = text(row[4]), MILLIS.read(row[5])
    if not writer:
        raise MalformedRecord("a commit announced by nobody")
    return replace(commit, writer=writer, at_ms=at_ms)


def _rows_body(part: JournalRows) -> dict[str, Any]:
    """Return the rows; the versions and choices are lists beside them, if any row has one."""
    body = {"rows": [_ROW.dump(row) for row in part.rows]}
    versions = [(row.before_version, row.after_version) for row in part.rows]
    if any(both != (None, None) for both in versions):
        body["versions"] = [
            [_VERSION.dump(before), _VERSION.dump(after)] for before, after in versions
        ]
    if any(row.choice is not None for row in part.rows):
        body["choices"] = [_ROW_CHOICE.dump(row.choice) for row in part.rows]
    return body


def _read_rows(key: JournalKey, body: Mapping[str, Any]) -> JournalRows:
    journal_rows = [_ROW.read(row) for row in rows(field(body, "rows"), 7)]
    if "choices" in body:
        choices = items(body["choices"])
        if len(choices) != len(journal_rows):
            raise MalformedRecord("rows without choices")
        journal_rows = [
            replace(row, choice=_ROW_CHOICE.read(choice))
            for row, choice in zip(journal_rows, choices, strict=True)
        ]
    if "versions" in body:
        versions = rows(body["versions"], 2)
        if len(versions) != len(journal_rows):
            raise MalformedRecord("rows without versions")
        journal_rows = [
            replace(row, before_version=_VERSION.read(before), after_version=_VERSION.read(after))
            for row, (before, after) in zip(journal_rows, versions, strict=True)
        ]
    return JournalRows(key.id, key.consumer_group, tuple(journal_rows))


def _read_snapshot(key: SnapshotKey, body: Mapping[str, Any]) -> CommitSnapshot:
    snapshot = _SNAPSHOT.read(body, consumer_group=key.consumer_group)
    if key.cluster not in ("", snapshot.cluster):
        raise MalformedRecord("the commits of another cluster than that of its key")
    return replace(snapshot, names_cluster=key.cluster == snapshot.cluster)


@dataclass(frozen=True, slots=True)
class _Kind:
    """A kind of records: its name and fields in the key, and what the value is."""

    name: str
    key: Wire[Any]
    write: Callable[[Any], dict[str, Any]]
    read: Callable[[Any, dict[str, Any]], StateRecord]


def _kind(name: str, key: Wire[Any], value: Wire[Any]) -> _Kind:
    """Return a kind whose records have the fields of the key, too."""

    def read(of: Any, body: dict[str, Any]) -> StateRecord:
        record: StateRecord = value.read(body, **{at: getattr(of, at) for at in of.__slots__})
        return record

    return _Kind(name, key, value.write, read)


_ID = required("id", TEXT)
_CONSUMER_GROUP = required("consumerGroup", TEXT)
_KINDS: Mapping[type, _Kind] = {
    RunnerKey: _kind("runner", Wire(RunnerKey, runner=required("runner", TEXT)), _RUNNER),
    SnapshotKey: _Kind(
        "commits",
        Wire(SnapshotKey, consumer_group=_CONSUMER_GROUP, cluster=optional("cluster", TEXT, "")),
        _SNAPSHOT.write,
        _read_snapshot,
    ),
    JournalKey: _Kind(
        "journal",
        Wire(JournalKey, consumer_group=_CONSUMER_GROUP, id=_ID),
        lambda part: _HEADER.write(part) if isinstance(part, JournalHeader) else _rows_body(part),
        lambda key, body: (
            _read_rows(key, body) if key.consumer_group else _HEADER.read(body, id=key.id)
        ),
    ),
    DrillKey: _Kind(
        "drill", Wire(DrillKey, id=_ID), drill_body, lambda key, body: read_drill(key.id, body)
    ),
    WrittenKey: _kind("written", Wire(WrittenKey, consumer_group=_CONSUMER_GROUP), _WRITTEN),
    SummaryKey: _kind("summary", Wire(SummaryKey), SUMMARY_WIRE),
    ParityKey: _kind("parity", PARITY_KEY_WIRE, PARITY_WIRE),
    WantedAclsKey: _Kind(
        "acls", Wire(WantedAclsKey), wanted_acls_body, lambda _, body: read_wanted_acls(body)
    ),
    HoldKey: _kind("hold", HOLD_KEY_WIRE, HOLD_WIRE),
    RehearsalKey: _kind("rehearsal", Wire(RehearsalKey, id=_ID), REHEARSAL_WIRE),
    ComparisonKey: _kind("comparison", Wire(ComparisonKey), COMPARISON_WIRE),
    ClearedKey: _kind("cleared", CLEARED_KEY_WIRE, CLEARED_WIRE),
}
_KINDS_BY_NAME = {kind.name: kind for kind in _KINDS.values()}


def state_key(group: str, key: StateKey) -> bytes:
    """Return the key of a record; ``group`` is ``coordination.commit.group``."""
    kind = _KINDS[type(key)]
    return dump({"group": group, "kind": kind.name, **kind.key.write(key)})


def state_value(record: StateRecord) -> bytes:
    """Return the value of a record."""
    body = _KINDS[type(record_key(record))].write(record)
    return dump(dict(sorted({**body, "v": VERSION}.items())))


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
    name = field(head, "kind")
    kind = _KINDS_BY_NAME.get(name) if isinstance(name, str) else None
    if kind is None:
        raise MalformedRecord("a record of an unknown kind")
    key: StateKey = kind.key.read(head)
    return group, key


def read_state_value(key: StateKey, raw: bytes | None) -> StateRecord:
    """Decode the value of a record.

    Raises:
        MalformedRecord: the value is damaged, not k2ktui's, or of a newer version.
    """
    body = parse_object(raw, "the value")
    require_version(body, VERSION)
    return _KINDS[type(key)].read(key, body)
