"""The demo with the real MirrorMaker 2 beside its pipeline: the console shows both."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from k2ktui.demo import running
from k2ktui.errors import ExitCode
from tests.spark.demo.test_real import FLOWING_SECONDS, mark, marked
from tests.support.clusters.kafka import TIMEOUT, eventually
from tests.support.console.terminal import Terminal

__all__ = ["mark"]  # a fixture

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
K2KTUI = [sys.executable, "-m", "k2ktui"]
COMMAND = [*K2KTUI, "demo", "--with-mirrormaker"]
# Both copy at once, and MirrorMaker 2 translates nothing before it has copied a while.
COMPARED_SECONDS = 300.0


@pytest.fixture
def terminal(mark: str) -> Iterator[Terminal]:
    """A terminal with the demo's console in it."""
    with Terminal(COMMAND, size=(120, 30), env=dict(os.environ)) as opened:
        opened.await_text("Re-reads", 2 * FLOWING_SECONDS)
        yield opened


def test_both_columns_are_in_its_console_and_q_ends_all(
    terminal: Terminal, mark: str, tmp_path: Path
) -> None:
    """The columns are drawn; what they show is what ``watch`` says; nothing is left behind."""
    data = tmp_path / "k2ktui" / "demo" / "data"
    files = ("-f", data / "pipeline.yaml", "--mirrormaker", data / "mm2.properties")

    def compared() -> bool:
        with contextlib.suppress(OSError):
            terminal.read(0.05)
        done = subprocess.run(
            [*K2KTUI, "watch", *files, "--once", "--json"], capture_output=True, check=False
        )
        assert done.returncode in (ExitCode.OK, ExitCode.FINDINGS), done.stderr
        view = json.loads(done.stdout)
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
    terminal.send("e")
    assert terminal.wait(TIMEOUT) == 0
    eventually(lambda: not marked(mark), "everything is gone")
    assert not data.exists()


def test_it_stays_when_its_terminal_closes(terminal: Terminal, mark: str, tmp_path: Path) -> None:
    """MirrorMaker 2 ends with the demo; of one that is killed, see ``test_real.py``."""
    home = tmp_path / "k2ktui" / "demo"
    assert any("MirrorMaker" in " ".join(process.cmdline()) for process in marked(mark))
    terminal.hang_up()
    eventually(lambda: (host := running.host(home)) and host.waiting, "it waits")
    with Terminal(COMMAND, size=(120, 30), env=dict(os.environ)) as back:
        back.await_text("Re-reads")
        back.send("q")
        back.await_text("End (e)")
        back.send("e")
        assert back.wait(TIMEOUT) == 0
    terminal.wait(TIMEOUT)
    eventually(lambda: not marked(mark), "everything is gone")
