"""Screen 8 of a directory with made site drills: what it shows, and which keys are possible."""

from __future__ import annotations

from dataclasses import replace

import pytest
from textual.widgets import Button

from k2ktui.console.screens.site import SiteScreen
from k2ktui.console.screens.site_member import MemberScreen
from k2ktui.console.widgets.choice_dialog import ChoiceDialog
from k2ktui.console.widgets.confirm import Confirm
from k2ktui.console.widgets.grid import Grid
from k2ktui.drill.operator import Question, QuestionKind, agree_question, step_question
from k2ktui.engine.drill.checks import DrillKind, DrillPhase
from k2ktui.engine.drill.model import Drill, DrillStatus, new_phases
from k2ktui.engine.drill.site import gather_site
from k2ktui.site.run import SiteRun
from tests.support.console.driver import ConsoleDriver, Steps, drive_session
from tests.support.console.fleets import MadeFleet
from tests.support.console.pictures import THEMES, compare_session_after, each_screen
from tests.support.console.sites import (
    NAMES,
    half_way,
    mark,
    member,
    planned,
    rows,
    site_session,
)
from tests.support.drill.made_drills import NOON_MS, listed
from tests.support.drill.sites import SiteYes

SIZES = [(80, 24), (120, 35), (200, 60)]
KEYS = {"site-drills": (), "site": ("enter",), "site-held": ("enter", "down", "enter")}


@each_screen(KEYS)
def test_screens_look_as_they_did(screen: str) -> None:
    session, keys = site_session(*half_way()), ("8", *KEYS[screen])
    themes = THEMES if screen == "site" else ()
    compare_session_after(session, keys, screen, sizes=SIZES, themes=themes)


def idle(drills: tuple[Drill, ...]) -> tuple[Drill, ...]:
    """Return drills on which nobody acts."""
    return tuple(replace(drill, session="") for drill in drills)


def on_site(
    steps: Steps, *drills: Drill, read_only: bool = False, feed: MadeFleet | None = None
) -> None:
    async def opened(console: ConsoleDriver) -> None:
        await console.press("enter")
        await console.until(lambda: isinstance(console.screen, SiteScreen), "opened")
        await steps(console)

    session = site_session(*drills, read_only=read_only, feed=feed)
    drive_session(session, opened, screen="8")


def test_the_members_are_listed_worst_first_with_why() -> None:
    async def steps(console: ConsoleDriver) -> None:
        listed = [row.pipeline for row in console.screen.query_one(Grid).rows]
        assert listed == ["search", "payments", "iot", "clicks", "billing", "ledger", "orders"]
        assert "payments, search keep all others from open-target." in console.text
        assert "ann@bastion2 acts on it. You watch" in console.text
        assert "You can still go back: X aborts all." in console.text
        assert any("target cluster: no answer" in line for line in console.text.splitlines())
        await console.press("j")
        await console.sees("payments: stop-consumers failed: group payments-app still has 2")

    on_site(steps, *half_way())


def test_a_member_is_opened_with_its_phases_and_q_goes_back() -> None:
    async def steps(console: ConsoleDriver) -> None:
        await console.press("j", "enter")
        assert isinstance(console.screen, MemberScreen)
        assert "5 stop-consumers" in console.text and "failed" in console.text
        assert "resume the site drill" in console.text
        assert "R Resume" not in console.text, "it is resumed with the site"
        await console.press("q")
        assert isinstance(console.screen, SiteScreen)

    on_site(steps, *half_way())


@pytest.mark.parametrize("key", ["R", "F", "A"])
def test_a_second_operator_watches_and_cannot_act(key: str) -> None:
    async def steps(console: ConsoleDriver) -> None:
        await console.press(key)
        await console.sees("another operator acts on it; O takes it over")
        assert isinstance(console.screen, SiteScreen)

    on_site(steps, *half_way())


def test_what_others_write_is_followed() -> None:
    async def steps(console: ConsoleDriver) -> None:
        assert "12 s of 30 s" in console.text
        changed = []
        for drill in half_way():
            drill = replace(drill, beat_ms=drill.beat_ms + 1000)
            if drill.pipeline == "clicks":
                record = drill.record(DrillPhase.FENCE_PRODUCERS)
                drill = drill.with_phase(replace(record, live="29 s of 30 s"))
            changed.append(drill)
        feed.made[:] = rows(*changed)
        feed.tell()
        await console.sees("29 s of 30 s")

    feed = MadeFleet(*rows(*half_way()))
    on_site(steps, feed=feed)


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("R", "Every pipeline continues from what is found on its clusters."),
        ("X", "payments: deny Write on"),
        ("L", "search is left out: its drill is aborted as far as its clusters"),
        ("D", "Every pipeline continues as a disaster drill"),
        ("F", "All begin again with fencing the producers"),
    ],
)
def test_a_change_is_confirmed_by_the_name_of_the_site(key: str, said: str) -> None:
    async def steps(console: ConsoleDriver) -> None:
        assert "No operator acts on it: R resumes it." in console.text
        await console.press(key)
        await console.until(lambda: isinstance(console.screen, Confirm), "asked")
        await console.pilot.pause()
        assert said in " ".join(console.text.replace("│", " ").split())
        assert "type paris to" in console.text
        # R and F can still be aborted; what is left out, and how a drill was turned, stays.
        await console.type("paris")
        await console.sees(
            "then Enter, or Tab and space" if key in "RF" else "then Tab and space; Esc cancels"
        )
        await console.press("escape")

    on_site(steps, *idle(half_way()))


def test_a_button_names_what_it_does_whole() -> None:
    async def steps(console: ConsoleDriver) -> None:
        await console.press("O")
        await console.until(lambda: isinstance(console.screen, Confirm), "asked")
        label = str(console.screen.query_one("#confirm-do", Button).label)
        assert label.strip() == "Take over"
        await console.press("escape")

    on_site(steps, *half_way())


@pytest.mark.parametrize("theme", ["k2k-dark", "k2k-mono"])
def test_a_confirmation_shows_the_focus_and_the_key_that_applies(theme: str) -> None:
    """An abort is not taken back: Enter moves the focus; Tab after it would lead on to Cancel."""

    async def steps(console: ConsoleDriver) -> None:
        await console.press("8", "enter", "X")
        await console.until(lambda: isinstance(console.screen, Confirm), "asked")
        await console.sees("then Tab and space; Esc cancels")
        await console.press(*"paris", "enter")
        await console.sees("[ Abort ]", "space applies; Esc cancels")
        assert "[ Cancel ]" not in console.text
        await console.press("tab")
        await console.sees("[ Cancel ]", "space cancels")
        assert "[ Abort ]" not in console.text
        await console.press("space")
        assert isinstance(console.screen, SiteScreen)

    drive_session(site_session(*idle(half_way()), theme=theme), steps)


def test_producers_that_were_not_fenced_are_not_fenced_again() -> None:
    async def steps(console: ConsoleDriver) -> None:
        await console.press("F")
        await console.sees("the producers have not been fenced")

    site = mark()
    drills = [member(n, planned(DrillPhase.LAG), site) for n in range(1, len(NAMES) + 1)]
    on_site(steps, *idle(tuple(drills)))


def test_nobody_is_left_out_while_it_is_aborted() -> None:
    async def steps(console: ConsoleDriver) -> None:
        await console.press("L")
        await console.sees("it is being aborted; X completes that")
        assert isinstance(console.screen, SiteScreen)
        assert console.screen.text_to_copy().startswith("k2ktui drill abort ")

    drills = [replace(drill, status=DrillStatus.ABORTING) for drill in idle(half_way())]
    on_site(steps, *drills)


def test_nothing_is_changed_with_read_only() -> None:
    async def steps(console: ConsoleDriver) -> None:
        await console.press("R")
        await console.sees("started with --read-only")
        await console.press("q", "N")
        await console.sees("started with --read-only")

    on_site(steps, *idle(half_way()), read_only=True)


def test_after_a_target_was_opened_nobody_goes_back() -> None:
    site = mark()
    drills = []
    for number in range(1, len(NAMES) + 1):
        drill = planned(DrillPhase.OPEN_TARGET)
        figures = replace(drill.figures, opened_ms=NOON_MS)
        drills.append(member(number, replace(drill, figures=figures, session=""), site))

    async def steps(console: ConsoleDriver) -> None:
        assert "You cannot go back: 7 targets open." in console.text
        await console.press("X")
        await console.sees("a target is open; the report says what is left")

    on_site(steps, *drills)


def test_what_happens_to_a_listed_tail_is_chosen_for_all() -> None:
    site = mark()
    drills = [member(n, replace(listed(), session=""), site) for n in range(1, len(NAMES) + 1)]

    async def steps(console: ConsoleDriver) -> None:
        await console.sees("Choose what happens to the records that", "were never copied: T.")
        await console.press("T")
        await console.until(lambda: isinstance(console.screen, ChoiceDialog), "asked")
        await console.press("down", "enter")
        await console.until(lambda: isinstance(console.screen, Confirm), "chosen")
        assert "--tail export" in console.text and "type paris to continue" in console.text
        await console.press("escape")

    on_site(steps, *drills)


def test_without_a_listed_tail_there_is_nothing_to_choose() -> None:
    async def steps(console: ConsoleDriver) -> None:
        await console.press("T")
        await console.sees("no records wait for a choice")

    on_site(steps, *idle(half_way()))


def test_an_empty_directory_of_drills_says_what_to_do() -> None:
    async def steps(console: ConsoleDriver) -> None:
        await console.sees("No site drill yet. N starts one")

    drive_session(site_session(), steps, screen="8")


def test_what_is_asked_while_it_is_aborted_is_completed_by_an_abort() -> None:
    site = gather_site(half_way(), {})
    screen = SiteScreen(site)
    asks = Question(
        QuestionKind.PHASE, site, "It undoes the hook.", (), "paris", step="before-apply"
    )
    assert screen.way_back_lines(asks) == ["You can still go back afterwards: X aborts all."]
    assert screen.stop_line(site) == "Esc stops the site drill here; R resumes it."
    aborting = gather_site([replace(one, status=DrillStatus.ABORTING) for one in half_way()], {})
    assert screen.way_back_lines(replace(asks, drill=aborting)) == []
    assert screen.stop_line(aborting) == "Esc stops the site drill here; X completes the abort."


def test_moving_a_name_is_asked_as_the_phase_that_it_is() -> None:
    drills = half_way()
    with_name = replace(drills[0], phases=new_phases(DrillKind.PLANNED, redirects=True))
    site = gather_site((with_name, *drills[1:]), {})
    asks = Question(QuestionKind.PHASE, site, "It moves.", (), "paris", step="redirect")
    dialog = SiteScreen(site).question_dialog(asks)
    assert "10 redirect, of 0 pipelines" in vars(dialog).values()


def test_a_pipeline_is_called_what_the_site_drill_calls_it_not_what_its_record_says() -> None:
    aborting = (replace(one, status=DrillStatus.ABORTING) for one in idle(half_way()))
    site = gather_site([replace(one, pipeline="elsewhere") for one in aborting], {})
    operator = SiteYes()
    run = SiteRun(site, {}, {}, operator)
    state = site.moving[0]
    assert state.drill is not None
    unproven = agree_question(state.drill, ["It is not proven that a drill wrote the record."])
    for question in (step_question(state.drill, "before-apply", "It undoes the hook."), unproven):
        assert run.members[state.member.drill].ask(question)
    for asked in operator.questions:
        assert asked.pipelines == (state.pipeline,)
        assert "elsewhere" not in " ".join((asked.text, *asked.lines))
    assert SiteScreen(site).check_subject(state.drill) == f"{state.pipeline}: "
