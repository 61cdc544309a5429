"""The tour of a failover on real clusters: it moves there and back, and leaves nothing."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from tests.spark.demo.test_real import COMMAND, mark, marked
from tests.support.clusters.kafka import eventually
from tests.support.commands.cli import k2ktui_json
from tests.support.commands.verbs import k2ktui
from tests.support.console.terminal import Terminal

__all__ = ["mark"]  # a fixture


PAUSE_S = 0.5
PATIENCE_S = 1000.0
# No line of the tour is cut, or broken in the middle of a word.
SIZE = (500, 50)
# At a terminal, where it waits for Ctrl-C; with less traffic, as it advises on a busy machine.
TOUR = [*(word for word in COMMAND if word != "--headless"), "--rate", "0.2", "--drill"]


ESCAPES = re.compile(r"\x1b\[[\d;?]*[A-Za-z]")


READ = re.compile(r"  (\w+): ([\d,]+) records read, ([\d,]+) read again, ([\d,]+) skipped\n")


def check_reads(said: str) -> None:
    """Every live group has read each record once, there and back."""
    counts = {name: (again, skipped) for name, _, again, skipped in READ.findall(said)}
    assert counts == dict.fromkeys(("billing", "fulfilment", "recommender"), ("0", "0")), said
    assert "There and back, every running group has read each record exactly once." in said


def time_of(line: str, said: str) -> float:
    """Return the second at which the tour printed a line."""
    match = re.search(rf"([\d.]+) s  .*?{line}", said)
    assert match, said
    return float(match[1])


def plain(output: bytes) -> str:
    """What a terminal was told, without its escapes."""
    return ESCAPES.sub("", output.decode(errors="replace")).replace("\r\n", "\n")


def await_said(terminal: Terminal, text: str) -> None:
    """Wait until the tour has said something."""

    def is_said() -> bool:
        terminal.read(0.05)
        assert terminal.process.poll() is None, plain(terminal.output)
        return text in plain(terminal.output)

    eventually(is_said, text, PATIENCE_S)


@pytest.mark.slow
def test_the_second_tour_kills_the_source_and_returns_to_it(mark: str, tmp_path: Path) -> None:
    """At a terminal, the clusters stay until Ctrl-C, which leaves nothing."""
    command = [*TOUR, "disaster", "--pause", "0"]
    with Terminal(command, size=SIZE, env=dict(os.environ)) as terminal:
        await_said(terminal, "keep running")
        assert "Producers write to the source" in k2ktui("demo", "--do", "show").out
        file = tmp_path / "k2ktui" / "demo" / "drill" / "pipeline.yaml"
        drills = k2ktui_json("drill", "list", "-f", file)["drills"]
        assert [(drill["kind"], drill["status"]) for drill in drills] == [("disaster", "done")]
        jobs = k2ktui_json("jobs", "list")["jobs"]
        running = {job["pipeline"] for job in jobs if job["alive"]}
        assert running == {"demo"}, "the forward pipeline copies on, the other one has stopped"
        terminal.send("\x03")
        assert terminal.wait(300) == 130
        eventually(lambda: not marked(mark), "everything is gone")
        assert not file.parent.exists()
    said = plain(terminal.output)
    assert "kills the source cluster" in said
    assert re.search(r"The tour confirms, where you would type tail: [\d,]+ records on", said), said
    assert re.search(r"done: [\d,]+ records on .* copied to the new primary", said), said
    assert re.search(r"k2ktui drill report \S+ -f \S+pipeline-reverse.yaml", said)
    assert len(re.findall(r"Groups: 5, 0 records read again, 0 skipped\n", said)) == 1, said
    check_reads(said)


def check_switchover(said: str) -> None:
    """The tour rehearses, pauses, acts before phases, and moves every group exactly."""
    rehearsal, _, switchover = said.partition("The planned switchover moves every group")
    assert "5 of 5, report" in rehearsal
    # On a machine that does not keep up with the producers, groups are ahead of what is copied.
    is_behind = re.search(r"RPO: .*, the oldest ([5-9]|\d\d+) s old", rehearsal)
    exact = "A failover now would move every group to its exact position."
    assert exact in rehearsal or is_behind, said
    assert "\\x0a" not in said, "what is confirmed is printed in lines"
    assert re.search(r"done: 5 shadow groups read [\d,]+ records as expected", rehearsal), said
    for action in (
        "The tour stops the demo's producers on the source.",
        "The tour stops the demo's consumers on the source.",
        "The tour starts the demo's consumers and producers on the target.",
    ):
        assert action in switchover
    assert "RPO: 0 records on the source only" in switchover
    assert len(re.findall(r"Groups: 5, 0 records read again, 0 skipped\n", switchover)) == 1, said
    assert "done: 3 of 3 groups read on the target" in switchover
    assert re.search(r"k2ktui drill report \S+ -f \S+pipeline.yaml", switchover)
    assert "Every group was moved to exactly its position" in switchover
    by_hand = r"By hand: a phase of k2ktui drill planned"
    acts = r"  The tour stops the demo's producers on the source"
    assert time_of(acts, switchover) - time_of(by_hand, switchover) >= PAUSE_S - 0.1


@pytest.mark.slow
def test_the_first_tour_switches_over_and_is_interrupted_on_its_way_back(
    mark: str, tmp_path: Path
) -> None:
    """Ctrl-C in the middle of a drill leaves nothing; of its whole way back, see the second one."""
    command = [*TOUR, "--pause", f"{PAUSE_S}"]
    with Terminal(command, size=SIZE, env=dict(os.environ)) as terminal:
        await_said(terminal, "The reverse pipeline copies to the old source")
        file = tmp_path / "k2ktui" / "demo" / "drill" / "pipeline.yaml"
        drills = k2ktui_json("drill", "list", "-f", file)["drills"]
        assert [(drill["kind"], drill["status"]) for drill in drills] == [
            ("planned", "done"),
            ("rehearse", "done"),
        ]
        await_said(terminal, "6 of 14, drain")
        terminal.send("\x03")
        assert terminal.wait(300) == 130
        eventually(lambda: not marked(mark), "everything is gone")
        assert not file.parent.exists()
    said = plain(terminal.output)
    assert "done: every record of the old source is on the new primary" in said
    assert "keep running" not in said
    check_switchover(said)
