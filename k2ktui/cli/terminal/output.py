"""Standard output and error that remember their failed writes.

An ``OSError`` alone does not say which file could not be written.
"""

from __future__ import annotations

import io
import sys
from typing import Any, TextIO

from k2ktui.errors import OutputFailed

_failures: list[tuple[OSError, str]] = []


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
