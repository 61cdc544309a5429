"""State in the commit topic: read completely once, then incrementally."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from time import monotonic
from types import MappingProxyType
from zlib import crc32

from confluent_kafka.admin import OffsetSpec

from k2ktui.engine.deleted_logs import DeletedLog
from k2ktui.engine.records.moved_topic import (
    NO_MOVED_TOPICS,
    MovedTopic,
    MovedTopics,
    ReleasedTopic,
    is_moved_key,
)
from k2ktui.engine.records.producer_registration import ProducerRegistration
from k2ktui.engine.records.run_record import NO_RUN, may_be_run
from k2ktui.engine.records.state import (
    MalformedRecord,
    Position,
    Run,
    SourcePartition,
    read_commit_group,
    read_commit_record,
)
from k2ktui.errors import TimedOut
from k2ktui.kafka.clients import Cluster, TopicDescription
from k2ktui.kafka.control.reader import (
    ControlRecord,
    read_committed,
    read_written,
    require_offsets,
    stable_ends,
)
from k2ktui.kafka.control.tail import ControlTail
from k2ktui.runtime.shared_reading import SharedReading
from k2ktui.text import safe_text

# Maximum number of records read per commit partition, about 0.3 s of work.
_MOST_A_READ = 20_000


@dataclass(frozen=True, slots=True)
class CommitTopic:
    """The commit topic and how this pipeline uses it.

    Attributes:
        name: topic name.
        partitions: number of partitions.
        group: ``coordination.commit.group``, which identifies the pipeline in a shared topic.
        shared: keep all positions of the pipeline in one partition, instead of one per slot.
        shared_slot: the slot that a run takes over, where runs share the pipeline; None for all.
    """

    name: str
    partitions: int
    group: str
    shared: bool = True
    shared_slot: int | None = None

    @property
    def ids(self) -> str:
        """The prefix of the transactional ids."""
        slot = self.shared_slot
        return self.group if slot is None else f"{self.group}.slot-{slot}"

    def partition(self, slot: int) -> int:
        """Return the partition that a slot writes its positions to."""
        first = crc32(self.group.encode()) % self.partitions
        return first if self.shared else (first + max(0, slot)) % self.partitions


def with_all_partitions(target: Cluster, topic: CommitTopic) -> CommitTopic:
    """Return the commit topic with the partitions that it has now.

    If some are added while runs share the pipeline, a run that starts then writes there. One that
    read only the earlier partitions would copy again what the other one has copied.

    Raises:
        ConnectionFailed, TimedOut: it is not known.
    """
    description = target.find(topic.name)
    # Also what a broker of a ZooKeeper cluster says when it has just started.
    if description is None:
        raise TimedOut(f"topic {safe_text(topic.name)} does not exist on the target")
    return replace(topic, partitions=max(topic.partitions, description.partitions))


@dataclass(frozen=True, slots=True)
class CommitState:
    """A pipeline's committed state: the latest run and the newest position of each partition.

    ``malformed`` counts the records that could not be decoded, ``damaged`` the keys of this
    pipeline whose newest record is one of them. ``registrations`` are by producer id. ``deleted``
    are the source logs that were deleted before all of their records were copied. ``moved`` are the
    topics that no run copies, ``unreadable_moves`` counts the records of others that cannot be
    decoded: while there is one, it is not known what may be copied. ``pipeline_run`` is the newest
    run record of the pipeline, where ``run`` is that of a shared slot.
    """

    run: Run
    positions: Mapping[SourcePartition, Position]
    malformed: int = 0
    damaged: int = 0
    registrations: Mapping[int, ProducerRegistration] = field(default_factory=dict)
    deleted: Mapping[SourcePartition, DeletedLog] = field(default_factory=dict)
    moved: MovedTopics = NO_MOVED_TOPICS
    unreadable_moves: int = 0
    pipeline_run: Run = NO_RUN


class CommitStateFold:
    """Folds the records of a commit topic that belong to one pipeline into its state.

    Args:
        group: ``coordination.commit.group``.
        shared_slot: the shared slot whose run is read; None for the pipeline's.
    """

    def __init__(self, group: str, shared_slot: int | None = None) -> None:
        self._group, self._shared_slot = group, shared_slot
        self._runs: dict[int | None, Run] = {shared_slot: Run(0, 0, shared_slot=shared_slot)}
        self._malformed = 0
        self._damaged: set[tuple[bytes | None, int]] = set()
        # A tombstone applies only to its own commit partition; others have no order relative to it.
        self._positions: dict[tuple[SourcePartition, int], Position] = {}
        self._producers: dict[int, ProducerRegistration] = {}
        self._deleted: dict[SourcePartition, DeletedLog] = {}
        # As for positions, a tombstone applies only to its own commit partition.
        self._moved: dict[tuple[str, int], MovedTopic] = {}

    def take(self, entry: ControlRecord) -> None:
        """Apply a record; records of one commit partition must arrive in order."""
        try:
            group, source, value = read_commit_record(entry.key, entry.value, self._group)
        except MalformedRecord:
            self._malformed += 1
            if self._is_own(entry.key):
                self._damaged.add((entry.key, entry.partition))
            return
        if group != self._group:
            return
        self._damaged.discard((entry.key, entry.partition))
        if isinstance(value, Run):
            before = self._runs.get(value.shared_slot, Run(0, 0))
            # Where the topic has got more partitions, an old record remains in another one.
            self._runs[value.shared_slot] = replace(
                find_newest((before, value)),
                slots=max(before.slots, value.slots),
                most_shared=max(before.most_shared, value.most_shared),
            )
        elif isinstance(value, ProducerRegistration):
            self._producers[value.producer_id] = value
        elif isinstance(value, DeletedLog):
            at = SourcePartition(value.topic, value.partition)
            self._deleted[at] = value.follow(self._deleted.get(at))
        elif isinstance(value, MovedTopic):
            self._moved[value.topic, entry.partition] = value
        elif isinstance(value, ReleasedTopic):
            self._moved.pop((value.topic, entry.partition), None)
        elif source is not None and value is None:
            self._positions.pop((source, entry.partition), None)
        elif source is not None and isinstance(value, Position):
            known = self._positions.get((source, entry.partition))
            if known is None or value.newer_than(known):
                self._positions[source, entry.partition] = value

    def state(self) -> CommitState:
        """Return the state after all applied records."""
        positions: dict[SourcePartition, Position] = {}
        for (source, _), position in self._positions.items():
            if position.newer_than(positions.get(source)):
                positions[source] = position
        # The term must never be lower than one already used, even if the run record was lost; nor
        # than that of another slot, which may have had the same partitions in another layout.
        terms = [run.term for run in self._runs.values()] + [p.term for p in positions.values()]
        run = replace(self._runs[self._shared_slot], term=max(terms))
        return CommitState(
            run,
            positions,
            self._malformed,
            len(self._damaged),
            dict(self._producers),
            dict(self._deleted),
            MovedTopics(sorted(self._moved.values(), key=lambda moved: moved.at_ms)),
            sum(is_moved_key(key) for key, _ in self._damaged),
            self._runs.get(None, NO_RUN),
        )

    def _is_own(self, key: bytes | None) -> bool:
        with suppress(MalformedRecord):
            return read_commit_group(key) == self._group
        return False


def read_commit_state(target: Cluster, topic: CommitTopic, timeout: float) -> CommitState:
    """Read a pipeline's state from the target; needs no running job and changes nothing.

    Raises:
        ConnectionFailed, TimedOut: the topic could not be read within ``timeout`` seconds.
    """
    fold = CommitStateFold(topic.group, topic.shared_slot)
    for entry in read_committed(target, topic.name, topic.partitions, timeout):
        fold.take(entry)
    return fold.state()


def read_log_starts(target: Cluster, topic: CommitTopic) -> dict[int, int]:
    """Return the log start offset of each partition; raises ConnectionFailed, TimedOut."""
    where = [(topic.name, number) for number in range(topic.partitions)]
    starts = require_offsets(target, where, OffsetSpec.earliest())
    return {number: offset for (_, number), offset in starts.items()}


def find_newest(runs: Iterable[Run]) -> Run:
    """Return the run record with the highest term, the last of several; of term 0 without any."""
    newest = Run(0, 0)
    for run in runs:
        if run.term >= newest.term:
            newest = run
    return newest


def read_written_runs(target: Cluster, topic: CommitTopic, timeout: float) -> Iterator[Run]:
    """Yield the run records of a pipeline, and of its shared slot, also those not committed.

    Those of open and aborted transactions are included.

    Raises:
        ConnectionFailed, TimedOut: as ``read_commit_state``.
    """
    for entry in read_written(target, topic.name, topic.partitions, timeout):
        if not may_be_run(entry.key):  # nearly all are positions, and it is read many times
            continue
        with suppress(MalformedRecord):
            group, _, state = read_commit_record(entry.key, entry.value, topic.group)
            if group != topic.group or not isinstance(state, Run):
                continue
            if state.shared_slot in (None, topic.shared_slot):
                yield state


def adopt_positions(
    known: dict[SourcePartition, Position], sources: Iterable[SourcePartition], state: CommitState
) -> None:
    """Update the known positions of some partitions with the target's.

    Raises:
        TimedOut: the target's position is older than one known to be committed.
    """
    for source in sources:
        before, committed = known.get(source), state.positions.get(source)
        if committed is not None and committed.newer_than(before):
            known[source] = committed
        elif before is not None:
            raise TimedOut(f"the position of {source} on the target is older than a committed one")


class CommittedPositions:
    """The newest committed positions of a running pipeline, for its lag; thread-safe.

    The driver gets a position when a lap ends; until then only the commit topic has it.

    Args:
        target: the target cluster.
        topic: the commit topic and the pipeline.

    Attributes:
        deleted: the records of deleted source logs that were written since the first call.
    """

    deleted: Mapping[SourcePartition, DeletedLog] = MappingProxyType({})

    def __init__(self, target: Cluster, topic: CommitTopic) -> None:
        self._target, self._topic = target, topic
        self._reading = SharedReading[CommitState]()
        self._fold = CommitStateFold(topic.group)
        self._next: dict[int, int] = {}

    def read(
        self,
        known: Mapping[SourcePartition, Position],
        since: float | None = None,
        timeout: float = 10.0,
    ) -> dict[SourcePartition, Position]:
        """Return the known positions, updated with those committed since the last call.

        If the topic grows very fast, only its end is read; the known positions cover the rest.

        Args:
            known: positions of the driver.
            since: a reading that began then, in monotonic seconds, is new enough; by default now.
            timeout: seconds.

        Raises:
            ConnectionFailed, TimedOut: the topic could not be read.
        """
        since = monotonic() if since is None else since
        committed = self._reading.get(lambda: self._read_on(timeout), since)
        self.deleted = committed.deleted
        positions = dict(known)
        for source, position in committed.positions.items():
            if source in positions and position.newer_than(positions[source]):
                positions[source] = position
        return positions

    def _read_on(self, timeout: float) -> CommitState:
        name, partitions = self._topic.name, self._topic.partitions
        ends = stable_ends(self._target, name, partitions)
        if self._next:
            since = {p: max(self._next.get(p, 0), end - _MOST_A_READ) for p, end in ends.items()}
            for entry in read_committed(
                self._target, name, partitions, timeout, ends=ends, since=since
            ):
                self._fold.take(entry)
        self._next = dict(ends)
        return self._fold.state()


class CommitStatesReader:
    """Reads the pipelines' states repeatedly; not thread-safe.

    A commit topic holds every position since its last compaction, so reading it completely is
    slow; only the first call does so.

    Args:
        target: the target cluster.
        only: the pipeline (``coordination.commit.group``) whose positions are read; of the others
            only the runs. None reads the positions of all.
    """

    def __init__(self, target: Cluster, only: str | None = None) -> None:
        self._only = only
        self._tail = ControlTail(target)
        self._folds: dict[str, CommitStateFold] = {}
        # What the keys say: there are as many as partitions, and each is written at every commit.
        self._heads: dict[bytes | None, tuple[str, bool] | None] = {}

    def read(self, topic: TopicDescription, timeout: float) -> Mapping[str, CommitState]:
        """Return the current state of each pipeline, by ``coordination.commit.group``.

        Args:
            topic: current description of the commit topic; a re-created topic is read completely.
            timeout: seconds.

        Raises:
            ConnectionFailed, TimedOut: the topic could not be read.
        """
        if self._tail.begin(topic):
            self._folds, self._heads = {}, {}
        for entry in self._tail.records(timeout):
            self._take(entry)
        return {group: fold.state() for group, fold in self._folds.items()}

    def close(self) -> None:
        """Disconnect; what was read is kept."""
        self._tail.close()

    def _take(self, entry: ControlRecord) -> None:
        head = self._heads.get(entry.key)
        if entry.key not in self._heads:
            head = self._heads[entry.key] = _read_head(entry.key)
        if head is None:
            return
        group, has_source = head
        if not has_source or self._only in (None, group):
            self._folds.setdefault(group, CommitStateFold(group)).take(entry)


def _read_head(key: bytes | None) -> tuple[str, bool] | None:
    """Return a key's group, and whether it is of a position; None if it is not k2ktui's."""
    try:
        group, source, _ = read_commit_record(key, None)
    except MalformedRecord:
        return None
    return group, source is not None
