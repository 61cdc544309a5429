"""The input and the result of one slot lap, exchanged with the driver. All classes pickle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING
from zlib import crc32

from k2ktui.engine.pickled import pickled_by_fields
from k2ktui.engine.records.cluster_pair import UNKNOWN_PAIR, ClusterPair
from k2ktui.engine.records.state import MappingRecord, Position, SourcePartition, mapping_key
from k2ktui.engine.schemas.ids import SchemaPart, SchemaRule
from k2ktui.engine.transforms.header_names import SAME_HEADERS, HeaderRules, OriginHeader
from k2ktui.engine.transforms.model import Transform
from k2ktui.kafka.producer_id import Producer
from k2ktui.replication.copying.slot_settings import CommitPolicy, FetchSettings, ProduceSettings

if TYPE_CHECKING:  # importing it takes time that workers without schema mapping would waste
    from k2ktui.registry.mapper import SchemaMapperSettings

#: Why a task does nothing that Spark runs again: its epoch is spent.
REPEATED = (
    "Spark lost the task with its worker and ran it again; a task has one attempt only, and the "
    "next lap continues"
)


class CopyPath(StrEnum):
    """How records are copied: whole batches as bytes, or record by record."""

    VERBATIM = "verbatim"
    RECORD = "record"


@dataclass(frozen=True, slots=True)
class DeadLetterTarget:
    """Where the records of a source partition go that fail its transform or schema mapping.

    Attributes:
        topic: the dead-letter topic.
        partition: its partition.
        batch_limit: largest batch in bytes.
    """

    topic: str
    partition: int
    batch_limit: int


@dataclass(frozen=True, slots=True)
class RoutedTopic:
    """A target topic that an expression may choose; the id is empty if the broker has none."""

    name: str
    partitions: int
    topic_id: str = ""


@pickled_by_fields
@dataclass(frozen=True, slots=True)
class Route:
    """The target and the copy path of one source partition.

    Attributes:
        path: how records are copied.
        topic: target topic; the first of them if there are several.
        partition: target partition, or None to choose by key as the Java producer does, or by the
            transform's expression.
        partitions: number of partitions of the target topic.
        headers: what the record path does to headers.
        now_timestamps: stamp records with the time of copying (keepRecordCreationTimestamp off).
        codec: compression of the record path's batches; None keeps the source's.
        transform: what Spark SQL does to the records; None for nothing.
        dead_letters: where records go that fail the transform, or whose schema id is unknown; None
            for nowhere.
        schemas: whose schema ids are replaced; None for no ids.
        keeps_batches: ids are all that the record path changes, and fit in place.
        choices: the target topics if an expression chooses the topic or the partition, in the order
            of its ``topics``; empty otherwise.
    """

    path: CopyPath
    topic: str
    partition: int | None
    partitions: int
    headers: HeaderRules = SAME_HEADERS
    now_timestamps: bool = False
    codec: int | None = None
    transform: Transform | None = None
    schemas: SchemaRule | None = None
    keeps_batches: bool = False
    dead_letters: DeadLetterTarget | None = None
    choices: tuple[RoutedTopic, ...] = ()

    @property
    def keeps_records(self) -> bool:
        """Whether records stay as they are and together: batches may be merged unread."""
        return (
            self.path is CopyPath.VERBATIM
            and self.partition is not None
            and self.headers == SAME_HEADERS
            and self.transform is None
            and self.schemas is None
            and self.codec is None
            and not self.now_timestamps
        )

    @property
    def every_target(self) -> tuple[tuple[str, int], ...]:
        """The target partitions that a transaction may have, that of dead letters included."""
        dead = self.dead_letters
        return self.targets if dead is None else (*self.targets, (dead.topic, dead.partition))

    @property
    def targets(self) -> tuple[tuple[str, int], ...]:
        """The target partitions that records may go to."""
        if self.choices:
            return tuple(
                (topic.name, partition)
                for topic in self.choices
                for partition in range(topic.partitions)
                if self.partition is None or partition == self.partition
            )
        if self.partition is not None:
            return ((self.topic, self.partition),)
        return tuple((self.topic, partition) for partition in range(self.partitions))


def with_topics(
    position: Position, topics: Sequence[RoutedTopic], partition: int | None
) -> Position:
    """Return a position that names all of these target topics; unchanged if there are none.

    Args:
        position: the position of a source partition.
        topics: the target topics, in the order of their declaration.
        partition: the target partition if there is one, None if records go to several.
    """
    if not topics:
        return position
    first, *further = topics
    return replace(
        position,
        target_topic=first.name,
        target_partition=None if further else partition,
        target_topic_id=first.topic_id,
        further_targets=tuple((topic.name, topic.topic_id) for topic in further),
    )


@pickled_by_fields
@dataclass(frozen=True, slots=True)
class SizeLimit:
    """Batches that are larger in both sizes are split before they are sent.

    Attributes:
        sent: bytes as sent.
        uncompressed: bytes without compression, as :func:`~k2ktui.log.rebuild.built_bytes` counts.
    """

    sent: int
    uncompressed: int


@pickled_by_fields
@dataclass(frozen=True, slots=True)
class Assignment:
    """One source partition to copy from its position, up to offset ``until`` if given.

    ``size_limit`` is what the target accepted after it had refused a batch for its size. It refuses
    the record at the offset of ``refused``: only what is before it is copied.
    ``max_message_bytes`` is the smallest limit of its target topics, None if none is known.
    """

    source: SourcePartition
    position: Position
    route: Route
    until: int | None = None
    size_limit: SizeLimit | None = None
    refused: Fault | None = None
    max_message_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class StateTopics:
    """Where positions and mapping ranges are written; empty ``mapping_topic`` disables mapping."""

    pipeline: str
    group: str
    term: int
    commit_topic: str
    commit_partition: int
    mapping_topic: str
    mapping_partitions: int

    def targets(self, source: SourcePartition) -> set[tuple[str, int]]:
        """Return the partitions that the state of a source partition goes to."""
        targets = {(self.commit_topic, self.commit_partition)}
        if self.mapping_topic:
            targets.add(self.mapping_target(mapping_key(MappingRecord(self.group, source, "", 0))))
        return targets

    def mapping_target(self, key: bytes) -> tuple[str, int]:
        """Return the partition of the mapping topic that a record's key belongs to."""
        return self.mapping_topic, crc32(key) % self.mapping_partitions


@dataclass(frozen=True, slots=True)
class OppositePipeline:
    """Where pipelines of the opposite direction register their producer ids.

    Attributes:
        commit_topic: their commit topic, on our source.
        source: cluster id of their source, which is our target.
        target: cluster id of their target, which is our source.
        source_aliases, target_aliases: ids that these clusters had before they were restored.
    """

    commit_topic: str
    source: str
    target: str
    source_aliases: tuple[str, ...] = ()
    target_aliases: tuple[str, ...] = ()

    @property
    def clusters(self) -> ClusterPair:
        """What these pipelines copy between."""
        return ClusterPair(
            self.source,
            self.target,
            source_aliases=self.source_aliases,
            target_aliases=self.target_aliases,
        )


@dataclass(frozen=True, slots=True)
class SlotTask:
    """One lap's task: the producer id and epoch to write with, and the partitions to copy.

    Batches that the ``opposite`` pipeline wrote are left out, or records by their ``origin``
    header; both are None in one direction. ``registries`` is None if no schema ids are replaced.
    Only brokers of the ``clusters`` are used; an id that is empty is not compared. ``recoveries``
    counts the failures of the slot in this run: what a lap has left is not used after one.
    """

    slot: int
    producer: Producer
    transactional: bool
    state_topics: StateTopics
    policy: CommitPolicy
    assignments: tuple[Assignment, ...]
    continue_on_loss: bool = False
    fetch: FetchSettings = field(default_factory=FetchSettings)
    produce: ProduceSettings = field(default_factory=ProduceSettings)
    opposite: OppositePipeline | None = None
    origin: OriginHeader | None = None
    registries: SchemaMapperSettings | None = field(default=None, repr=False)
    clusters: ClusterPair = UNKNOWN_PAIR
    recoveries: int = 0

    @property
    def transform(self) -> Transform | None:
        """What Spark SQL does to the records of all partitions; None for nothing."""
        return self.assignments[0].route.transform


class FaultKind(StrEnum):
    """Kinds of faults that stop a partition."""

    TRUNCATED = "truncated"
    DIVERGED = "diverged"
    RECREATED = "re-created"
    GONE = "gone"
    UNAUTHORIZED = "unauthorized"
    TOO_LARGE = "too-large"
    REFUSED = "refused"
    TARGET_GONE = "target-gone"
    UNAVAILABLE = "unavailable"
    CORRUPT = "corrupt"
    HELD_BACK = "held-back"
    TRANSFORM = "transform"
    SCHEMA = "schema"
    RESTORED = "restored"
    HELD = "held"
    POSITION_LOST = "position-lost"


@dataclass(frozen=True, slots=True)
class Fault:
    """Why a partition stopped and how to fix it, worded for operators.

    ``refused_by`` is the target topic that has refused a record, of ``TOO_LARGE``.
    """

    source: SourcePartition
    kind: FaultKind
    message: str
    hint: str
    offset: int = -1
    refused_by: str = ""


class LapOutcome(StrEnum):
    """How a slot's lap ended."""

    DONE = "done"
    FENCED = "fenced"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class SlotStats:
    """Work that a slot has committed in a lap; ``written_bytes`` counts record batches."""

    records: int = 0
    batches: int = 0
    rebuilt: int = 0
    written_bytes: int = 0
    transactions: int = 0
    commit_s: float = 0.0
    cpu_s: float = 0.0

    def plus(self, other: SlotStats) -> SlotStats:
        """Return the sum of both."""
        return SlotStats(
            records=self.records + other.records,
            batches=self.batches + other.batches,
            rebuilt=self.rebuilt + other.rebuilt,
            written_bytes=self.written_bytes + other.written_bytes,
            transactions=self.transactions + other.transactions,
            commit_s=self.commit_s + other.commit_s,
            cpu_s=self.cpu_s + other.cpu_s,
        )


@pickled_by_fields
@dataclass(frozen=True, slots=True)
class SourceLogBounds:
    """Bounds of a source log from a lap's last fetch response, without an extra request.

    Attributes:
        start: log start offset, -1 if unknown.
        end: last stable offset.
        next_ms: timestamp of the first record not yet copied, epoch milliseconds; -1 if there is
            none or it was not fetched.
    """

    start: int
    end: int
    next_ms: int = -1


@dataclass(frozen=True, slots=True)
class SkippedRecords:
    """Records of a partition that a transform could not change, as a step failed.

    Attributes:
        source: the partition.
        count: their number.
        last: source offset of the last one.
        step: the step that failed for the last one.
        dead_letter_topic: where they were written; "" for nowhere.
    """

    source: SourcePartition
    count: int
    last: int
    step: str
    dead_letter_topic: str = ""


@dataclass(frozen=True, slots=True)
class UnknownSchemas:
    """Records of a partition that were not copied as usual, as their schema id is unknown.

    Attributes:
        source: the partition.
        count: their number.
        last: source offset of the last one.
        part: the part of the last one that has the id.
        schema_id: the id.
        dead_letter_topic: where they were written; "" if they were copied with that id.
    """

    source: SourcePartition
    count: int
    last: int
    part: SchemaPart
    schema_id: int
    dead_letter_topic: str = ""


@dataclass(frozen=True, slots=True)
class SlotResult:
    """A slot's report at the end of a lap.

    ``positions`` are those that it committed, without those that have not changed; unless the
    outcome is DONE, ignore them and read the target's. Times are epoch seconds by the worker's
    clock; ``first_commit_at`` is 0 if nothing was committed. ``log_bounds`` has the log bounds of
    the partitions that were fetched, ``unread`` why others were not. ``size_limits`` are those that
    the lap has learned, whatever its outcome, and so is ``request_bytes``: the size of requests
    that the target's brokers take, 0 if it is the task's.
    """

    slot: int
    outcome: LapOutcome
    positions: Mapping[SourcePartition, Position]
    faults: tuple[Fault, ...] = ()
    stats: SlotStats = field(default_factory=SlotStats)
    error: str = ""
    began_at: float = 0.0
    ended_at: float = 0.0
    first_commit_at: float = 0.0
    log_bounds: Mapping[SourcePartition, SourceLogBounds] = field(default_factory=dict)
    skipped: tuple[SkippedRecords | UnknownSchemas, ...] = ()
    unread: Mapping[SourcePartition, str] = field(default_factory=dict)
    size_limits: Mapping[SourcePartition, SizeLimit] = field(default_factory=dict)
    request_bytes: int = 0
