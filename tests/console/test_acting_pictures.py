"""What the screens that act look like, against pictures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from textual.widgets import Input

from k2ktui.config.model import PipelineConfig
from k2ktui.console.screens import positions_plan, translate_plan
from k2ktui.console.screens.positions_plan import MovesScreen
from k2ktui.console.screens.translate_plan import PlanScreen, Shown
from k2ktui.engine.access import Access
from k2ktui.engine.mapping.replica import Replica, TargetLog
from k2ktui.engine.mapping.translate import Basis
from k2ktui.engine.moves.apply import WriteOutcome, WriteResult
from k2ktui.engine.moves.groups import CommittedOffset, GroupView
from k2ktui.engine.moves.pins import PinnedLog
from k2ktui.engine.moves.plan import Action, Plan, PlanRow, Rewind
from k2ktui.engine.moves.planning import PlanOptions, make_plan
from k2ktui.engine.moves.positions import SET, MoveEffect, PositionMove, PositionPlan
from k2ktui.engine.moves.written import OffsetWrite
from k2ktui.engine.records.mapping_version import MappingVersion
from k2ktui.engine.records.state import Position, SourcePartition
from k2ktui.sync import operations
from k2ktui.sync.flow import Flow
from k2ktui.sync.moves.apply import Applied
from k2ktui.sync.verify.record_comparison import ComparisonOutcome, PositionPair
from k2ktui.sync.verify.verification import ContentCheck, Verification
from tests.support.console.driver import ConsoleDriver
from tests.support.console.pictures import ONE, SIZES, THEMES, compare_screen, each_screen
from tests.support.console.views import NOON, usual
from tests.unit.engine.test_groups import a_range, snapshot

FLOW = Flow(PipelineConfig.model_construct(name="orders"))
SCREENS = (
    "translate",
    "plan",
    "row",
    "empty-plan",
    "set-row",
    "confirm",
    "applied",
    "verified",
    "positions",
    "moves",
)
# What differs from the plan in its texts.
TEXTS = ("empty-plan", "applied", "verified")

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
        action=Action.BLOCKED,
        reason="the effect on the group is unknown; set the offset yourself; no mapping "
        "reaches so far back",
    ),
    replace(
        SURE,
        group="reports",
        current=40_042,
        action=Action.BLOCKED,
        reason="the target is ahead; rewinding is off (--rewind follow)",
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
LOGS = tuple(PinnedLog("payments", number, "", 10_007, 40_007) for number in (0, 1))
PLAN = Plan(
    "orders",
    "source",
    "target",
    NOON,
    NOON + 900,
    "ops@bastion1",
    Rewind.NEVER,
    ROWS,
    logs=LOGS,
)


@each_screen(SCREENS)
def test_screens_look_as_they_did(screen: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operations, "apply_plan", apply_plan)
    monkeypatch.setattr(operations, "verify_content", lambda *_, **__: REPORT)
    monkeypatch.setattr(positions_plan, "PositionPlanner", lambda config: NoPlanner())
    options = PlanOptions("ops@bastion1")
    monkeypatch.setattr(translate_plan, "plan_options", lambda *_, **__: options)
    made = usual()

    async def opens(console: ConsoleDriver) -> None:
        await open_screen(console, screen)

    compare_screen(
        opens,
        made,
        screen,
        sizes=ONE if screen in TEXTS else SIZES,
        themes=THEMES if screen == "plan" else (),
        afresh=screen in ("confirm", "set-row"),
        files=("orders.yaml",),
        flow=FLOW,
    )


class NoPlanner:
    """Stands for the planner that reads the clusters: the pictures have a plan already."""

    def close(self) -> None:
        return


def at(offset: int) -> Position:
    return Position(offset, 0, 0, "", 1, 0, "payments", 0, "", 0, 0)


def check(row: PlanRow, outcome: ComparisonOutcome, why: str = "") -> ContentCheck:
    pair = PositionPair(
        SourcePartition("payments", row.partition), 39_995, ("payments", row.partition), 40_002
    )
    return ContentCheck(row.group, pair, 1, outcome, why)


PAID = [SourcePartition("payments", number) for number in (0, 1)]
MOVES = PositionPlan(
    SET,
    "orders",
    (
        PositionMove(
            SourcePartition("clicks", 2),
            MoveEffect.FORWARD,
            at(88_802),
            at(90_002),
            90_002,
            left_out=1_200,
        ),
        PositionMove(
            SourcePartition("payments", 0), MoveEffect.BACK, at(40_000), at(30_000), 30_000, 10_000
        ),
        PositionMove(
            SourcePartition("payments", 1), MoveEffect.KEEP, at(40_000), at(40_000), 40_000
        ),
        PositionMove(
            SourcePartition("invoices", 0),
            MoveEffect.REFUSED,
            at(510),
            offset=900,
            why="offset 900 is outside the source log: log start offset 0, last stable offset 510",
        ),
    ),
)
REPORT = operations.VerificationReport(
    Verification(
        (
            check(SURE, ComparisonOutcome.SAME),
            check(ROWS[1], ComparisonOutcome.DIFFERENT, "the values differ from byte 12 on"),
        )
    ),
    ((ROWS[2], "nothing was planned: no mapping"),),
    (),
)


PAYMENTS = ("payments", 0)
# What the plan of "set-row" is made of: a group that has read 120 of 500 copies.
READ = replace(
    snapshot(),
    taken_at=NOON,
    source={"billing": GroupView("Empty", 0, {PAYMENTS: CommittedOffset(120)})},
    target={"billing": GroupView("Empty", 0, {PAYMENTS: CommittedOffset(1_010)})},
    replicas={
        SourcePartition(*PAYMENTS): Replica(
            Position(500, 0, 0, "id", 3, 0, *PAYMENTS), {PAYMENTS: a_range(0, 1_000, 500)}
        )
    },
    logs={PAYMENTS: TargetLog(0, 1_600)},
)


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
    keys = {"translate": ("4", "space"), "positions": ("6", "a")}
    if screen in keys:
        await console.press(*keys[screen])
        return
    if screen == "moves":
        await console.app.push_screen(MovesScreen(lambda known: MOVES))
        await console.settle()
        return
    if screen == "set-row":
        shown = Shown(make_plan(READ, PlanOptions("ops@bastion1")), (), None, READ)
        await console.press("4")
        await console.app.push_screen(PlanScreen(None, Rewind.NEVER, shown))
        await console.settle()
        await console.pilot.press("o")
        await console.until(lambda: isinstance(console.app.focused, Input), "the dialog")
        console.app.screen.query_one(Input).value = "-40"
        await console.pilot.pause()
        return
    made = replace(PLAN, rows=()) if screen == "empty-plan" else PLAN
    plan = PlanScreen(None, Rewind.NEVER, Shown(made, ("still active on the source: fulfilment",)))
    await console.press("4")
    await console.app.push_screen(plan)
    await console.settle()
    if screen == "row":
        await console.press("down", "down", "enter")
    if screen == "verified":
        await console.press("v")
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
        await console.until(lambda: isinstance(console.app.focused, Input), "the dialog")
