"""Metrics of a running pipeline: fed by the driver's events, read by any number of exporters.

The catalog and the figures do not depend on OpenTelemetry; ``exporters`` creates the instruments.
docs/metrics.md explains every metric.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from k2ktui.engine.drill.objectives import NO_OBJECTIVES, Objectives
from k2ktui.engine.records.moved_topic import NO_MOVED_TOPICS
from k2ktui.engine.records.state import SourcePartition
from k2ktui.replication.copying.slot_task import FaultKind, LapOutcome, SlotStats
from k2ktui.replication.reports.events import (
    Event,
    FirstRecord,
    HeartbeatWritten,
    MappingsExpire,
    PairSeen,
    PartitionsReleased,
    Rehearsed,
    Resumed,
    SlotLap,
    SlotsAssigned,
    Started,
    Stopped,
    TopicsDiscovered,
)
from k2ktui.replication.telemetry.metric import Labels, Metric, Points
from k2ktui.replication.telemetry.partition_figures import (
    PartitionFigures,
    age,
    end_offset,
    held_lag,
    lag,
    lag_time,
    start_offset,
)

# A lap's figures count as current for two laps plus this long after its end.
_GRACE_S = 10.0


@dataclass(slots=True)
class _SlotFigures:
    """Figures of one slot; ``stats`` is the sum of all its laps."""

    stats: SlotStats = field(default_factory=SlotStats)
    laps: Counter[LapOutcome] = field(default_factory=Counter)
    seconds: float | None = None
    pause_s: float | None = None


class PipelineMetrics:
    """The latest figures of one pipeline; any thread may feed or read them.

    Args:
        pipeline: its name, a label of every point.
        lap_s: length of a lap in seconds.
        clock: epoch seconds.
        objectives: what a failover may cost at most.
    """

    def __init__(
        self,
        pipeline: str,
        lap_s: float,
        clock: Callable[[], float] = time.time,
        objectives: Objectives = NO_OBJECTIVES,
    ) -> None:
        self._objectives = objectives
        self._labels: dict[str, str | int] = {"pipeline": pipeline}
        self._current_s = 2 * lap_s + _GRACE_S
        self._clock = clock
        self._lock = threading.Lock()
        self._rows: dict[SourcePartition, PartitionFigures] = {}
        self._slots: dict[int, _SlotFigures] = {}
        self._faults: Counter[FaultKind] = Counter()
        self._started: Started | None = None
        self._shares = False
        self._first: FirstRecord | None = None
        self._rehearsed: Rehearsed | None = None
        self._pair: PairSeen | None = None
        self._mappings_expire_at: float | None = None
        self._partitions: int | None = None
        self._moved = NO_MOVED_TOPICS
        self._alive_at = clock()

    @property
    def catalog(self) -> tuple[Metric, ...]:
        """The metrics of a replicating pipeline."""
        return CATALOG

    def feed(self, event: Event) -> None:  # noqa: C901, PLR0912 - a case for each event
        """Update the figures from one event; events without figures are ignored."""
        with self._lock:
            match event:
                case Started():
                    self._started = event
                    if not self._shares:
                        self._add_slots(range(event.slots))
                case SlotsAssigned():
                    self._shares = True
                    self._add_slots(event.slots)
                    if self._started is not None:
                        self._started = replace(self._started, slots=len(event.slots))
                case PartitionsReleased():
                    for source in event.partitions:
                        self._rows.pop(source, None)
                case FirstRecord():
                    self._first = event
                case Rehearsed():
                    self._rehearsed = event
                case PairSeen():
                    self._pair = event
                case MappingsExpire():
                    self._mappings_expire_at = event.at
                case HeartbeatWritten():
                    self._alive_at = self._clock()
                case TopicsDiscovered():
                    self._add_discovery(event)
                case SlotLap():
                    self._lap(event)
                case Stopped():
                    self._faults[event.fault.kind] += 1
                    self._row(event.fault.source).fault = event.fault.kind
                case Resumed():
                    self._row(SourcePartition(event.topic, event.partition)).fault = None
                case _:
                    pass

    def _row(self, source: SourcePartition) -> PartitionFigures:
        row = self._rows.get(source)
        if row is None:
            where: Labels = {"topic": source.topic, "partition": source.partition}
            row = self._rows[source] = PartitionFigures({**self._labels, **where})
        return row

    def _add_slots(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            self._slots.setdefault(number, _SlotFigures())

    def _add_discovery(self, discovery: TopicsDiscovered) -> None:
        self._partitions, self._moved = len(discovery.partitions), discovery.moved
        for source in discovery.partitions:
            row = self._row(source)
            row.discovered_end = discovery.ends.get(source, row.discovered_end)
            if source in discovery.ends:
                held = discovery.held_back.get(source)
                row.held_back = held.records if held else 0
            row.is_held = source in discovery.held
            row.discovered_start = discovery.starts.get(source, row.discovered_start)
            position = discovery.positions.get(source)
            if position is not None:
                row.move(position)
        gone = [
            source
            for source, row in self._rows.items()
            if source not in discovery.partitions
            and (not row.fault or source.topic in discovery.moved)
        ]
        for source in gone:
            del self._rows[source]

    def _lap(self, lap: SlotLap) -> None:
        slot = self._slots.setdefault(lap.slot, _SlotFigures())
        slot.stats = slot.stats.plus(lap.stats)
        slot.laps[lap.outcome] += 1
        slot.seconds = lap.seconds
        slot.pause_s = lap.pause_s
        now = self._clock()
        for source, position in lap.positions.items():
            row = self._row(source)
            row.move(position)
            row.log_bounds, row.at = lap.log_bounds.get(source), now

    def rows(self, read: Callable[[PartitionFigures, float, bool], float | None]) -> Points:
        """Return one point per partition whose figure is known.

        ``read`` gets the row, the time, and whether the figures of the last lap are still current.
        """
        with self._lock:
            now = self._clock()
            points: Points = []
            for row in self._rows.values():
                recent = row.at is not None and now - row.at <= self._current_s
                is_copied = row.fault is None and not row.is_held
                value = read(row, now, recent and is_copied and row.log_bounds is not None)
                if value is not None:
                    points.append((value, row.labels))
            return points

    def stopped_rows(self) -> Points:
        """Return a 1 for every stopped partition, labeled with the kind of its fault."""
        with self._lock:
            rows = [row for row in self._rows.values() if row.fault is not None]
            return [(1, {**row.labels, "kind": str(row.fault)}) for row in rows]

    def moved_topics(self) -> Points:
        """Return a 1 for every topic that was moved to the target, labeled with the drill."""
        with self._lock:
            moves = self._moved.all
        return [(1, {**self._labels, "topic": move.topic, "drill": move.drill}) for move in moves]

    def by_slot(self, read: Callable[[_SlotFigures], float | None]) -> Points:
        """Return one point per slot whose figure is known."""
        with self._lock:
            known = [(read(slot), number) for number, slot in sorted(self._slots.items())]
        return [(v, self._labels | {"slot": number}) for v, number in known if v is not None]

    def laps(self) -> Points:
        """Return the number of laps of every slot by outcome."""
        with self._lock:
            return [
                (slot.laps[outcome], self._labels | {"slot": number, "outcome": str(outcome)})
                for number, slot in sorted(self._slots.items())
                for outcome in LapOutcome
            ]

    def faults(self) -> Points:
        """Return how often a partition stopped, by kind of fault, including zeros."""
        with self._lock:
            return [(self._faults[kind], self._labels | {"kind": str(kind)}) for kind in FaultKind]

    def stopped(self) -> Points:
        """Return the number of partitions stopped now, by kind of fault."""
        with self._lock:
            now = Counter(row.fault for row in self._rows.values())
        return [(now[kind], self._labels | {"kind": str(kind)}) for kind in FaultKind]

    def partitions(self) -> Points:
        """Return the number of partitions that can be copied."""
        return self._one(self._partitions)

    def started(self, read: Callable[[Started], float]) -> Points:
        """Return one figure of the start; nothing before it."""
        return self._one(None if self._started is None else read(self._started))

    def first_record(self) -> Points:
        """Return the seconds until the first record was visible; nothing before that."""
        return self._one(None if self._first is None else self._first.seconds)

    def heartbeat_age(self) -> Points:
        """Return the seconds since the last heartbeat, or since the start if there was none."""
        return self._one(max(0.0, self._clock() - self._alive_at))

    def mappings_life(self) -> Points:
        """Return the seconds until a mapping that a group needs expires; nothing if unknown."""
        at = self._mappings_expire_at
        return self._one(None if at is None else at - self._clock())

    def rehearsal(self, read: Callable[[Rehearsed, float], float | None]) -> Points:
        """Return one point of the last rehearsal; nothing if none is known."""
        last = self._rehearsed
        return self._one(None if last is None else read(last, self._clock()))

    def objective(self, read: Callable[[Objectives], float | None]) -> Points:
        """Return one point of an objective; nothing if the file has none."""
        return self._one(read(self._objectives))

    def pair_state(self) -> Points:
        """Return 1 with the state of the pair as label; nothing before it is known."""
        return [] if self._pair is None else [(1, {**self._labels, "state": self._pair.phase})]

    def _one(self, value: float | None) -> Points:
        return [] if value is None else [(value, self._labels)]


def _partition(
    name: str, unit: str, text: str, read: Callable[[PartitionFigures, float, bool], float | None]
) -> Metric:
    return Metric("source_consumer", name, unit, text, lambda figures: figures.rows(read))


def _written(name: str, unit: str, text: str, read: Callable[[SlotStats], float]) -> Metric:
    def points(figures: PipelineMetrics) -> Points:
        return figures.by_slot(lambda slot: read(slot.stats))

    return Metric("target_producer", name, unit, text, points, counter=True)


def _pipeline(
    name: str,
    unit: str,
    text: str,
    read: Callable[[PipelineMetrics], Points],
    *,
    counter: bool = False,
) -> Metric:
    return Metric("assignment", name, unit, text, read, counter)


def _rehearsal(
    name: str, unit: str, text: str, read: Callable[[Rehearsed, float], float | None]
) -> Metric:
    return _pipeline(name, unit, text, lambda figures: figures.rehearsal(read))


def _objective(
    name: str, unit: str, text: str, read: Callable[[Objectives], float | None]
) -> Metric:
    return _pipeline(name, unit, text, lambda figures: figures.objective(read))


CATALOG: tuple[Metric, ...] = (
    _partition(
        "position",
        "{offset}",
        "Next source offset to copy, as committed on the target",
        lambda row, now, current: row.position,
    ),
    _partition("start", "{offset}", "Log start offset of the source partition", start_offset),
    _partition("end", "{offset}", "Last stable offset of the source partition", end_offset),
    _partition("lag", "{record}", "Source offsets between position and end", lag),
    _partition("lag.time", "s", "Age of the record at the position; 0 with no lag", lag_time),
    _partition(
        "held.back",
        "{record}",
        "Source offsets between the last stable offset and the high watermark",
        lambda row, now, current: row.held_back,
    ),
    _partition(
        "held.lag",
        "{record}",
        "Source offsets between position and end of a partition that an operator holds",
        held_lag,
    ),
    _partition("age", "s", "Time since the position was last confirmed by a lap", age),
    _partition(
        "lost",
        "{offset}",
        "Source offsets skipped because their records no longer existed; absent if there are none",
        lambda row, now, current: row.lost or None,
    ),
    Metric(
        "source_consumer",
        "stopped",
        "{partition}",
        "1 for a partition that is stopped, by kind of fault",
        PipelineMetrics.stopped_rows,
    ),
    Metric(
        "source_consumer",
        "moved",
        "{topic}",
        "1 for a topic that a drill moved to the target",
        PipelineMetrics.moved_topics,
    ),
    _written("records", "{record}", "Records committed on the target", lambda t: t.records),
    _written("bytes", "By", "Bytes of record batches committed", lambda t: t.written_bytes),
    _written("batches", "{batch}", "Record batches committed", lambda t: t.batches),
    _written(
        "rebuilt.batches",
        "{batch}",
        "Record batches committed that could not be copied unchanged",
        lambda t: t.rebuilt,
    ),
    _written("transactions", "{transaction}", "Committed transactions", lambda t: t.transactions),
    _written(
        "commit.time",
        "s",
        "Time spent writing positions and mapping ranges and committing",
        lambda t: t.commit_s,
    ),
    _pipeline(
        "term", "{run}", "Number of this run", lambda figures: figures.started(lambda s: s.term)
    ),
    _pipeline(
        "slots", "{slot}", "Slots of this run", lambda figures: figures.started(lambda s: s.slots)
    ),
    _pipeline(
        "heartbeat.age",
        "s",
        "Time since the last heartbeat was written to the target",
        PipelineMetrics.heartbeat_age,
    ),
    _pipeline(
        "ready.time",
        "s",
        "Time from start until positions were known",
        lambda figures: figures.started(lambda s: s.seconds),
    ),
    _pipeline(
        "first.record.time",
        "s",
        "Time from start until the first record was visible on the target",
        PipelineMetrics.first_record,
    ),
    _pipeline(
        "partitions",
        "{partition}",
        "Source partitions that can be copied",
        PipelineMetrics.partitions,
    ),
    _pipeline(
        "partitions.stopped",
        "{partition}",
        "Source partitions that are stopped now, by kind of fault",
        PipelineMetrics.stopped,
    ),
    _pipeline(
        "faults",
        "{fault}",
        "Times a partition stopped, by kind of fault",
        PipelineMetrics.faults,
        counter=True,
    ),
    _pipeline("laps", "{lap}", "Laps by outcome", PipelineMetrics.laps, counter=True),
    _pipeline(
        "lap.time",
        "s",
        "Length of a slot's last lap",
        lambda figures: figures.by_slot(lambda slot: slot.seconds),
    ),
    _pipeline(
        "lap.pause",
        "s",
        "Idle time of a slot before its last lap",
        lambda figures: figures.by_slot(lambda slot: slot.pause_s),
    ),
    _pipeline(
        "cpu.time",
        "s",
        "CPU time of the workers",
        lambda figures: figures.by_slot(lambda slot: slot.stats.cpu_s),
        counter=True,
    ),
    _pipeline(
        "mappings.life",
        "s",
        "Time until the first mapping that a consumer group needs expires; absent if unknown",
        PipelineMetrics.mappings_life,
    ),
    _pipeline(
        "pair.state",
        "1",
        "Where the workload is, or goes, by the drills on the target; always 1",
        PipelineMetrics.pair_state,
    ),
    # Of the last rehearsal (docs/drills.md).
    _rehearsal(
        "drill.rehearsal.age",
        "s",
        "Time since the last rehearsal of a failover; absent if there was none",
        lambda last, now: max(0.0, now - last.at),
    ),
    _rehearsal(
        "drill.findings",
        "{finding}",
        "What would have stopped a failover at the last rehearsal",
        lambda last, now: last.findings,
    ),
    _rehearsal(
        "drill.rpo.records",
        "{record}",
        "Records not copied at the last rehearsal",
        lambda last, now: last.rpo_records,
    ),
    _rehearsal(
        "drill.rpo.time",
        "s",
        "Age of the oldest record not copied at the last rehearsal",
        lambda last, now: last.rpo_s,
    ),
    _rehearsal(
        "drill.rto.time",
        "s",
        "Time that the tool needed at the last rehearsal",
        lambda last, now: last.rto_s,
    ),
    _rehearsal(
        "drill.objectives.missed",
        "{objective}",
        "Objectives that the last rehearsal missed",
        lambda last, now: last.missed,
    ),
    _objective(
        "drill.objective.rpo.records",
        "{record}",
        "Largest number of records that a failover may lose; absent without this objective",
        lambda objectives: objectives.rpo_records,
    ),
    _objective(
        "drill.objective.rpo.time",
        "s",
        "Largest age of a record that a failover may lose; absent without this objective",
        lambda objectives: objectives.rpo_s,
    ),
    _objective(
        "drill.objective.rto.time",
        "s",
        "Longest duration of a failover; absent without this objective",
        lambda objectives: objectives.rto_s,
    ),
)
