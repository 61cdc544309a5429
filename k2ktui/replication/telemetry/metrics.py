"""Metrics of a running pipeline: a table of what any number of exporters read from its status.

The table does not depend on OpenTelemetry; ``exporters`` creates the instruments. docs/metrics.md
explains every metric.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from k2ktui.engine.drill.objectives import NO_OBJECTIVES, Objectives
from k2ktui.engine.records.gaps import lost_gaps
from k2ktui.engine.status import count_lag
from k2ktui.replication.copying.slot_task import FaultKind, LapOutcome
from k2ktui.replication.reports.events import Rehearsed
from k2ktui.replication.reports.status import (
    PartitionFigures,
    RunStatus,
    SlotFigures,
)
from k2ktui.replication.telemetry.metric import Labels, Metric, Points

# A lap's figures count as current for two laps plus this long after its end.
_GRACE_S = 10.0


@dataclass(frozen=True, slots=True)
class PipelineFigures:
    """What the metrics of a pipeline read.

    Attributes:
        status: that of the run.
        lap_s: length of a lap in seconds.
        objectives: what a failover may cost at most.
    """

    status: RunStatus
    lap_s: float
    objectives: Objectives = NO_OBJECTIVES


@dataclass(frozen=True, slots=True)
class _Row:
    """A source partition now; ``is_current`` says whether the figures of its last lap count."""

    figures: PartitionFigures
    now: float
    is_current: bool

    @property
    def position(self) -> int | None:
        return self.figures.position.offset if self.figures.position else None

    @property
    def start(self) -> int | None:
        if self.figures.is_held:  # it has no laps
            return self.figures.start
        bounds = self.figures.log_bounds if self.is_current else None
        return bounds.start if bounds and bounds.start >= 0 else None

    @property
    def end(self) -> int | None:
        """The end that matches the position.

        The end from the last lap is of the same moment as the position; with a later end, records
        copied since would count as lag. A stopped partition has no current lap.
        """
        bounds = self.figures.log_bounds
        if bounds is not None and (self.is_current or self.figures.end is None):
            return bounds.end
        return self.figures.end

    @property
    def behind(self) -> int | None:
        return count_lag(self.position, self.end)

    @property
    def lag(self) -> int | None:
        return None if self.figures.is_held else self.behind

    @property
    def lag_s(self) -> float | None:
        """Seconds since the record at the position was written."""
        lag, bounds, at = self.lag, self.figures.log_bounds, self.figures.at
        if not lag:
            return lag
        if bounds is None or bounds.next_ms < 0 or at is None:
            return None
        return max(0.0, (at if self.is_current else self.now) - bounds.next_ms / 1000)

    @property
    def age_s(self) -> float | None:
        at = None if self.figures.is_held else self.figures.at
        return None if at is None else max(0.0, self.now - at)

    @property
    def lost(self) -> int | None:
        gaps = self.figures.position.gaps if self.figures.position else ()
        return sum(gap.end - gap.first for gap in lost_gaps(gaps)) or None


# What a metric reads: values with the labels that a point has beside the pipeline. Unknown ones
# have no point.
_Values = Iterable[tuple[float | None, Labels]]


def _read(read: Callable[[PipelineFigures], _Values]) -> Callable[[PipelineFigures], Points]:
    def points(figures: PipelineFigures) -> Points:
        with figures.status.lock:
            pipeline: Labels = {"pipeline": figures.status.pipeline}
            return [
                (value, {**pipeline, **labels})
                for value, labels in read(figures)
                if value is not None
            ]

    return points


def _one(read: Callable[[PipelineFigures], float | None]) -> Callable[[PipelineFigures], Points]:
    return _read(lambda figures: [(read(figures), {})])


def _of_rehearsal(
    read: Callable[[Rehearsed, float], float | None],
) -> Callable[[PipelineFigures], Points]:
    def value(figures: PipelineFigures) -> float | None:
        last = figures.status.rehearsed
        return None if last is None else read(last, figures.status.clock())

    return _one(value)


def _by_slot(read: Callable[[SlotFigures], float | None]) -> Callable[[PipelineFigures], Points]:
    return _read(
        lambda figures: (
            (read(slot), {"slot": number}) for number, slot in sorted(figures.status.slots.items())
        )
    )


def _by_partition(read: Callable[[_Row], float | None]) -> Callable[[PipelineFigures], Points]:
    def points(figures: PipelineFigures) -> Points:
        with figures.status.lock:
            known = ((read(row), row.figures.labels) for row in _rows(figures))
            return [(value, labels) for value, labels in known if value is not None]

    return points


def _rows(figures: PipelineFigures) -> Iterator[_Row]:
    now = figures.status.clock()
    longest_s = 2 * figures.lap_s + _GRACE_S
    for driver in figures.status.drivers.values():
        stopped = driver.stopped.kinds()
        for source, row in driver.partitions.items():
            is_copied = source not in stopped and not row.is_held
            is_recent = row.at is not None and now - row.at <= longest_s
            yield _Row(row, now, is_recent and is_copied and row.log_bounds is not None)


def _stopped(figures: PipelineFigures) -> _Values:
    for driver in figures.status.drivers.values():
        for at, kind in driver.stopped.kinds().items():
            yield 1, {"topic": at.topic, "partition": at.partition, "kind": str(kind)}


def _stopped_by_kind(figures: PipelineFigures) -> _Values:
    drivers = figures.status.drivers.values()
    now = Counter(kind for driver in drivers for kind in driver.stopped.kinds().values())
    return ((now[kind], {"kind": str(kind)}) for kind in FaultKind)


def _faults(figures: PipelineFigures) -> _Values:
    return ((figures.status.faults_seen[kind], {"kind": str(kind)}) for kind in FaultKind)


def _moved(figures: PipelineFigures) -> _Values:
    moved = {move for driver in figures.status.drivers.values() for move in driver.moved.all}
    return ((1, {"topic": move.topic, "drill": move.drill}) for move in moved)


def _laps(figures: PipelineFigures) -> _Values:
    for number, slot in sorted(figures.status.slots.items()):
        for outcome in LapOutcome:
            yield slot.laps[outcome], {"slot": number, "outcome": str(outcome)}


def _pair_state(figures: PipelineFigures) -> _Values:
    state = figures.status.pair_state
    return [(1, {"state": state})] if state else []


def _mappings_life(figures: PipelineFigures) -> float | None:
    at = figures.status.mappings_expire_at
    return None if at is None else at - figures.status.clock()


_SOURCE, _TARGET, _RUN = "source_consumer", "target_producer", "assignment"
_PARTITION, _SLOT = ("topic", "partition"), ("slot",)

CATALOG: tuple[Metric, ...] = (
    Metric(_SOURCE, "position", "{offset}",
           "Next source offset to copy, as committed on the target",
           _by_partition(lambda row: row.position), labels=_PARTITION),
    Metric(_SOURCE, "start", "{offset}", "Log start offset of the source partition",
           _by_partition(lambda row: row.start), labels=_PARTITION),
    Metric(_SOURCE, "end", "{offset}", "Last stable offset of the source partition",
           _by_partition(lambda row: row.end), labels=_PARTITION),
    Metric(_SOURCE, "lag", "{record}",
           "Source offsets between position and end, both of one moment",
           _by_partition(lambda row: row.lag), labels=_PARTITION),
    Metric(_SOURCE, "lag.time", "s", "Age of the record at the position; 0 with no lag",
           _by_partition(lambda row: row.lag_s), labels=_PARTITION),
    Metric(_SOURCE, "held.back", "{record}",
           "Source offsets between the last stable offset and the high watermark",
           _by_partition(lambda row: row.figures.held_back), labels=_PARTITION),
    Metric(_SOURCE, "held.lag", "{record}",
           "Source offsets between position and end of a partition that an operator holds; absent "
           "otherwise",
           _by_partition(lambda row: row.behind if row.figures.is_held else None),
           labels=_PARTITION),
    Metric(_SOURCE, "age", "s", "Time since the position was last confirmed by a lap",
           _by_partition(lambda row: row.age_s), labels=_PARTITION),
    Metric(_SOURCE, "lost", "{offset}",
           "Source offsets skipped because their records no longer existed; absent if there are "
           "none",
           _by_partition(lambda row: row.lost), labels=_PARTITION),
    Metric(_SOURCE, "stopped", "{partition}",
           "1 for a partition that is stopped, by kind of fault; absent otherwise",
           _read(_stopped), labels=(*_PARTITION, "kind")),
    Metric(_SOURCE, "moved", "{topic}",
           "1 for a topic that a drill moved to the target; absent otherwise",
           _read(_moved), labels=("topic", "drill")),
    Metric(_TARGET, "records", "{record}", "Records committed on the target",
           _by_slot(lambda slot: slot.stats.records), counter=True, labels=_SLOT),
    Metric(_TARGET, "bytes", "By",
           "Compressed bytes of record batches committed, with positions and mappings",
           _by_slot(lambda slot: slot.stats.written_bytes), counter=True, labels=_SLOT),
    Metric(_TARGET, "batches", "{batch}", "Record batches committed",
           _by_slot(lambda slot: slot.stats.batches), counter=True, labels=_SLOT),
    Metric(_TARGET, "rebuilt.batches", "{batch}",
           "Record batches committed that could not be copied unchanged",
           _by_slot(lambda slot: slot.stats.rebuilt), counter=True, labels=_SLOT),
    Metric(_TARGET, "transactions", "{transaction}", "Committed transactions",
           _by_slot(lambda slot: slot.stats.transactions), counter=True, labels=_SLOT),
    Metric(_TARGET, "commit.time", "s",
           "Time spent writing positions and mapping ranges and committing",
           _by_slot(lambda slot: slot.stats.commit_s), counter=True, labels=_SLOT),
    Metric(_RUN, "term", "{run}", "Number of this run",
           _one(lambda figures: figures.status.term or None)),
    Metric(_RUN, "slots", "{slot}", "Slots of this run",
           _one(lambda figures: figures.status.slots_owned)),
    Metric(_RUN, "heartbeat.age", "s", "Time since the last heartbeat was written to the target",
           _one(lambda figures: figures.status.silent_s)),
    Metric(_RUN, "ready.time", "s", "Time from start until positions were known",
           _one(lambda figures: figures.status.ready_s)),
    Metric(_RUN, "first.record.time", "s",
           "Time from start until the first record was visible on the target",
           _one(lambda figures: figures.status.first_s)),
    Metric(_RUN, "partitions", "{partition}", "Source partitions that can be copied",
           _one(lambda figures: figures.status.partitions)),
    Metric(_RUN, "partitions.stopped", "{partition}",
           "Source partitions that are stopped now, by kind of fault", _read(_stopped_by_kind),
           labels=("kind",)),
    Metric(_RUN, "faults", "{fault}", "Times a partition stopped, by kind of fault", _read(_faults),
           counter=True, labels=("kind",)),
    Metric(_RUN, "laps", "{lap}", "Laps by outcome", _read(_laps), counter=True,
           labels=(*_SLOT, "outcome")),
    Metric(_RUN, "lap.time", "s", "Length of a slot's last lap",
           _by_slot(lambda slot: slot.seconds), labels=_SLOT),
    Metric(_RUN, "lap.pause", "s", "Idle time of a slot before its last lap",
           _by_slot(lambda slot: slot.pause_s), labels=_SLOT),
    Metric(_RUN, "cpu.time", "s", "CPU time of the workers",
           _by_slot(lambda slot: slot.stats.cpu_s), counter=True, labels=_SLOT),
    Metric(_RUN, "mappings.life", "s",
           "Time until the first mapping that a consumer group needs expires; absent if unknown",
           _one(_mappings_life)),
    Metric(_RUN, "pair.state", "1",
           "Where the workload is, or goes, by the drills on the target; always 1",
           _read(_pair_state), labels=("state",)),
    # Of the last rehearsal, and the objectives of the file (docs/drills.md).
    Metric(_RUN, "drill.rehearsal.age", "s",
           "Time since the last rehearsal of a failover; absent if there was none",
           _of_rehearsal(lambda last, now: max(0.0, now - last.at))),
    Metric(_RUN, "drill.findings", "{finding}",
           "What would have stopped a failover at the last rehearsal",
           _of_rehearsal(lambda last, now: last.findings)),
    Metric(_RUN, "drill.rpo.records", "{record}", "Records not copied at the last rehearsal",
           _of_rehearsal(lambda last, now: last.rpo_records)),
    Metric(_RUN, "drill.rpo.time", "s", "Age of the oldest record not copied at the last rehearsal",
           _of_rehearsal(lambda last, now: last.rpo_s)),
    Metric(_RUN, "drill.rto.time", "s", "Time that the tool needed at the last rehearsal",
           _of_rehearsal(lambda last, now: last.rto_s)),
    Metric(_RUN, "drill.objectives.missed", "{objective}",
           "Objectives that the last rehearsal missed",
           _of_rehearsal(lambda last, now: last.missed)),
    Metric(_RUN, "drill.objective.rpo.records", "{record}",
           "Largest number of records that a failover may lose; absent without this objective",
           _one(lambda figures: figures.objectives.rpo_records)),
    Metric(_RUN, "drill.objective.rpo.time", "s",
           "Largest age of a record that a failover may lose; absent without this objective",
           _one(lambda figures: figures.objectives.rpo_s)),
    Metric(_RUN, "drill.objective.rto.time", "s",
           "Longest duration of a failover; absent without this objective",
           _one(lambda figures: figures.objectives.rto_s)),
)  # fmt: skip
