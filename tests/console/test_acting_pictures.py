"""What the screens that act look like, against pictures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from textual.widgets import Input

from k2ktui.config.model import PipelineConfig
from k2ktui.console.screens.translate_plan import PlanScreen, Shown
from k2ktui.engine.access import Access
from k2ktui.engine.applying import OffsetWrite, WriteOutcome, WriteResult
from k2ktui.engine.guard import MappingVersion
from k2ktui.engine.journal import JournalHeader
from k2ktui.engine.plan import Action, Plan, PlanRow, Rewind
from k2ktui.engine.translate import Basis
from k2ktui.sync import operations
from k2ktui.sync.apply import Applied
from k2ktui.sync.flow import PipelineFlow
from tests.support.console import ConsoleDriver
from tests.support.pictures import compare_screen, each_picture
from tests.support.views import NOON, usual

FLOW = PipelineFlow(PipelineConfig.model_construct(name="orders"))
SIZES = [(60, 20), (80, 24), (120, 40)]
SCREENS = ("translate", "plan", "confirm", "applied", "positions", "journal")
DRAWN = [(screen, "k2k-dark", size) for screen in SCREENS for size in SIZES]
DRAWN += [("plan", theme, (80, 24)) for theme in ("k2k-light", "k2k-mono")]

SURE = PlanRow(
    "billing", "payments", 0, "payments-0@39995", "Empty", "Empty", 39_895, 40_002, Basis.EXACT,
    0, 0, Action.ADVANCE, "", MappingVersion(1, 82),
)  # fmt: skip
ROWS = (
    SURE,
    replace(SURE, partition=1, current=40_002, action=Action.KEEP),
    replace(
        SURE,
        group="archive",
        current=None,
        proposed=None,
        basis=Basis.UNMAPPED,
        reread=None,
        skipped=None,
        action=Action.SKIP,
        reason="the effect on the group is unknown; set the offset yourself; no mapping "
        "reaches so far back",
    ),
    replace(
        SURE,
        group="fulfilment",
        state_source="Stable",
        state_target="",
        current=None,
        basis=Basis.BOUNDED,
        reread=12,
        action=Action.CREATE,
        reason="still active on the source",
    ),
)
PLAN = Plan("orders", "source", "target", NOON, NOON + 900, "ops@bastion1", Rewind.NEVER, ROWS)


@each_picture(DRAWN)
def test_screens_look_as_they_did(
    screen: str, theme: str, size: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operations, "apply_plan", apply_plan)
    made = usual()
    made.journal = [
        entry("20261121-115930-c3c3", "undo", {"applied": 2}, undoes="20261121-115900-b2b2"),
        entry("20261121-115900-b2b2", "apply", {"applied": 2}, plan="3f2ac01d77e0"),
        entry("20261121-115800-a1a1", "apply", {"begun": 2}, plan="90c1f2aa43b8"),
    ]

    async def opens(console: ConsoleDriver) -> None:
        await open_screen(console, screen)

    compare_screen(opens, made, (screen, theme, size), files=("orders.yaml",), flow=FLOW)


def entry(
    name: str, what: str, counts: dict[str, int], plan: str = "", undoes: str = ""
) -> JournalHeader:
    at = int(NOON * 1000) - 60_000
    return JournalHeader(name, at, "ops@bastion1", what, plan, "orders", counts, undoes)


def apply_plan(
    config: PipelineConfig,
    plan: Plan,
    files: Sequence[str],
    may: Access,
    report: Callable[[WriteResult], None],
) -> Applied:
    """Apply it as if a group had got a member meanwhile."""
    outcomes = (WriteOutcome.APPLIED, WriteOutcome.CHANGED)
    reasons = ("", "applied, but the group became Stable during the write: check its position")
    rows = [
        WriteResult(
            OffsetWrite(r.group, r.topic, r.partition, r.current, "", r.proposed, ""),
            outcome,
            reason,
        )
        for r, outcome, reason in zip(plan.changes, outcomes, reasons, strict=True)
    ]
    for row in rows:
        report(row)
    return Applied("20261121-120000-d4d4", tuple(rows))


async def open_screen(console: ConsoleDriver, screen: str) -> None:
    keys = {"translate": ("4", "space"), "positions": ("6", "a"), "journal": ("7", "down")}
    if screen in keys:
        await console.press(*keys[screen])
        return
    plan = PlanScreen(None, Rewind.NEVER, Shown(PLAN, ("still active on the source: fulfilment",)))
    await console.app.push_screen(plan)
    await console.settle()
    if screen == "applied":
        # Not ``confirm``: on a made pipeline it waits for the worker that waits for the dialog.
        await console.pilot.press("A")
        await console.until(lambda: isinstance(console.app.focused, Input), "the dialog")
        await console.pilot.press(*"orders", "tab", "space")
        await console.until(lambda: plan.applied, "applied")
        await console.settle()
    if screen == "confirm":
        await console.pilot.press("A")
        await console.pilot.pause()
