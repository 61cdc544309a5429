"""What an operator sees of a drill at a terminal, and what is asked."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click
import pytest

from k2ktui.cli.drill import drill as command
from k2ktui.cli.drill.drills import print_drill
from k2ktui.cli.drill.operators import TerminalOperator
from k2ktui.cli.terminal.notes import StatusLine
from k2ktui.drill.operator import agree_question, step_question, take_over_question
from k2ktui.engine.drill.checks import DrillKind, DrillPhase
from k2ktui.engine.drill.model import Drill, DrillFigures, PhaseStatus, new_phases
from k2ktui.engine.drill.site import gather_site
from k2ktui.engine.drill.steps import begin_phase, end_phase
from k2ktui.errors import Refused
from k2ktui.site.run import leave_out_question
from tests.support.commands.in_process import invoke
from tests.support.console.sites import half_way, mark, member
from tests.support.drill.made_drills import listed

PIPELINE = """
name: orders
source: {kafka: {common: {bootstrap.servers: "127.0.0.1:1"}}}
target: {kafka: {common: {bootstrap.servers: "127.0.0.1:2"}}}
replication:
  - source: {topic: "orders"}
  - sink: {topic: source, partition: source}
"""


def make(**fields: object) -> Drill:
    drill = Drill(
        id="20260101-000000-ab",
        kind=DrillKind.PLANNED,
        pipeline="orders",
        source_cluster="s",
        target_cluster="t",
        version="1",
        started_ms=1_000,
        started_by="ann@bastion",
        phases=new_phases(DrillKind.PLANNED),
    )
    return replace(drill, **fields)  # type: ignore[arg-type]


def show(drill: Drill, *, acting: bool) -> str:
    @click.command()
    def shown() -> None:
        print_drill(drill, acting=acting)

    return invoke(shown).output


@pytest.mark.parametrize("kind", ["rehearse", "planned", "disaster", "failback"])
def test_in_production_every_drill_needs_unlock(kind: str, tmp_path: Path) -> None:
    file = tmp_path / "orders.yaml"
    file.write_text(PIPELINE + "environment: production\n")
    with pytest.raises(Refused, match="the environment is production") as refused:
        invoke(command, kind, "-f", file)
    assert "--unlock" in refused.value.hint
    assert invoke(command, kind, "-f", file, "--dry-run").code == 0
    file.write_text(PIPELINE + "readOnly: enabled\n")
    with pytest.raises(Refused, match="readOnly is enabled"):
        invoke(command, kind, "-f", file, "--unlock")


def test_without_a_terminal_only_phases_of_the_option_are_confirmed() -> None:
    operator = TerminalOperator(StatusLine(), {"apply"})
    assert operator.ask(step_question(make(), DrillPhase.APPLY, "commit 3 offsets"))
    with pytest.raises(Refused) as refused:
        operator.ask(step_question(make(), DrillPhase.OPEN_TARGET, "the target is open"))
    assert "--yes-to open-target" in refused.value.hint
    assert "the target is open" in refused.value.message
    assert not operator.ask(take_over_question(make(owner="bob@b", session="x")))
    person = agree_question(make(), ["it would change this"])
    assert not TerminalOperator(StatusLine(), {"all"}).ask(person)


def test_a_drill_is_shown_with_its_next_step_and_the_way_back() -> None:
    preflight = DrillPhase.PREFLIGHT
    drill = end_phase(begin_phase(make(), preflight, 1), preflight, PhaseStatus.DONE, 2, "ok")
    running = begin_phase(replace(drill, owner="ann@bastion"), DrillPhase.LAG, 3)
    text = show(running, acting=True)
    assert "  1 preflight         done      ok" in text
    assert "  2 lag               running" in text
    assert "ann@bastion acts on it, last seen 1970-01-01" in text
    assert "Now, lag: Waits until the lag is below its bound. Changes nothing." in text
    assert "You can still go back: k2ktui drill abort 20260101-000000-ab -f FILE" in text
    left = show(running, acting=False)
    assert "Next, lag: Waits until the lag is below its bound. Changes nothing." in left
    assert "  2 lag               stopped" in left
    assert "No process acts on it; that of ann@bastion was last seen" in left
    assert "Continue it: k2ktui drill resume 20260101-000000-ab -f FILE" in left
    opened = replace(drill, figures=DrillFigures(opened_ms=3))
    assert "You cannot go back: the target was opened" in show(opened, acting=True)


def test_hostile_names_are_escaped() -> None:
    drill = make(pipeline="a\x1b[2Jb", owner="x\u202ey", session="s")
    text = show(drill, acting=True)
    assert "a\\x1b[2Jb" in text
    assert "\x1b" not in text and "\u202e" not in text


def test_pipelines_are_left_out_of_an_abort_by_the_abort() -> None:
    site = gather_site(half_way(), {"search": "no answer"})
    silent = [state for state in site.members if state.drill is None]
    with StatusLine() as line, pytest.raises(Refused) as refused:
        TerminalOperator(line, ()).ask(leave_out_question(site, silent, "abort"))
    assert "the others are aborted without them" in str(refused.value)
    command = f"k2ktui drill abort {site.id} -d DIR --leave-out search"
    assert f"abort again, or leave them out: {command}" in refused.value.hint


def test_members_that_have_listed_records_wait_for_a_choice(
    capsys: pytest.CaptureFixture[str],
) -> None:
    site = gather_site([member(number, listed(), mark()) for number in (1, 2)], {})
    with StatusLine() as line:
        operator = TerminalOperator(line, ())
        operator.show(site)
        operator.show(site)
    said = capsys.readouterr().err
    for state in site.members[:2]:
        assert said.count(f"{state.pipeline}: 2 tail: choose: ") == 1, said
