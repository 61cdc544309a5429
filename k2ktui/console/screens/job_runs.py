"""The runs that Jobs and a log show: this host's jobs with what they use, and all heartbeats."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from time import monotonic, time

from k2ktui.engine.moves.journal import RunKind
from k2ktui.jobs import local_jobs
from k2ktui.jobs.local_jobs import Job
from k2ktui.jobs.process import ProcessIdentity
from k2ktui.jobs.run_rows import RunRow, make_run_rows, recent_runs
from k2ktui.jobs.usage import Usage, UsageReader
from k2ktui.watch.model import View
from k2ktui.watch.severity import state_time

# Usage is read at every second look at the jobs, and kept for an hour, for the charts.
_USAGE_S = 3.5
_KEPT = 900


@dataclass(frozen=True, slots=True)
class ShownRun(RunRow):
    """A run with what only the console shows of it.

    Attributes:
        usage: of its processes; None if it is not a job of this host, or has ended.
        all_slots: how many slots the pipeline has, from what all runs own; 0 if unknown.
        others: the slots that other runs own.
    """

    usage: Usage | None = None
    all_slots: int = 0
    others: tuple[int, ...] = ()


Samples = Sequence[tuple[float, Usage]]


@dataclass(frozen=True, slots=True)
class Reading:
    """What was read on this host.

    Attributes:
        jobs: its jobs.
        at: when, in epoch seconds.
        usage: what those that are alive use; None if it was read a moment before.
    """

    jobs: Sequence[Job]
    at: float
    usage: Mapping[ProcessIdentity, Usage] | None


class KnownRuns:
    """What is known of runs; ``read`` is called on a thread, all else on the UI thread."""

    def __init__(self) -> None:
        self.jobs: Sequence[Job] | None = None
        self._reader = UsageReader()
        self._usage: dict[ProcessIdentity, deque[tuple[float, Usage]]] = {}
        self._read_at: float | None = None

    def read(self) -> Reading:
        """Read the jobs of this host, and what they use."""
        jobs, now = local_jobs.list_jobs(), monotonic()
        if self._read_at is not None and now - self._read_at < _USAGE_S:
            return Reading(jobs, time(), None)
        self._read_at = now
        alive = [job.record.identity for job in jobs if job.alive]
        usage = {identity: self._reader.read(identity, now) for identity in alive}
        known = {identity: value for identity, value in usage.items() if value is not None}
        return Reading(jobs, time(), known)

    def keep(self, reading: Reading) -> None:
        """Keep what was read."""
        self.jobs = reading.jobs
        if reading.usage is None:
            return
        earlier, self._usage = self._usage, {}
        for identity, value in reading.usage.items():
            self._usage[identity] = earlier.get(identity) or deque(maxlen=_KEPT)
            self._usage[identity].append((reading.at, value))

    def samples(self, row: RunRow) -> Samples:
        """Return what a run used, the oldest first; empty if it is not a job of this host."""
        if row.job is None or not row.alive:
            return ()
        return tuple(self._usage.get(row.job.record.identity, ()))

    def rows(self, view: View | None, pipeline: str, now: float) -> list[ShownRun]:
        """Return the runs, those that are alive first."""
        # A heartbeat that could not be read must not count as missing.
        at = state_time(view, now) if view else now
        # The lag of the other screens: a heartbeat's is some seconds older.
        lag = view.totals.lag_records if view else None
        runners = view.runners if view else ()
        rows = recent_runs(make_run_rows(self.jobs or (), runners, pipeline, at, lag))
        return [self._shown(row, rows, pipeline) for row in rows]

    def _shown(self, row: RunRow, rows: Sequence[RunRow], pipeline: str) -> ShownRun:
        own = {field.name: getattr(row, field.name) for field in fields(RunRow)}
        samples = self.samples(row)
        usage = samples[-1][1] if samples else None
        count, others = 0, set[int]()
        if row.alive and row.kind is RunKind.COPY and row.pipeline == pipeline:
            sharing = [row for row in rows if row.alive and row.pipeline == pipeline]
            known = {slot for run in sharing for slot in run.owned}
            others = known - set(row.owned)
            count = max(known) + 1 if known else row.slots
        return ShownRun(**own, usage=usage, all_slots=count, others=tuple(sorted(others)))
