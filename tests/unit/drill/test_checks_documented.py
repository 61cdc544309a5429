"""docs/drill-checks.md has the table of all checks, and names the bounds."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from dataclasses import fields
from itertools import groupby
from pathlib import Path

from k2ktui.drill.checks.catalog import CATALOG
from k2ktui.drill.checks.context import CheckLimits
from k2ktui.drill.checks.registration import DrillCheck
from k2ktui.engine.drill.checks import DrillKind, DrillPhase
from k2ktui.engine.drill.objectives import NO_OBJECTIVES

PAGE = Path(__file__).parents[3] / "docs" / "drill-checks.md"
BEGIN, END = "<!-- catalog -->\n", "<!-- /catalog -->"


def _kinds(kinds: Iterable[DrillKind]) -> str:
    chosen = [kind for kind in DrillKind if kind in kinds]
    return "all" if len(chosen) == len(DrillKind) else ", ".join(chosen)


def _rule(check: DrillCheck) -> str:
    """The first paragraph of the check's docstring: what follows "Pass if"."""
    sentence = " ".join((check.ask.__doc__ or "").split("\n\n")[0].split())
    assert sentence.startswith("Pass if ") and sentence.endswith("."), check.id
    return sentence.removeprefix("Pass if ").removesuffix(".")


def _row(check: DrillCheck) -> str:
    kinds: dict[tuple[DrillPhase, ...], list[DrillKind]] = {}
    for kind in DrillKind:
        if phases := check.phases_of(kind):
            kinds.setdefault(phases, []).append(kind)
    asked = "; ".join(f"{_kinds(k)}: {', '.join(p)}" for p, k in kinds.items())
    stops = _kinds(check.blocks) or "—"
    return f"| {check.id} | {check.title} | {_rule(check)} | {asked} | {stops} |"


def _module(check: DrillCheck) -> str:
    return check.ask.__module__


def _table() -> str:
    """One table for each module with checks, in the order of their first ids."""
    modules = list(dict.fromkeys(map(_module, CATALOG.values())))
    checks = sorted(CATALOG.values(), key=lambda check: modules.index(_module(check)))
    lines = []
    for module, rows in groupby(checks, _module):
        lines += [
            f"### {module.rpartition('.')[2].replace('_', '-').capitalize()}",
            "",
            str(sys.modules[module].__doc__),
            "",
            "| id | check | passes if | asked by: in phases | stops |",
            "|---|---|---|---|---|",
            *map(_row, rows),
            "",
        ]
    return "\n".join(lines)


def test_the_page_has_the_catalog() -> None:
    """Write it with ``K2KTUI_DOCUMENTS=write``."""
    before, _, rest = PAGE.read_text().partition(BEGIN)
    written, _, after = rest.partition(END)
    if os.environ.get("K2KTUI_DOCUMENTS") == "write":
        PAGE.write_text(f"{before}{BEGIN}{_table()}{END}{after}")
        return
    assert written == _table()


def test_the_page_has_every_bound_with_its_default() -> None:
    text = PAGE.read_text()
    for field in fields(CheckLimits):
        default = "none" if field.default == NO_OBJECTIVES else f"{field.default:,g}"
        assert f"| `{field.name}` | {default} |" in text, field.name
