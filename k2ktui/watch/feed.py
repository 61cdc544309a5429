"""The interface through which screens and logs receive views, live or from a recording."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from k2ktui.watch.history import Sample
from k2ktui.watch.model import RangeRow, View

MIN_INTERVAL_S = 2.0
DEFAULT_INTERVAL_S = 5.0

Listener = Callable[[View], None]


class Feed(Protocol):
    """Makes views on its own thread and passes them to a listener.

    Attributes:
        replay: whether it is a recording.
        paused: whether no new views are made.
        interval: seconds between views.
    """

    replay: bool
    paused: bool
    interval: float

    def start(self, listener: Listener) -> None:
        """Start; the listener is called on the feed's thread and must not block."""
        ...

    def refresh(self) -> None:
        """Request a view now, even while paused; returns immediately."""
        ...

    def pause(self, on: bool) -> None:
        """Pause or resume."""
        ...

    def set_interval(self, seconds: float) -> None:
        """Set the interval in seconds (minimum :data:`MIN_INTERVAL_S`)."""
        ...

    def now(self) -> float:
        """Return the reference time for ages: the clock's, or the recording's."""
        ...

    def series(self, topic: str, partition: int) -> Sequence[Sample]:
        """Return the samples of one partition over the last minutes, the oldest first."""
        ...

    def ranges(self, topic: str, partition: int) -> Sequence[RangeRow]:
        """Return the last mapping ranges of one partition that are available."""
        ...

    def close(self) -> None:
        """Stop and disconnect; takes a few seconds at most."""
        ...
