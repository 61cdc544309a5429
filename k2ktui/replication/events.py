"""What a running pipeline tells: one frozen value an event.

Reports are for people, the same for terminal and JSON; details are for metrics.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from k2ktui.engine.state import Position, SourcePartition
from k2ktui.engine.status import HeldBack
from k2ktui.replication.slot_task import Fault, LapOutcome, SlotResult, SlotStats, SourceLogBounds


@dataclass(frozen=True, slots=True)
class Started:
    """The pipeline took over: positions are known, the first lap follows."""

    pipeline: str
    term: int
    slots: int
    partitions: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Progress:
    """One lap's worth of work over all slots.

    ``lag_records`` is that of the last ``TopicsDiscovered``. ``pause_s`` is the longest time a slot
    stood still between two laps, ``cpu_s`` the CPU time of the workers.
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
    """The first transaction of this run is visible on the target."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Stopped:
    """A partition stopped."""

    fault: Fault


@dataclass(frozen=True, slots=True)
class Resumed:
    """A partition that had stopped goes on."""

    topic: str
    partition: int


@dataclass(frozen=True, slots=True)
class Note:
    """Something an operator may want to know; the pipeline goes on."""

    text: str


@dataclass(frozen=True, slots=True)
class Finished:
    """The run's end: whether every partition reached its end, and those that stopped."""

    caught_up: bool
    records: int
    seconds: float
    faults: tuple[Fault, ...]


@dataclass(frozen=True, slots=True)
class SlotLap:
    """A slot ended a lap.

    Attributes:
        seconds: its length, None if its worker told nothing.
        pause_s: seconds since the slot's lap before ended, None for its first.
        positions: those it confirmed; empty unless it is done.
        seen: bounds of the source logs it fetched from, at its end.
    """

    slot: int
    outcome: LapOutcome
    seconds: float | None = None
    pause_s: float | None = None
    tally: SlotStats = field(default_factory=SlotStats)
    positions: Mapping[SourcePartition, Position] = field(default_factory=dict)
    seen: Mapping[SourcePartition, SourceLogBounds] = field(default_factory=dict)

    @classmethod
    def of(cls, slot: int, ended_before: float, result: SlotResult | None) -> SlotLap:
        """Return what is told of a lap.

        Args:
            slot: its number.
            ended_before: when the slot's lap before ended, epoch seconds; 0 for none.
            result: None, or without times, if the worker did not get to work.
        """
        if result is None or not result.began_at:
            return cls(slot, LapOutcome.FAILED)
        done = result.outcome is LapOutcome.DONE
        return cls(
            slot=slot,
            outcome=result.outcome,
            seconds=result.ended_at - result.began_at,
            pause_s=result.began_at - ended_before if ended_before else None,
            tally=result.tally,
            positions=result.positions if done else {},
            seen=result.seen if done else {},
        )


@dataclass(frozen=True, slots=True)
class TopicsDiscovered:
    """Both clusters were looked at: what can be copied, where it stands, where the logs end.

    ``ends`` are last stable offsets; a partition without a leader has none. ``held_back`` is what
    open transactions keep behind them, where they keep anything. ``positions`` are of the last
    laps' ends; ``lag_records`` counts from those that were committed when the ends were read, None
    if that is unknown.
    """

    partitions: Collection[SourcePartition]
    positions: Mapping[SourcePartition, Position]
    ends: Mapping[SourcePartition, int]
    held_back: Mapping[SourcePartition, HeldBack] = field(default_factory=dict)
    lag_records: int | None = None


Report = Started | Progress | FirstRecord | Stopped | Resumed | Note | Finished
Detail = SlotLap | TopicsDiscovered
Event = Report | Detail
