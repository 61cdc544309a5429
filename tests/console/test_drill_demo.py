"""Screen 8 in the demo: a key acts on the demo's applications; outside it, there is none."""

from __future__ import annotations

import threading
from collections.abc import Callable

from k2ktui.console.session import DemoStep, Session
from k2ktui.errors import Refused
from tests.support.clusters.kafka import TIMEOUT
from tests.support.console.driver import ConsoleDriver, Steps, drive_session, made_session
from tests.support.console.views import usual
from tests.support.drill.made_drills import acted, fencing


def session(*steps: DemoStep) -> Session:
    made_view = usual()
    made_view.drills = (acted(fencing(), seconds_ago=60),)
    made = made_session(made_view)
    made.demo_steps = steps
    return made


def demo(steps: Steps, *offered: DemoStep) -> None:
    show = DemoStep("show", "show what runs", "", lambda: "Producers write to the source.")
    drive_session(session(show, *offered), steps, screen="8")


def test_the_demo_offers_what_a_phase_waits_for() -> None:
    stopped = threading.Event()

    def stop() -> str:
        stopped.set()
        return "The producers are stopped."

    def refuse() -> str:
        raise Refused("The source cluster did not start.", hint="See its log.")

    async def steps(console: ConsoleDriver) -> None:
        await console.sees("C Demo's clients")
        await console.press("enter", "C")
        await console.sees("The demo's applications and source", "Producers write to the source.")
        await console.sees("stop the producers", "A switchover waits for this.")
        assert "show what runs" not in console.text
        await console.press("enter")
        await console.sees("The producers are stopped.")
        assert stopped.is_set()
        await console.press("C")
        await console.sees("start the source again")
        await console.press("down", "enter")
        await console.sees("The source cluster did not start.", "Fix: See its log.")
        await console.press("L")
        await console.sees("start the source again: The source", "$ k2ktui demo --do start-source")

    demo(
        steps,
        DemoStep("stop-producers", "stop the producers", "A switchover waits for this.", stop),
        DemoStep("start-source", "start the source again", "With its data.", refuse),
    )


def test_a_step_can_be_chosen_as_soon_as_the_last_one_has_reported() -> None:
    """The report is on the screen, and the thread of the step has not ended yet."""
    reported, go = threading.Event(), threading.Event()
    threads: list[threading.Thread] = []

    def stop() -> str:
        threads.append(threading.current_thread())
        return "The producers are stopped."

    async def steps(console: ConsoleDriver) -> None:
        report = console.app.call_from_thread

        def report_and_stay(call: Callable[[], None]) -> None:
            report(call)
            if threading.current_thread() in threads:
                threads.clear()
                reported.set()
                assert go.wait(TIMEOUT)

        console.app.call_from_thread = report_and_stay  # type: ignore[method-assign,assignment]
        try:
            await console.press("enter", "C")
            await console.sees("stop the producers")
            await console.press("enter")
            await console.until(reported.is_set, "the step has reported")
            await console.sees("The producers are stopped.")
            await console.press("C")
            await console.sees("A switchover waits for this.")
        finally:
            go.set()

    effect = "A switchover waits for this."
    demo(steps, DemoStep("stop-producers", "stop the producers", effect, stop))


def test_outside_the_demo_there_is_no_such_key() -> None:
    async def steps(console: ConsoleDriver) -> None:
        await console.sees("N New drill")
        assert "Demo's clients" not in console.text
        await console.press("C")
        assert "applications and source" not in console.text
        await console.press("question_mark")
        await console.sees("drill.start")
        assert "drill.demo" not in console.text

    drive_session(session(), steps, screen="8")
