"""A demo's terminal is closed; its operator comes back to the running job, and ends the demo.

Of its end from a script, see ``tests/unit/demo/test_detached.py``.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from k2ktui.demo import running
from tests.spark.demo.test_real import FLOWING_SECONDS, copied, mark, marked
from tests.support.clusters.kafka import eventually
from tests.support.console.terminal import Terminal

__all__ = ["mark"]  # a fixture

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
COMMAND = [sys.executable, "-m", "k2ktui", "demo"]


@pytest.fixture
def home(mark: str, tmp_path: Path) -> Iterator[Path]:
    """Where a demo is kept that runs without its terminal."""
    terminal = Terminal(COMMAND, env=dict(os.environ))

    def flowing() -> bool:
        terminal.read(0.05)
        assert terminal.process.poll() is None, terminal.output[-2000:]
        return copied(tmp_path)

    home = tmp_path / "k2ktui" / "demo"
    try:
        # The clusters start, then Spark: at a load of 30 on four cores, a pipeline alone took 90 s
        # to start and to copy 25,000 records.
        eventually(flowing, "records flow", 2 * FLOWING_SECONDS)
        terminal.hang_up()
        eventually(lambda: (host := running.host(home)) and host.waiting, "it waits")
        # As a shell does whose terminal closes; Textual's handler of it ended the demo.
        terminal.process.send_signal(signal.SIGCONT)
        time.sleep(1)
        assert terminal.process.poll() is None
        yield home
    finally:
        terminal.process.kill()
        terminal.process.wait(120)


def test_the_job_is_found_again_and_q_ends_everything(home: Path, mark: str) -> None:
    host = running.host(home)
    assert host is not None
    with Terminal(COMMAND, env=dict(os.environ)) as terminal:
        terminal.await_text("Overview")
        terminal.send("5")
        terminal.await_text("on this host, pid")
        terminal.send("q")
        terminal.await_text("End (e)")
        terminal.send("e")
        assert terminal.wait(120) == 0
        assert terminal.output.rstrip().endswith(b"The demo has ended.")
    assert not host.identity.alive
    eventually(lambda: not marked(mark), "everything is gone")
    assert not (home / "data").exists()
