"""Events of a running pipeline, one frozen class each.

Reports are for operators, with the same content on the terminal and in JSON; details are for
metrics.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from k2ktui.engine.records.moved_topic import NO_MOVED_TOPICS, MovedTopics
from k2ktui.engine.records.state import Position, SourcePartition
from k2ktui.engine.status import HeldBack
from k2ktui.replication.copying.slot_task import (
    Fault,
    LapOutcome,
    SlotResult,
    SlotStats,
    SourceLogBounds,
)


@dataclass(frozen=True, slots=True)
class Started:
    """The pipeline has taken over: positions are known and the first lap follows.

    A run that shares a pipeline reports it for each slot that it gets; ``is_more`` marks all but
    the first. ``slots`` and ``partitions`` are those that it has then, ``seconds`` passed since the
    request to run, or since it got the slot.
    """

    pipeline: str
    term: int
    slots: int
    partitions: int
    seconds: float
    is_more: bool = False


@dataclass(frozen=True, slots=True)
class Progress:
    """Work of all slots since the last progress report, about one lap each.

    ``lag_records`` is that of the last ``TopicsDiscovered``. ``pause_s`` is the longest time a slot
    was idle between two laps, ``cpu_s`` the CPU time of the workers.
    """

    lap: int
    seconds: float
    records: int
    written_bytes: int
    rebuilt: int
    transactions: int
    commit_s: float
    cpu_s: float
    pause_s: float
    partitions: int
    stopped: int
    lag_records: int | None


@dataclass(frozen=True, slots=True)
class FirstRecord:
    """The first transaction of this run is visible, ``seconds`` after the run was requested."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Stopped:
    """A partition stopped."""

    fault: Fault


@dataclass(frozen=True, slots=True)
class Resumed:
    """A stopped partition is copied again."""

    topic: str
    partition: int


@dataclass(frozen=True, slots=True)
class Waiting:
    """The run is a standby and waits for others: which ones, safe to print."""

    runs: str


@dataclass(frozen=True, slots=True)
class Note:
    """Information for the operator; the pipeline continues."""

    text: str


@dataclass(frozen=True, slots=True)
class Finished:
    """The run has ended: whether every partition reached its end, and why others stopped."""

    caught_up: bool
    records: int
    seconds: float
    faults: tuple[Fault, ...]


@dataclass(frozen=True, slots=True)
class SlotLap:
    """A slot ended a lap.

    Attributes:
        slot: slot number.
        outcome: how the lap ended.
        seconds: duration of the lap, None if its worker reported nothing.
        pause_s: seconds between the end of the slot's previous lap and the start of this one, None
            for the first lap.
        stats: work done in the lap.
        positions: confirmed positions; empty unless the outcome is DONE.
        log_bounds: bounds of the fetched source logs at the end of the lap; empty unless DONE.
    """

    slot: int
    outcome: LapOutcome
    seconds: float | None = None
    pause_s: float | None = None
    stats: SlotStats = field(default_factory=SlotStats)
    positions: Mapping[SourcePartition, Position] = field(default_factory=dict)
    log_bounds: Mapping[SourcePartition, SourceLogBounds] = field(default_factory=dict)

    @classmethod
    def of(cls, slot: int, ended_before: float, result: SlotResult | None) -> SlotLap:
        """Return the event for a lap.

        Args:
            slot: slot number.
            ended_before: end of the slot's previous lap, epoch seconds; 0 if there was none.
            result: the worker's result; None or without times if the worker did not start.
        """
        if result is None or not result.began_at:
            return cls(slot, LapOutcome.FAILED)
        done = result.outcome is LapOutcome.DONE
        return cls(
            slot=slot,
            outcome=result.outcome,
            seconds=result.ended_at - result.began_at,
            pause_s=result.began_at - ended_before if ended_before else None,
            stats=result.stats,
            positions=result.positions if done else {},
            log_bounds=result.log_bounds if done else {},
        )


@dataclass(frozen=True, slots=True)
class TopicsDiscovered:
    """Topic discovery has read both clusters: copyable partitions, positions and log ends.

    ``ends`` are last stable offsets; a partition without a leader has none. ``held_back`` is what
    open transactions hold back above them. ``positions`` are those of the last ended laps;
    ``lag_records`` counts from the positions that were committed when the ends were read, None if
    unknown, and leaves out the partitions that operators hold (``held``). ``starts`` are the log
    start offsets of these. ``moved`` are source topics that drills moved to the target.
    """

    partitions: Collection[SourcePartition]
    positions: Mapping[SourcePartition, Position]
    ends: Mapping[SourcePartition, int]
    held_back: Mapping[SourcePartition, HeldBack] = field(default_factory=dict)
    lag_records: int | None = None
    held: Collection[SourcePartition] = frozenset()
    starts: Mapping[SourcePartition, int] = field(default_factory=dict)
    moved: MovedTopics = NO_MOVED_TOPICS


@dataclass(frozen=True, slots=True)
class HeartbeatWritten:
    """The run has written a heartbeat to the target."""


@dataclass(frozen=True, slots=True)
class SlotsAssigned:
    """The owners of the slots that runs share have changed.

    Attributes:
        generation: number of this generation of owners.
        slots: the slots that this run owns.
    """

    generation: int
    slots: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class PartitionsReleased:
    """The run copies these partitions no longer.

    It has released their shared slot to another run, or their source topic was deleted.
    """

    partitions: Collection[SourcePartition]


@dataclass(frozen=True, slots=True)
class Trouble:
    """What keeps records of a subject from being copied now; "" when it is over.

    ``blocks`` is False for what should be mended, and keeps none from being copied.
    """

    subject: str
    text: str
    blocks: bool = True


@dataclass(frozen=True, slots=True)
class Rehearsed:
    """The last rehearsal of a failover: its end in epoch seconds, and what it found.

    ``missed`` is the number of objectives of the file that it did not meet.
    """

    at: float
    findings: int
    rpo_records: int | None
    rpo_s: float | None
    rto_s: float
    missed: int = 0


@dataclass(frozen=True, slots=True)
class PairSeen:
    """Where the workload is, or goes, by the drills on the target: ``replicating`` and so on."""

    phase: str


@dataclass(frozen=True, slots=True)
class MappingsExpire:
    """When the first mapping that a consumer group needs expires, unless it is written again.

    ``at`` is in epoch seconds; None if none is needed or expires, or if it is not known.
    """

    at: float | None


Report = Waiting | Started | Progress | FirstRecord | Stopped | Resumed | Note | Finished
Sharing = SlotsAssigned | PartitionsReleased
Beside = HeartbeatWritten | Rehearsed | PairSeen | MappingsExpire
Detail = SlotLap | TopicsDiscovered | Sharing | Trouble | Beside
Event = Report | Detail
