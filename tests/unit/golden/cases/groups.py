"""Cases of the transcript: consumer groups: plans, what is applied and undone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from k2ktui.engine.mapping.translate import Basis
from k2ktui.engine.members import make_member
from k2ktui.engine.moves.apply import WriteOutcome, WriteResult
from k2ktui.engine.moves.groups import GroupView
from k2ktui.engine.moves.journal import JournalHeader
from k2ktui.engine.moves.lags import ReadLogs
from k2ktui.engine.moves.plan import Action, Plan, PlanRow, Rewind, dump_plan
from k2ktui.engine.moves.written import OffsetWrite
from k2ktui.engine.records.mapping_version import MappingVersion
from k2ktui.errors import ConfigError, Refused
from k2ktui.sync.moves.apply import Applied
from k2ktui.sync.operations import GroupDeletion, JournalEntry
from tests.console.test_acting_pictures import READ
from tests.console.test_journal import FIRST, PARTLY, UNDO, found
from tests.support.commands.transcript import Typed, typed
from tests.support.console.views import (
    NOON,
    SOURCE_ID,
    TARGET_ID,
)
from tests.unit.golden.cases.common import NO_TARGET, PAIR, Cases

# The record at the group's offset was written two minutes before.
LOGS = ReadLogs({("payments", 0): 505}, {}, {("payments", 0): {120: NOON - 120}}, NOON)

# The record at the group's offset was written two minutes before.
LOGS = ReadLogs({("payments", 0): 505}, {}, {("payments", 0): {120: NOON - 120}}, NOON)

# The record at the group's offset was written two minutes before.
LOGS = ReadLogs({("payments", 0): 505}, {}, {("payments", 0): {120: NOON - 120}}, NOON)


def a_plan(folder: Path) -> Plan:
    """One row of each action, written to plan.json as well."""
    version = MappingVersion(2, 50)
    where = ("payments", 0, "payments-0@39995", "Empty")
    rows = (
        PlanRow("archive", *where, "", None, None, Basis.UNMAPPED, None, None, Action.BLOCKED,
                "no mapping reaches so far back", version),
        PlanRow("billing", *where, "Empty", 39_000, 40_002, Basis.EXACT, 0, 0, Action.ADVANCE, "",
                version),
        PlanRow("fulfilment", *where, "Empty", 40_002, 40_002, Basis.EXACT, 0, 0, Action.KEEP, "",
                version),
        PlanRow("reports", *where, "", None, 40_002, Basis.EXACT, 0, 0, Action.CREATE, "", version),
    )  # fmt: skip
    plan = Plan(
        "orders", SOURCE_ID, TARGET_ID, NOON - 60, NOON + 540, "ann@bastion1", Rewind.NEVER, rows,
        files=("orders.yaml",),
    )  # fmt: skip
    (folder / "plan.json").write_text(dump_plan(plan))
    return plan


def plan(folder: Path) -> list[Typed]:
    """As a table, JSON, CSV, and into a file; nothing to do; no target."""
    create = "k2ktui.sync.operations.create_plan"
    made = a_plan(folder)
    blocked = replace(made, rows=made.rows[:1])
    return [
        typed("plan -f orders.yaml", {create: made, **PAIR}),
        typed("plan -f orders.yaml --json", {create: made, **PAIR}),
        typed("plan -f orders.yaml --csv", {create: made, **PAIR}),
        typed("plan -f orders.yaml -o new.json", {create: made, **PAIR}),
        typed("plan -f orders.yaml", {create: blocked, **PAIR}),
        typed("plan -f orders.yaml", {create: NO_TARGET, **PAIR}),
        typed("plan -f orders.yaml --json --csv"),
        typed("plan -f orders.yaml --group ("),
    ]


def results(_: Path) -> Applied:
    """Writes of which one was refused, and one is not as it was committed."""
    writes = [OffsetWrite(group, "payments", n, None, "", 5, "") for n, group in enumerate("abc")]
    return Applied(
        "1795262400-1",
        (
            WriteResult(writes[0], WriteOutcome.APPLIED),
            WriteResult(writes[1], WriteOutcome.REFUSED, "a member joined"),
            WriteResult(writes[2], WriteOutcome.APPLIED),
        ),
    )


def apply(folder: Path) -> list[Typed]:
    """Confirmed, refused by the wrong name, partly applied, expired, damaged."""
    made = a_plan(folder)
    late = replace(made, expires_at=NOON - 30)
    (folder / "late.json").write_text(dump_plan(late))
    (folder / "damaged.json").write_text(dump_plan(made).replace("39000", "39001"))
    write = "k2ktui.sync.operations.apply_plan"
    return [
        typed("apply -f orders.yaml plan.json", {write: results(folder)}, keys="orders\n"),
        typed("apply -f orders.yaml plan.json", {write: results(folder)}, keys="order\n"),
        typed("apply -f orders.yaml plan.json --yes --json", {write: results(folder)}),
        typed("apply -f orders.yaml plan.json --yes", {write: NO_TARGET}),
        typed("apply -f orders.yaml late.json --yes"),
        typed("apply -f orders.yaml damaged.json --yes"),
        typed("apply -f orders.yaml missing.json --yes"),
    ]


ENTRY = "20261121-120003-aaaa"


def an_entry(header: JournalHeader = PARTLY) -> JournalEntry:
    """An applied plan of which one row was refused."""
    return replace(found(None, PARTLY.id), header=header)


def journal(_: Path) -> list[Typed]:
    """All entries, one entry, one that there is not, and an empty journal."""
    read, one = "k2ktui.sync.operations.read_journal", "k2ktui.sync.operations.read_entry"
    none = ConfigError(
        "no entry 1 exists in the journal of orders",
        unchanged="Nothing was changed.",
        hint="List the ids with k2ktui journal -f FILE.",
    )
    return [
        typed("journal -f orders.yaml", {read: [UNDO, PARTLY, FIRST]}),
        typed("journal -f orders.yaml --json", {read: [UNDO, PARTLY, FIRST]}),
        typed("journal -f orders.yaml", {read: []}),
        typed(f"journal -f orders.yaml {ENTRY}", {one: an_entry()}),
        typed(f"journal -f orders.yaml {ENTRY} --json", {one: an_entry()}),
        typed("journal -f orders.yaml 1", {one: none}),
        typed("journal"),
    ]


def undo(_: Path) -> list[Typed]:
    """Undone, not confirmed, undone before, and entries that other commands undo."""
    read, write = "k2ktui.sync.operations.read_entry", "k2ktui.sync.operations.undo_entry"
    done = {read: an_entry(), write: results(_)}
    before = {read: replace(an_entry(), taken_back_by=UNDO.id), write: results(_)}
    others = ["drill planned", "parity", "hold", "offsets set"]
    return [
        typed(f"undo -f orders.yaml {ENTRY}", done, keys="orders\n"),
        typed(f"undo -f orders.yaml {ENTRY}", done, keys="no\n"),
        typed(f"undo -f orders.yaml {ENTRY} --yes --json", done),
        typed(f"undo -f orders.yaml {ENTRY} --yes", before),
        *(
            typed(
                f"undo -f orders.yaml {ENTRY} --yes",
                {read: an_entry(replace(PARTLY, operation=operation))},
            )
            for operation in others
        ),
        typed(f"undo {ENTRY}"),
    ]


def groups(_: Path) -> list[Typed]:
    """Groups of a pipeline; none; no cluster."""
    read = "k2ktui.sync.group_lags.read_groups"
    members = "k2ktui.sync.moves.snapshot.SnapshotReader.take_groups"
    none = replace(READ, source={}, target={})
    static = make_member("billing-7", "/10.0.0.7", "b7", {"orders": [0, 1, 3]})
    named = replace(
        READ, source={**READ.source, "billing": GroupView("Stable", 1, named=(static,))}
    )
    return [
        typed("groups -f orders.yaml", {read: (READ, LOGS), **PAIR}),
        typed("groups -f orders.yaml --json", {read: (READ, LOGS), **PAIR}),
        typed("groups -f orders.yaml", {read: (none, LOGS), **PAIR}),
        typed("groups -f orders.yaml --members", {members: named}),
        typed("groups -f orders.yaml --members --json", {members: named}),
        typed("groups -f orders.yaml", {read: NO_TARGET, **PAIR}),
        typed("groups"),
    ]


def groups_reset(folder: Path) -> list[Typed]:
    """Shown, applied, nothing to change; contradictions."""
    made, write = a_plan(folder), "k2ktui.sync.operations.apply_plan"
    plan_reset = "k2ktui.sync.moves.reset.plan_group_reset"
    answers = {plan_reset: (replace(made, files=("orders.yaml",)), ()), write: results(folder)}
    none = {plan_reset: (replace(made, rows=()), ("the group has no commits",))}
    return [
        typed("groups reset billing -f orders.yaml --to earliest --dry-run", answers),
        typed("groups reset billing -f orders.yaml --to earliest --dry-run --json", answers),
        typed("groups reset billing -f orders.yaml --to +5", answers, keys="orders\n"),
        typed("groups reset billing -f orders.yaml --to 7 --yes --json", answers),
        typed("groups reset billing -f orders.yaml --to latest --yes", none),
        typed("groups reset billing -f orders.yaml --to yesterday"),
        typed("groups reset billing -f orders.yaml"),
    ]


def groups_delete(folder: Path) -> list[Typed]:
    """Shown, deleted whole and in part, refused."""
    read, write = "k2ktui.sync.operations.plan_deletion", "k2ktui.sync.operations.delete_group"
    offsets = {("payments", 0): 40_002, ("payments", 1): 39_000}
    whole = {read: GroupDeletion("billing", offsets, True), write: results(folder)}
    part = {**whole, read: GroupDeletion("billing", {("payments", 0): 40_002}, False)}
    used = Refused(
        "group billing is in use on the target (Stable)",
        unchanged="Nothing was changed.",
        hint="Stop its consumers there first.",
    )
    return [
        typed("groups delete billing -f orders.yaml --dry-run", whole),
        typed("groups delete billing -f orders.yaml --dry-run --json", whole),
        typed("groups delete billing -f orders.yaml", whole, keys="orders\n"),
        typed("groups delete billing -f orders.yaml", whole, keys="billing\n"),
        typed("groups delete billing -f orders.yaml --topic payments --yes --json", part),
        typed("groups delete billing -f orders.yaml --yes", {read: used}),
        typed("groups delete -f orders.yaml"),
    ]


CASES: Mapping[str, Cases] = {
    "plan": plan,
    "apply": apply,
    "journal": journal,
    "undo": undo,
    "groups": groups,
    "groups reset": groups_reset,
    "groups delete": groups_delete,
}
