"""Signals that end a run: gracefully on the first one, immediately on the second."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Collection
from types import FrameType
from typing import NoReturn

from k2ktui.errors import ExitCode

# Time for a graceful stop after the first signal.
GRACE_S = 4.5


def stop_on_signals(
    stop: Callable[[], None],
    abandon: Callable[[], None],
    ending: Collection[signal.Signals],
    before_exit: Callable[[int], None],
) -> Callable[[], int]:
    """Stop gracefully on the first of these signals, immediately on the second.

    A graceful stop that takes longer than ``GRACE_S`` ends in an immediate exit: that equals a
    crash, and a crash loses nothing.

    Args:
        stop: requests a graceful stop and returns at once.
        abandon: removes temporary files before an immediate exit.
        ending: the signals.
        before_exit: called with the exit code before an immediate exit.

    Returns:
        A function that returns the first signal that arrived; 0 if none did.
    """
    seen: list[int] = []

    def handle(number: int, frame: FrameType | None) -> None:
        if seen:
            at_once(ExitCode.INTERRUPTED)
        seen.append(number)
        stop()
        code = ExitCode.INTERRUPTED if number == signal.SIGINT else ExitCode.OK
        timer = threading.Timer(GRACE_S, at_once, (code,))
        timer.daemon = True
        timer.start()

    def at_once(code: int) -> NoReturn:
        abandon()
        with contextlib.suppress(Exception):
            before_exit(code)
        # Spark's JVM and its workers end when its standard input closes.
        os._exit(code)

    for number in ending:
        signal.signal(number, handle)
    return lambda: seen[0] if seen else 0
