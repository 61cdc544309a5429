"""docs/drill-checks.md is the catalog, and names the bounds."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from pathlib import Path

from k2ktui.drill.checks.context import CheckLimits
from k2ktui.engine.drill_catalog import CATALOG
from k2ktui.engine.drill_checks import CheckGroup, DrillCheck, DrillKind, DrillPhase

PAGE = Path(__file__).parents[2] / "docs" / "drill-checks.md"


def _kinds(kinds: Iterable[DrillKind]) -> str:
    chosen = list(kinds)
    return "all" if len(chosen) == len(DrillKind) else ", ".join(chosen)


def _row(check: DrillCheck) -> str:
    by_phases: dict[tuple[DrillPhase, ...], list[DrillKind]] = {}
    for kind, phases in check.phases.items():
        by_phases.setdefault(phases, []).append(kind)
    asked = "; ".join(f"{_kinds(k)}: {', '.join(p)}" for p, k in by_phases.items())
    stops = ", ".join(kind for kind in DrillKind if kind in check.blocks) or "—"
    return f"| {check.id} | {check.title} | {check.rule} | {asked} | {stops} |"


def _table() -> str:
    lines = []
    for group in CheckGroup:
        lines += [f"### {str(group).capitalize()}", ""]
        lines += [
            "| id | check | passes if | asked by: in phases | stops |",
            "|---|---|---|---|---|",
        ]
        lines += [_row(check) for check in CATALOG.values() if check.group is group]
        lines.append("")
    return "\n".join(lines)


def test_the_page_has_the_catalog() -> None:
    text = PAGE.read_text()
    begin, end = "<!-- catalog -->\n", "<!-- /catalog -->"
    assert text[text.index(begin) + len(begin) : text.index(end)].strip() == _table().strip()


def test_the_page_has_every_bound_with_its_default() -> None:
    text = PAGE.read_text()
    for field in fields(CheckLimits):
        default = "no bound" if field.default is None else f"{field.default:,g}"
        assert f"| `{field.name}` | {default} |" in text, field.name
