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
    """The operator, the terminal or the system asked the demo to end.

    Not an Exception, so that no handler on the way takes it for a fault.
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
    """Within it, the first such signal raises :class:`DemoEnded`, and a later one exits at once.

    Exiting at once leaves nothing behind either: the supervisors see that we are gone.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may set handlers
        return
    seen: list[int] = []

    def handle(number: int, frame: FrameType | None) -> None:
        if seen:
            # A hang-up comes with a second signal by nature; only a person who insists exits.
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
