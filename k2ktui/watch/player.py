"""A recording as a feed: plays at its own speed, with steps and jumps."""

from __future__ import annotations

import logging
import threading
import time
from calendar import timegm
from collections.abc import Sequence
from pathlib import Path
from time import monotonic

from k2ktui.errors import ConfigError
from k2ktui.watch.feed import Feed, Listener
from k2ktui.watch.history import GroupHistory, GroupSample, History, Sample
from k2ktui.watch.model import RangeRow, View
from k2ktui.watch.recording import Recording

log = logging.getLogger(__name__)

# Longer pauses in a recording are shortened to this.
_LONGEST_S = 10.0
_LOOK_BACK = 60
_CLOSE_S = 3.0


class Player(Feed):
    """Replays a recording, at the intervals that it has.

    Args:
        path: the recording.
        at: where to begin, in epoch seconds; by default the beginning.
        paused: whether to start paused.

    Attributes:
        number: index of the current view, from 0.
        times: when each view was taken.
        pair: identity of the pipeline.

    Raises:
        ConfigError: the file is not a recording.
    """

    replay = True

    def __init__(self, path: Path, at: float | None = None, *, paused: bool = False) -> None:
        super().__init__(paused=paused)
        self._recording = Recording(path)
        self.times = self._recording.times
        self.number = 0 if at is None else self._recording.number_at(at)
        self.pair = self._recording.view(self.number).pair
        self.error = ""
        self._wake = threading.Condition()
        self._over = False
        self._goto: int | None = self.number
        # Where it will be once all that was asked for is shown: keys are faster than views.
        self._wanted = self.number
        self._view: View | None = None
        self._history, self._groups = History(), GroupHistory()
        self._shown_at = monotonic()
        self._listener: Listener = lambda view: None
        self._thread = threading.Thread(target=self._run, name="watch-player", daemon=True)

    def start(self, listener: Listener) -> None:
        """Show the first view and start playing."""
        self._listener = listener
        self._thread.start()

    def refresh(self) -> None:
        """Show the current view again."""
        self.seek_number(self._wanted)

    def pause(self, on: bool) -> None:
        """Pause or resume."""
        with self._wake:
            self.paused = on
            self._shown_at = monotonic()
            self._wake.notify_all()

    def set_interval(self, seconds: float) -> None:
        """Do nothing: a recording has its own intervals."""

    def now(self) -> float:
        """Return the current time within the recording."""
        taken = self.times[self.number]
        return taken if self.paused else taken + min(monotonic() - self._shown_at, _LONGEST_S)

    def step(self, count: int) -> None:
        """Move by ``count`` views, forward or (negative) back; pauses."""
        self.paused = True
        self.seek_number(self._wanted + count)

    def seek(self, at: float) -> None:
        """Show the last view at or before a time (epoch seconds)."""
        self.seek_number(self._recording.number_at(at))

    def seek_number(self, number: int) -> None:
        """Show the view with this index."""
        with self._wake:
            self._goto = self._wanted = max(0, min(number, len(self.times) - 1))
            self._wake.notify_all()

    def series(self, topic: str, partition: int) -> Sequence[Sample]:
        """Return the samples of one partition in the minutes before the current view."""
        return self._history.series(topic, partition)

    def lags(self, group: str) -> Sequence[GroupSample]:
        """Return the lag of a group in the minutes before the current view."""
        return self._groups.series(group)

    def ranges(self, topic: str, partition: int) -> Sequence[RangeRow]:
        """Return the last recorded ranges of one partition."""
        rows = self._view.partitions if self._view else ()
        return next((row.ranges for row in rows if row.key == (topic, partition)), ())

    def close(self) -> None:
        """Stop playing and close the recording."""
        with self._wake:
            self._over = True
            self._wake.notify_all()
        if self._thread.ident is not None:
            self._thread.join(_CLOSE_S)
        self._recording.close()

    def view(self) -> View:
        """Return the current view, without playing."""
        return self._recording.view(self.number)

    def _run(self) -> None:
        while not self._over:
            goto = self._next()
            if goto is not None:
                try:
                    self._show(goto)
                except ConfigError as error:
                    log.info("playing paused: %s", error.message)
                    self.error = error.message
                    self.paused = True

    def _next(self) -> int | None:
        """Wait until another view is due, and return its index; None if none is."""
        with self._wake:
            if self._goto is None:
                self._wake.wait(self._gap() if not self.paused else 0.5)
            if self._over:
                return None
            goto, self._goto = self._goto, None
        if goto is not None:
            return goto
        last = self.number + 1 >= len(self.times)
        return None if self.paused or last or self._gap() > 0.01 else self.number + 1

    def _gap(self) -> float:
        if self.number + 1 >= len(self.times):
            return _LONGEST_S
        gap = self.times[self.number + 1] - self.times[self.number]
        left = min(gap, _LONGEST_S) - (monotonic() - self._shown_at)
        return max(0.0, left)

    def _show(self, number: int) -> None:
        view = self._recording.view(number)
        if number != self.number + 1:
            self._history, self._groups = History(), GroupHistory()
            for earlier in range(max(0, number - _LOOK_BACK), number):
                self._remember(self._recording.view(earlier))
        self._remember(view)
        self.number, self._view, self._shown_at = number, view, monotonic()
        with self._wake:
            if self._goto is None:
                self._wanted = number
        self._listener(view)

    def _remember(self, view: View) -> None:
        self._history.add(view.taken_at, view.partitions)
        self._groups.add(view.taken_at, {}, {group.group: group.lag for group in view.summaries})


def parse_time(text: str, times: Sequence[float]) -> float:
    """Parse a point in time, returned as epoch seconds.

    Args:
        text: ``HH:MM[:SS]`` or ``YYYY-MM-DD HH:MM[:SS]`` in UTC, or ``+SECONDS`` from the start.
        times: of the recording.

    Raises:
        ConfigError: the text has none of these forms.
    """
    text = text.strip()
    try:
        if text.startswith("+"):
            return times[0] + float(text[1:])
        day, _, clock = text.rpartition(" ")
        day = day or time.strftime("%Y-%m-%d", time.gmtime(times[0]))
        clock = clock if clock.count(":") == 2 else f"{clock}:00"
        return float(timegm(time.strptime(f"{day} {clock}", "%Y-%m-%d %H:%M:%S")))
    except ValueError as error:
        raise ConfigError(
            f"{text!r} is not a time", hint="Give HH:MM:SS (UTC), YYYY-MM-DD HH:MM:SS, or +SECONDS."
        ) from error
