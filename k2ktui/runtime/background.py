"""Work that a thread of its own repeats beside a run: it reports, backs off and stops."""

from __future__ import annotations

import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from time import monotonic
from typing import ClassVar, Self

from k2ktui.errors import K2kError, fix_text
from k2ktui.faults import fault

log = logging.getLogger(__name__)

_LONGEST_PAUSE_S = 60.0
_REFUSED_PAUSE_S = 30.0
# A failure that lasts is reported at once, then after a minute, after two more, and so on.
_REPORT_AGAIN_S = 60.0
_LONGEST_SILENCE_S = 3600.0
_TICK_S = 0.25


class BackgroundRunner(ABC):
    """A named daemon thread that repeats ``work``; its failures do not disturb other threads.

    Subclasses say what the work is. A runner can be started once. As a context manager, it is
    started and stopped.

    Args:
        name: name of the thread.
        interval_s: seconds from the end of one turn to the next, and before the first.
        report: called on the thread with a sentence for the operator: when turns begin to fail, at
            growing intervals while they fail, and when they succeed again.
        immediately: do the first turn at once.
        last_turn: do one more turn on ``stop``, and report its failure too.
        is_urgent: whether the next turn is due before its time; asked a few times per second.
        longest_pause_s: after failures, the pause doubles from ``interval_s`` up to this.
        stop_s: seconds for which ``stop`` waits by default.
        clock: monotonic seconds, for the intervals between reports.

    Attributes:
        interval_s: as above.
    """

    failing: ClassVar[str]
    """What is wrong while turns fail; the reason follows it."""
    recovered: ClassVar[str]
    """Sentence for the operator when turns succeed again."""
    refusals: ClassVar[tuple[type[K2kError], ...]] = ()
    """Errors that time does not cure: the thread reports them and ends if no turn has succeeded
    before. Later, a right may have been taken away for a while: it tries again every 30 s."""

    def __init__(
        self,
        name: str,
        interval_s: float,
        report: Callable[[str], None],
        *,
        immediately: bool = False,
        last_turn: bool = False,
        is_urgent: Callable[[], bool] | None = None,
        longest_pause_s: float = _LONGEST_PAUSE_S,
        stop_s: float = 0.0,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self.interval_s, self._longest_pause_s = interval_s, max(interval_s, longest_pause_s)
        self._report, self._clock = report, clock
        self._immediately, self._last_turn, self._stop_s = immediately, last_turn, stop_s
        self._is_urgent = is_urgent
        self._stop_requested = threading.Event()
        self._failures = 0
        self._has_worked = False
        self._refusal: K2kError | None = None
        self._silence_s, self._report_at = 0.0, 0.0
        self._fault_reported = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    @abstractmethod
    def work(self) -> None:
        """Do one turn of the work; runs on the thread. Every exception is reported."""

    def close(self) -> None:  # noqa: B027 - optional
        """Disconnect; runs on the thread, as the last thing."""

    def describe(self, error: K2kError) -> str:
        """Return the sentence for the operator when turns begin to fail."""
        reasons = [text.rstrip(".") for text in (error.message, fix_text(error.hint)) if text]
        return f"{self.failing}: {'. '.join(reasons)}"

    def start(self) -> None:
        """Start the thread and return at once."""
        self._thread.start()

    def do_once(self) -> None:
        """Do one turn on the caller's thread, in place of ``start``; report its failure."""
        try:
            self._turn()
        finally:
            self.close()

    @property
    def was_started(self) -> bool:
        """Whether ``start`` was called."""
        return self._thread.ident is not None

    @property
    def has_ended(self) -> bool:
        """Whether the thread was started and has ended."""
        return self.was_started and not self._thread.is_alive()

    @property
    def refusal(self) -> K2kError | None:
        """The refusal that ended the thread, or with which its last turn failed; None for none."""
        return self._refusal

    @property
    def stop_requested(self) -> bool:
        """Whether ``stop`` was called: this turn is the last one."""
        return self._stop_requested.is_set()

    def stop(self, timeout: float | None = None) -> bool:
        """Request the end of the thread; not for signal handlers.

        Args:
            timeout: seconds to wait for it; the thread ends on its own if it takes longer.

        Returns:
            Whether the thread has ended, or was never started.
        """
        self._stop_requested.set()
        if self.was_started:
            self._thread.join(self._stop_s if timeout is None else timeout)
        return not self._thread.is_alive()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _run(self) -> None:
        try:
            pause = 0.0 if self._immediately else self.interval_s
            while not self._wait(pause):
                if not self._turn():
                    return
                pause = pause_after(self._failures, self.interval_s, self._longest_pause_s)
                if self._refusal is not None:
                    pause = max(pause, _REFUSED_PAUSE_S)
            if self._last_turn:
                self._turn()
        finally:
            try:
                self.close()
            except Exception as error:
                self._failed(error)

    def _wait(self, seconds: float) -> bool:
        """Wait until the next turn is due; return whether the end was requested."""
        if self._is_urgent is None:
            return self._stop_requested.wait(seconds)
        until = monotonic() + seconds
        while (left := until - monotonic()) > 0 and not self._is_due():
            if self._stop_requested.wait(min(left, _TICK_S)):
                return True
        return self.stop_requested

    def _is_due(self) -> bool:
        try:
            return self._is_urgent is not None and self._is_urgent()
        except Exception:  # the turn fails as well, and reports it; then it backs off
            return not self._failures

    def _turn(self) -> bool:
        """Do one turn; return whether another one makes sense."""
        try:
            self.work()
        except Exception as error:
            self._failures += 1
            self._failed(error)
            self._refusal = error if isinstance(error, self.refusals) else None
            return self._has_worked or self._refusal is None
        self._has_worked, self._refusal = True, None
        if self._failures:
            self._failures, self._report_at, self._silence_s = 0, 0.0, 0.0
            self._fault_reported = False
            log.info("%s works again", self._thread.name)
            self.say(self.recovered)
        return True

    def _failed(self, error: Exception) -> None:
        if self.stop_requested and not self._last_turn:
            return  # its connections may be closing
        expected, now = isinstance(error, K2kError), self._clock()
        log.info("%s failed %d times: %s", self._thread.name, self._failures, _headline(error))
        log.debug("%s: the cause", self._thread.name, exc_info=error)
        throttled = self._silence_s > 0 and now < self._report_at
        if throttled and (expected or self._fault_reported):
            return
        self._fault_reported = self._fault_reported or not expected
        self._silence_s = min(max(2 * self._silence_s, _REPORT_AGAIN_S), _LONGEST_SILENCE_S)
        self._report_at = now + self._silence_s
        # The traceback of an unexpected exception is kept in a file, and the report names it.
        self.say(self.describe(error if isinstance(error, K2kError) else fault(error)))

    def say(self, text: str) -> None:
        """Report a sentence for the operator."""
        with suppress(Exception):  # the operator's terminal may be gone
            self._report(text)


def _headline(error: Exception) -> str:
    """Return the message for operators; another exception's text may quote a record."""
    return error.message if isinstance(error, K2kError) else type(error).__name__


def pause_after(failures: int, interval_s: float, longest_s: float) -> float:
    """Return the seconds to the next turn after so many failures in a row."""
    # Without a bound on the exponent, a failure that lasts for days would overflow.
    return min(interval_s * 2.0 ** min(max(0, failures - 1), 32), max(interval_s, longest_s))
