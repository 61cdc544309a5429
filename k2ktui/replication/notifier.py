"""Throttled reports of ongoing problems: when one begins, at growing intervals, when it ends."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic

from k2ktui.replication.events import Event, Note

_FIRST_PAUSE_S = 10.0
_LONGEST_PAUSE_S = 600.0
_WORTH_AN_END_S = 10.0


@dataclass(slots=True)
class _Told:
    pause_s: float
    again_at: float


class ThrottledNotifier:
    """Reports ongoing problems without repeating the same text every few seconds.

    Args:
        report: called with every note.
        clock: monotonic seconds.
    """

    def __init__(
        self, report: Callable[[Event], None], clock: Callable[[], float] = monotonic
    ) -> None:
        self._report = report
        self._clock = clock
        self._began: dict[str, float] = {}
        self._told: dict[str, dict[str, _Told]] = {}

    def tell(self, subject: str, text: str, *, news: bool = False) -> None:
        """Report a problem with a subject, unless the same text was reported recently.

        Each text of a subject has its own interval, so alternating problems are throttled
        separately. ``news`` reports regardless of the interval.
        """
        now = self._clock()
        self._began.setdefault(subject, now)
        told = self._told.setdefault(subject, {})
        last = told.get(text)
        if last is not None and now < last.again_at and not news:
            return
        pause = _FIRST_PAUSE_S if last is None else min(2 * last.pause_s, _LONGEST_PAUSE_S)
        told[text] = _Told(pause, now + pause)
        self._report(Note(f"{subject}: {text}"))

    def over(self, subject: str) -> None:
        """Mark the subject's problem as resolved; report how long it lasted unless it was short."""
        lasted = self._clock() - self._began.pop(subject, self._clock())
        if self._told.pop(subject, None) and lasted >= _WORTH_AN_END_S:
            self._report(Note(f"{subject}: recovered after {lasted:.0f} s"))
