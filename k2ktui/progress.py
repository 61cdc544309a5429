"""How far a long step is: whoever works reports it, whoever waits at a screen listens."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from time import monotonic

from k2ktui.text import duration

_BAR_CELLS = 12
# A rate of the first moments says nothing about the rest.
_RATE_AFTER_S = 1.0
# A counted step that is over before is not shown; a terminal over ssh need not see each record.
_COUNTED_AFTER_S = 0.5
_SHOWN_EVERY_S = 0.2


@dataclass(frozen=True, slots=True)
class ProgressStep:
    """How far a step is.

    Attributes:
        text: what is done; empty when the step has ended.
        done: how much of ``total`` is done; both count the same things.
        total: 0 if it is not known.
    """

    text: str
    done: int = 0
    total: int = 0


Progress = Callable[[ProgressStep], None]


def _ignore(_: ProgressStep) -> None:
    """Nobody waits at a screen."""


# Threads that a step starts report to nobody: they would write to the screen at the same time.
_listener: ContextVar[Progress] = ContextVar("progress", default=_ignore)


@contextlib.contextmanager
def listening(listener: Progress) -> Iterator[None]:
    """Have ``listener`` called with the steps of a block, on the thread that runs it."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


@contextlib.contextmanager
def long_step(text: str, total: int = 0) -> Iterator[Callable[[int], None]]:
    """Report a step that may take long while a block runs; yields what tells how much is done.

    Args:
        text: what is done, for example "mapping records read".
        total: how much there is to do; 0 if that is not known.
    """
    report = _listener.get()
    report(ProgressStep(text, 0, total))
    try:
        yield lambda done: report(ProgressStep(text, done, total))
    finally:
        report(ProgressStep(""))


class ProgressTexts:
    """Turns steps into texts for a screen: at most five a second, none for a short counted step.

    Args:
        show: called with each text, "" when a step has ended.
        ascii_only: draw bars with ASCII characters.
    """

    def __init__(self, show: Callable[[str], None], *, ascii_only: bool = False) -> None:
        self._show = show
        self._ascii_only = ascii_only
        self._text = ""
        self._began_at = self._shown_at = 0.0

    def __call__(self, step: ProgressStep) -> None:
        """Show the step, if it is time to."""
        now = monotonic()
        if step.text != self._text:
            self._text, self._began_at, self._shown_at = step.text, now, 0.0
        if not step.text:
            self._show("")
            return
        seconds = now - self._began_at
        short = bool(step.total) and seconds < _COUNTED_AFTER_S
        if not short and now - self._shown_at >= _SHOWN_EVERY_S:
            self._shown_at = now
            self._show(progress_text(step, seconds, ascii_only=self._ascii_only))


def progress_text(step: ProgressStep, seconds: float, *, ascii_only: bool = False) -> str:
    """Return how far a step is after ``seconds``: a bar, the count, the rate, the remaining time.

    Without a total there is no bar and no remaining time.
    """
    if not step.total:
        return f"{step.text}: {step.done:,}" if step.done else step.text
    done = min(step.done, step.total)
    full, empty = ("#", "-") if ascii_only else ("█", "░")
    cells = done * _BAR_CELLS // step.total
    bar = full * cells + empty * (_BAR_CELLS - cells)
    text = f"{step.text} {bar} {done * 100 // step.total} %  {done:,} of {step.total:,}"
    if not done or seconds < _RATE_AFTER_S:
        return text
    rate = done / seconds
    shown = f"{rate:,.0f}" if rate >= 10 else f"{rate:.1f}"
    return f"{text}, {shown}/s, {duration((step.total - done) / rate)} left"
