"""The event log: polls, changes, failures, and actions with their commands."""

from __future__ import annotations

import threading

import pytest
from textual.widgets import Static

from k2ktui.console.event_log import Event, EventKind, EventLog
from k2ktui.console.screens.event_log import EventLogScreen
from k2ktui.console.screens.operation import OperationScreen
from k2ktui.console.screens.translate_plan import PlanScreen, Shown
from k2ktui.console.widgets.grid import Grid
from k2ktui.console.widgets.text_dialog import TextDialog
from k2ktui.engine.moves.plan import Rewind
from k2ktui.errors import K2kError
from k2ktui.present.formatting import message
from k2ktui.watch.model import PartName
from tests.console.test_acting_pictures import FLOW, PLAN
from tests.support.clusters.kafka import TIMEOUT
from tests.support.console.driver import ConsoleDriver, drive
from tests.support.console.pictures import compare_screen
from tests.support.console.views import NOON, runner, usual


def texts(log: EventLog, kind: EventKind) -> list[str]:
    return [event.text for event in log.events if event.kind is kind]


def test_polls_failures_and_changes_are_noted_once() -> None:
    made = usual()
    log = EventLog(lambda: made.now, "k2ktui watch -f a.yaml --once")
    log.observe(made.view())
    assert texts(log, EventKind.POLLED) == ["source, target, groups, state"]
    assert log.events[-1].command == "k2ktui watch -f a.yaml --once"
    assert "job on bastion1, pid 4711: running" in texts(log, EventKind.CHANGED)
    problems = texts(log, EventKind.CHANGED)
    assert any(text.startswith("group billing: on the target it would skip") for text in problems)

    made.now += 5
    made.errors[PartName.SOURCE] = "src:9092 does not answer"
    log.observe(made.view())
    log.observe(made.view())
    assert texts(log, EventKind.FAILED) == ["poll of source: src:9092 does not answer"]
    assert texts(log, EventKind.POLLED)[0] == "target, groups, state"
    assert texts(log, EventKind.CHANGED) == problems

    made.now += 5
    made.errors.clear()
    made.rows = [row for row in made.rows if row.group != "billing"]
    del made.source_groups["billing"], made.target_groups["billing"]
    log.observe(made.view())
    resolved = texts(log, EventKind.RESOLVED)
    assert resolved == ["group billing: no longer a problem", "poll of source"]
    assert [event.at for event in log.events] == sorted((e.at for e in log.events), reverse=True)


def test_a_new_generation_of_owners_is_noted_once() -> None:
    made = usual()
    log = EventLog(lambda: made.now)
    said = []
    for generation in (0, 3, 3, 5):
        made.runners = (runner(generation=generation),)
        log.observe(made.view())
        said.append([text for text in texts(log, EventKind.CHANGED) if "generation" in text])
    assert said == [[], [], [], ["slots were assigned to runs again: generation 5"]]


def test_an_error_of_several_lines_is_one_text() -> None:
    log = EventLog(lambda: NOON)
    log.add(EventKind.FAILED, str(K2kError("a is b", unchanged="Nothing changed.", hint="Go.")))
    assert message(log.events[0].text) == "a is b  Nothing changed.  Fix: Go."


def test_it_is_bounded() -> None:
    log = EventLog(lambda: NOON)
    for number in range(5_000):
        log.add(EventKind.DONE, str(number))
    assert len(log.events) == 2_000
    assert log.events[0].text == "4999"


def test_it_opens_over_every_screen_and_q_closes_it() -> None:
    async def flow(console: ConsoleDriver) -> None:
        for key in "1234567":
            await console.press(key, "L")
            assert isinstance(console.app.screen, EventLogScreen)
            assert "polled" in console.text
            await console.press("L", "q")
            assert not isinstance(console.app.screen, EventLogScreen)

    drive(flow, files=("orders.yaml",))


def test_an_event_is_shown_whole_selected_and_copied() -> None:
    async def flow(console: ConsoleDriver) -> None:
        await console.press("L", "end")
        screen = console.app.screen
        event = screen.query_one(Grid).current
        assert isinstance(event, Event)
        assert event.kind is EventKind.POLLED
        text = screen.query_one("#event-text", Static)
        assert "$ k2ktui watch -f orders.yaml --once" in console.text
        await console.press("y")
        assert console.app.clipboard == "k2ktui watch -f orders.yaml --once"
        text.text_select_all()
        await console.press("y")
        assert console.app.clipboard.startswith("polled: source, target, groups, state\n$ k2ktui")
        await console.press("z")
        # The notice of the copy names it, too.
        shown = [line.strip() for line in console.text.splitlines()]
        assert not any(line.startswith("polled") for line in shown)
        await console.press("enter")
        assert isinstance(console.app.screen, TextDialog)

    drive(flow, files=("orders.yaml",))


def test_actions_are_noted_with_their_command() -> None:
    over = threading.Event()

    def job() -> None:
        over.wait(TIMEOUT)
        raise K2kError("a group has got a member", hint="Press n to plan again.")

    async def flow(console: ConsoleDriver) -> None:
        plan = PlanScreen(None, Rewind.NEVER, Shown(PLAN))
        await console.app.push_screen(plan)
        await console.pilot.pause()
        assert isinstance(plan, OperationScreen)
        plan.act("applying", job, lambda _: None, command="k2ktui apply plan.json")
        over.set()
        await console.settle()
        failed, started = console.app.events.events[:2]
        assert (started.kind, started.text) == (EventKind.STARTED, "applying")
        assert failed.kind is EventKind.FAILED
        assert failed.text.startswith("applying: a group has got a member")
        assert failed.command == started.command == "k2ktui apply plan.json"

    drive(flow, files=("orders.yaml",), flow=FLOW)


@pytest.mark.slow
def test_it_looks_as_it_did() -> None:
    made = usual()

    async def opens(console: ConsoleDriver) -> None:
        for number in range(6):
            made.now += 5
            made.copy(10)
            if number == 3:
                made.errors[PartName.SOURCE] = "src:9092 does not answer"
            await console.show()
        made.errors.clear()
        await console.press("L", "j", "j", "j", "j", "j")

    compare_screen(opens, made, "events", files=("orders.yaml",))
