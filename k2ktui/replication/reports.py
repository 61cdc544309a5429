"""What a running pipeline tells: one frozen value an event, the same for terminal and JSON."""

from __future__ import annotations

from dataclasses import dataclass

from k2ktui.replication.tokens import Fault


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

    ``lag_records`` counts source offsets between the positions and the last stable offsets; None
    while the source's end is unknown. ``pause_s`` is the longest time a slot stood still between
    two laps, ``cpu_s`` the CPU time of the workers.
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


Report = Started | Progress | FirstRecord | Stopped | Resumed | Note | Finished
