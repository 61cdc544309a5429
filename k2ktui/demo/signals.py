"""Signals that end the demo, as an exception in the main thread, so that everything unwinds."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from types import FrameType

_NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class DemoEnded(BaseException):
    """The user, the terminal or the system asked the demo to end.

    Not an Exception, so that no handler in between treats it as an error.
    """

    INTERRUPT = int(signal.SIGINT)
    HANG_UP = int(signal.SIGHUP)

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number

    def __str__(self) -> str:
        return {
            signal.SIGINT: "Ctrl-C",
            signal.SIGHUP: "the closed terminal",
        }.get(signal.Signals(self.number), signal.Signals(self.number).name)


@contextlib.contextmanager
def ending_signals() -> Iterator[None]:
    """Within the context, the first such signal raises :class:`DemoEnded`; a later SIGINT exits.

    An immediate exit leaves no process behind either: the supervisors notice it.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may set handlers
        return
    seen: list[int] = []

    def handle(number: int, frame: FrameType | None) -> None:
        if seen:
            # A hang-up is often followed by a second signal; only a repeated Ctrl-C forces the
            # exit.
            if number == signal.SIGINT:
                os._exit(130)
            return
        seen.append(number)
        raise DemoEnded(number)

    before = {number: signal.signal(number, handle) for number in _NUMBERS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
