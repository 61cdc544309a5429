"""What was read of each part of a pipeline, before it becomes a view.

Facts of a cluster are equal if they differ only in what changes without any partition's row: their
time, notes, heartbeats and drills.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from k2ktui.engine.compare.record import ComparisonRecord
from k2ktui.engine.deleted_logs import DeletedLog
from k2ktui.engine.drill.model import Drill
from k2ktui.engine.drill.rehearsals import Rehearsal
from k2ktui.engine.mapping.replica import Replica
from k2ktui.engine.mapping.strange_records import OtherWriters
from k2ktui.engine.moves.audit import Audit
from k2ktui.engine.moves.groups import GroupRow, GroupView
from k2ktui.engine.moves.journal import JournalHeader, Runner
from k2ktui.engine.moves.lags import NO_LOGS, ReadLogs
from k2ktui.engine.moves.pipeline_summary import PipelineSummary
from k2ktui.engine.records.cluster_pair import UNKNOWN_PAIR, ClusterPair
from k2ktui.engine.records.hold import NO_HOLDS, Holds
from k2ktui.engine.records.moved_topic import NO_MOVED_TOPICS, MovedTopics
from k2ktui.engine.records.state import Position, SourcePartition
from k2ktui.engine.status import HeldBack
from k2ktui.kafka.clients import Partition
from k2ktui.sync.mapping.source import NothingCopied
from k2ktui.watch.model import ClusterView, PartName, RangeRow, Span


@dataclass(frozen=True, slots=True)
class SourceFacts:
    """The source: bounds of its logs, and the age of the record at each position.

    ``truncated`` are partitions whose log ends before a position that was known when the end was
    read. ``ends`` are last stable offsets, ``high`` high watermarks, ``held_back`` the records
    between them. ``ages`` are seconds. ``positions`` were read just before the ends, for the lag.
    ``drills`` are those that lead to this cluster; ``no_drills`` says why they could not be read.
    ``deleted`` are replicated topics that do not exist, where a pattern selects them.
    """

    taken_at: float = field(compare=False)
    cluster: ClusterView
    starts: Mapping[SourcePartition, int] = field(default_factory=dict)
    ends: Mapping[SourcePartition, int] = field(default_factory=dict)
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    partitions: tuple[SourcePartition, ...] = ()
    ages: Mapping[SourcePartition, float] = field(default_factory=dict)
    truncated: frozenset[SourcePartition] = frozenset()
    high: Mapping[SourcePartition, int] = field(default_factory=dict)
    held_back: Mapping[SourcePartition, HeldBack] = field(default_factory=dict)
    positions: Mapping[SourcePartition, Position] = field(default_factory=dict)
    drills: tuple[Drill, ...] = field(default=(), compare=False)
    no_drills: str = field(default="", compare=False)
    deleted: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class TargetFacts:
    """The target: positions, the last stable offsets of their target partitions, and notes.

    ``heartbeat_at`` is the last heartbeat of MirrorMaker 2, if it does the copying. ``fenced_by``
    is the drill that the pipeline's run record names, ``recorded`` its clusters. ``deleted`` are
    source logs that were deleted before all of their records were copied, ``moved`` the topics
    that drills moved to the target. ``nothing_copied`` says that no run of the pipeline is known.
    ``other_writers`` says who else has written there; None if that was not looked at.
    """

    taken_at: float = field(compare=False)
    cluster: ClusterView
    positions: Mapping[SourcePartition, Position] = field(default_factory=dict)
    ends: Mapping[Partition, int] = field(default_factory=dict)
    nothing_copied: NothingCopied | None = field(default=None, compare=False)
    notes: tuple[str, ...] = field(default=(), compare=False)
    heartbeat_at: float | None = field(default=None, compare=False)
    fenced_by: str = ""
    recorded: ClusterPair = UNKNOWN_PAIR
    deleted: Mapping[SourcePartition, DeletedLog] = field(default_factory=dict)
    moved: MovedTopics = NO_MOVED_TOPICS
    other_writers: OtherWriters | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class MappedSummary:
    """Mapping of one source partition; ``known_from`` is the lowest offset it decides.

    Where another program copies, ``exact`` is the number of offsets that translate exactly.
    """

    records: int
    known_from: int
    holes: tuple[Span, ...] = ()
    ranges: tuple[RangeRow, ...] = ()
    exact: int | None = None


@dataclass(frozen=True, slots=True)
class GroupFacts:
    """Groups on both sides, translated, and the mapping summary of each partition.

    ``audit`` is what MirrorMaker 2 would make of them, if it does the copying.
    ``mappings_expire_at`` is as for a view. ``logs`` is what the groups' lags are measured against.
    """

    taken_at: float
    rows: tuple[GroupRow, ...] = ()
    source: Mapping[str, GroupView] = field(default_factory=dict)
    target: Mapping[str, GroupView] = field(default_factory=dict)
    mapped: Mapping[SourcePartition, MappedSummary] = field(default_factory=dict)
    replicas: Mapping[SourcePartition, Replica] = field(default_factory=dict, repr=False)
    commits_at: float | None = None
    source_down: str = ""
    notes: tuple[str, ...] = ()
    audit: Audit | None = None
    mappings_expire_at: float | None = None
    logs: ReadLogs = field(default=NO_LOGS, repr=False)


@dataclass(frozen=True, slots=True)
class StateFacts:
    """Heartbeats of runners, journal headers, drills with the newest first, the summary and holds.

    ``rehearsals`` are those of which a few numbers are kept, the oldest first; ``comparison`` is
    the last one of all records.
    """

    taken_at: float
    runners: tuple[Runner, ...] = ()
    journal: tuple[JournalHeader, ...] = ()
    malformed: int = 0
    drills: tuple[Drill, ...] = ()
    summary: PipelineSummary | None = None
    rehearsals: tuple[Rehearsal, ...] = ()
    holds: Holds = NO_HOLDS
    comparison: ComparisonRecord | None = None


@dataclass(frozen=True, slots=True)
class ComparisonFacts:
    """What a MirrorMaker 2 flow beside the pipeline would make of the groups."""

    taken_at: float
    audit: Audit


Facts = SourceFacts | TargetFacts | GroupFacts | StateFacts | ComparisonFacts
Known = Mapping[PartName, Facts]
