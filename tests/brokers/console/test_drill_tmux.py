"""Screen 8 in a real tmux of 80 by 24 and 256 colors, by keyboard alone, on real clusters."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from k2ktui.engine.drill.checks import DrillKind, DrillPhase
from k2ktui.engine.drill.model import Drill, DrillStatus
from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.kafka import START_S, end_offsets, eventually, produce_transaction
from tests.support.commands.acting import acting
from tests.support.console.tmux import TMUX, Tmux
from tests.support.drill.runs import Pair, keep_commits

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.skipif(TMUX is None, reason="there is no tmux"),
]
PATIENCE = 180.0


@pytest.fixture
def lost(tmp_path: Path) -> Iterator[KafkaNode]:
    """A source that the test may kill."""
    node = KafkaNode("lost", tmp_path / "lost").start(START_S)
    yield node
    node.close()


def console(pair: Pair) -> Tmux:
    """Open the console of a pipeline on screen 8."""
    state = str(pair.directory / "state")
    env = {"XDG_CONFIG_HOME": state, "XDG_STATE_HOME": state, "LANG": "C.UTF-8"}
    program = ["env", "-u", "COLORTERM", "TERM=screen-256color", sys.executable, "-m", "k2ktui"]
    tmux = Tmux([*program, "-f", str(pair.file), "--interval", "2"], env, (80, 24))
    tmux.sees("Overview", "READ-WRITE", timeout=PATIENCE)
    assert "\x1b[38;5;" in tmux.drawn
    tmux.press("8")
    return tmux


def continue_to(tmux: Tmux, name: str, *texts: str) -> None:
    """Accept whatever stops the drill, as no pipeline runs here, until the texts are shown."""

    def found() -> bool:
        screen = tmux.screen
        if " with A" in screen:
            tmux.press("A")
            tmux.sees("in spite of these findings")
            tmux.agree(name)
        return all(text in screen for text in texts)

    eventually(found, str(texts), PATIENCE)


def begin(tmux: Tmux, pair: Pair) -> None:
    """Begin a planned switchover, and continue until it waits for the producers."""
    name = pair.copied.name
    tmux.sees("No drill yet. N starts one; a rehearsal touches no application.")
    tmux.press("N")
    tmux.sees("up, down choose; tab goes to the groups")
    tmux.press("Down", "Enter")
    tmux.sees("12 phases: preflight", "You confirm each of these", "k2ktui drill planned")
    tmux.agree(name)
    tmux.sees("preflight failed: stopped by", "accept D07, D08 with A", timeout=PATIENCE)
    continue_to(tmux, name, "Stop the producers on the source.", "s of 30 s")
    # Nothing is hidden: the whole checklist, the figures, who acts, and the way back.
    tmux.sees("since start", "0 records", "It runs here: H holds it.", "12 report")
    tmux.sees("You can still go back: X aborts.")


@contextmanager
def keeping_phase(pair: Pair) -> Iterator[None]:
    """Write now and then, so that the drill waits for the producers until the block ends.

    Half a minute without a write may be less than two consoles on a busy machine need. What is
    written is aborted, and counts as copied.
    """
    topic, ended = pair.topics[0], threading.Event()

    def write() -> None:
        while not ended.wait(5.0):
            produce_transaction(pair.source, topic, [b"never committed"], commit=False)

    with acting(write):
        try:
            yield
        finally:
            ended.set()
    end = end_offsets(pair.source, topic, "read_committed")[0]
    pair.copied.put_position(topic, 0, end, 0)


def drill_of(pair: Pair) -> Drill:
    (drill,) = pair.drills()
    return drill


def test_a_second_operator_watches_takes_over_and_aborts(
    tmp_path: Path, source: KafkaNode, target: KafkaNode
) -> None:
    pair = Pair(tmp_path, source, target)
    name = pair.copied.name
    with console(pair) as first, console(pair) as second:
        begin(first, pair)
        with keeping_phase(pair):
            second.sees("a planned drill is open", "acts on it", timeout=PATIENCE)
            second.press("Enter")
            second.sees("You watch; O takes it over.", "s of 30 s", "12 report", timeout=PATIENCE)
            second.press("R")
            second.sees("Resume: ", "acts on it; O")  # the rest is on the next line
            second.press("O")
            second.sees("changes nothing from then on")
            second.agree(name)
            second.sees("It runs here: H holds it.", timeout=PATIENCE)
            first.sees(
                "another operator has taken over drill",
                "You watch; O takes it over.",
                timeout=PATIENCE,
            )
        continue_to(second, name, "type apply to confirm")
        second.agree("apply")
        continue_to(second, name, "type fence-replicator to confirm")
        for number, group in enumerate(pair.groups):
            assert pair.target_offsets(group) == pair.expected_offsets(number)
        second.press("Escape")
        declined = "fence-replicator was not confirmed"
        second.sees(declined, "No operator acts on it", timeout=PATIENCE)
        second.sees("You can still go back: X aborts, and restores 1 change.")
        second.press("X")
        second.sees("Restores, the last change first:")
        second.agree(name)
        second.sees("aborted planned", timeout=PATIENCE)
        first.sees("aborted planned", timeout=PATIENCE)
    drill = drill_of(pair)
    assert (drill.kind, drill.status) == (DrillKind.PLANNED, DrillStatus.ABORTED)
    assert any("taken over from" in event.text for event in drill.events)
    assert all(set(pair.target_offsets(group).values()) == {None} for group in pair.groups)


def test_a_source_that_is_killed_turns_a_planned_drill_into_a_disaster_drill(
    tmp_path: Path, lost: KafkaNode, target: KafkaNode
) -> None:
    pair = Pair(tmp_path, lost, target)
    keep_commits(pair.flow.config)
    name = pair.copied.name
    with console(pair) as tmux:
        begin(tmux, pair)
        lost.kill()
        tmux.sees("The source does not answer: D continues without it.", timeout=PATIENCE)
        tmux.press("D")
        tmux.sees("records that were not copied are lost", "k2ktui drill resume", "--as")
        tmux.agree(name)
        for phase in (DrillPhase.SOURCE_LOST, DrillPhase.FENCE_REPLICATOR, DrillPhase.APPLY):
            continue_to(tmux, name, f"type {phase} to confirm", "You can still go back afterwards")
            tmux.agree(str(phase))
        continue_to(tmux, name, "type open-target to confirm", "This is the point of no return.")
        tmux.agree(str(DrillPhase.OPEN_TARGET))
        tmux.sees("You cannot go back: the target is open.", "watch-clients", timeout=PATIENCE)
        tmux.press("H")
        tmux.sees("No operator acts on it: R resumes it.", timeout=PATIENCE)
    drill = drill_of(pair)
    assert drill.kind is DrillKind.DISASTER and drill.figures.opened_ms is not None
    for number, group in enumerate(pair.groups):
        assert pair.target_offsets(group) == pair.expected_offsets(number)
