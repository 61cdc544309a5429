"""Every parser of what others may write, with records as they really are, for the fuzz tests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from confluent_kafka import TIMESTAMP_CREATE_TIME, Message

from k2ktui.drill.report import report_json, report_markdown
from k2ktui.engine.compare.record import ComparisonRecord
from k2ktui.engine.deleted_logs import DeletedLog, deleted_log_key, deleted_log_value
from k2ktui.engine.drill.checks import CheckResult, DrillCheckOutcome, DrillKind, DrillPhase
from k2ktui.engine.drill.model import Change, ChangeKind, Drill, DrillEvent, GroupResult, new_phases
from k2ktui.engine.drill.steps import describe_next
from k2ktui.engine.mapping.range_columns import decode_columns
from k2ktui.engine.moves.groups import CommittedOffset
from k2ktui.engine.moves.journal import (
    CommitSnapshot,
    JournalHeader,
    JournalRow,
    JournalRows,
    Runner,
    RunnerState,
    StateRecord,
    record_key,
)
from k2ktui.engine.moves.journal_format import (
    read_state_key,
    read_state_value,
    state_key,
    state_value,
)
from k2ktui.engine.moves.pipeline_summary import GroupCount, PipelineSummary
from k2ktui.engine.moves.plan import UnusablePlan, dump_plan, load_plan, to_csv
from k2ktui.engine.moves.plan import read as load_unchecked
from k2ktui.engine.moves.written import WrittenCommit, WrittenCommits
from k2ktui.engine.ownership.assignment_records import (
    AssignmentFold,
    Member,
    member_key,
    member_value,
    owners_key,
    owners_value,
    read_member,
    read_owners,
)
from k2ktui.engine.ownership.slot_owners import SlotOwners, rebalance
from k2ktui.engine.records.cleared import Cleared
from k2ktui.engine.records.editions import Edition, Editions
from k2ktui.engine.records.hold import Hold
from k2ktui.engine.records.mapping_version import MappingVersion
from k2ktui.engine.records.moved_topic import MovedTopic, moved_topic_key, moved_topic_value
from k2ktui.engine.records.producer_registration import (
    ProducerRegistration,
    read_registration,
    registration_key,
    registration_value,
)
from k2ktui.engine.records.run_record import (
    LARGEST_SHARED_SLOTS,
    LARGEST_SLOTS,
    LARGEST_TERM,
    Interruption,
    SharedLayout,
    read_run,
)
from k2ktui.engine.records.state import (
    Covers,
    FirstLanded,
    Gap,
    Landed,
    MalformedRecord,
    MappingRange,
    MappingRecord,
    Position,
    Run,
    ScatteredRun,
    SourcePartition,
    mapping_key,
    mapping_value,
    position_key,
    position_value,
    read_commit_record,
    read_mapping_record,
    run_key,
    run_value,
)
from k2ktui.engine.severity import Severity
from k2ktui.errors import ConfigError
from k2ktui.jobs.job_directory import JobDirectory
from k2ktui.jobs.joblog import parse_entry
from k2ktui.mm2.flows.formats import (
    Checkpoint,
    ConnectorPartition,
    ForeignRecord,
    GroupPartition,
    Heartbeat,
    OffsetSync,
    checkpoint_key,
    checkpoint_value,
    connect_offset_key,
    connect_offset_value,
    heartbeat_key,
    heartbeat_value,
    offset_sync_key,
    offset_sync_value,
    read_checkpoint,
    read_connect_offset,
    read_heartbeat,
    read_offset_sync,
)
from k2ktui.mm2.flows.history import read_history
from k2ktui.mm2.offsets.positions import parse_offsets_body
from k2ktui.present.view_lines import view_lines
from k2ktui.sync.mapping.sort import MappingSorter
from k2ktui.sync.moves.spark_checkpoints import parse_checkpoint as parse_checkpoint
from k2ktui.watch.codec import MalformedView, dumps, loads
from tests.support.console.views import NOON, beside_mirrormaker, usual
from tests.support.drill.recorded_changes import CHANGE_READERS, RECORDED
from tests.unit.engine.test_plan import PLAN

Pair = tuple[bytes | None, bytes | None]


@dataclass(frozen=True)
class Parser:
    """One parser.

    Attributes:
        read: takes a key and a value, and uses what it found.
        malformed: the one error that it documents; None if it raises none.
        real: records as they really are.
    """

    read: Callable[[bytes | None, bytes | None], object]
    malformed: type[Exception] | None
    real: Sequence[Pair]


AT = SourcePartition("orders-ü", 3)
POSITION = Position(
    42, 7, 3, "0" * 32, 5, 1, "orders", 3, "1" * 32, 2, 1_795_252_312_786, (Gap(1, 7, "truncated"),)
)
COPIED_POSITION = replace(
    POSITION,
    landed=(Landed("orders", 3, 30, 44),),
    end=50,
    first_landed=(FirstLanded("orders", 3, 8, 11),),
)
REGISTRATION = ProducerRegistration(4711, "lQmM", "8Qh2", 1_795_252_312_786)
OWNERS = SlotOwners(7, "a-1", "l-1", {0: "a-1", 2: "b-2"}, {1: "a-1"})
EDITION = Edition(2, "0123456789abcdef")
MEMBER = Member("a-1", 5, 7, frozenset({0, 2}), "l-0", 4711, "5f0c2a7d91be4403")
ASSIGNMENT: list[tuple[bytes | None, bytes | None]] = [
    (owners_key("g"), owners_value(OWNERS)),
    (member_key("g", "a-1"), member_value(MEMBER)),
    (member_key("g", "a-1"), member_value(replace(MEMBER, edition=EDITION, pipeline="p"))),
    (member_key("g", "a-1"), None),
]
RUN = Run(5, 4, "p", "bastion", 1_795_252_312_786)
DIVIDED = replace(
    RUN,
    layout=SharedLayout("l-1", 4, ready=True),
    most_shared=7,
    digest=EDITION.digest,
    editions=Editions((EDITION, Edition(1, "f" * 16))),
)
MOVING = replace(
    DIVIDED, has_moved=True, interrupts=Interruption(4, is_over=True), has_unregistered=True
)
ALONE = replace(RUN, most_shared=7, alone=SharedLayout("a-1", 4, ready=True))
RANGES = MappingRecord(
    "g", AT, "orders", 3, 5, (MappingRange(0, 10, 4), MappingRange(6, 14, 2)), covers=Covers(0, 9)
)
RUNS = MappingRecord("g", AT, "orders", 3, 5, (), (ScatteredRun(7, (1, 2, 5)),), Covers(0, 9), True)
STATE: tuple[StateRecord, ...] = (
    Runner("h-1-a", "h", "ops", 1, 1000, 2000, RunnerState.RUNNING, 3, 4, 5, "x", "1", 2, 4.2),
    CommitSnapshot(
        "billing",
        "c",
        1000,
        "Empty",
        {("orders", 0): CommittedOffset(5, "m")},
        names_cluster=False,  # as earlier releases wrote it
    ),
    JournalHeader("20260101-000000-ab", 1000, "ops@h", "apply", "p1", "p", {"written": 2}, ""),
    JournalRows("20260101-000000-ab", "billing", (JournalRow("t", 0, None, "", 5, "m", "ok"),)),
    JournalRows(
        "20260101-000000-cd",
        "billing",
        (JournalRow("t", 0, 4, "", 5, "m", "ok", None, MappingVersion(2, 90)),),
    ),
    WrittenCommits(
        "billing",
        7,
        {
            ("orders", 0): (
                WrittenCommit(5, "m", MappingVersion(2, 90)),
                WrittenCommit(8, "n", MappingVersion(2, 95), "ab12", 1000),
            )
        },
    ),
    CommitSnapshot("billing", "c", 1000, "Empty", {("orders", 0): CommittedOffset(5, "m")}),
    PipelineSummary(1000, 90, 85, (GroupCount(Severity.BAD, "skips", 2),), 7, 3),
    Hold("orders", None, "ops@h", 1000, "why"),
    Hold("orders", 3, "ops@h", 1000),
    ComparisonRecord(1000, "ops@h", "c", "d", 1, 2, 3, {"equal": 9}, 0.5, False, {AT: (0, 9)}),
    ComparisonRecord(
        1000, "ops@h", "c", "d", 3000, 2, 3, {"equal": 9}, 1.0, True, {}, {AT: (2, 3)}, {"t": 12}
    ),
    Cleared("orders", "ops@h", 1000, partitions={0: 3, 7: 4}),
    Cleared("", "ops@h", 1000, 5),
    Runner("h-1-a", "h", "ops", 1, 1000, 2000, RunnerState.RUNNING, term=2, source="c", target="d"),
)
DRILL = Drill(
    "20260101-000000-ab", DrillKind.REHEARSE, "p", "s", "t", "1", 1000, "ops@h",
    phases=new_phases(DrillKind.REHEARSE),
    changes=(Change(DrillPhase.SHADOW, ChangeKind.SHADOW_GROUPS, "w", "", "g.drill", "u"),),
    checks=(CheckResult("D01", "t", DrillCheckOutcome.PASS, "e"),),
    groups=(GroupResult("billing", 3, reread=0),),
    events=(DrillEvent(1000, "ops@h", "owner", "begun", "e1", "00"),),
)  # fmt: skip
JOB = (
    b'{"v": 1, "start": "a", "pipeline": "p", "group": "p", "files": ["/p.yaml"], "cwd": "/", '
    b'"telemetry": false, "environment": "", "read_only": false, "pid": 1, "birth": "b", '
    b'"host": "h", "user": "u", "version": "1", "started_at": 1.5, "phase": "running", "term": 1, '
    b'"slots": 2, "ended_at": null, "code": null, "error": "", "starts": 1}'
)
LOG = (
    b'{"event":"started","at":1.5,"pipeline":"p","term":1,"slots":2,"partitions":3,"seconds":1.5}',
    b'{"event":"stopped","at":1.5,"fault":{"source":{"topic":"t","partition":0},"kind":"gone",'
    b'"what":"w","hint":"m","offset":-1}}',
    b'{"event":"check","at":1.5,"outcome":"fail","name":"n","detail":"d","hint":["a"]}',
)
HISTORY = (
    b'{"flow":"p","partition":0,"topic":"t"}',
    b'{"syncs":[[1,2,3]],"cuts":[[4,5,6]],"v":1}',
)
DELETED_LOG = DeletedLog("orders", 3, 120, 140, "9f21", 1795252312786, "ops@bastion")
MOVED_TOPIC = MovedTopic("orders", "dc1.orders", "20260101-000000-ab", 1795252312786, "ops@h")
OFFSETS = b'v1\n{"batchWatermarkMs":0,"batchTimestampMs":1,"conf":{}}\n{"orders":{"0":120,"1":7}}\n'
PAYLOAD = (
    b'{"offsets": [{"partition": {"cluster": "a", "partition": 0, "topic": "t"}, '
    b'"offset": {"offset": 5}}]}'
)
GP = GroupPartition("billing", "orders", 0)
CP = ConnectorPartition("MirrorSourceConnector", "a", AT)


def _commit(key: bytes | None, value: bytes | None) -> None:
    group, source, record = read_commit_record(key, value)
    group.encode()
    read_registration(key, value)
    read_run(key, value)
    if isinstance(record, Position):
        assert source is not None
        position_key(group, source), position_value(record)
        assert record.newer_than(record)
        assert max(record.term, record.since) <= LARGEST_TERM
    elif isinstance(record, DeletedLog):
        assert source is None and record.lost > 0
        again = deleted_log_key(group, record), deleted_log_value(record)
        assert read_commit_record(*again) == (group, None, record)
    elif isinstance(record, MovedTopic):
        again = moved_topic_key(group, record.topic), moved_topic_value(record)
        assert read_commit_record(*again) == (group, None, record)
        record.describe().encode()
    elif isinstance(record, Run):
        assert 0 <= record.slots <= LARGEST_SLOTS and record.term <= LARGEST_TERM
        assert record.most_shared <= LARGEST_SHARED_SLOTS
        assert read_commit_record(key, run_value(record)) == (group, None, record)


def _assignment(key: bytes | None, value: bytes | None) -> None:
    """A fold never fails; what it found can be written and read again."""
    fold = AssignmentFold("g")
    fold.take(key, value)
    assert read_owners(owners_value(fold.owners)) == fold.owners
    following = rebalance(fold.owners, fold.owners.slots, ["c-3"], "c-3")
    assert read_owners(owners_value(following)) == following
    for name, member in fold.members.items():
        assert read_member(name, member_value(member)) == member


def _owners(_: bytes | None, value: bytes | None) -> None:
    read_owners(value or b"")


def _member(_: bytes | None, value: bytes | None) -> None:
    read_member("a", value or b"")


def _mapping(key: bytes | None, value: bytes | None) -> None:
    record = read_mapping_record(key, value)
    mapping_key(record), mapping_value(record), decode_columns(record)


def _sorted(key: bytes | None, value: bytes | None) -> None:
    at = (TIMESTAMP_CREATE_TIME, 1)
    good = mapping_key(RANGES), mapping_value(RANGES)
    sorter = MappingSorter(("g",))
    sorter.sort(
        [
            Message(topic="m", partition=0, offset=offset, key=k, value=v, timestamp=at)
            for offset, (k, v) in enumerate([good, (key, value), good])
        ]
    )


def _state(key: bytes | None, value: bytes | None) -> None:
    group, kind = read_state_key(key)
    assert kind is not None
    state_key(group, kind)
    record = read_state_value(kind, value)
    state_value(record)
    if isinstance(record, Runner):
        record.standing(10**12)
    if isinstance(record, Drill):
        _ = report_markdown(record).encode(), report_json(record), describe_next(record)


def _view(key: bytes | None, value: bytes | None) -> None:
    view = loads(value or b"")
    list(view_lines(view, NOON))


def _plan(key: bytes | None, value: bytes | None) -> None:
    text = (value or b"").decode(errors="surrogateescape")
    try:
        plan = load_plan(text, 1500.0)
    except UnusablePlan as error:
        # Anyone who can write the file can make its digest fit.
        if "modified after" not in str(error):
            raise
        plan = load_unchecked(text)
    _ = plan.id, to_csv(plan), dump_plan(plan).encode(), [row.sources for row in plan.rows]


def _job(directory: Path) -> Callable[[bytes | None, bytes | None], object]:
    def read(key: bytes | None, value: bytes | None) -> None:
        (directory / "job.json").write_bytes(value or b"")
        record = JobDirectory(directory).read()
        if record is not None:
            assert record.pid >= 0 and record.started_at < 1e12

    return read


def _log(key: bytes | None, value: bytes | None) -> None:
    entry = parse_entry((value or b"").split(b"\n")[0])
    for part in (entry.text, entry.error, entry.kind, *entry.lines):
        part.encode("utf-8", "surrogatepass")
    assert entry.at is None or entry.at < 1e12


def _offsets(key: bytes | None, value: bytes | None) -> None:
    text = (value or b"").decode(errors="replace")
    _ = parse_checkpoint(text, Path("7"), 7).positions


def _change(kind: ChangeKind, read: Callable[[Change], object]) -> Parser:
    """The states before and after a change of a drill, in place of a key and a value."""

    def read_states(before: bytes | None, after: bytes | None) -> None:
        first, then = ((raw or b"").decode(errors="surrogateescape") for raw in (before, after))
        read(Change(DrillPhase.APPLY, kind, "w", first, then, "u"))

    before, after = (text.encode() for text in RECORDED[kind])
    return Parser(read_states, MalformedRecord, [(before, after)])


def parsers(directory: Path) -> dict[str, Parser]:
    """Return all parsers by name; ``directory`` is for those that read files."""
    views: list[Any] = [
        (None, dumps(made.view()).encode()) for made in (usual(), beside_mirrormaker())
    ]
    state = [
        (state_key("g", record_key(record)), state_value(record)) for record in (*STATE, DRILL)
    ]
    commit = [
        (position_key("g", AT), position_value(POSITION)),
        (position_key("g", AT), position_value(COPIED_POSITION)),
        (run_key("g"), run_value(RUN)),
        (run_key("g"), run_value(DIVIDED)),
        (run_key("g"), run_value(MOVING)),
        (run_key("g"), run_value(ALONE)),
        (run_key("g", 3), run_value(RUN)),
        (run_key("g"), None),
        (registration_key("g", 4711), registration_value(REGISTRATION)),
        (deleted_log_key("g", DELETED_LOG), deleted_log_value(DELETED_LOG)),
        (moved_topic_key("g", "orders"), moved_topic_value(MOVED_TOPIC)),
        (moved_topic_key("g", "orders"), None),
    ]
    mappings = [(mapping_key(mapping), mapping_value(mapping)) for mapping in (RANGES, RUNS)]
    changes = {
        f"change of {kind}: {read.__name__}": _change(kind, read) for kind, read in CHANGE_READERS
    }
    return {
        **changes,
        "commit": Parser(_commit, MalformedRecord, commit),
        "mapping": Parser(_mapping, MalformedRecord, mappings),
        "mappings at once": Parser(_sorted, None, mappings),
        "state": Parser(_state, MalformedRecord, state),
        "assignment": Parser(_assignment, MalformedRecord, ASSIGNMENT),
        "owners": Parser(_owners, MalformedRecord, ASSIGNMENT[:1]),
        "member": Parser(_member, MalformedRecord, ASSIGNMENT[1:2]),
        "view": Parser(_view, MalformedView, views),
        "plan": Parser(_plan, UnusablePlan, [(None, dump_plan(PLAN).encode())]),
        "job": Parser(_job(directory), None, [(None, JOB)]),
        "job log": Parser(_log, None, [(None, line) for line in LOG]),
        "history": Parser(lambda k, v: read_history(k, v, "p"), MalformedRecord, [HISTORY]),
        "spark checkpoint": Parser(_offsets, ConfigError, [(None, OFFSETS)]),
        "connect payload": Parser(
            lambda k, v: parse_offsets_body(
                (v or b"").decode(errors="surrogatepass", encoding="latin-1")
            ),
            ConfigError,
            [(None, PAYLOAD)],
        ),
        "offset-sync": Parser(
            read_offset_sync,
            ForeignRecord,
            [(offset_sync_key(AT), offset_sync_value(OffsetSync(AT, 1, 2)))],
        ),
        "checkpoint": Parser(
            read_checkpoint,
            ForeignRecord,
            [(checkpoint_key(GP), checkpoint_value(Checkpoint(GP, 1, 2, "m")))],
        ),
        "heartbeat": Parser(
            read_heartbeat,
            ForeignRecord,
            [(heartbeat_key(Heartbeat("a", "b", 1)), heartbeat_value(Heartbeat("a", "b", 1)))],
        ),
        "connect offset": Parser(
            read_connect_offset, ForeignRecord, [(connect_offset_key(CP), connect_offset_value(7))]
        ),
    }
