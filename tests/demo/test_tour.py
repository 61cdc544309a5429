"""The tour of a failover, as a user runs it: a rehearsal, then a planned switchover."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import signal
import subprocess
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from k2ktui.demo import tours
from k2ktui.demo.tour import TourAction, TourOperator, is_exact
from k2ktui.engine.drill import (
    Drill,
    DrillFigures,
    DrillStatus,
    GroupResult,
    PhaseRecord,
    PhaseStatus,
    new_phases,
)
from k2ktui.engine.drill_checks import DrillKind, DrillPhase
from k2ktui.errors import ExitCode
from tests.demo.test_real import COMMAND, mark, marked
from tests.support.cli import k2ktui_json
from tests.support.kafka import eventually
from tests.support.verbs import k2ktui

__all__ = ["mark"]  # a fixture

BEGUN = Drill("id", DrillKind.PLANNED, "demo", "s", "t", "1", 0, "me")
EXACT = replace(
    BEGUN,
    status=DrillStatus.DONE,
    groups=(GroupResult("billing", partitions=3, reread=0, skipped=0),),
    figures=DrillFigures(rpo_records=0, content_compared=3),
)


def test_the_operator_announces_a_phase_pauses_and_acts_before_it_runs() -> None:
    said: list[str] = []
    acted = TourAction("The tour acts.", lambda: said.append("acted"))
    operator = TourOperator(
        said.append,
        lambda: said.append("paused"),
        Path("/a file.yaml"),
        "k2ktui drill planned",
        {DrillPhase.LAG: acted},
    )
    drill = replace(BEGUN, phases=new_phases(DrillKind.PLANNED))
    operator.show(drill)
    operator.show(drill)
    assert [line.partition(":")[0] for line in said] == [
        "1 of 12, preflight",
        "  By hand",
        "paused",
    ]
    assert said[1] == "  By hand: k2ktui check -f '/a file.yaml'"
    said.clear()
    done = PhaseRecord(DrillPhase.PREFLIGHT, PhaseStatus.DONE, live="fine", findings=("but\x1b",))
    operator.show(drill.with_phase(done))
    assert said[:2] == ["  done: fine", "    but\\x1b"]
    assert said[2].startswith("2 of 12, lag: Waits until")
    assert said[4:] == ["paused", "  The tour acts.", "acted"]


@pytest.mark.parametrize(
    "other",
    [
        replace(EXACT, status=DrillStatus.OPEN),
        replace(EXACT, groups=()),
        replace(EXACT, groups=(replace(EXACT.groups[0], reread=1),)),
        replace(EXACT, groups=(replace(EXACT.groups[0], skipped=1),)),
        replace(EXACT, groups=(replace(EXACT.groups[0], unmapped=1),)),
        replace(EXACT, groups=(replace(EXACT.groups[0], was_active=True, note="not joined"),)),
        replace(EXACT, figures=replace(EXACT.figures, rpo_records=1)),
        replace(EXACT, figures=replace(EXACT.figures, content_different=1)),
    ],
)
def test_only_a_whole_switchover_is_exact(other: Drill) -> None:
    assert is_exact(EXACT)
    assert not is_exact(other)


@pytest.mark.parametrize("option", ["--keep", "--fresh", "--with-mirrormaker", "--with-schemas"])
def test_options_about_data_are_refused_with_the_tour(option: str) -> None:
    said = k2ktui("demo", "--drill", option)
    assert said.code == 2
    assert "--drill cannot be combined" in said.err


@pytest.mark.parametrize("worse", ["there", "back"])
def test_the_exit_code_is_the_worse_one_of_there_and_back(
    worse: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    codes = {"there": ExitCode.OK, "back": ExitCode.OK}
    monkeypatch.setattr(tours, "run_tour", lambda *_: codes["there"])
    monkeypatch.setattr(tours, "_fail_back", lambda *_: codes["back"])
    nothing: Any = SimpleNamespace(fault=None)
    nodes = (nothing, nothing)
    stage = tours.Stage(Path("x"), nodes, nothing, nothing, nothing, nothing, 0.0)
    assert tours.run_planned(stage) == ExitCode.OK
    codes[worse] = ExitCode.FINDINGS
    assert tours.run_planned(stage) == ExitCode.FINDINGS


def test_a_pause_is_for_a_tour() -> None:
    said = k2ktui("demo", "--pause", "1")
    assert said.code == 2
    assert "--pause is only for the phases of --drill" in said.err


PAUSE_S = 0.5
ESCAPES = re.compile(r"\x1b\[[\d;?]*[A-Za-z]")
READ = re.compile(r"  (\w+): ([\d,]+) records read, ([\d,]+) read again, ([\d,]+) skipped\n")


def check_reads(said: str) -> None:
    """Every live group has read each record once, there and back."""
    found = {name: (again, skipped) for name, _, again, skipped in READ.findall(said)}
    assert found == dict.fromkeys(("billing", "fulfilment", "recommender"), ("0", "0")), said
    assert "There and back, every running group has read each record exactly once." in said


def time_of(line: str, said: str) -> float:
    """Return the second at which the tour printed a line."""
    found = re.search(rf"([\d.]+) s  .*?{line}", said)
    assert found, said
    return float(found[1])


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_the_second_tour_kills_the_source_and_returns_to_it(mark: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [*COMMAND, "--drill", "disaster", "--seconds", "3"],
        capture_output=True,
        text=True,
        timeout=1100,
        check=False,
    )
    said = done.stdout
    assert done.returncode == 0, said + done.stderr
    assert not marked(mark)
    assert not (tmp_path / "k2ktui" / "demo" / "drill").exists()
    assert "kills the source cluster" in said
    assert re.search(r"The tour confirms, where you would type tail: [\d,]+ records on", said), said
    assert re.search(r"done: [\d,]+ records on .* copied to the new primary", said), said
    check_reads(said)
    ended = time_of("There and back, every running group", said)
    assert time_of("Stopping the pipeline", said) - ended >= 2.9


def check_switchover(said: str) -> None:
    """The tour rehearses, pauses, acts before phases, and moves every group exactly."""
    rehearsal, _, switchover = said.partition("The planned switchover moves every group")
    assert "5 of 5, report" in rehearsal
    assert "A failover now would move every group to its exact position." in rehearsal, said
    assert "\\x0a" not in said, "what is confirmed is printed in lines"
    assert re.search(r"done: 5 shadow groups read [\d,]+ records as expected", rehearsal), said
    for action in (
        "The tour stops the demo's producers on the source.",
        "The tour stops the demo's consumers on the source.",
        "The tour starts the demo's consumers and producers on the target.",
    ):
        assert action in switchover
    assert "RPO: 0 records on the source only" in switchover
    assert len(re.findall(r"Groups: 5, 0 records read again, 0 skipped\n", switchover)) == 2, said
    assert "done: 3 of 3 groups read on the target" in switchover
    assert re.search(r"k2ktui drill report \S+ -f \S+pipeline.yaml", switchover)
    assert "Every group was moved to exactly its position" in switchover
    assert re.search(r"k2ktui drill report \S+ -f \S+pipeline-reverse.yaml", switchover)
    check_reads(said)
    by_hand = r"By hand: a phase of k2ktui drill planned"
    acts = r"  The tour stops the demo's producers on the source"
    assert time_of(acts, switchover) - time_of(by_hand, switchover) >= PAUSE_S - 0.1


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_at_a_terminal_the_clusters_stay_until_ctrl_c(mark: str, tmp_path: Path) -> None:
    """The first tour switches over exactly, and returns; with Ctrl-C nothing is left."""
    master, terminal = pty.openpty()
    command = [each for each in COMMAND if each != "--headless"]
    demo = subprocess.Popen(
        ["setsid", "--ctty", *command, "--drill", "--pause", f"{PAUSE_S}"],
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
    )
    os.close(terminal)
    os.set_blocking(master, False)
    shown = b""

    def over() -> bool:
        nonlocal shown
        with contextlib.suppress(BlockingIOError):
            shown += os.read(master, 1 << 16)
        assert demo.poll() is None, shown.decode()
        return b"keep running" in shown

    try:
        eventually(over, "the tour is over", 1000)
        file = tmp_path / "k2ktui" / "demo" / "drill" / "pipeline.yaml"
        drills = k2ktui_json("drill", "list", "-f", file)["drills"]
        assert [(each["kind"], each["status"]) for each in drills] == [
            ("planned", "done"),
            ("rehearse", "done"),
        ]
        os.write(master, b"\x03")
        assert demo.wait(120) == 130
        eventually(lambda: not marked(mark), "everything is gone")
        assert not file.parent.exists()
    finally:
        demo.kill()
        demo.wait(15)
        os.close(master)
    check_switchover(ESCAPES.sub("", shown.decode()).replace("\r\n", "\n"))


@pytest.mark.slow
def test_ctrl_c_during_the_switchover_leaves_nothing(mark: str, tmp_path: Path) -> None:
    with subprocess.Popen([*COMMAND, "--drill"], stdout=subprocess.PIPE, text=True) as demo:
        assert demo.stdout is not None
        lines, interrupted = [], False
        for line in demo.stdout:
            lines.append(line)
            if "4 of 12, drain" in line and not interrupted:
                interrupted = True
                demo.send_signal(signal.SIGINT)
        assert demo.wait(120) == 130, "".join(lines)
    assert interrupted, "".join(lines)
    eventually(lambda: not marked(mark), "everything is gone")
    assert not (tmp_path / "k2ktui" / "demo" / "drill").exists()
