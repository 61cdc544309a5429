"""The report as plain text: all that the Markdown says, the failures first, in lines that read."""

from __future__ import annotations

from dataclasses import replace

from k2ktui.drill.report import make_report, render_text, report_markdown
from k2ktui.drill.report_html import report_html
from k2ktui.engine.drill.checks import DrillKind, DrillPhase
from k2ktui.engine.drill.hooks import Hook, HookStatus, new_record
from k2ktui.engine.drill.model import CheckpointEffect, Drill, DrillStatus, GroupResult
from tests.support.drill.made_drills import NOON_MS, new_drill, stopped, switched_over
from tests.unit.drill.test_report_html import hostile

# Beside the time of a phase, and behind an entry of the journal.
LEFT_OUT = {"of the tool", "hash"}


def text_of(drill: Drill) -> str:
    return "\n".join(render_text(make_report(drill)))


def test_it_says_what_the_markdown_says() -> None:
    drill = hostile("orders")
    shown = text_of(drill)
    for section in make_report(drill).sections:
        assert section.title in shown
        for row in section.rows:
            for column, text in zip(section.columns, row, strict=True):
                assert column in LEFT_OUT or text == "—" or text in shown, (section.title, text)
    assert "\x1b" not in text_of(hostile())


def test_phases_that_an_aborted_drill_did_not_reach_are_not_run() -> None:
    aborted = replace(stopped(), status=DrillStatus.ABORTED, ended_ms=NOON_MS)
    assert "  4 drain: not run\n" in text_of(aborted)
    assert "| drain | not run |" in report_markdown(aborted)
    for form in (text_of(aborted), report_markdown(aborted), report_html(aborted)):
        assert "waiting\n" not in form and "| waiting |" not in form and ">waiting<" not in form
    assert "  4 drain: waiting\n" in text_of(stopped())


def test_failed_checks_are_first_and_a_finding_is_named_once() -> None:
    shown = text_of(stopped())
    checks = shown.partition("\nChecks\n")[2].splitlines()
    assert [line.split()[0] for line in checks[:4]] == ["D29", "D39", "D01", "D28"]
    assert shown.count("is open since 4 m 2 s") == 1
    assert "  3 fence-producers: failed (30.0 s) records were written\n" in shown


def test_a_long_phase_has_its_two_largest_units() -> None:
    drill = switched_over()
    drain = drill.record(DrillPhase.DRAIN)
    drill = drill.with_phase(replace(drain, ended_ms=(drain.began_ms or 0) + 3_725_000))
    assert "  4 drain: done (1 h 2 m) done\n" in text_of(drill)


def test_it_has_every_group() -> None:
    effect = CheckpointEffect(reread=4)
    groups = tuple(GroupResult(f"g{n}", 2, reread=1200, checkpoints=effect) for n in range(201))
    shown = text_of(replace(switched_over(), groups=groups))
    for name in ("g0", "g200"):
        line = "2 partitions, 0 unmapped, re-read 1,200, skipped —, 0 of 0 compared records differ"
        assert f"  {name}: {line}\n" in shown
        assert f"  {name}: re-read by checkpoints 4, re-read by k2ktui 1200," in shown
    assert "in the JSON report" not in shown


def test_a_hook_has_the_command_of_its_abort() -> None:
    hook = Hook(DrillPhase.APPLY, False, "switch", ("/bin/to", "west"), 60.0, ("/bin/back", "east"))
    record = replace(new_record(hook), status=HookStatus.DONE, result="exit code 0")
    drill = replace(new_drill(DrillKind.PLANNED), hooks=(record,))
    lines = ("hook before apply, switch: done, exit code 0", "  runs: /bin/to west")
    assert "\n  ".join((*lines, "  abort: /bin/back east")) in text_of(drill)
    assert "| /bin/to west | /bin/back east | done |" in report_markdown(drill)
