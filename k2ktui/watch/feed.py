"""What a screen or a log gets its views from; a live poller and a replayed recording are alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from k2ktui.watch.history import Sample
from k2ktui.watch.model import RangeRow, View

MIN_INTERVAL_S = 2.0
DEFAULT_INTERVAL_S = 5.0

Listener = Callable[[View], None]


class Feed(Protocol):
    """Makes views on a thread of its own and tells them to a listener.

    Attributes:
        replay: whether it is a recording.
        paused: whether no new views are made.
        interval: seconds between views.
    """

    replay: bool
    paused: bool
    interval: float

    def start(self, listener: Listener) -> None:
        """Begin; the listener is called on the feed's thread and must not wait for anything."""
        ...

    def refresh(self) -> None:
        """Make a view now, paused or not; returns at once."""
        ...

    def pause(self, on: bool) -> None:
        """Pause, or go on."""
        ...

    def set_interval(self, seconds: float) -> None:
        """Change the interval, :data:`MIN_INTERVAL_S` at least."""
        ...

    def now(self) -> float:
        """Return the time that ages are counted to: the clock's, or the recording's."""
        ...

    def series(self, topic: str, partition: int) -> Sequence[Sample]:
        """Return the last minutes of one partition, the oldest first."""
        ...

    def ranges(self, topic: str, partition: int) -> Sequence[RangeRow]:
        """Return the last mapping ranges of one partition that are at hand."""
        ...

    def close(self) -> None:
        """End, and disconnect; waits no longer than a few seconds."""
        ...
