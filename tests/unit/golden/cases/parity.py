"""Cases of the transcript: settings, quotas and ACLs of the target."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from k2ktui.engine.parity import plan as parity_plans
from tests.console.test_parity import PLAN as PARITY
from tests.console.test_parity import apply as applied_parity
from tests.support.commands.transcript import Typed, typed
from tests.support.console.views import (
    NOON,
)
from tests.unit.golden.cases.common import Cases


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


CASES: Mapping[str, Cases] = {
    "parity plan": parity_plan,
    "parity apply": parity_apply,
}
