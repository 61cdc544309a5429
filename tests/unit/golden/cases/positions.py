"""Cases of the transcript: positions of a pipeline, and what is held."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from k2ktui.engine.deleted_logs import DeletedLog
from k2ktui.engine.moves.journal import Runner
from k2ktui.engine.moves.positions import RECOVER, MoveEffect, PositionMove, PositionPlan
from k2ktui.engine.records.hold import Hold, Holds
from k2ktui.engine.records.moved_topic import NO_MOVED_TOPICS
from k2ktui.engine.records.run_record import Run
from k2ktui.engine.records.state import Gap, Position, SourcePartition
from k2ktui.errors import K2kError, PartlyApplied, Refused
from k2ktui.replication.ownership.commit_state import CommitState
from k2ktui.sync.positions.position_writer import PositionWriteResult
from k2ktui.sync.store import PipelineState
from tests.support.commands.transcript import Typed, typed
from tests.support.console.views import NOON, TARGET_ID, TOPIC_ID, runner
from tests.support.drill.made_drills import fencing
from tests.unit.golden.cases.clusters import ClusterAnswers
from tests.unit.golden.cases.common import NO_SOURCE, NO_TARGET, Cases, protected

C0, C1, P0 = (
    SourcePartition("clicks", 0),
    SourcePartition("clicks", 1),
    SourcePartition("payments", 0),
)
SOURCE = ClusterAnswers({"clicks": [(100, 900), (0, 50)], "payments": [(0, 40_000)]})
TARGET = ClusterAnswers(
    {"clicks": [(0, 800), (0, 50)], "payments": [(0, 40_000)], "__k2k_consumer-offsets": [(0, 9)]},
    TARGET_ID,
)  # fmt: skip
NOON_MS = int(NOON * 1000)
UNREADABLE = Refused(
    "topic __k2k_state of the target may not be read: not authorized",
    unchanged="Nothing was changed.",
    hint="Grant Read on it.",
)


def position(topic: str, partition: int, offset: int, start: int = 0, **values: Any) -> Position:
    """A position of the third run."""
    made = Position(
        offset, start, 0, TOPIC_ID, 3, 0, topic, partition, TOPIC_ID, 1, NOON_MS - 2_000
    )
    return replace(made, **values)


POSITIONS = {
    C0: position("clicks", 0, 700, 100, gaps=(Gap(300, 310, "truncated"),)),
    P0: position("payments", 0, 40_000),
}


def answers(
    positions: Mapping[SourcePartition, Position] = POSITIONS,
    *,
    runners: tuple[Runner, ...] = (),
    source: ClusterAnswers = SOURCE,
    target: ClusterAnswers = TARGET,
    state: PipelineState | K2kError | None = None,
    deleted: Mapping[SourcePartition, DeletedLog] | None = None,
) -> dict[str, Any]:
    """Return what both clusters answer: the commit topic, the state topic, and the logs."""
    commits = CommitState(Run(3, 1), positions, deleted=deleted or {})
    state = PipelineState(runners) if state is None else state
    return {
        "k2ktui.sync.positions.position_planner.source_cluster": lambda _: source,
        "k2ktui.sync.positions.position_planner.target_cluster": lambda _: target,
        "k2ktui.sync.positions.position_planner.read_commit_state": commits,
        "k2ktui.sync.positions.position_planner.read_log_starts": {},
        "k2ktui.sync.positions.position_planner.find_lost_term": 0,
        "k2ktui.sync.positions.acknowledge.read_commit_state": commits,
        "k2ktui.sync.positions.position_writer.read_moved": NO_MOVED_TOPICS,
        "k2ktui.sync.store.StateStore.read": state,
        "k2ktui.sync.store.StateStore.read_settled": state,
    }


WRITE = "k2ktui.sync.positions.position_writer.PositionWriter.apply"
WRITTEN = PositionWriteResult(4, "20261121-120000-d1d1", ("the run of bastion2 was fenced",))
UNJOURNALED = PositionWriteResult(4, "", ("the journal was not written: not authorized",))
PARTLY = PartlyApplied(
    "the position of clicks-0 read back is 650, not 600",
    unchanged="",
    hint="Another run writes: stop it, then repeat the command.",
)


def offsets_show(_: Path) -> list[Typed]:
    """Positions and logs; a run; the source down; no right to read the state; drills; nothing."""
    show = "offsets show -f orders.yaml"
    alive = answers(runners=(runner("bastion2", started_ms=NOON_MS - 60_000, at_ms=NOON_MS),))
    down = answers(source=ClusterAnswers(error=NO_SOURCE))
    drill = fencing()
    drilled = answers(state=PipelineState(drills={drill.id: drill}))
    new = answers({}, target=ClusterAnswers(id=TARGET_ID))
    return [
        *(typed(f"{show}{option}", given) for given in (alive, down) for option in ("", " --json")),
        typed(show, answers(state=UNREADABLE)),
        typed(show, drilled),
        typed(show, new),
        typed(show, answers(target=ClusterAnswers(error=NO_TARGET))),
        typed("offsets show"),
        typed("offsets show -f missing.yaml"),
    ]


def offsets_set(folder: Path) -> list[Typed]:
    """Each effect; written, not confirmed, refused; contradictions."""
    put, wrote = "offsets set -f orders.yaml", {**answers(), WRITE: WRITTEN}
    moves = "clicks:0:600 clicks:1:10 payments:0:40000"
    again = answers({**POSITIONS, C0: position("clicks", 0, 700, topic_id="aa" * 16)})
    running = answers(runners=(runner("bastion2", at_ms=NOON_MS - 3_000),))
    return [
        typed(f"{put} {moves} --dry-run", answers()),
        typed(f"{put} {moves} --dry-run --json", answers()),
        typed(f"{put} clicks:0:800 --dry-run", answers()),
        typed(f"{put} clicks:0:800 --dry-run", again),
        typed(f"{put} clicks:0:50 payments:0:50000 --dry-run", answers()),
        typed(f"{put} other:0:1 --dry-run", answers()),
        typed(f"{put} payments:0:40000 --yes", answers()),
        typed(f"{put} payments:0:40000 --yes --json", answers()),
        typed(f"{put} --to earliest --dry-run", answers()),
        typed(f"{put} --to latest --topic clicks --dry-run", answers()),
        typed(f"{put} --to 2026-11-21T00:00:00Z --dry-run", answers()),
        typed(f"{put} clicks:0:600", wrote, keys="orders\n"),
        typed(f"{put} clicks:0:600", wrote, keys="order\n"),
        typed(f"{put} clicks:0:600 --json", wrote, keys="orders\n"),
        typed(f"{put} clicks:0:600", wrote),
        typed(f"{put} clicks:0:600 --yes", {**answers(), WRITE: UNJOURNALED}),
        typed(f"{put} clicks:0:600 --yes --json", wrote),
        typed(f"{put} clicks:0:600 --yes", {**answers(), WRITE: PARTLY}),
        typed(f"{put} clicks:0:600 --yes", running),
        typed(f"{put} clicks:0:600 --yes", answers({}, target=ClusterAnswers(id=TARGET_ID))),
        typed(f"{put} clicks:0:600 --yes", answers(source=ClusterAnswers(error=NO_SOURCE))),
        *protected(folder, "offsets set clicks:0:600 --yes", answers()),
        typed(put),
        typed(f"{put} clicks:0:600 --to latest"),
        typed(f"{put} clicks:0:600 --topic clicks"),
        typed(f"{put} --to latest --topic ("),
        typed(f"{put} --to yesterday"),
        typed(f"{put} clicks clicks:0:-1 clicks:x:1 clicks:0:1 clicks:0:2"),
    ]


def offsets_clear(folder: Path) -> list[Typed]:
    """Some, all; written, not confirmed, refused; contradictions."""
    clear, wrote = "offsets clear -f orders.yaml", {**answers(), WRITE: WRITTEN}
    gone = answers({**POSITIONS, SourcePartition("deleted", 0): position("deleted", 0, 7)})
    return [
        typed(f"{clear} clicks --dry-run", answers()),
        typed(f"{clear} clicks:0 --dry-run --json", answers()),
        typed(f"{clear} --topic .* --dry-run", gone),
        typed(f"{clear} clicks", wrote, keys="orders\n"),
        typed(f"{clear} clicks", wrote, keys="\n"),
        typed(f"{clear} clicks --yes --json", wrote),
        typed(f"{clear} --topic nothing --yes", answers()),
        typed(f"{clear} other clicks:7 --yes", answers()),
        *protected(folder, "offsets clear clicks --yes", answers()),
        typed(clear),
        typed(f"{clear} --topic ("),
        typed(f"{clear} clicks:x"),
    ]


def recovered() -> PositionPlan:
    """A plan with a position that is recovered, one that is kept, and one that stays stopped."""
    return PositionPlan(
        RECOVER,
        "orders",
        (
            PositionMove(
                C0, MoveEffect.RECOVER, None, POSITIONS[C0], 700,
                why="mapped up to there; its last 32 copies are equal on both clusters",
            ),
            PositionMove(P0, MoveEffect.KEEP, POSITIONS[P0], POSITIONS[P0], 40_000),
            PositionMove(
                C1, MoveEffect.STOP, None, position("clicks", 1, 0, stopped="not proven"), None,
                why="no mapping of it is left, and clicks-1 on the target has had records: what "
                "was copied is not known",
            ),
        ),
        ("the mapping topic has lost records since it was created",),
    )  # fmt: skip


def offsets_recover(folder: Path) -> list[Typed]:
    """Recovered in part, not confirmed, nothing lost, and pipelines that cannot prove anything."""
    (folder / "least.yaml").write_text("features: {exactlyOnce: disabled}\n")
    (folder / "unmapped.yaml").write_text("features: {offsetMapping: disabled}\n")
    recover, plan = (
        "offsets recover -f orders.yaml",
        "k2ktui.sync.positions.recovery.plan_to_recover",
    )
    some = {**answers(), plan: recovered(), WRITE: WRITTEN}
    whole = replace(recovered(), moves=recovered().moves[:1], notes=())
    none = {**answers(), plan: replace(recovered(), moves=recovered().moves[1:2], notes=())}
    return [
        typed(f"{recover} --dry-run", some),
        typed(f"{recover} --dry-run --json", some),
        typed(recover, some, keys="orders\n"),
        typed(recover, some, keys="no\n"),
        typed(f"{recover} --yes --json", some),
        typed(f"{recover} --yes", {**some, plan: whole}),
        typed(f"{recover} --yes", none),
        typed(f"{recover} --yes", {**answers(), plan: NO_SOURCE}),
        *protected(folder, "offsets recover --yes", some),
        typed(f"{recover} -f least.yaml --yes", answers()),
        typed(f"{recover} -f unmapped.yaml --yes", answers()),
    ]


def offsets_acknowledge(folder: Path) -> list[Typed]:
    """Topics that were deleted too early; none; acknowledged, not confirmed."""
    log = DeletedLog("clicks", 0, 700, 900, TOPIC_ID, NOON_MS)
    lost = answers(deleted={C0: log})
    done = PositionWriteResult(0, "20261121-120000-d1d1", count=1)
    record = "k2ktui.sync.positions.acknowledge.acknowledge"
    wrote = {**lost, record: done}
    unjournaled = PositionWriteResult(0, "", ("the journal was not written: not authorized",), 1)
    acknowledge = "offsets acknowledge -f orders.yaml"
    return [
        typed(f"{acknowledge} clicks --dry-run", lost),
        typed(f"{acknowledge} clicks --dry-run --json", lost),
        typed(f"{acknowledge} clicks", wrote, keys="orders\n"),
        typed(f"{acknowledge} clicks", wrote, keys="no\n"),
        typed(f"{acknowledge} clicks:0 --yes --json", wrote),
        typed(f"{acknowledge} --topic .* --yes", {**lost, record: unjournaled}),
        typed(f"{acknowledge} payments --yes", lost),
        typed(f"{acknowledge} payments --yes --json", lost),
        *protected(folder, "offsets acknowledge clicks --yes", lost),
        typed(acknowledge),
    ]


ONE = Hold("clicks", 0, "ann@bastion", NOON_MS, "a new schema")
ALL = Hold("payments", None, "ann@bastion", NOON_MS)


def held(*holds: Hold) -> dict[str, Any]:
    """Return what the target answers of holds and positions."""
    return {
        "k2ktui.sync.holds.read_holds": Holds(holds),
        "k2ktui.sync.holds.target_cluster": lambda _: TARGET,
        "k2ktui.sync.holds.read_commits": CommitState(Run(3, 1), POSITIONS),
        "k2ktui.sync.store.StateStore.put": None,
    }


def hold(folder: Path) -> list[Typed]:
    """Listed, held, held before, not confirmed; what is not copied."""
    put, one = "hold -f orders.yaml", held(ONE, ALL)
    return [
        typed(put, one),
        typed(f"{put} --json", one),
        typed(put, held()),
        typed(f"{put} --json", held()),
        typed(f"{put} clicks clicks:0 payments:0 invoices --dry-run", one),
        typed(f"{put} clicks invoices --why new-schema", held(), keys="orders\n"),
        typed(f"{put} clicks:0", held(), keys="no\n"),
        typed(f"{put} clicks:0", held()),
        typed(f"{put} clicks:0 --yes --json", held()),
        typed(f"{put} clicks:0 --dry-run --json", held()),
        typed(f"{put} payments --yes", one),
        typed(f"{put} other clicks --yes", held()),
        typed(f"{put} clicks --why {'x' * 501} --yes", held()),
        typed(f"{put} clicks:0 --yes", {**held(), "k2ktui.sync.holds.read_holds": NO_TARGET}),
        *protected(folder, "hold clicks:0 --yes", held()),
        typed(f"{put} clicks:x"),
        typed("hold clicks"),
    ]


def release(folder: Path) -> list[Typed]:
    """Released, not confirmed, not held, held with the whole topic."""
    let, both = "release -f orders.yaml", held(ONE, ALL)
    return [
        typed(f"{let} clicks payments --dry-run", both),
        typed(f"{let} clicks payments --why done", both, keys="orders\n"),
        typed(f"{let} clicks:0", both, keys="no\n"),
        typed(f"{let} clicks:0 --yes --json", both),
        typed(f"{let} payments:0 --yes", both),
        typed(f"{let} invoices --yes", both),
        typed(f"{let} invoices --yes", held()),
        *protected(folder, "release clicks --yes", both),
        typed(let),
    ]


CASES: Mapping[str, Cases] = {
    "hold": hold,
    "offsets acknowledge": offsets_acknowledge,
    "offsets clear": offsets_clear,
    "offsets recover": offsets_recover,
    "offsets set": offsets_set,
    "offsets show": offsets_show,
    "release": release,
}
