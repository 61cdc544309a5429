"""How a command ends: the signals that end a long-running one, and leaving the process."""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import sys
import threading
from time import monotonic
from typing import NoReturn, TextIO

_JOIN_S = 0.2
_FEED = "watch-"


def ending_signals() -> tuple[signal.Signals, ...]:
    """Return SIGTERM, SIGINT and SIGHUP, but not SIGHUP if it is already ignored.

    ``nohup`` starts a command with SIGHUP ignored; a handler would undo that, and closing the
    terminal would end the command.
    """
    ending = (signal.SIGTERM, signal.SIGINT)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        return ending
    return (*ending, signal.SIGHUP)


def leave(code: int) -> NoReturn:
    """End the process; threads that a silent cluster still blocks are abandoned.

    Python would wait for them, and for the clients that they use, for as long as a request takes.
    """
    until = monotonic() + _JOIN_S
    for stream in (sys.stdout, sys.stderr):
        drop_unwritten(stream)
    for thread in _blocking():
        thread.join(max(0.0, until - monotonic()))
    if not _blocking():
        sys.exit(code)
    atexit._run_exitfuncs()  # noqa: SLF001 - what sys.exit would run
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):
            stream.flush()
    os._exit(code)


def drop_unwritten(stream: TextIO | None) -> None:
    """Drop what a stream could not write: Python would try again at exit, and change the code."""
    if stream is None:
        return
    try:
        stream.flush()
    except (OSError, ValueError, AttributeError):
        with contextlib.suppress(OSError, ValueError, AttributeError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _blocking() -> list[threading.Thread]:
    """Return the threads that delay an exit: of pools, and those of a feed, which use clients."""
    return [
        thread
        for thread in threading.enumerate()
        if thread is not threading.current_thread()
        and (not thread.daemon or thread.name.startswith(_FEED))
    ]
