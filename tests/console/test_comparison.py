"""``c`` on Replication: every record compared, once the operator has agreed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from threading import Event
from typing import Any

import pytest
from textual.widgets import Input

from k2ktui.compare.run import ComparisonOptions
from k2ktui.console.screens import comparison
from k2ktui.console.screens.comparison import ComparisonScreen
from k2ktui.engine.compare.outcomes import Finding, Outcome, PartResult
from k2ktui.engine.compare.report import ComparisonReport
from k2ktui.engine.records.state import SourcePartition
from k2ktui.errors import ConnectionFailed, Refused
from k2ktui.progress import ProgressStep, progress_text
from tests.console.test_parity import FLOW
from tests.support.console.driver import ConsoleDriver, drive
from tests.support.console.pictures import ONE, SIZES, compare_screen, each_screen
from tests.support.console.views import NOON, usual

AT, OTHER = SourcePartition("payments", 0), SourcePartition("payments", 1)
FINDING = Finding(
    Outcome.DIFFERS, 4711, ("payments", 0), 4698, "value differs", "ab" * 32, "cd" * 32
)
REPORT = ComparisonReport(
    "orders", "src", "tgt", NOON - 60, NOON, None, 1.0, False,
    {
        AT: PartResult(AT, 0, 5000, {Outcome.EQUAL: 4999, Outcome.DIFFERS: 1}, 5000, 5000,
                       findings=(FINDING,)),
        OTHER: PartResult(OTHER, 0, 10, {Outcome.EQUAL: 7, Outcome.EXPIRED_ON_SOURCE: 3}, 10, 7),
    },
    {SourcePartition("masked", 0): "its leader does not answer"}, {}, 12345,
)  # fmt: skip


@dataclass(frozen=True)
class Done:
    """What was compared, in place of ``DoneParts``; notes that it may be forgotten."""

    forgotten: list[Any]

    def forget(self) -> None:
        self.forgotten.append(self)


@pytest.fixture
def called(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[Any]]:
    calls: dict[str, list[Any]] = {"compare": [], "keep": [], "forget": []}

    @contextmanager
    def compare(_: object, options: ComparisonOptions) -> Iterator[tuple[ComparisonReport, Done]]:
        calls["compare"].append(options)
        yield REPORT, Done(calls["forget"])

    def keep(_: object, report: ComparisonReport) -> None:
        calls["keep"].append(report)

    monkeypatch.setattr(comparison, "compare_pipeline", compare)
    monkeypatch.setattr(comparison, "keep_result", keep)
    return calls


async def agree(console: ConsoleDriver) -> ComparisonScreen:
    await console.press("2")
    await console.pilot.press("c")
    await console.until(lambda: isinstance(console.app.focused, Input), "the dialog")
    assert "Every retained record" in console.text
    await console.pilot.press(*"orders", "tab", "space")
    await console.until(lambda: isinstance(console.app.screen, ComparisonScreen), "the screen")
    screen = console.app.screen
    assert isinstance(screen, ComparisonScreen)
    return screen


def test_it_asks_and_compares(called: dict[str, list[Any]]) -> None:
    async def steps(console: ConsoleDriver) -> None:
        screen = await agree(console)
        await console.until(lambda: screen.report, "compared")
        await console.settle()
        (options,) = called["compare"]
        assert options.resumes and options.choice.sample == 1
        assert called["keep"] == [REPORT] and len(called["forget"]) == 1
        assert "1 different, 3 unproven of 2 partitions" in console.text
        assert "payments-0@4711" in console.text and "value differs" in console.text
        assert "its leader does not answer" in console.text
        assert screen.text_to_copy() == "k2ktui compare -f orders.yaml --resume"
        assert '"differences": 1' in (screen.document() or "")
        await console.press("escape")
        assert options.is_stopped()

    drive(steps, usual(), flow=FLOW, files=("orders.yaml",))


def test_what_is_compared_is_kept_if_the_result_is_not(
    called: dict[str, list[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def keep(*_: object) -> None:
        raise ConnectionFailed("the target cluster does not answer")

    monkeypatch.setattr(comparison, "keep_result", keep)

    async def steps(console: ConsoleDriver) -> None:
        screen = await agree(console)
        await console.until(lambda: screen.report, "compared")
        await console.settle()
        assert "the target cluster does not answer" in console.notices
        assert called["forget"] == []

    drive(steps, usual(), flow=FLOW, files=("orders.yaml",))


def test_a_read_only_session_writes_no_result(called: dict[str, list[Any]]) -> None:
    async def steps(console: ConsoleDriver) -> None:
        screen = await agree(console)
        await console.until(lambda: screen.report, "compared")
        await console.settle()
        assert called["keep"] == [] and len(called["forget"]) == 1

    drive(steps, usual(), flow=FLOW, files=("orders.yaml",), read_only=True)


def test_why_nothing_was_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    def compare(*_: object) -> ComparisonReport:
        raise Refused("another comparison of the same choice is running")

    monkeypatch.setattr(comparison, "compare_pipeline", compare)

    async def steps(console: ConsoleDriver) -> None:
        screen = await agree(console)
        await console.until(lambda: screen.error, "refused")
        await console.settle()
        assert "another comparison of the same choice is running" in console.text
        assert "Not compared: see above." in console.text

    drive(steps, usual(), flow=FLOW, files=("orders.yaml",))


def test_it_is_not_offered_in_a_recording() -> None:
    async def steps(console: ConsoleDriver) -> None:
        await console.press("2", "c")
        assert not isinstance(console.app.screen, ComparisonScreen)
        assert "this is a recording" in console.notices

    drive(steps, replace(usual()))


EQUAL = replace(
    REPORT,
    results={
        AT: PartResult(AT, 0, 5000, {Outcome.EQUAL: 5000}, 5000, 5000),
        OTHER: PartResult(OTHER, 0, 10, {Outcome.EQUAL: 10}, 10, 10),
    },
    left_out={},
)
SCREENS = {"comparison-running": None, "comparison-equal": EQUAL, "comparison-different": REPORT}


@each_screen(SCREENS)
def test_a_comparison_looks_as_it_did(screen: str, monkeypatch: pytest.MonkeyPatch) -> None:
    report = SCREENS[screen]

    @contextmanager
    def compare(_: object, options: ComparisonOptions) -> Iterator[tuple[ComparisonReport, Done]]:
        while report is None and not options.is_stopped():
            Event().wait(0.02)
        yield report or EQUAL, Done([])

    monkeypatch.setattr(comparison, "compare_pipeline", compare)
    monkeypatch.setattr(comparison, "keep_result", lambda *_: None)

    async def opens(console: ConsoleDriver) -> None:
        await console.press("2")
        await console.app.push_screen(shown := ComparisonScreen())
        if report is not None:
            await console.settle()
            return
        step = ProgressStep("offsets compared", 3_200_000, 8_000_000)
        shown.post_message(ComparisonScreen.Progressed(progress_text(step, 40.0)))
        await console.until(lambda: "offsets compared" in console.text, "running")

    sizes = SIZES if screen == "comparison-different" else ONE
    compare_screen(opens, usual(), screen, sizes=sizes, files=("orders.yaml",), flow=FLOW)
