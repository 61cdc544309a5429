"""The screen of what differs between the clusters; pictures, and keys alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from textual.widgets import Input

from k2ktui.config.model import PipelineConfig
from k2ktui.console.screens.parity import ParityScreen
from k2ktui.engine.moves.apply import WriteOutcome
from k2ktui.engine.moves.journal import JournalHeader
from k2ktui.engine.parity.model import (
    Difference,
    ParityAction,
    ParityItem,
    ParityResult,
    ParityWrite,
)
from k2ktui.engine.parity.plan import ParityPlan
from k2ktui.engine.parity.rules import ParityKind
from k2ktui.errors import Refused
from k2ktui.parity import operations
from k2ktui.parity.writer import ParityApplied
from k2ktui.sync.flow import Flow
from tests.support.console.driver import ConsoleDriver, drive
from tests.support.console.pictures import ONE, SIZES, compare_screen, each_screen
from tests.support.console.views import NOON, usual

FLOW = Flow(PipelineConfig.model_construct(name="orders"))
SET, REPORT, REMOVE = ParityAction.SET, ParityAction.REPORT, ParityAction.REMOVE


def row(kind: ParityKind, name: str, key: str, *values: str | None, **more: Any) -> Difference:
    source, target, before, wanted = values
    action, why = more.get("action", SET), more.get("why", "the source's value")
    return Difference(ParityItem(kind, name, key), source, target, before, wanted, action, why)


CONFIG, QUOTA = ParityKind.TOPIC_CONFIG, ParityKind.QUOTA
ROWS = (
    row(CONFIG, "payments", "retention.ms", "604800000", "86400000", None, "604800000"),
    row(
        CONFIG, "payments", "min.insync.replicas", "3", "1", None, "3", action=REPORT,
        why="the target topic has 2 replicas: producers with acks=all could not write",
    ),
    row(
        CONFIG, "orders", "segment.bytes", "1073741824", "4194304", "4194304", None,
        action=REMOVE, why="the source no longer sets it, and parity had created it",
    ),
    row(QUOTA, "user=billing", "producer_byte_rate", "5000000", None, None, "5000000"),
    row(
        QUOTA, "client-id=<default>,user=<default>", "producer_byte_rate", "1", None, None, None,
        action=REPORT,
        why="1 byte/s on the source is what a drill sets to fence producers: never copied",
    ),
)  # fmt: skip
PLAN = ParityPlan(
    "orders", "src", "tgt", NOON, NOON + 900, "ann@bastion", ROWS,
    notes=("acls are not compared: the principal may not list access rules.",),
)  # fmt: skip


def apply(*_: object) -> ParityApplied:
    rows = [ParityResult(line.write, WriteOutcome.APPLIED) for line in PLAN.changes]
    return ParityApplied("20261121-120000-d4d4", tuple(rows))


@pytest.fixture
def made_operations(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[Any]]:
    called: dict[str, list[Any]] = {"plan": [], "apply": [], "undo": []}

    def create_plan(*given: object) -> ParityPlan:
        called["plan"].append(given)
        return PLAN

    def apply_plan(_: object, plan: ParityPlan, *given: object) -> ParityApplied:
        called["apply"].append(plan)
        return apply()

    def read_undo(_: object, entry: str) -> tuple[JournalHeader, list[ParityWrite], str]:
        header = JournalHeader(entry, int(NOON * 1000), "ann@bastion", "parity apply")
        writes = [ParityWrite(w.item, w.after, w.before) for w in (r.write for r in PLAN.changes)]
        return header, writes, ""

    def undo_entry(_: object, entry: str, *given: object) -> ParityApplied:
        called["undo"].append(entry)
        return replace(apply(), id="20261121-120100-e5e5")

    for function in (create_plan, apply_plan, read_undo, undo_entry):
        monkeypatch.setattr(operations, function.__name__, function)
    return called


async def confirm(console: ConsoleDriver, key: str, name: str = "orders") -> None:
    # Not ``press``: on a made pipeline it waits for the worker that waits for the dialog.
    await console.pilot.press(key)
    await console.until(lambda: isinstance(console.app.focused, Input), "the dialog")
    await console.pilot.press(*name)
    button = console.widget("#confirm-do")
    await console.until(lambda: not button.disabled or name != "orders", "what it does")
    await console.pilot.press("tab", "space")


def test_compared_applied_and_undone_by_keys(made_operations: dict[str, list[Any]]) -> None:
    async def steps(console: ConsoleDriver) -> None:
        await console.press("2", "d")
        screen = console.app.screen
        assert isinstance(screen, ParityScreen)
        await console.until(lambda: screen.shown, "compared")
        await console.settle()
        assert "5 differences: 2 to set, 1 to remove, 2 only reported" in console.text
        assert "access rules" in console.text
        await confirm(console, "A")
        await console.until(lambda: screen.applied, "applied")
        await console.settle()
        assert made_operations["apply"] == [PLAN]
        assert "3 rows applied" in console.text
        assert screen.refusal("apply") == "it was applied; n compares again"
        await confirm(console, "U")
        await console.until(lambda: made_operations["undo"], "undone")
        await console.settle()
        assert made_operations["undo"] == ["20261121-120000-d4d4"]
        assert "3 rows undone" in console.text
        await console.press("n")
        await console.until(lambda: len(made_operations["plan"]) == 2, "compared again")

    drive(steps, usual(), flow=FLOW, files=("orders.yaml",))


def test_a_wrong_name_changes_nothing(made_operations: dict[str, list[Any]]) -> None:
    async def steps(console: ConsoleDriver) -> None:
        await console.press("2", "d")
        await console.settle()
        await confirm(console, "A", "order")
        await console.pilot.press("escape")
        await console.settle()
        assert made_operations["apply"] == []

    drive(steps, usual(), flow=FLOW, files=("orders.yaml",))


def test_what_was_not_begun_can_be_applied_later(
    made_operations: dict[str, list[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    refused: list[object] = []

    def act(doing: str, *_: object, **__: object) -> bool:
        refused.append(doing)
        return False  # as while another operation runs

    async def steps(console: ConsoleDriver) -> None:
        await console.press("2", "d")
        screen = console.app.screen
        assert isinstance(screen, ParityScreen)
        await console.until(lambda: screen.shown, "compared")
        await console.settle()
        monkeypatch.setattr(screen, "act", act)
        await confirm(console, "A")
        await console.until(lambda: refused, "not begun")
        assert not screen.refusal("apply")

    drive(steps, flow=FLOW)
    assert not made_operations["apply"]


def test_while_it_is_paused_the_reason_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    def create_plan(*_: object) -> ParityPlan:
        raise Refused("parity is paused: drill 20261121-1158 is open", unchanged="Nothing changed.")

    monkeypatch.setattr(operations, "create_plan", create_plan)

    async def steps(console: ConsoleDriver) -> None:
        await console.press("2", "d")
        await console.until(lambda: "drill 20261121-1158 is open" in console.text, "the reason")
        screen = console.app.screen
        assert isinstance(screen, ParityScreen)
        assert screen.refusal("apply") == "nothing is compared yet; n compares"

    drive(steps, usual(), flow=FLOW, files=("orders.yaml",))


def test_in_a_recording_and_read_only_nothing_is_offered() -> None:
    async def steps(console: ConsoleDriver) -> None:
        await console.press("2", "d")
        assert not isinstance(console.app.screen, ParityScreen)

    drive(steps, usual())

    async def read_only(console: ConsoleDriver) -> None:
        await console.press("2")
        screen = ParityScreen(PLAN)
        await console.app.push_screen(screen)
        await console.settle()
        assert screen.refusal("apply") == "started with --read-only"

    drive(read_only, usual(), flow=FLOW, read_only=True)


@each_screen(("parity", "parity-confirm", "parity-applied"))
def test_pictures(screen: str, made_operations: dict[str, list[Any]]) -> None:
    async def opens(console: ConsoleDriver) -> None:
        shown = ParityScreen(PLAN)
        await console.press("2")
        await console.app.push_screen(shown)
        await console.settle()
        if screen == "parity-confirm":
            await console.pilot.press("A")
            await console.pilot.pause()
        if screen == "parity-applied":
            await confirm(console, "A")
            await console.until(lambda: shown.applied, "applied")
            await console.settle()

    sizes = SIZES if screen == "parity" else ONE
    compare_screen(opens, usual(), screen, sizes=sizes, flow=FLOW, files=("orders.yaml",))
