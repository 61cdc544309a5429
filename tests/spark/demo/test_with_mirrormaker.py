"""The demo with the real MirrorMaker 2 beside its pipeline: the console shows both.

Its terminal is closed, its operator comes back to the running job, and ends the demo.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from k2ktui.demo import running
from k2ktui.jobs.job_directory import JobRecord
from tests.spark.demo.test_real import FLOWING_SECONDS, command_lines, mark, marked
from tests.support.clusters.kafka import TIMEOUT, eventually
from tests.support.commands.cli import k2ktui_json
from tests.support.console.terminal import Terminal

__all__ = ["mark"]  # a fixture

pytestmark = pytest.mark.slow
COMMAND = [sys.executable, "-m", "k2ktui", "demo", "--with-mirrormaker"]
SIZE = (120, 30)
# Both copy at once, and MirrorMaker 2 translates nothing before it has copied a while.
COMPARED_SECONDS = 300.0


@pytest.fixture
def terminal(mark: str) -> Iterator[Terminal]:
    """A terminal with the demo's console in it."""
    with Terminal(COMMAND, size=SIZE, env=dict(os.environ)) as opened:
        opened.await_text("Re-reads", 2 * FLOWING_SECONDS)
        yield opened


def close(terminal: Terminal) -> JobRecord:
    """Close the terminal; its demo waits for somebody to come back."""
    terminal.hang_up()
    eventually(running.is_waiting, "it waits")
    # As a shell does whose terminal closes; Textual's handler of it ended the demo.
    terminal.process.send_signal(signal.SIGCONT)
    time.sleep(1)
    assert terminal.process.poll() is None
    found = running.find_demo()
    assert found is not None
    return found


def test_its_console_shows_both_its_terminal_closes_and_q_ends_all(
    terminal: Terminal, mark: str, tmp_path: Path
) -> None:
    """The columns are drawn; what they show is what ``watch`` says; nothing is left behind.

    MirrorMaker 2 ends with the demo. Of one that is killed, see ``test_move.py``; of its end from a
    script, ``tests/unit/demo/test_detached.py``.
    """
    data = tmp_path / "k2ktui" / "demo" / "data"
    files = ("-f", data / "pipeline.yaml", "--mirrormaker", data / "mm2.properties")

    def compared() -> bool:
        with contextlib.suppress(OSError):
            terminal.read(0.05)
        view = k2ktui_json("watch", *files, "--once", code=None)
        theirs = {
            summary["group"]: summary["theirs"]
            for summary in view["summaries"]
            if summary["theirs"]
        }
        ours = {summary["group"]: summary["ours"] for summary in view["summaries"]}
        # It counts the records around its sparse offset-syncs; ours has every record.
        late = theirs.get("recommender", {"records": 0})["records"]
        return bool(late > 0 and ours["recommender"]["records"] == 0)

    eventually(compared, "MirrorMaker 2 re-reads where we do not", COMPARED_SECONDS)
    terminal.send("3")
    terminal.await_text("by MM2")
    terminal.send("m")
    terminal.await_text("would not continue: ")
    terminal.send("q")
    terminal.await_text("by k2ktui")
    terminal.send("q")
    terminal.await_text("End (e)")
    terminal.send("\x1b")

    found = close(terminal)
    assert any("MirrorMaker" in line for line in command_lines(mark).values())
    with Terminal(COMMAND, size=SIZE, env=dict(os.environ)) as back:
        back.await_text("Re-reads")
        back.send("5")
        back.await_text("on this host, pid")
        back.send("q")
        back.await_text("End (e)")
        back.send("e")
        assert back.wait(TIMEOUT) == 0
        assert back.output.rstrip().endswith(b"The demo has ended.")
    terminal.wait(TIMEOUT)
    assert not found.identity.alive
    eventually(lambda: not marked(mark), "everything is gone")
    assert not data.exists()
