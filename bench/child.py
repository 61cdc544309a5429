"""Run one replicator as a child process, measured from before its start."""

from __future__ import annotations

import time
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil

from bench.meter import Meter
from bench.model import Launch
from k2ktui.errors import TimedOut
from k2ktui.runtime import child_process

_STOP_SECONDS = 15.0
_LOG_LINES = 12


class Child:
    """A replicator, from its start to its end; use with ``with``.

    Attributes:
        started: when it was started (monotonic).
        meter: CPU time and memory of its process tree.
    """

    def __init__(self, launch: Launch, directory: Path) -> None:
        self._launch = launch
        self._log = directory / "replicator.log"
        self._directory = directory
        self.started = 0.0

    def __enter__(self) -> Self:
        self.started = time.monotonic()
        self._process = child_process.spawn(
            self._launch.command, log_path=self._log, grace=5.0, cwd=self._directory
        )
        # The supervisor, under which every process of the tree stays.
        self.meter = Meter(psutil.Process(self._process.pid).ppid())
        self.meter.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.meter.stop()
        self._process.stop(_STOP_SECONDS)

    @property
    def pid(self) -> int:
        """The process id of the replicator itself."""
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """None while it runs."""
        return self._process.poll()

    def wait(self, timeout: float) -> int | None:
        """Wait for its end and return the exit code, or None when it still runs."""
        try:
            return self._process.wait(timeout)
        except TimedOut:
            return None

    def tail(self) -> str:
        """The last lines of its log."""
        return "\n".join(self.text().splitlines()[-_LOG_LINES:])

    def text(self) -> str:
        """Its log; empty before there is one."""
        try:
            return self._log.read_text(errors="replace")
        except OSError:
            return ""
