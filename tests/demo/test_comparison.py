"""What the demo says of groups beside MirrorMaker 2."""

from __future__ import annotations

import io

from rich.console import Console

from k2ktui.demo.comparison import Comparison, GroupLine, render, total
from k2ktui.errors import K2kError
from tests.support.kafka import eventually


def test_sums_with_something_unknown_are_unknown() -> None:
    assert total([1, 2]) == 3
    assert total([]) == 0
    assert total([1, None]) is None


def test_both_columns_are_shown() -> None:
    lines = [GroupLine("billing", 0, 1234), GroupLine("odd\x1b[31m", None, None, without=2)]
    console = Console(file=io.StringIO(), width=100)
    console.print(render(lines, "a note"))
    said = console.file.getvalue()  # type: ignore[attr-defined]
    rows = [line.split() for line in said.splitlines()]
    assert ["billing", "0", "1,234"] in rows
    assert any(row[:1] == ["odd\\x1b[31m"] and "not" in row for row in rows)
    assert "\x1b" not in said and "a note" in said


def test_a_look_that_fails_is_told_and_tried_again() -> None:
    looks = iter([K2kError("not yet\nmore"), [GroupLine("g", 0, 5)]])

    def look() -> list[GroupLine]:
        found = next(looks, None)
        if isinstance(found, K2kError):
            raise found
        return found or [GroupLine("g", 0, 5)]

    seen = Comparison(look, every=0.01)
    seen.start()
    try:
        eventually(lambda: seen.lines, "the second look")
        assert seen.lines == [GroupLine("g", 0, 5)] and seen.note == ""
    finally:
        seen.stop()
