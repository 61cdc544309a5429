"""Keys: every id can be given another key, all are in the document, clashes are reported."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from pathlib import Path

import pytest
from textual.binding import Binding
from textual.dom import DOMNode

import k2ktui.console
from k2ktui.console.app import ConsoleApp
from k2ktui.console.keys import KeyUse, bindings_of, load_keys
from k2ktui.console.session import Options, Session
from tests.support.console.driver import ConsoleDriver, drive
from tests.support.console.views import StubFeed, usual
from tests.support.documents.markdown import check_section

DOCUMENT = Path(__file__).parents[2] / "docs" / "console.md"
# Screens that are opened from others.
DETAILS = {
    "AuditScreen": "an audit",
    "ComparisonScreen": "a comparison",
    "DrillScreen": "a drill",
    "EntryScreen": "an entry",
    "GroupScreen": "a group",
    "FleetScreen": "Fleet",
    "LogScreen": "a log",
    "MemberScreen": "a site's pipeline",
    "MovesScreen": "a plan of moves",
    "ParityScreen": "parity",
    "PartitionScreen": "a partition",
    "PlanScreen": "a plan",
    "RecordsScreen": "records",
    "ResetScreen": "a reset",
    "SiteDrillsScreen": "Drill",
    "SiteScreen": "a site drill",
}


def app(options: Options | None = None) -> ConsoleApp:
    feed = StubFeed(usual())
    return ConsoleApp(Session(feed, feed.made.pair, options=options or Options()))


def all_bindings() -> list[Binding]:
    bindings: list[Binding] = []
    for module in pkgutil.walk_packages(k2ktui.console.__path__, "k2ktui.console."):
        for kind in vars(importlib.import_module(module.name)).values():
            if inspect.isclass(kind) and issubclass(kind, DOMNode):
                bindings += [binding for binding in bindings_of(kind) if binding.id]
    return bindings


def table() -> str:
    """Return the table of all ids, as it is in the document: a row for the keys of each place."""
    titles = DETAILS | {type(entry.make()).__name__: entry.title for entry in app().entries}
    rows: dict[str, tuple[str, set[str]]] = {}
    for use in app().key_uses():
        if not use.id.startswith("screen."):
            keys, screens = rows.setdefault(use.id, (use.keys, set()))
            screens |= use.screens
    places: dict[str, list[str]] = {"": []}
    for name, (keys, screens) in sorted(rows.items()):
        names = {titles[screen] for screen in screens}
        where = "" if len(names) > 4 else ", ".join(sorted(names))
        shown = " ".join(f"`{key}`" for key in keys.split(","))
        places.setdefault(where, []).append(f"{shown} {name}")
    lines = ["| on | keys, and their ids |", "|---|---|"]
    for where, keys_there in sorted(places.items()):
        lines.append(f"| {where or 'every screen'} | {', '.join(keys_there)} |")
    return "\n".join(lines) + "\n"


def test_every_key_with_an_id_can_be_given_another() -> None:
    assert {binding.id for binding in all_bindings()} <= {use.id for use in app().key_uses()}


def test_the_document_lists_every_id() -> None:
    check_section(DOCUMENT, "keys", table())


USES = [
    KeyUse("pause", "p"),
    KeyUse("refresh", "r"),
    KeyUse("help", "question_mark,f1"),
    KeyUse("plan.verify", "v", frozenset({"Plan"})),
    KeyUse("plan.again", "n", frozenset({"Plan"})),
    KeyUse("drill.report", "v", frozenset({"Drill"})),
]


@pytest.mark.parametrize(
    ("lines", "errors"),
    [
        ("pause: b", 0),
        ("pause: r", 1),
        ("pause: r\nrefresh: p", 0),
        ('pause: "?"', 1),
        ("pause: v", 2),
        ("plan.again: v", 1),
        ("drill.report: n", 0),
        ("plan.agin: v", 1),
        ("pause: nokey", 1),
    ],
)
def test_a_key_that_is_taken_is_reported(tmp_path: Path, lines: str, errors: int) -> None:
    path = tmp_path / "keys.yaml"
    path.write_text(lines + "\n")
    loaded = load_keys(path, USES)
    assert len(loaded.errors) == errors, loaded.errors


def test_a_clash_is_on_the_screen(tmp_path: Path) -> None:
    path = tmp_path / "keys.yaml"
    path.write_text("pause: r\nchoice.mark: f5\n")

    async def flow(console: ConsoleDriver) -> None:
        assert "r of pause is a key of refresh, too" in console.text

    drive(flow, keys=path)
