"""What supplies views to screens and logs, live or from a recording."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from k2ktui.watch.history import GroupSample, Sample
from k2ktui.watch.model import RangeRow, View

if TYPE_CHECKING:
    from k2ktui.log.writers import WriterWatch

MIN_INTERVAL_S = 2.0
DEFAULT_INTERVAL_S = 5.0

Listener = Callable[[View], None]


class Feed:
    """Makes views on threads of its own and passes them to a listener.

    Attributes:
        replay: whether it is a recording.
        paused: whether no new views are made.
        interval: seconds between views.
    """

    replay = False

    def __init__(
        self, interval: float = DEFAULT_INTERVAL_S, *, least_s: float = 0.0, paused: bool = False
    ) -> None:
        self.interval, self.paused = max(least_s, interval), paused
        self._least_s = least_s

    def start(self, listener: Listener) -> None:
        """Start; the listener is called on the feed's threads and must not block."""
        raise NotImplementedError

    def refresh(self) -> None:
        """Request a view now, even while paused; returns immediately."""
        raise NotImplementedError

    def close(self) -> None:
        """Pass no more views; takes a few seconds at most."""
        raise NotImplementedError

    def pause(self, on: bool) -> None:
        """Pause, or resume with a view now."""
        self.paused = on
        if not on:
            self.refresh()

    def set_interval(self, seconds: float) -> None:
        """Set the interval in seconds, or the least that is possible."""
        self.interval = max(self._least_s, seconds)

    def now(self) -> float:
        """Return the reference time for ages, epoch seconds: the clock's, or the recording's."""
        return time.time()

    def series(self, topic: str, partition: int) -> Sequence[Sample]:
        """Return the samples of one partition over the last minutes, the oldest first."""
        return ()

    def lags(self, group: str) -> Sequence[GroupSample]:
        """Return the lag of a group over the last minutes, the oldest first."""
        return ()

    def ranges(self, topic: str, partition: int) -> Sequence[RangeRow]:
        """Return the last mapping ranges of one partition that are available."""
        return ()

    def watch_writers(self, look_back: int) -> WriterWatch | None:
        """Return what reads who writes to the source, to be closed; None of a recording.

        Args:
            look_back: offsets before the end at which it begins.
        """
        return None
