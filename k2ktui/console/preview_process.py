"""Runs ``k2ktui transform preview`` beside the console.

Spark and its Java run in processes of their own: they never slow the console down, and a preview
that is canceled ends at once. The records come through a pipe and are only kept in memory.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Sequence

from k2ktui.errors import K2kError
from k2ktui.replication.preview_records import Preview, parse_preview
from k2ktui.runtime.child_process import ChildProcess, spawn
from k2ktui.runtime.scratch import Scratch, sweep

_DIRECTORY = "k2ktui-preview-"
_MOST_BYTES = 64 << 20
_END_S = 60.0


class PreviewProcess:
    """One run of the command.

    Args:
        files: the configuration files.
        topic: a source topic.
        limit: number of records.
    """

    def __init__(self, files: Sequence[str], topic: str, limit: int) -> None:
        given = [word for file in files for word in ("-f", file)]
        # -P keeps the working directory, which others may write to, out of the module search path.
        self._command = [sys.executable, "-P", "-m", "k2ktui", "transform", "preview", *given]
        self._command += [f"--topic={topic}", "--limit", str(limit), "--json"]
        self._lock = threading.Lock()
        self._child: ChildProcess | None = None
        self._canceled = False

    def run(self) -> Preview:
        """Return the preview; takes some seconds.

        Raises:
            K2kError: the command failed, with what it said; or it was canceled.
        """
        sweep(_DIRECTORY)
        scratch = Scratch(_DIRECTORY)
        try:
            read, write = os.pipe()
            with os.fdopen(read, "rb") as pipe:
                try:
                    child = self._start(scratch, write)
                finally:
                    os.close(write)
                text = pipe.read(_MOST_BYTES + 1)
            # What is too large blocks the command, and nothing is left to read otherwise.
            code = child.stop(_END_S) if len(text) > _MOST_BYTES else child.wait(_END_S)
            said = child.log_path.read_text(errors="replace")
        finally:
            scratch.remove()
        if self._canceled:
            raise K2kError("the preview was canceled", unchanged="Nothing was written.")
        if len(text) > _MOST_BYTES:
            raise K2kError(
                f"the records are larger than {_MOST_BYTES >> 20} MiB",
                unchanged="Nothing was written.",
                hint="Use k2ktui transform preview with a small --limit.",
            )
        try:
            return parse_preview(text)
        except (ValueError, KeyError, TypeError) as error:
            raise _failed(said, code) from error

    def cancel(self) -> None:
        """End the command and all of its processes, or do not start it."""
        with self._lock:
            self._canceled = True
            if self._child is not None:
                self._child.kill()

    def _start(self, scratch: Scratch, output: int) -> ChildProcess:
        with self._lock:
            if self._canceled:
                raise K2kError("the preview was canceled", unchanged="Nothing was written.")
            log = scratch.path / "log"
            self._child = spawn(self._command, log_path=log, output=output)
            return self._child


def _failed(said: str, code: int) -> K2kError:
    """Return the error that the command printed."""
    _, prefix, text = said.rpartition("k2ktui: ")
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not prefix or not lines:
        last = (said.strip().splitlines() or ["it printed nothing"])[-1]
        return K2kError(
            f"k2ktui transform preview ended with exit code {code}: {last.strip()}",
            unchanged="Nothing was written.",
            hint="Run the command in a shell to see more.",
        )
    return K2kError("\n".join(lines))
