"""The demo's user follows the page "Getting started" in tmux, and then fails over by hand."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.spark.demo.test_getting_started import follow, rows
from tests.spark.demo.test_real import mark, marked
from tests.support.clusters.kafka import eventually
from tests.support.commands.cli import k2ktui, k2ktui_json
from tests.support.console.tmux import TMUX, Tmux

__all__ = ["mark"]  # a fixture

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(TMUX is None, reason="there is no tmux"),
]
PATIENCE = 300.0
CHOICES = {
    "stop the producers": 0,
    "stop all consumers": 1,
    "stop the consumers on the target": 2,
    "start producers and consumers on the target": 3,
}


def console(mark: str, *arguments: str) -> Tmux:
    """Open k2ktui in a terminal."""
    names = ("XDG_STATE_HOME", "K2KTUI_TEST_MARK")
    env = {name: os.environ[name] for name in names} | {"LANG": "C.UTF-8"}
    env["XDG_CONFIG_HOME"] = os.environ["XDG_STATE_HOME"]
    assert env["K2KTUI_TEST_MARK"] == mark
    program = ["env", "TERM=screen-256color", sys.executable, "-m", "k2ktui"]
    tmux = Tmux([*program, *arguments], env, (120, 40))
    tmux.sees("Overview", "READ-WRITE", timeout=PATIENCE)
    return tmux


def act(tmux: Tmux, choice: str, so: str) -> None:
    """Do something to the demo's applications, and wait until it is so."""
    tmux.press("C")
    tmux.sees("The demo's applications and source", timeout=PATIENCE)
    tmux.press(*["Down"] * CHOICES[choice], "Enter")
    eventually(lambda: so in k2ktui("demo", "--do", "show").stdout, so, PATIENCE)


def begin(tmux: Tmux, downs: int, title: str, name: str) -> None:
    """Start a drill of the dialog."""
    tmux.press("N")
    tmux.sees("up, down choose; tab goes to the groups", timeout=PATIENCE)
    tmux.press(*["Down"] * downs, "Enter")
    tmux.sees(title, timeout=PATIENCE)
    tmux.agree(name)


def copied(file: Path) -> bool:
    """Whether a pipeline has caught up, but for what is written now."""
    status = k2ktui("status", "-f", file, "--json", code=None)
    if status.returncode:
        return False  # no run of it is known before its job has begun
    partitions = json.loads(status.stdout)["partitions"]
    lags = [partition["lag_records"] for partition in partitions]
    return bool(lags) and all(lag is not None and lag < 2_000 for lag in lags)


@pytest.fixture
def server() -> None:
    """Start the process that commands are forked from, before the environment has the mark."""
    k2ktui("--version")


@pytest.fixture
def demo(server: None, mark: str, tmp_path: Path) -> Iterator[tuple[Tmux, Path]]:
    with console(mark, "demo") as tmux:
        file = tmp_path / "k2ktui" / "demo" / "data" / "pipeline.yaml"
        tmux.sees("● running", "1 diverges", timeout=PATIENCE)
        yield tmux, file
        k2ktui("demo", "--stop")
    eventually(lambda: not marked(mark), "everything is gone")
    assert "No demo is running" in k2ktui("demo", "--stop").stdout


def switch_over(tmux: Tmux) -> None:
    """Do what the phases of a switchover wait for, from fencing producers on."""
    tmux.sees(
        "Stop the producers on the source.",
        "C stops and starts the demo's clients.",
        timeout=PATIENCE,
    )
    act(tmux, "stop the producers", "The producers are stopped.")
    tmux.sees("Stop the consumers on the source.", "3 groups with members", timeout=PATIENCE)
    act(tmux, "stop all consumers", "The consumers are stopped.")
    tmux.agree("apply")
    tmux.agree("fence-replicator")
    tmux.sees("This is the point of no return.", timeout=PATIENCE)
    tmux.agree("open-target")
    tmux.sees(
        "Start producers and consumers on the target.", "0 of 3 groups read", timeout=PATIENCE
    )
    act(tmux, "start producers and consumers on the target", "write to the target")


def test_the_keys_of_the_page_and_a_planned_switchover(demo: tuple[Tmux, Path]) -> None:
    """Then it is ended from a script. Of a disaster and of the way back, see ``demo/test_tour.py``.

    The page's last row, a terminal that closes, is in ``demo/test_with_mirrormaker.py``.
    """
    tmux, file = demo
    for _, keys in rows():
        follow(tmux, keys)
    tmux.resize(80, 24)
    tmux.press("8")
    tmux.sees("No drill yet.", "C Demo's clients", timeout=PATIENCE)
    eventually(lambda: copied(file), "the pipeline has caught up", PATIENCE)
    begin(tmux, 1, "Start a planned drill of all groups", "demo")
    tmux.sees("preflight failed: stopped by D20", timeout=PATIENCE)
    act(tmux, "stop the consumers on the target", "recommender). The source cluster")
    tmux.press("R")
    tmux.agree("demo")
    switch_over(tmux)
    tmux.sees("done planned", "The pipeline is fenced. The way back:", timeout=PATIENCE)
    # Overview calls nothing of it a loss, and J does not begin to check.
    tmux.press("1")
    tmux.sees("failed over to the target", "0 records missing when it was opened", timeout=PATIENCE)
    tmux.sees("5 moved", timeout=PATIENCE)
    assert "would" not in tmux.screen and "lose" not in tmux.screen, tmux.screen
    # The pair's lines leave no room for the map of partitions at 80x24.
    tmux.press("2")
    tmux.sees("17 partitions", "○ fenced", timeout=PATIENCE)
    tmux.press("5")
    tmux.sees("no run is alive", timeout=PATIENCE)
    tmux.press("J")
    tmux.sees("the pipeline was fenced by", "The way back is", timeout=PATIENCE)
    drill, *_ = k2ktui_json("drill", "list", "-f", file)["drills"]
    report = k2ktui_json("drill", "report", drill["id"], "-f", file)
    (watched,) = [phase for phase in report["phases"] if phase["phase"] == "watch-clients"]
    gap = r"3 of 3 clients came, gap at most \S+( \S+)*"
    assert re.fullmatch(f"3 of 3 groups read on the target; {gap}", watched["live"]), watched[
        "live"
    ]
    active = [group for group in report["groups"] if group["was_active"]]
    assert {group["group"] for group in active} == {"billing", "fulfilment", "recommender"}
    assert all((group["reread"], group["skipped"]) == (0, 0) for group in active), active
