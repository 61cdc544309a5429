"""What the demo says of groups beside MirrorMaker 2."""

from __future__ import annotations

import io

from rich.console import Console

from k2ktui.demo.screen import Comparison, groups_table
from k2ktui.watch.model import PartName
from tests.support.console.views import beside_mirrormaker, usual


def drawn(seen: Comparison) -> str:
    console = Console(file=io.StringIO(), width=100)
    console.print(groups_table(seen.groups, seen.note))
    return console.file.getvalue()  # type: ignore[attr-defined, no-any-return]


def words(seen: Comparison) -> str:
    return " ".join(drawn(seen).split())


def test_both_columns_are_shown() -> None:
    made = beside_mirrormaker()
    made.group("odd\x1b[31m", next(iter(made.ends)))
    seen = Comparison()
    seen.take(made.view())
    said = drawn(seen)
    rows = [" ".join(line.split()) for line in said.splitlines()]
    assert "billing 0 4,075" in rows
    assert "fulfilment 0 0" in rows
    assert "reports 0 0 (partitions: 1 not translated)" in rows
    assert "archive 0 (partitions: 1 unknown) 0 (partitions: 1 not translated)" in rows
    assert "odd\\x1b[31m" in said and "\x1b" not in said


def test_what_is_not_known_is_reported() -> None:
    seen = Comparison()
    seen.take(usual().view())
    assert "has not translated any group yet" in words(seen)
    made = beside_mirrormaker()
    seen = Comparison()
    seen.take(made.view())
    assert seen.groups and not seen.note
    made.errors = {PartName.COMPARISON: "the target is away"}
    seen.take(made.view())
    assert seen.groups and "the target is away" in words(seen)
