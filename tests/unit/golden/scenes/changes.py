"""Scenes of the transcript of screens: what changes a cluster, from its plan to its undo."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from k2ktui.console.screens.positions_plan import MovesScreen
from k2ktui.console.screens.translate_plan import PlanScreen, Shown
from k2ktui.engine.mapping.translate import Basis
from k2ktui.engine.moves.apply import WriteOutcome, WriteResult
from k2ktui.engine.moves.journal import HOLD, RELEASE, JournalHeader
from k2ktui.engine.moves.plan import Action, Rewind
from k2ktui.engine.moves.planning import PlanOptions, make_plan
from k2ktui.engine.parity.model import ParityWrite
from k2ktui.engine.records.hold import Hold, Holds
from k2ktui.engine.records.moved_topic import MovedTopic, MovedTopics
from k2ktui.errors import ConfigError, K2kError, Refused, TimedOut
from k2ktui.sync.holds import HoldChange
from k2ktui.sync.moves.apply import Applied, OffsetsChanged
from k2ktui.sync.operations import JournalEntry
from k2ktui.sync.positions.position_writer import PositionWriteResult
from tests.console import test_acting_pictures as acting
from tests.console import test_comparison as comparison
from tests.console import test_parity as parity
from tests.console.test_journal import CUT, FIRST, PARTLY, UNDO, found
from tests.support.commands.transcript import Is
from tests.support.console.transcript import Scene, Walk, pipeline_session
from tests.support.console.views import NOON, Made, usual

AT_MS = int(NOON * 1000)
WHO = "ann@bastion1"
NO_TARGET = TimedOut(
    "dst:9092 does not answer", unchanged="Nothing was changed.", hint="Look at the target."
)


def on(screen: Any, walk: Walk) -> Any:
    """Return a coroutine that opens a screen above the present one."""
    return walk.app.push_screen(screen)


# Hold and release


def plan_hold(operation: str) -> Any:
    def plan(config: object, keys: Any, why: str) -> HoldChange:
        holds = tuple(Hold(key.topic, key.partition, WHO, AT_MS, why) for key in keys)
        return HoldChange(operation, holds, why=why, notes=("its source is down",))

    return plan


def refuse_hold(config: object, keys: Any, why: str) -> HoldChange:
    raise ConfigError("clicks is not copied", hint="Hold another.")


PLANS = {"k2ktui.console.screens.holding._PLANS": Is({op: plan_hold(op) for op in (HOLD, RELEASE)})}
REFUSED_PLANS = {
    "k2ktui.console.screens.holding._PLANS": Is(dict.fromkeys((HOLD, RELEASE), refuse_hold))
}
WRITES = {"k2ktui.console.screens.holding.write_change": lambda _, change, __: replace(
    change, entry="20261121-1"
)}  # fmt: skip


async def holding(walk: Walk) -> None:
    await walk.shows("marked: what to hold", "2", "space", "down", "space", "h")
    await walk.shows("why", "enter")
    await walk.shows("asked", *"schema", "enter")
    await walk.answers("held", "orders")
    await walk.shows("asked again", "h", "enter", "enter")
    await walk.shows("declined", "escape")
    walk.made.holds = Holds([Hold("clicks", None, WHO, AT_MS, "it moves")])
    await walk.shows_view("a topic is held")
    await walk.shows("what to release", "a", "h")
    await walk.shows("asked", *["down"] * 2, "enter", "enter")
    await walk.answers("released", "orders")


async def hold_fails(walk: Walk) -> None:
    await walk.shows("the plan is refused", "2", "h", "enter", "enter")


async def copy_again(walk: Walk) -> None:
    await walk.shows("what to do with a moved topic", "2", "slash", *"clicks", "enter", "h")
    await walk.shows("asked", "enter")
    await walk.answers("copied again", "orders")


MOVE = MovedTopic("clicks", "clicks", "20261121-101500-3f2a", AT_MS, WHO)


def moved() -> Made:
    made = usual()
    made.moved = MovedTopics([MOVE])
    return made


RELEASED = {
    "k2ktui.drill.operations.find_released": [MOVE],
    "k2ktui.drill.operations.preview_release": ["1 topic of the source stays denied to producers"],
    "k2ktui.drill.operations.release_moved": [MOVE.drill],
}


# Comparison of all records


def compare_with(report: Any) -> Any:
    @contextmanager
    def compare(_: object, options: Any) -> Any:
        if isinstance(report, K2kError):
            raise report
        yield report, comparison.Done([])

    return {
        "k2ktui.console.screens.comparison.compare_pipeline": compare,
        "k2ktui.console.screens.comparison.keep_result": None,
    }


async def compares(walk: Walk) -> None:
    await walk.shows("asked", "2", "c")
    await walk.answers("compared", "orders")
    await walk.shows("the next difference", "down")
    await walk.shows("left", "q")


async def declines_comparison(walk: Walk) -> None:
    await walk.shows("declined", "2", "c", "escape")


# Parity


def read_undo(_: object, entry: str) -> Any:
    header = JournalHeader(entry, AT_MS, WHO, "parity apply")
    writes = [
        ParityWrite(w.item, w.after, w.before) for w in (r.write for r in parity.PLAN.changes)
    ]
    return header, writes, ""


PARITY: dict[str, Any] = {
    "k2ktui.parity.operations.create_plan": parity.PLAN,
    "k2ktui.parity.operations.apply_plan": lambda *_: parity.apply(),
    "k2ktui.parity.operations.read_undo": read_undo,
    "k2ktui.parity.operations.undo_entry": lambda *_: replace(
        parity.apply(), id="20261121-120100-e5e5"
    ),
}


async def parities(walk: Walk) -> None:
    await walk.shows("compared", "2", "d")
    await walk.shows("the next row", "down")
    await walk.confirms("applied", "A", "orders")
    await walk.shows("apply is refused", "A")
    await walk.confirms("undone", "U", "orders")
    await walk.shows("undo again", "U")
    await walk.shows("declined", "escape")


async def parity_paused(walk: Walk) -> None:
    await walk.shows("it cannot be compared", "2", "d")
    await walk.shows("apply and undo are refused", "A", "U")


async def parity_fails(walk: Walk) -> None:
    await walk.press("2", "d")
    await walk.confirms("apply fails", "A", "orders")


async def parity_read_only(walk: Walk) -> None:
    await walk.shows("compared", "2", "d")
    await walk.shows("refused", "A", "U")


# Plans of groups


async def open_plan(walk: Walk, plan: Any, *notes: str, snapshot: Any = None) -> None:
    await walk.press("4")
    await on(PlanScreen(None, Rewind.NEVER, Shown(plan, notes, None, snapshot)), walk)


async def translate(walk: Walk) -> None:
    await walk.shows("groups to choose from", "4")
    await walk.shows("one is marked", "space")
    await walk.shows("rewinds are followed", "w")
    await walk.shows("planned", "enter")
    await walk.shows("planned again, without rewinds", "w")


async def translate_fails(walk: Walk) -> None:
    await walk.shows("it cannot be planned", "4", "enter")
    await walk.shows("everything is refused", "A", "o", "v", "U")


async def plans(walk: Walk) -> None:
    await open_plan(walk, acting.PLAN, "still active on the source: fulfilment")
    await walk.shows("a plan")
    await walk.shows("the next row", "down")
    await walk.shows("another one", "end")
    await walk.shows("compared", "v")
    await walk.confirms("applied", "A", "orders")
    await walk.shows("apply and set are refused", "A", "o")
    await walk.confirms("undone", "U", "orders")
    await walk.shows("undo is refused", "U")


def read_applied(_: object, entry: str) -> JournalEntry:
    return replace(found(_, FIRST.id), taken_back_by="")


def undo_applied(_: object, entry: JournalEntry, *__: Any, **___: Any) -> Applied:
    rows = [WriteResult(write, WriteOutcome.APPLIED, "") for write in entry.reversal()]
    return Applied("20261121-120100-e5e5", tuple(rows))


def moved_since(_: object, plan: Any, *__: Any) -> Applied:
    row = plan.changes[0]
    key = (row.group, row.topic, row.partition)
    raise offsets_changed("1 offset is not as the plan has it", {key: "now 39,900, not 39,895"})


def offsets_changed(text: str, moved: dict[Any, str]) -> OffsetsChanged:
    error = OffsetsChanged(text, unchanged="Nothing was changed.")
    error.moved = moved
    return error


async def plan_moved(walk: Walk) -> None:
    await open_plan(walk, acting.PLAN)
    await walk.confirms("an offset has moved", "A", "orders")
    await walk.shows("apply is refused", "A")


async def plan_fails(walk: Walk) -> None:
    await open_plan(walk, acting.PLAN)
    await walk.confirms("nothing was applied", "A", "orders")
    await walk.shows("asked, and declined", "A", "escape")
    await walk.shows("it cannot be compared", "v")


async def plan_refused(walk: Walk) -> None:
    await open_plan(walk, replace(acting.PLAN, rows=()))
    await walk.shows("no row: refused", "A", "v", "U", "o")
    await on(PlanScreen(None, Rewind.NEVER, Shown(replace(acting.PLAN, expires_at=NOON - 1))), walk)
    await walk.shows("expired: refused", "A")
    kept = replace(acting.PLAN, commits_at=NOON - 700, notes=("src:9092 does not answer",))
    await on(PlanScreen(None, Rewind.NEVER, Shown(kept, kept.notes)), walk)
    await walk.shows("made of kept commits")
    await walk.shows("it is confirmed: asked", "A")


async def set_row(walk: Walk) -> None:
    await open_plan(walk, make_plan(acting.READ, PlanOptions(WHO)), snapshot=acting.READ)
    await walk.shows("a plan whose rows can be set")
    await walk.shows("asked", "o")
    await walk.shows("an effect", *["backspace"] * 6, "minus", *"40")
    await walk.shows("out of the log", *["backspace"] * 4, *"999999", "enter")
    await walk.shows("no value", *["backspace"] * 8, *"soon", "enter")
    await walk.shows("set", *["backspace"] * 8, *"1010", "enter")
    await walk.shows("declined", "o", "escape")


def plan_options(*_: object, rewind: Rewind, group: Any, choices: Any) -> PlanOptions:
    return PlanOptions(WHO, rewind=rewind, group=group, choices=choices)


SETS = {
    "k2ktui.console.screens.translate_plan.plan_options": plan_options,
    "k2ktui.console.screens.translate_plan.keep_plan": None,
    "k2ktui.sync.operations.plan_snapshot": lambda snapshot, options, _: make_plan(
        snapshot, options
    ),
}
ACTS: dict[str, Any] = {
    "k2ktui.console.screens.translate_plan.plan_options": plan_options,
    "k2ktui.console.screens.translate_plan.keep_plan": None,
    "k2ktui.sync.operations.create_plan": acting.PLAN,
    "k2ktui.sync.operations.apply_plan": acting.apply_plan,
    "k2ktui.sync.operations.verify_content": acting.REPORT,
    "k2ktui.sync.operations.read_entry": read_applied,
    "k2ktui.sync.operations.undo_entry": undo_applied,
}


async def narrow(walk: Walk) -> None:
    for key in "1234567":
        await walk.shows("a narrow terminal", key)
    await walk.shows("an entry", "enter")
    await open_plan(walk, acting.PLAN, "still active on the source: fulfilment")
    await walk.shows("a plan")
    await walk.shows("the reason of a row is below it", "down")
    await walk.shows("the whole row", "enter")
    await walk.shows("apply: asked", "q", "A")


# Resets of a group


async def resets(walk: Walk) -> None:
    await walk.shows("which group", "3", "o")
    await walk.shows("to what", *"billing", "enter")
    await walk.shows("no value", *["backspace"] * 20, *"soon", "enter")
    await walk.press("o", *"billing", "enter", *["backspace"] * 20)
    await walk.shows("planned", *"earliest", "enter")
    await walk.shows("what translates is refused", "w", "v", "o")
    await walk.confirms("applied", "A", "orders")
    await walk.shows("declined", "q", "o", "escape")


RESET = replace(
    acting.PLAN,
    rows=tuple(
        replace(row, basis=Basis.CHOSEN, action=Action.REWIND, proposed=10_007, reason="")
        for row in acting.ROWS[:2]
    ),
)


# Positions


class Planner:
    """Plans what is in the pictures, without a cluster."""

    config = None

    def __init__(self, *_: object) -> None:
        pass

    def plan_set(self, *_: object) -> Any:
        return acting.MOVES

    def plan_to(self, *_: object) -> Any:
        return replace(acting.MOVES, moves=acting.MOVES.moves[:3])

    def plan_clear(self, *_: object) -> Any:
        return replace(acting.MOVES, operation="offsets clear", moves=acting.MOVES.moves[:2])

    def close(self) -> None:
        return


class Writer:
    """Writes positions nowhere."""

    def __init__(self, *_: object) -> None:
        pass

    def apply(self, change: Any, _: object) -> Any:
        return PositionWriteResult(13, "20261121-120000-d4d4")


class FailingWriter(Writer):
    """Finds a position that has changed."""

    def apply(self, change: Any, _: object) -> Any:
        raise Refused(
            "clicks-2 is at 88,900, the plan has 88,802",
            unchanged="No position was written.",
            hint="Plan again.",
        )


MOVES: dict[str, Any] = {
    "k2ktui.console.screens.positions_plan.PositionPlanner": Is(Planner),
    "k2ktui.console.screens.positions_plan.PositionWriter": Is(Writer),
    "k2ktui.console.screens.positions.plan_to_recover": NO_TARGET,
}


def stopped() -> Made:
    made = usual()
    made.running = False
    return made


async def positions(walk: Walk) -> None:
    await walk.shows("no run copies", "6")
    await walk.shows("where to", "space", "enter")
    await walk.shows("no place", *"soon", "enter")
    await walk.shows("a plan with a refused row", "enter", *"500", "enter")
    await walk.shows("apply is refused", "A")
    await walk.shows("the rows", "end")
    await walk.press("q", "enter")
    await walk.shows("a plan", *"earliest", "enter")
    await walk.confirms("moved", "A", "orders")
    await walk.shows("apply again is refused", "A")
    await walk.shows("a plan that clears", "q", "c")
    await walk.shows("positions cannot be recovered", "q", "o")
    await walk.shows("apply is refused", "A")


async def positions_of_a_run(walk: Walk) -> None:
    await walk.shows("a run copies", "6")
    await walk.shows("a plan: refused", "c", "A")


async def moves_fail(walk: Walk) -> None:
    await walk.press("6", "c")
    await walk.confirms("nothing was written", "A", "orders")
    await walk.shows("asked, and declined", "A", "escape")
    await on(MovesScreen(lambda _: replace(acting.MOVES, moves=())), walk)
    await walk.shows("nothing to move")


# Journal


def journaled() -> Made:
    made = usual()
    made.journal = [UNDO, PARTLY, CUT, FIRST]
    return made


def moved_entry(_: object, entry: JournalEntry, *__: Any, skip_moved: bool = False) -> Applied:
    writes = entry.reversal()
    first = writes[0]
    if not skip_moved:
        moved = {(first.group, first.topic, first.partition): "now 40,050"}
        raise offsets_changed("1 offset moved after the entry", moved)
    rows = [WriteResult(write, WriteOutcome.APPLIED, "") for write in writes[1:]]
    return Applied("20261121-120100-e5e5", tuple(rows))


async def journal(walk: Walk) -> None:
    await walk.shows("entries", "7")
    await walk.shows("an entry that was undone cannot be undone again", "end", "U")
    await walk.shows("an entry", "home", "down", "enter")
    await walk.confirms("others moved", "U", "orders")
    await walk.answers("undone without them", "orders")
    await walk.shows("an entry that did not end", "q", "down", "enter")


async def journal_fails(walk: Walk) -> None:
    await walk.shows("offsets cannot be read", "7")
    await walk.shows("undo: the entry cannot be read", "U")
    await walk.shows("the entry", "enter")


async def no_journal(walk: Walk) -> None:
    await walk.shows("nothing was applied", "7")
    await walk.shows("undo", "U")


def pipeline(made: Any = usual, **options: Any) -> Any:
    return lambda: pipeline_session(made(), **options)


SCENES: dict[str, list[Scene]] = {
    "hold": [
        Scene("hold and release", holding, pipeline(), {**PLANS, **WRITES}),
        Scene(
            "refused",
            hold_fails,
            pipeline(),
            REFUSED_PLANS,
        ),
        Scene("a moved topic", copy_again, pipeline(moved), RELEASED),
    ],
    "comparison": [
        Scene("with differences", compares, pipeline(), compare_with(comparison.REPORT)),
        Scene("equal", compares, pipeline(), compare_with(comparison.EQUAL)),
        Scene(
            "refused",
            compares,
            pipeline(),
            compare_with(Refused("another comparison of the same choice is running")),
        ),
        Scene("declined", declines_comparison, pipeline()),
    ],
    "parity": [
        Scene("applied and undone", parities, pipeline(), PARITY),
        Scene(
            "paused",
            parity_paused,
            pipeline(),
            {
                "k2ktui.parity.operations.create_plan": Refused(
                    "parity is paused: drill 20261121-1158 is open", unchanged="Nothing changed."
                )
            },
        ),
        Scene(
            "apply fails",
            parity_fails,
            pipeline(),
            {**PARITY, "k2ktui.parity.operations.apply_plan": NO_TARGET},
        ),
        Scene("read-only", parity_read_only, pipeline(read_only=True), PARITY),
    ],
    "translate": [
        Scene("planned", translate, pipeline(), ACTS),
        Scene(
            "the target does not answer",
            translate_fails,
            pipeline(),
            {**ACTS, "k2ktui.sync.operations.create_plan": NO_TARGET},
        ),
    ],
    "plan": [
        Scene("applied and undone", plans, pipeline(), ACTS),
        Scene(
            "an offset has moved",
            plan_moved,
            pipeline(),
            {**ACTS, "k2ktui.sync.operations.apply_plan": moved_since},
        ),
        Scene(
            "the target does not answer",
            plan_fails,
            pipeline(),
            {
                **ACTS,
                "k2ktui.sync.operations.apply_plan": NO_TARGET,
                "k2ktui.sync.operations.verify_content": NO_TARGET,
            },
        ),
        Scene("refused", plan_refused, pipeline(), ACTS),
        Scene("a row is set", set_row, pipeline(), SETS),
    ],
    "narrow": [
        Scene(
            "80 by 24",
            narrow,
            pipeline(journaled),
            {**ACTS, "k2ktui.sync.operations.read_entry": found},
            size=(80, 24),
        )
    ],
    "reset": [
        Scene(
            "a group",
            resets,
            pipeline(),
            {**ACTS, "k2ktui.console.screens.group_reset.plan_group_reset": (RESET, ("a note",))},
        )
    ],
    "positions": [
        Scene("moved", positions, pipeline(stopped), MOVES),
        Scene("a run copies", positions_of_a_run, pipeline(), MOVES),
        Scene(
            "a position has changed",
            moves_fail,
            pipeline(stopped),
            {**MOVES, "k2ktui.console.screens.positions_plan.PositionWriter": Is(FailingWriter)},
        ),
    ],
    "journal": [
        Scene(
            "entries",
            journal,
            pipeline(journaled),
            {
                "k2ktui.sync.operations.read_entry": found,
                "k2ktui.sync.operations.undo_entry": moved_entry,
            },
        ),
        Scene(
            "the target does not answer",
            journal_fails,
            pipeline(journaled),
            {"k2ktui.sync.operations.read_entry": NO_TARGET},
        ),
        Scene("nothing was applied", no_journal, pipeline()),
    ],
}
