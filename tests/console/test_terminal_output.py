"""Only cells that change are written, and the terminal then shows the same as if all were."""

from __future__ import annotations

import io
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from textual.app import App
from textual.strip import Strip

from k2ktui.console.terminal_output import ShownCells
from tests.support.console.driver import ConsoleDriver, drive
from tests.support.console.views import usual

CONSOLE = Console(file=io.StringIO(), force_terminal=True, color_system="256")
STYLES = [
    None,
    Style(color="red", bgcolor="black"),
    Style(color="red", bgcolor="black", bold=True),
    Style(bgcolor="blue", meta={"place": 1}),
]
WIDTH = 24
Cell = tuple[str, str]


class Emulated:
    """A terminal: the text and the colors of each cell."""

    def __init__(self, width: int = WIDTH, height: int = 1) -> None:
        self.lines: list[list[Cell]] = [[(" ", "")] * width for _ in range(height)]

    @property
    def text(self) -> list[str]:
        """The lines without colors."""
        return ["".join(text for text, _ in line) for line in self.lines]

    def write(self, output: str) -> None:
        """Take in a text with escape sequences; only those that move and color."""
        x = y = 0
        pen = ""
        for match in re.finditer(r"\x1b\[(\d+);(\d+)H|\x1b\[([\d;]*)m|(.)", output, re.DOTALL):
            line, column, codes, char = match.groups()
            if column is not None:
                x, y = int(column) - 1, int(line) - 1
            elif codes is not None:
                pen = "" if codes == "0" else codes
            elif width := cell_len(char):
                self.lines[y][x : x + width] = [(char, pen), *[("", pen)] * (width - 1)]
                x += width
            else:
                before = max(0, x - 1)
                text, colors = self.lines[y][before]
                self.lines[y][before] = (text + char, colors)


texts = st.text(st.sampled_from("aab 1│█é漢e\u0301✗"), max_size=8)
lines = st.lists(st.tuples(texts, st.sampled_from(STYLES)), min_size=1, max_size=5)


def strip(line: list[tuple[str, Style | None]]) -> Strip:
    strip = Strip([Segment(text.lstrip("\u0301"), style) for text, style in line if text])
    return strip.adjust_cell_length(WIDTH)


def written(shown: ShownCells, line: Strip) -> str:
    return shown.changes(0, 0, line, CONSOLE)


@given(st.lists(lines, min_size=1, max_size=6))
def test_the_terminal_shows_the_same_as_if_all_were_written(
    drawn: list[list[tuple[str, Style | None]]],
) -> None:
    shown, terminal = ShownCells(), Emulated()
    for line in map(strip, drawn):
        terminal.write(written(shown, line))
        whole = Emulated()
        whole.write(line.render(CONSOLE))
        assert terminal.lines == whole.lines
        assert written(shown, line) == ""


@given(lines, st.integers(0, WIDTH), lines)
def test_a_part_of_a_line_is_written_at_its_place(
    before: list[tuple[str, Style | None]], at: int, part: list[tuple[str, Style | None]]
) -> None:
    shown, terminal = ShownCells(), Emulated()
    terminal.write(written(shown, strip(before)))
    piece = strip(part).crop(0, WIDTH - at)
    left = strip(before).crop(0, at)
    terminal.write(written(shown, left))  # a wide character may be cut
    terminal.write(shown.changes(at, 0, piece, CONSOLE))
    whole = Emulated()
    whole.write(Strip.join([left, piece]).render(CONSOLE))
    assert terminal.lines == whole.lines


def test_only_what_changes_is_written() -> None:
    shown = ShownCells()
    red, blue = STYLES[1], Style(color="blue")
    written(shown, Strip([Segment("orders-0  1,204 ", red), Segment("running", blue)]))
    now = written(shown, Strip([Segment("orders-0  1,209 ", red), Segment("running", blue)]))
    assert now == "\x1b[1;15H\x1b[31;40m9\x1b[0m"


def test_a_color_that_changes_is_written() -> None:
    shown = ShownCells()
    written(shown, Strip([Segment("orders", STYLES[1])]))
    now = written(shown, Strip([Segment("ord", STYLES[1]), Segment("ers", STYLES[2])]))
    assert now == "\x1b[1;4H\x1b[1;31;40mers\x1b[0m"


@pytest.mark.parametrize("name", ["漢字", "e\u0301", "👍", "ﷺ"])
def test_text_whose_width_is_uncertain_is_written_whole_with_what_follows(name: str) -> None:
    """As Textual writes it: a terminal may have shifted what is behind it."""
    shown = ShownCells()
    written(shown, Strip([Segment(f"{name} 1204 running")]))
    line = Strip([Segment(f"{name} 1209 running")])
    assert written(shown, line) == f"\x1b[1;1H{line.text}"
    line = Strip([Segment("orders 1209 running")])
    assert written(shown, line) == f"\x1b[1;1H{line.text}"


def test_after_the_terminal_was_cleared_all_is_written() -> None:
    shown = ShownCells()
    written(shown, Strip([Segment("orders")]))
    shown.forget()
    assert written(shown, Strip([Segment("orders")])) == "\x1b[1;1Horders"


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
def test_the_console_shows_what_is_drawn(
    size: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Through screens, dialogs, scrolling, filters and refreshes, as a terminal sees them."""
    terminal = Emulated(*size)

    def display(app: App[Any], screen: object, renderable: Any) -> None:
        if renderable is not None and not vars(app)["_batch_count"]:
            terminal.write(renderable.render_segments(app.console))

    async def steps(console: ConsoleDriver) -> None:
        monkeypatch.setattr(App, "_display", display)
        console.app.refresh()
        for keys in (
            ("2",), ("j", "j"), ("G",), ("s",), ("3",), ("enter",), ("j",), ("question_mark",),
            ("escape",), ("q",), ("v",), ("slash", "b", "i"), ("escape",), ("t",), ("escape",),
            ("1",), ("ctrl+l",), ("8",),
        ):  # fmt: skip
            await console.press(*keys)
            for _ in range(2):
                made.copy(100)
                made.now += 5
                await console.show()
                drawn = Emulated(*size)
                for y, line in enumerate(console.strips()):
                    drawn.write(f"\x1b[{y + 1};1H{line.render(console.app.console)}")
                # Not their colors: Rich keeps those of a style as another test's app has them.
                assert terminal.text == drawn.text, keys

    made = usual()
    for number, name in enumerate(("orders", "\u6f22\u5b57", "e\u0301t\u00e9", "\U0001f44d")):
        for partition in range(10):
            at = made.partition(name, partition, end=10_000 + number, lag=number)
            made.group(f"of-{name}", at, divergence=number)
    drive(steps, made, size=size)
