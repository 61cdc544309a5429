"""Read the pipelines of a directory again and again, a few at a time.

With many pipelines, each is read less often. One whose cluster does not answer delays no other: see
:mod:`k2ktui.fleet.connections`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import monotonic

from k2ktui.fleet.connections import Connections
from k2ktui.fleet.files import PipelineFile
from k2ktui.fleet.model import FleetRow, first_row
from k2ktui.fleet.reader import PipelineReader
from k2ktui.sync.liveness import SETTLE_S

# Pipelines that are connected at once. With more, each reading connects anew.
CONNECTED = 8
# Of many pipelines, one begins to be read each so many seconds: that bounds the share of a core.
_PACE_S = 0.25
_CLOSE_S = 0.5
# At the latest, a waiting thread looks again after so many seconds.
_LOOK_S = 1.0

Listener = Callable[[FleetRow], None]


@dataclass(slots=True)
class _Schedule:
    """When a pipeline is read next (monotonic seconds), and whether a thread reads it now."""

    reader: PipelineReader
    due: float = 0.0
    is_busy: bool = False


class FleetFeed:
    """Reads pipelines on its own threads, and passes each row to a listener.

    Args:
        files: the pipeline files.
        interval: seconds between readings of a pipeline; longer if there are many.

    Attributes:
        files: the pipeline files.
        interval: as above.
        paused: whether nothing is read.
    """

    def __init__(self, files: Sequence[PipelineFile], interval: float) -> None:
        self.files = tuple(files)
        connections = Connections(2 * CONNECTED)
        self._connections = connections
        self._rows = {file.path: first_row(file, time.time()) for file in files}
        self._schedules = [
            _Schedule(PipelineReader(file.path, file.flow, connections))
            for file in files
            if file.flow is not None
        ]
        count = len(self._schedules)
        self._least_interval = _PACE_S * count if count > CONNECTED else 0.0
        self.interval = max(interval, self._least_interval)
        self._stays_connected = count <= CONNECTED
        self.paused = False
        self._listener: Listener = lambda row: None
        self._is_over = False
        self._wake = threading.Condition()
        self._threads = [
            threading.Thread(target=self._run, name=f"watch-fleet-{number}", daemon=True)
            for number in range(min(CONNECTED, count))
        ]

    @property
    def rows(self) -> list[FleetRow]:
        """The last row of each pipeline, in the order of the files."""
        return list(self._rows.values())

    @property
    def is_settled(self) -> bool:
        """Whether every pipeline was read, and it is known which of its runs are alive."""
        return all(row.taken_at is not None for row in self.rows) and all(
            schedule.reader.is_settled for schedule in self._schedules
        )

    def start(self, listener: Listener) -> None:
        """Start; the listener is called on the feed's threads and must not block."""
        self._listener = listener
        for thread in self._threads:
            thread.start()

    def listen(self, listener: Listener) -> None:
        """Pass the rows to another listener from now on."""
        self._listener = listener

    def pass_on(self, row: FleetRow) -> None:
        """Pass a row to the listener, unless the feed was closed."""
        if not self._is_over:
            self._listener(row)

    def set_interval(self, seconds: float) -> None:
        """Set the interval in seconds; it stays longer if there are many pipelines."""
        self.interval = max(seconds, self._least_interval)

    def refresh(self) -> None:
        """Read every pipeline now."""
        with self._wake:
            for schedule in self._schedules:
                schedule.due = 0.0
            self._wake.notify_all()

    def pause(self, on: bool) -> None:
        """Pause, or resume and read every pipeline now."""
        self.paused = on
        if not on:
            self.refresh()

    def now(self) -> float:
        """Return the current epoch time in seconds."""
        return time.time()

    def close(self) -> None:
        """Stop; a thread that still waits for a cluster ends with the process."""
        with self._wake:
            self._is_over = True
            self._wake.notify_all()
        until = monotonic() + _CLOSE_S
        for thread in self._threads:
            if thread.ident is not None:
                thread.join(max(0.0, until - monotonic()))

    def _run(self) -> None:
        while (schedule := self._take()) is not None:
            reader, began = schedule.reader, monotonic()
            row = reader.read()
            if not self._stays_connected:
                reader.disconnect()
            self._connections.release(*reader.clusters)
            pause = self.interval if reader.is_settled else min(SETTLE_S, self.interval)
            with self._wake:
                self._rows[row.file] = row
                schedule.is_busy, schedule.due = False, began + pause
                self._wake.notify_all()
            self.pass_on(row)

    def _take(self) -> _Schedule | None:
        """Wait for a pipeline that is due and whose clusters are free; None at the end."""
        with self._wake:
            while not self._is_over:
                now = monotonic()
                idle = sorted(
                    (schedule for schedule in self._schedules if not schedule.is_busy),
                    key=lambda schedule: schedule.due,
                )
                for schedule in idle if not self.paused else ():
                    if schedule.due > now:
                        break
                    if self._connections.take(*schedule.reader.clusters):
                        schedule.is_busy = True
                        return schedule
                # One that is due waits for a reading that ends, which wakes this thread.
                next_due = next((one.due for one in idle if one.due > now), now + _LOOK_S)
                self._wake.wait(min(next_due - now, _LOOK_S))
        return None


def read_fleet(files: Sequence[PipelineFile], timeout: float) -> list[FleetRow]:
    """Read every pipeline once, until it is known which runs are alive.

    Args:
        files: the pipeline files.
        timeout: seconds after which the rows are returned as they are.
    """
    feed = FleetFeed(files, SETTLE_S)
    news = threading.Event()
    feed.start(lambda row: news.set())
    until = monotonic() + timeout
    try:
        while not feed.is_settled and (left := until - monotonic()) > 0:
            news.wait(min(left, 1.0))
            news.clear()
        return feed.rows
    finally:
        feed.close()
