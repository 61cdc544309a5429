"""Cases of the transcript: settings, quotas and ACLs of the target."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from k2ktui.engine.moves.journal import JournalHeader
from k2ktui.engine.parity import plan as parity_plans
from k2ktui.errors import Refused
from k2ktui.sync.store import PipelineState
from tests.console.test_parity import PLAN as PARITY
from tests.console.test_parity import apply as applied_parity
from tests.support.commands.transcript import Typed, typed
from tests.support.console.views import (
    NOON,
)
from tests.unit.golden.cases.common import NO_TARGET, Cases, protected
from tests.unit.golden.cases.groups import ENTRY


def parity_plan(_: Path) -> list[Typed]:
    """Differences, none, into a file."""
    read = "k2ktui.parity.operations.create_plan"
    return [
        typed("parity plan -f orders.yaml", {read: PARITY}),
        typed("parity plan -f orders.yaml --json", {read: PARITY}),
        typed("parity plan -f orders.yaml -o parity.json", {read: PARITY}),
        typed("parity plan -f orders.yaml", {read: replace(PARITY, rows=(), notes=())}),
    ]


def parity_apply(folder: Path) -> list[Typed]:
    """Applied, not confirmed, expired, damaged."""
    text = parity_plans.dump_plan(PARITY)
    (folder / "parity.json").write_text(text)
    (folder / "damaged.json").write_text(text.replace("604800000", "604800001"))
    late = replace(PARITY, expires_at=NOON - 30)
    (folder / "late.json").write_text(parity_plans.dump_plan(late))
    write = "k2ktui.parity.operations.apply_plan"
    apply_it = "parity apply -f orders.yaml"
    return [
        typed(f"{apply_it} parity.json", {write: applied_parity()}, keys="orders\n"),
        typed(f"{apply_it} parity.json", {write: applied_parity()}, keys="no\n"),
        typed(f"{apply_it} parity.json --yes --json", {write: applied_parity()}),
        typed(f"{apply_it} late.json --yes"),
        typed(f"{apply_it} damaged.json --yes"),
    ]


def parity_undo(folder: Path) -> list[Typed]:
    """Undone, undone before, not confirmed; entries of other commands, and none."""
    state, apply = "k2ktui.sync.store.StateStore.read", "k2ktui.parity.operations.undo_entry"
    writes = [result.write for result in applied_parity().rows]
    header = JournalHeader(ENTRY, int(NOON * 1000), "ann@bastion", "parity apply", "", "orders", {})
    read = "k2ktui.parity.operations.read_undo"
    good = {read: (header, writes, ""), apply: applied_parity()}
    before = {read: (header, writes, "20261121-130000-bbbb"), apply: applied_parity()}
    other = replace(header, operation="apply")
    moved = Refused("1 value has changed since", unchanged="Nothing was changed.",
                    hint="To undo the others, repeat with --skip-moved.")  # fmt: skip
    undo = f"parity undo {ENTRY} -f orders.yaml"

    def journal(*headers: JournalHeader) -> dict[str, Any]:
        return {state: PipelineState(journal={header.id: header for header in headers})}

    return [
        typed(undo, good, keys="orders\n"),
        typed(undo, good, keys="no\n"),
        typed(f"{undo} --yes --json", good),
        typed(f"{undo} --yes", before),
        typed(f"{undo} --yes", {**good, apply: moved}),
        typed(f"{undo} --yes", journal(other)),
        typed(f"{undo} --yes", journal()),
        typed(f"{undo} --yes", {**good, read: NO_TARGET}),
        *protected(folder, f"parity undo {ENTRY} --yes", good),
        typed(f"parity undo {ENTRY} --yes"),
        typed("parity undo"),
    ]


CASES: Mapping[str, Cases] = {
    "parity undo": parity_undo,
    "parity plan": parity_plan,
    "parity apply": parity_apply,
}
