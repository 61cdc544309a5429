"""A drill that runs on screen 8: what it asks, how it is held, what leaving the console does."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from k2ktui.console.drill_operator import OpenQuestion, ScreenOperator, StoppedHere
from k2ktui.console.event_log import EventKind
from k2ktui.console.screens.drill_phases import DrillScreen
from k2ktui.console.screens.drill_runs import DrillRun
from k2ktui.drill import operations
from k2ktui.drill.operator import agree_question, step_question, take_over_question
from k2ktui.drill.ownership import Actor
from k2ktui.engine.drill.checks import DrillPhase
from k2ktui.engine.drill.hook_steps import begin_hook, put_hook, with_file_hooks
from k2ktui.engine.drill.hooks import Hook, HookStatus, describe_hook
from k2ktui.engine.drill.model import Drill, DrillStatus, ResumeOptions
from k2ktui.engine.drill.steps import turn_into_disaster
from k2ktui.errors import Declined
from tests.console.test_drill import watch
from tests.support.clusters.kafka import TIMEOUT
from tests.support.console.driver import ConsoleDriver
from tests.support.drill.made_drills import acted, fencing, in_phase, through

APPLYING = acted(
    in_phase(through(fencing(), DrillPhase.STOP_CONSUMERS), DrillPhase.APPLY, "6 rows planned")
)


COMMITS = step_question(APPLYING, DrillPhase.APPLY, "commit 6 offsets of 4 groups")


@dataclass
class Steps:
    """Steps of a drill on its thread; each waits for the test."""

    confirmed: list[bool] = field(default_factory=list)
    released: threading.Event = field(default_factory=threading.Event)

    def ask(self, operator: ScreenOperator[Drill]) -> Drill:
        """Ask for the confirmation of a phase, and end."""
        operator.show(APPLYING)
        agreed = operator.ask(COMMITS)
        self.confirmed.append(agreed)
        return replace(APPLYING, status=DrillStatus.DONE, ended_ms=APPLYING.started_ms + 60_000)

    def wait(self, operator: ScreenOperator[Drill]) -> Drill:
        """Show progress until it is held."""
        while not self.released.wait(0.05):
            operator.show(APPLYING)
        return APPLYING


def screen_of(console: ConsoleDriver) -> DrillScreen:
    assert isinstance(console.screen, DrillScreen)
    return console.screen


async def run(console: ConsoleDriver, job: Callable[[ScreenOperator[Drill]], Drill]) -> None:
    """Open the drill, and run a job in place of the real one."""
    await console.press("enter")
    await console.until(lambda: isinstance(console.screen, DrillScreen), "opened")
    screen_of(console).run_drill(DrillRun("drill", job, "k2ktui drill resume ID"))


@pytest.mark.parametrize("key", ["enter", "tab"])
def test_a_phase_is_confirmed_by_its_name_and_by_nothing_else(key: str) -> None:
    steps_ = Steps()

    async def steps(console: ConsoleDriver) -> None:
        await run(console, steps_.ask)
        await console.sees("6 apply", "commit 6 offsets of 4 groups", "type apply to confirm")
        await console.type("orders")
        await (console.enter() if key == "enter" else console.press("tab"))
        assert steps_.confirmed == []
        assert "this is not the name" in console.text
        await console.press(*["backspace"] * 6)
        await console.type("apply")
        await (console.enter() if key == "enter" else console.press("tab", "space"))
        await console.until(lambda: steps_.confirmed, "confirmed")
        await console.sees("done planned")

    watch(steps, fencing())
    assert steps_.confirmed == [True]


def test_a_person_agrees_to_an_unproven_record_by_the_drill_s_id() -> None:
    lines = ("It is not proven that a drill wrote the record.", "  group billing: 500 → 7")
    answers: list[bool] = []

    def ask(operator: ScreenOperator[Drill]) -> Drill:
        answers.append(operator.ask(agree_question(APPLYING, lines)))
        answers.append(operator.ask(agree_question(APPLYING, lines)))
        return APPLYING

    async def steps(console: ConsoleDriver) -> None:
        await run(console, ask)
        await console.sees(*(line.strip() for line in lines), f"type {APPLYING.id} to continue")
        await console.type(APPLYING.id)
        await console.press("tab", "space")
        await console.until(lambda: answers == [True], "agreed")
        await console.sees(f"type {APPLYING.id} to continue")
        await console.press("escape")
        await console.until(lambda: answers == [True, False], "declined")

    watch(steps, fencing())


def test_the_point_of_no_return_is_not_confirmed_by_enter() -> None:
    confirmed: list[bool] = []
    opens = step_question(APPLYING, DrillPhase.OPEN_TARGET, "It opens the target.")

    def ask(operator: ScreenOperator[Drill]) -> Drill:
        confirmed.append(operator.ask(opens))
        return APPLYING

    async def steps(console: ConsoleDriver) -> None:
        await run(console, ask)
        await console.sees("type open-target to confirm", "then Tab and space; Esc cancels")
        await console.type("open-target")
        for _ in range(3):
            await console.enter()
            assert confirmed == []
        await console.press("space")
        await console.until(lambda: confirmed, "confirmed")

    watch(steps, fencing())
    assert confirmed == [True]


def test_a_phase_is_not_confirmed_by_escape() -> None:
    steps_ = Steps()

    async def steps(console: ConsoleDriver) -> None:
        await run(console, steps_.ask)
        await console.sees("type apply to confirm")
        await console.press("escape")
        await console.until(lambda: steps_.confirmed, "answered")

    watch(steps, fencing())
    assert steps_.confirmed == [False]


def test_a_question_waits_while_another_screen_is_shown() -> None:
    steps_ = Steps()
    begin = threading.Event()

    def later(operator: ScreenOperator[Drill]) -> Drill:
        assert begin.wait(TIMEOUT)
        return steps_.ask(operator)

    async def steps(console: ConsoleDriver) -> None:
        await run(console, later)
        await console.press("2")
        begin.set()
        await console.sees("The drill waits for you to confirm apply: press 8.")
        assert "type apply" not in console.text
        await console.press("8")
        await console.sees("type apply to confirm")
        await console.press("escape")
        await console.until(lambda: steps_.confirmed, "answered")

    watch(steps, fencing())


def test_a_drill_is_held_where_it_is_and_cannot_be_left_while_it_runs() -> None:
    steps_ = Steps()

    async def steps(console: ConsoleDriver) -> None:
        await run(console, steps_.wait)
        await console.sees("It runs here: H holds it.", "6 rows planned")
        await console.press("q")
        await console.sees("the drill runs here: H holds it; 1 to 7 open other screens")
        await console.press("R")
        await console.sees("Resume: it runs here; H holds it")
        assert "It stops where it is" not in console.text
        work = " ".join(console.app.describe_session_work())
        assert "stops where it is. Resume it: k2ktui drill resume" in work
        await console.press("H")
        await console.sees("was stopped here", "It stays where it is.", "R resumes it")
        last, *_ = console.app.events.events
        assert last.kind is EventKind.STOPPED, "to hold a drill is no failure"
        assert last.text.startswith(f"drill: drill {APPLYING.id} was stopped here")

    watch(steps, fencing())


def test_what_is_not_confirmed_is_no_failure() -> None:
    def declined(operator: ScreenOperator[Drill]) -> Drill:
        operator.show(APPLYING)
        if not operator.ask(COMMITS):
            raise Declined("apply was not confirmed")
        return APPLYING

    async def steps(console: ConsoleDriver) -> None:
        await run(console, declined)
        await console.sees("type apply to confirm")
        await console.press("escape")
        await console.sees("apply was not confirmed")
        last, *_ = console.app.events.events
        assert (last.kind, last.text) == (EventKind.STOPPED, "drill: apply was not confirmed")

    watch(steps, fencing())


def test_a_drill_stops_when_the_console_ends() -> None:
    ended = threading.Event()

    def job(operator: ScreenOperator[Drill]) -> Drill:
        try:
            return Steps().wait(operator)
        finally:
            ended.set()

    async def steps(console: ConsoleDriver) -> None:
        await run(console, job)
        await console.sees("It runs here", "6 rows planned")

    watch(steps, fencing())
    assert ended.wait(TIMEOUT)


def test_a_running_drill_whose_source_is_lost_continues_without_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    steps_, asked = Steps(), threading.Event()

    def resume(_: Actor, drill_id: str, how: ResumeOptions) -> Drill:
        assert drill_id == APPLYING.id and how == ResumeOptions(as_disaster=True)
        asked.set()
        return replace(turn_into_disaster(APPLYING), session="")

    monkeypatch.setattr(operations, "resume_drill", resume)

    async def steps(console: ConsoleDriver) -> None:
        await run(console, steps_.wait)
        await console.sees("It runs here: H holds it.")
        await console.press("D")
        await console.sees("type orders to continue without the source")
        assert not asked.is_set()
        await console.confirm("orders")
        await console.sees("2 source-lost", "No operator acts on it")

    watch(steps, fencing())
    assert asked.is_set()


def test_a_running_drill_is_stopped_and_aborted(monkeypatch: pytest.MonkeyPatch) -> None:
    steps_, begun, restored = Steps(), threading.Event(), threading.Event()

    def abort(actor: Actor, *_: object, **__: object) -> Drill:
        operator = actor.operator
        assert isinstance(operator, ScreenOperator)
        aborting = replace(APPLYING, status=DrillStatus.ABORTING)
        begun.set()
        operator.show(aborting)
        assert restored.wait(TIMEOUT)
        operator.show(aborting)
        return replace(aborting, status=DrillStatus.ABORTED, ended_ms=APPLYING.beat_ms)

    monkeypatch.setattr(operations, "abort_drill", abort)

    async def steps(console: ConsoleDriver) -> None:
        try:
            await run(console, steps_.wait)
            await console.sees("It runs here: H holds it.")
            await console.press("X")
            await console.confirm("orders")
            await console.sees("It is being aborted here.")
            await console.press("H")
            await console.sees("Hold: an abort is not left half-way")
        finally:
            restored.set()
        await console.sees("aborted planned")

    watch(steps, fencing())
    assert begun.is_set()


@pytest.mark.parametrize("reported", [False, True])
def test_an_abort_in_the_moment_in_which_a_drill_stops_is_not_lost(
    reported: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The drill's thread has ended its work, and is about to report that, or has just done so."""
    steps_, ending, go = Steps(), threading.Event(), threading.Event()
    threads: list[threading.Thread] = []
    over = replace(APPLYING, status=DrillStatus.ABORTED, ended_ms=APPLYING.beat_ms)
    monkeypatch.setattr(operations, "abort_drill", lambda *_, **__: over)

    def job(operator: ScreenOperator[Drill]) -> Drill:
        threads.append(threading.current_thread())
        return steps_.wait(operator)

    async def steps(console: ConsoleDriver) -> None:
        report = console.app.call_from_thread

        def report_late(call: Callable[[], None]) -> None:
            if reported:
                report(call)
            if threading.current_thread() in threads:
                threads.clear()
                ending.set()
                assert go.wait(TIMEOUT)
            if not reported:
                report(call)

        monkeypatch.setattr(console.app, "call_from_thread", report_late)
        await run(console, job)
        await console.sees("It runs here: H holds it.", "6 rows planned")
        steps_.released.set()
        await console.until(ending.is_set, "the thread ends")
        await console.press("X")
        await console.confirm("orders")
        await console.until(lambda: not console.screen.is_modal, "confirmed")
        go.set()
        await console.sees("aborted planned")

    watch(steps, fencing())


def test_progress_of_the_own_drill_is_not_replaced_by_an_older_view() -> None:
    steps_ = Steps()

    async def steps(console: ConsoleDriver) -> None:
        await run(console, steps_.wait)
        await console.sees("6 rows planned")
        console.feed.made.drills = (acted(fencing()),)
        await console.show()
        await console.sees("6 rows planned")
        steps_.released.set()
        await console.until(lambda: screen_of(console).operator is None, "ended")

    watch(steps, fencing())


def test_an_abort_is_not_left_half_way() -> None:
    shown: list[Drill] = []
    operator = ScreenOperator[Drill](shown.append, lambda _: None, can_stop=False)
    operator.stop()
    operator.show(APPLYING)
    assert shown == [APPLYING]


def test_what_has_ended_is_not_stopped_any_more() -> None:
    operator = ScreenOperator[Drill](lambda _: None, lambda _: None)
    operator.stop()
    operator.show(replace(APPLYING, status=DrillStatus.DONE))
    with pytest.raises(StoppedHere, match="was stopped here"):
        operator.show(APPLYING)


def test_only_the_first_answer_counts() -> None:
    asked: list[OpenQuestion] = []

    def answer(question: OpenQuestion) -> None:
        asked.append(question)
        question.answer(False)
        question.answer(True)

    operator = ScreenOperator[Drill](lambda _: None, answer)
    assert not operator.ask(COMMITS)
    assert not operator.ask(take_over_question(APPLYING))
    assert [question.question.step for question in asked] == [DrillPhase.APPLY, ""]


HOOK = Hook(DrillPhase.APPLY, False, "switch", ("/bin/switch", "west"), 60.0, ("/bin/switch",))


def with_hook(drill: Drill, status: HookStatus, **changes: Any) -> Drill:
    """Return a drill with a hook that has been begun once."""
    drill = with_file_hooks(drill, [HOOK])
    record = begin_hook(drill, drill.hooks[0], drill.started_ms)
    return put_hook(drill, replace(record, status=status, **changes))


def test_a_hook_is_confirmed_by_its_place_and_its_phase() -> None:
    confirmed: list[bool] = []

    def ask(operator: ScreenOperator[Drill]) -> Drill:
        confirmed.append(
            operator.ask(step_question(APPLYING, HOOK.step, f"The {describe_hook(HOOK)}"))
        )
        return APPLYING

    async def steps(console: ConsoleDriver) -> None:
        await run(console, ask)
        await console.sees(
            "6 before-apply", "It runs: /bin/switch west", "type before-apply to confirm"
        )
        await console.type("apply")
        await console.press("tab")
        assert confirmed == []
        await console.press(*["backspace"] * 5)
        await console.type("before-apply")
        await console.press("tab", "space")
        await console.until(lambda: confirmed, "confirmed")

    watch(steps, fencing())
    assert confirmed == [True]


def test_hooks_are_shown_with_their_results_and_undone_by_an_abort() -> None:
    drill = with_hook(
        replace(APPLYING, session=""),
        HookStatus.FAILED,
        result="exit code 3",
        output="no such host\\x1b",
    )

    async def steps(console: ConsoleDriver) -> None:
        await console.press("enter")
        await console.until(lambda: isinstance(console.screen, DrillScreen), "opened")
        await console.press("enter")
        await console.sees(
            "hook before apply, switch: failed, exit code 3",
            "runs: /bin/switch west",
            "| no such host",
        )
        await console.press("escape", "X")
        await console.sees("- hook before apply, switch: runs /bin/switch", "drill abort")

    watch(steps, drill)
