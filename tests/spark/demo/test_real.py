"""The demo as an operator runs it: real clusters, real pipeline; and nothing is left behind."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.support.clusters.kafka import eventually

COMMAND = [sys.executable, "-m", "k2ktui", "demo", "--headless"]
# Generous: a machine that also runs other things needs it.
FLOWING_SECONDS = 300.0


@pytest.fixture
def mark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """An environment variable's value by which every process of the demo is known."""
    value = uuid.uuid4().hex
    monkeypatch.setenv("K2KTUI_TEST_MARK", value)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    yield value
    for process in marked(value):
        process.kill()


def marked(value: str) -> list[psutil.Process]:
    """The processes that inherited the mark, this one excepted."""
    processes = []
    for process in psutil.process_iter():
        try:
            if process.pid != os.getpid() and process.environ().get("K2KTUI_TEST_MARK") == value:
                processes.append(process)
        except psutil.Error:
            continue
    return processes


def copied(state: Path) -> bool:
    """Whether the pipeline reported that records are visible on the target."""
    logs = (state / "k2ktui" / "jobs").glob("*/*/log.jsonl")
    return any("firstrecord" in log.read_text() for log in logs)


@pytest.mark.slow
def test_records_flow_and_nothing_is_left(mark: str) -> None:
    done = subprocess.run(
        [*COMMAND, "--seconds", "6"], capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert not marked(mark)
    last_table = done.stdout.split("source → target")[-1]
    for topic in ("orders", "payments", "clicks", "customers", "sessions", "invoices"):
        assert re.search(rf"{topic} +\d+ +[\d,]+ ", last_table), last_table
    assert "verbatim" in last_table


@pytest.mark.slow
def test_mirrormaker_runs_beside_it(mark: str) -> None:
    done = subprocess.run(
        [*COMMAND, "--with-mirrormaker", "--seconds", "6"],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert not marked(mark)
    last_table = done.stdout.split("records read again")[-1]
    assert "MirrorMaker 2" in last_table
    # The group that has read everything is read again by neither; others by it, not by us.
    assert re.search(r"archive +0 ", last_table), last_table
    for group in ("billing", "fulfilment", "recommender"):
        assert re.search(rf"{group} +[\d,—]+ +[\d,—]+", last_table), last_table


@pytest.mark.slow
@pytest.mark.parametrize("how", ["killed", "hung up"])
def test_nothing_is_left_however_it_ends(mark: str, tmp_path: Path, how: str) -> None:
    """Of Ctrl-C, see the tour (``test_tour.py``)."""
    master, terminal = pty.openpty()
    demo = subprocess.Popen(
        ["setsid", "--ctty", *COMMAND],  # the terminal is this session's own
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
    )
    os.close(terminal)
    os.set_blocking(master, False)

    def flowing() -> bool:
        with contextlib.suppress(BlockingIOError):
            os.read(master, 1 << 16)
        assert demo.poll() is None
        return copied(tmp_path)

    try:
        eventually(flowing, "records flow", FLOWING_SECONDS)
        assert len(marked(mark)) > 6  # two clusters, Spark's Java and Python, supervisors
        if how == "killed":
            demo.kill()
        else:
            os.close(master)
            master = -1
        demo.wait(120)
        eventually(lambda: not marked(mark), "everything is gone")
        assert not list((tmp_path / "k2ktui" / "jobs").glob("*/*")), "the job is forgotten"
    finally:
        demo.send_signal(signal.SIGKILL)
        demo.wait(15)
        if master >= 0:
            os.close(master)
