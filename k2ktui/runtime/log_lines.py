"""Print a run's log so that a failed or blocked write never disturbs the run.

A log may be on a disk that becomes full, a pipe whose reader has ended, or a terminal that is
stopped. The run continues. Once lines can be written again, one of them says how many were lost.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Self

from k2ktui.text import counted

_MOST_WAITING = 10_000
_CLOSE_S = 2.0


class LogStream:
    """Writes lines to a file descriptor, past Python's buffers; a failure is not raised.

    A buffer would keep what it could not write, and fail again at the process's end.

    Args:
        fd: the descriptor.
        describe: returns the line that says what was lost, from a sentence.
    """

    def __init__(self, fd: int, describe: Callable[[str], str] = "note: {}".format) -> None:
        self._fd, self._describe = fd, describe
        self._lost, self._why = 0, ""
        self._is_cut = False

    def lose(self, lines: int, why: str) -> None:
        """Count lines that were not written, and why."""
        self._lost += lines
        self._why = why

    def write(self, line: str) -> None:
        """Write a line, or count it as lost; safe in a signal handler."""
        if self._lost:
            number, why = self._lost, self._why
            text = f"{counted(number, 'line')} of this log could not be written: {why}"
            if not self._write(self._describe(text)):
                self._lost += 1
                return
            self._lost -= number
        if not self._write(line):
            self._lost += 1

    def _write(self, line: str) -> bool:
        # A line that was cut off must not run into the next one.
        data = ("\n" if self._is_cut else "").encode() + line.encode(errors="replace") + b"\n"
        left = data
        try:
            while left:
                left = left[os.write(self._fd, left) :]
        except OSError as error:
            self._is_cut = self._is_cut or len(left) < len(data)
            self._why = error.strerror or type(error).__name__
            return False
        self._is_cut = False
        return True


class RunLog:
    """Prints a run's log on a thread of its own, so that a reader that waits delays no lap.

    Lines wait in memory, at most ten thousand of them; further ones are lost, and counted.

    Args:
        describe: as for :class:`LogStream`, for standard output.
    """

    def __init__(self, describe: Callable[[str], str] = "note: {}".format) -> None:
        self._out, self._err = LogStream(1, describe), LogStream(2)
        self._waiting: SimpleQueue[tuple[LogStream, str] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="run-log", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Write what is waiting; give up after two seconds."""
        self._waiting.put(None)
        self._thread.join(_CLOSE_S)

    def print(self, text: str) -> None:
        """Print to standard output; returns at once."""
        self._put(self._out, text)

    def print_error(self, text: str) -> None:
        """Print to standard error; returns at once."""
        self._put(self._err, text)

    def _put(self, stream: LogStream, text: str) -> None:
        if self._waiting.qsize() >= _MOST_WAITING:
            stream.lose(1, "nobody has read the lines before them")
        else:
            self._waiting.put((stream, text))

    def _run(self) -> None:
        while (item := self._waiting.get()) is not None:
            stream, text = item
            stream.write(text)
