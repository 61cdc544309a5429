"""Records of the state topic: runner heartbeats, snapshots of group commits, and the journal.

Their encoding is in :mod:`k2ktui.engine.moves.journal_format`.

- *Runner*: the last heartbeat of one running process.
- *CommitSnapshot*: a consumer group's committed offsets on the source.
- *JournalHeader* and *JournalRows*: what a command changed, with the previous values.
- *Drill*: a failover drill (:mod:`k2ktui.engine.drill.model`).
- *WrittenCommits*: what was committed for a consumer group (:mod:`k2ktui.engine.moves.written`).
- *PipelineSummary*: coverage and groups in a few numbers
  (:mod:`k2ktui.engine.moves.pipeline_summary`).
- *Rehearsal*: what a rehearsal measured (:mod:`k2ktui.engine.drill.rehearsals`).
- *Comparison*: what the last comparison has found (:mod:`k2ktui.engine.compare.record`).
- *ParityRecord*: what parity has done on the target (:mod:`k2ktui.engine.records.parity_record`).
- *WantedAclsRecord*: the ACLs that the target should have
  (:mod:`k2ktui.engine.records.wanted_acls`).
- *Hold*: a topic or a partition that is not copied for a while
  (:mod:`k2ktui.engine.records.hold`).
- *Cleared*: positions that an operator has removed (:mod:`k2ktui.engine.records.cleared`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum

from k2ktui.engine.compare.record import ComparisonKey, ComparisonRecord
from k2ktui.engine.drill.model import Drill
from k2ktui.engine.drill.rehearsals import Rehearsal, RehearsalKey
from k2ktui.engine.moves.choice import Choice
from k2ktui.engine.moves.groups import CommittedOffset, Partition
from k2ktui.engine.moves.pipeline_summary import PipelineSummary, SummaryKey
from k2ktui.engine.moves.written import WrittenCommits
from k2ktui.engine.records.cleared import Cleared, ClearedKey
from k2ktui.engine.records.hold import Hold, HoldKey
from k2ktui.engine.records.mapping_version import MappingVersion
from k2ktui.engine.records.parity_record import ParityKey, ParityRecord
from k2ktui.engine.records.wanted_acls import WantedAclsKey, WantedAclsRecord

BEAT_MS = 5_000
SILENT_AFTER_MS = 15_000
JOURNAL_ENTRIES = 200
LARGEST_SEQUENCE = (1 << 53) - 1
# Journal name of the changes that k2ktui sync makes.
SYNC = "sync"
# Beginning of the journal names of what drills do, except for offsets that they apply.
DRILL = "drill "
# Beginning of the journal names of what parity does, and the name of what k2ktui sync does for it.
PARITY = "parity "
PARITY_SYNC = f"{PARITY}sync"
# Journal names of changes of groups: on the target, and on the source.
APPLY, UNDO, DELETE = "apply", "undo", "delete"
SOURCE_RESET, SOURCE_UNDO = "source reset", "source undo"
# Journal names of what keeps partitions from being copied, and of what lets them be copied again.
HOLD, RELEASE = "hold", "release"
# Name in a header's counts for rows that are being written.
BEGUN = "begun"


class RunKind(StrEnum):
    """What a run does: it copies records, or translates groups (``k2ktui sync``)."""

    COPY = "copy"
    SYNC = "sync"


class RunnerState(StrEnum):
    """State that a runner reports; ``silent`` means that its heartbeats have stopped.

    A ``standby`` waits for its turn to copy.
    """

    STANDBY = "standby"
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
    """Key of a snapshot: the consumer group on the source, and the id of the source cluster.

    The id is "" in records of earlier releases, and if the cluster has none.
    """

    consumer_group: str
    cluster: str = ""


@dataclass(frozen=True, slots=True, order=True)
class JournalKey:
    """Key of a part of a journal entry; the header has no consumer group."""

    id: str
    consumer_group: str = ""


@dataclass(frozen=True, slots=True)
class DrillKey:
    """Key of a drill."""

    id: str


@dataclass(frozen=True, slots=True)
class WrittenKey:
    """Key of what was committed for a consumer group on the target."""

    consumer_group: str


StateKey = (
    RunnerKey
    | SnapshotKey
    | JournalKey
    | DrillKey
    | WrittenKey
    | SummaryKey
    | ParityKey
    | WantedAclsKey
    | HoldKey
    | RehearsalKey
    | ComparisonKey
    | ClearedKey
)


@dataclass(frozen=True, slots=True)
class Runner:
    """A heartbeat, which a running pipeline writes every few seconds.

    Attributes:
        runner: unique id of the process.
        host, user, pid: host, user and process id.
        started_ms, at_ms: its start and this heartbeat, epoch milliseconds by its own clock.
        state: never ``silent``, which only a reader determines, see :meth:`standing`.
        lap: number of its last lap.
        slots: number of slots, 0 until the run has begun.
        lag_records: number of source offsets not copied yet, None while unknown.
        last_error: text of the last error, "" if there was none.
        error_ms: since when what it names keeps records from being copied, epoch milliseconds; 0 if
            it does not, or is over.
        version: k2ktui version.
        term: term of its run, 0 until the run has begun.
        commit_ms: mean commit time in its last lap in milliseconds, None if there was no commit.
        pid_space: id of the PID namespace in which ``pid`` is valid; "" from an older version.
        birth: boot id and start time of the process; "" from an older version.
        kind: what it does.
        generation: where runs share the pipeline, number of the last generation of owners that it
            has seen; 0 for a run that copies alone.
        owned: the slots that it owned in that generation.
        name: name of the pipeline in its file; "" from an earlier release.
        digest: of what decides in its file what is copied; "" from an earlier release.
        source, target: ids of the clusters that it copies between; "" until they are known, and
            from an earlier release.
        heard_ms: when a reader last received a heartbeat, by the reader's clock; None if not
            observed yet. Not part of the record.
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
    term: int = 0
    commit_ms: float | None = None
    heard_ms: int | None = field(default=None, compare=False)
    pid_space: str = ""
    birth: str = ""
    kind: RunKind = RunKind.COPY
    generation: int = 0
    owned: tuple[int, ...] = ()
    error_ms: int = 0
    name: str = ""
    digest: str = ""
    source: str = ""
    target: str = ""

    @property
    def key(self) -> RunnerKey:
        """Key of the record."""
        return RunnerKey(self.runner)

    @property
    def last_ms(self) -> int:
        """Time of the last heartbeat, epoch milliseconds; by its own clock if not observed."""
        return self.at_ms if self.heard_ms is None else self.heard_ms

    def standing(self, now_ms: int) -> RunnerState:
        """Return its state as seen by a reader: silent if its heartbeat is overdue."""
        late = now_ms - self.last_ms > SILENT_AFTER_MS
        return RunnerState.SILENT if late and self.state is not RunnerState.STOPPED else self.state

    def alive(self, now_ms: int) -> bool:
        """Whether to assume that it is running."""
        return self.standing(now_ms) not in (RunnerState.STOPPED, RunnerState.SILENT)


@dataclass(frozen=True, slots=True)
class CommitSnapshot:
    """A consumer group's committed offsets on the source at one moment.

    Attributes:
        consumer_group: name of the group.
        cluster: id of the source cluster.
        at_ms: when it was read, epoch milliseconds.
        state: Kafka's group state at that time.
        offsets: committed offsets by topic and partition.
        ends: high watermarks of partitions in which a group had committed past them.
        names_cluster: whether the key of the record names the cluster; not in earlier releases,
            where another cluster's group took its place.
    """

    consumer_group: str
    cluster: str
    at_ms: int
    state: str
    offsets: Mapping[Partition, CommittedOffset] = field(default_factory=dict)
    ends: Mapping[Partition, int] = field(default_factory=dict)
    names_cluster: bool = True

    @property
    def key(self) -> SnapshotKey:
        """Key of the record."""
        return SnapshotKey(self.consumer_group, self.cluster if self.names_cluster else "")


@dataclass(frozen=True, slots=True)
class JournalHeader:
    """Header of one journal entry.

    Attributes:
        id: unique id of the entry; it begins with the time by the writer's clock.
        at_ms: time of the entry, epoch milliseconds.
        who: ``user@host``.
        operation: ``apply``, ``undo``, ``sync``, ``source reset``, ``offsets set``, …
        plan: id of the plan that was applied, "" for none.
        pipeline: name of the pipeline.
        counts: number of rows per result.
        undoes: id of the entry that this one undoes, "" for none.
        sequence: greater than that of every entry in the journal when this one began; 0 in entries
            of earlier releases.
    """

    id: str
    at_ms: int
    who: str
    operation: str
    plan: str = ""
    pipeline: str = ""
    counts: Mapping[str, int] = field(default_factory=dict)
    undoes: str = ""
    sequence: int = 0

    @property
    def side(self) -> str:
        """The cluster of which it changed something: ``source`` or ``target``."""
        return "source" if self.operation in (SOURCE_RESET, SOURCE_UNDO) else "target"

    @property
    def order(self) -> tuple[int, str]:
        """Sort key, independent of time because the clocks of two hosts may disagree."""
        return self.sequence, self.id

    @property
    def key(self) -> JournalKey:
        """Key of the record."""
        return JournalKey(self.id)


@dataclass(frozen=True, slots=True)
class JournalRow:
    """One changed offset; None is no offset.

    The versions are of the mappings that the offsets were made from; None for an offset that is not
    ours, and in entries of earlier releases. ``choice`` is what an operator chose instead of the
    translated offset.
    """

    topic: str
    partition: int
    before: int | None
    before_metadata: str
    after: int | None
    after_metadata: str
    result: str
    before_version: MappingVersion | None = None
    after_version: MappingVersion | None = None
    choice: Choice | None = None


@dataclass(frozen=True, slots=True)
class JournalRows:
    """The changes of an entry for one consumer group.

    For a change of the pipeline's replicated positions the group is ``coordination.commit.group``
    and the metadata are the position records as written to the commit topic.
    """

    id: str
    consumer_group: str
    rows: tuple[JournalRow, ...] = ()

    @property
    def key(self) -> JournalKey:
        """Key of the record."""
        return JournalKey(self.id, self.consumer_group)

    @property
    def lines(self) -> list[EntryRow]:
        """The changes, each with the group."""
        return [(self.consumer_group, row) for row in self.rows]


EntryRow = tuple[str, JournalRow]
"""A change, with the consumer group, or what else the entry names in its place."""

StateRecord = (
    Runner
    | CommitSnapshot
    | JournalHeader
    | JournalRows
    | Drill
    | WrittenCommits
    | PipelineSummary
    | ParityRecord
    | WantedAclsRecord
    | Hold
    | Rehearsal
    | ComparisonRecord
    | Cleared
)


def record_key(record: StateRecord) -> StateKey:
    """Return the key of a record."""
    if isinstance(record, WrittenCommits):
        return WrittenKey(record.consumer_group)
    return DrillKey(record.id) if isinstance(record, Drill) else record.key


def new_id(at_ms: int, salt: str) -> str:
    """Return an id for a journal entry; ``salt`` makes it unique across hosts."""
    return f"{datetime.fromtimestamp(at_ms / 1000, UTC):%Y%m%d-%H%M%S}-{salt}"


def next_sequence(headers: Iterable[JournalHeader]) -> int:
    """Return the sequence number of an entry that begins after these."""
    highest = max((header.sequence for header in headers), default=0)
    return min(highest + 1, LARGEST_SEQUENCE)


def find_outdated(
    entries: Mapping[str, JournalHeader | None],
    writing: Collection[str] = (),
    keep: int = JOURNAL_ENTRIES,
) -> list[str]:
    """Return the ids of journal entries to delete, the oldest first.

    The newest ``keep`` of each kind stay, so that entries of ``k2ktui sync`` and of drills never
    displace those of an operator, and finished entries never displace one that is being written.

    Args:
        entries: headers by id; None for an entry without one.
        writing: ids of entries that this process is writing; they stay.
        keep: number of entries to keep of each kind.
    """
    kinds: dict[tuple[str, bool], list[tuple[tuple[int, str], str]]] = {}
    for name, header in entries.items():
        if name in writing:
            continue
        order = header.order if header is not None else (0, name)
        kinds.setdefault(_kind(header), []).append((order, name))
    gone = []
    for kind, entries_of_kind in kinds.items():
        mine = sum(_kind(entries.get(name)) == kind for name in writing)
        gone += sorted(entries_of_kind)[: max(0, len(entries_of_kind) + mine - keep)]
    return [name for _, name in sorted(gone)]


def has_displaced(entries: Collection[JournalHeader]) -> bool:
    """Return whether entries of operators may have been deleted to make room for newer ones."""
    kind = "", False
    return sum(_kind(header) == kind for header in entries) >= JOURNAL_ENTRIES


def _kind(header: JournalHeader | None) -> tuple[str, bool]:
    if header is None:
        return "", True
    program = header.operation if header.operation in (SYNC, PARITY_SYNC) else ""
    program = DRILL if header.operation.startswith(DRILL) else program
    return program, BEGUN in header.counts
