"""Standard streams, and how a command ends: its signals, and leaving the process.

Standard input, output and error are as the caller left them: closed, or with a reader that ends.
Streams remember their failed writes: an ``OSError`` alone does not say which file it was.
"""

from __future__ import annotations

import atexit
import contextlib
import io
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from time import monotonic
from types import FrameType
from typing import Any, NoReturn, TextIO

from k2ktui.errors import ExitCode, OutputFailed

_NAMES = (("stdin", "r"), ("stdout", "w"), ("stderr", "w"))
_JOIN_S = 0.2
_FEED = "watch-"
_failures: list[tuple[OSError, str]] = []


class ReaderGone(Exception):
    """The program that read the output, such as ``head``, has ended."""


def open_streams() -> None:
    """Open standard streams that the caller has closed (``>&-``) on /dev/null.

    Otherwise the next file or connection would get descriptor 1 or 2, and receive whatever a
    library prints.
    """
    for number, (name, mode) in enumerate(_NAMES):
        opened = -1
        try:
            os.fstat(number)
        except OSError:
            opened = os.open(os.devnull, os.O_RDWR)  # the lowest free number, which is this one
        if getattr(sys, name) is None:
            null = number if opened == number else os.open(os.devnull, os.O_RDWR)
            setattr(sys, name, open(null, mode, closefd=False))  # noqa: SIM115 - for the process


@contextlib.contextmanager
def reader_is_there() -> Iterator[None]:
    """Raise ReaderGone if the process that reads the output has ended."""
    try:
        yield
    except BrokenPipeError as error:
        if find_output_failure(error):
            raise ReaderGone from error
        # The error is a connection's. Click would treat any BrokenPipeError as one of the output.
        raise RuntimeError(str(error)) from error


class _Descriptor(io.FileIO):
    """A descriptor that remembers the error of a write."""

    def __init__(self, fd: int, name: str) -> None:
        super().__init__(fd, "wb", closefd=False)
        self._stream = name

    def write(self, data: Any, /) -> int:
        try:
            return super().write(data)
        except OSError as error:
            _failures.append((error, self._stream))
            raise


def watch_output() -> None:
    """Replace ``sys.stdout`` and ``sys.stderr`` by streams whose failures are remembered."""
    sys.stdout = _watched(sys.stdout, "standard output")
    sys.stderr = _watched(sys.stderr, "standard error")


def _watched(stream: TextIO, name: str) -> TextIO:
    if not isinstance(stream, io.TextIOWrapper):
        return stream
    stream.flush()
    return io.TextIOWrapper(
        io.BufferedWriter(_Descriptor(stream.fileno(), name)),
        encoding=stream.encoding,
        errors=stream.errors,
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )


def find_output_failure(error: BaseException) -> OutputFailed | None:
    """Return the error for operators if this one is of a standard stream; None for others."""
    for failed, name in _failures:
        if failed is error:
            return OutputFailed(
                f"{name} cannot be written: {failed.strerror or type(failed).__name__}",
                hint="Free space where it leads to, or redirect it elsewhere.",
            )
    return None


def ending_signals() -> tuple[signal.Signals, ...]:
    """Return SIGTERM, SIGINT and SIGHUP, but not SIGHUP if it is already ignored.

    ``nohup`` starts a command with SIGHUP ignored; a handler would undo that, and closing the
    terminal would end the command.
    """
    ending = (signal.SIGTERM, signal.SIGINT)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        return ending
    return (*ending, signal.SIGHUP)


def note_signals(stop: Callable[[], object] = lambda: None) -> list[int]:
    """Return the signals that end this command, as they come; the second one ends it at once.

    Args:
        stop: called at the first one, in its handler.
    """
    seen: list[int] = []

    def handle(number: int, frame: FrameType | None) -> None:
        if seen:
            sys.exit(ExitCode.INTERRUPTED)
        seen.append(number)
        stop()

    for number in ending_signals():
        signal.signal(number, handle)
    return seen


def ended_code(seen: Sequence[int], code: int = ExitCode.OK) -> int:
    """Return the exit code of a command that ran until a signal: its own, except after SIGINT."""
    return ExitCode.INTERRUPTED if seen[:1] == [signal.SIGINT] else code


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
