"""``k2ktui sync`` as a process beside a test."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from tests.support.pipelines.copied import Copied


@contextmanager
def running_sync(copied: Copied | Path, log: Path) -> Iterator[IO[str]]:
    """Run ``k2ktui sync`` for a pipeline or its file, with its messages in a file."""
    file = copied if isinstance(copied, Path) else copied.file
    with log.open("w+") as messages:
        process = subprocess.Popen(
            [sys.executable, "-m", "k2ktui", "sync", "-f", str(file)],
            stdout=subprocess.DEVNULL,
            stderr=messages,
        )
        try:
            yield messages
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(120)
