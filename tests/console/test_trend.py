"""The trend of the rehearsals: columns with the objective as a line, beside the drills."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k2ktui.console.visuals.columns import columns
from k2ktui.engine.drill.objectives import Objectives
from k2ktui.engine.drill.rehearsals import Rehearsal
from k2ktui.present.formatting import ASCII, UNICODE, Glyphs, Line, Tone
from tests.support.console.driver import ConsoleDriver, drive
from tests.support.console.views import NOON, Made, usual
from tests.support.drill.made_drills import rehearsed


def text_of(lines: list[Line]) -> list[str]:
    return ["".join(cell.text for cell in line) for line in lines]


@pytest.mark.parametrize("glyphs", [UNICODE, ASCII])
def test_columns_above_the_objective_stand_out(glyphs: Glyphs) -> None:
    lines = columns([0, 4, None, 8], 4, (20, 4), glyphs, lambda value: f"{value:g}")
    shown = text_of(lines)
    assert all(len(line) == 20 for line in (shown[2],)) and shown[0].startswith("8 ")
    assert shown[2].startswith("4 ") and shown[3].startswith("0 ") and "?" in shown[3]
    sign = "!" if glyphs.ascii else "█"
    assert [line[5:6] for line in shown] == [sign] * 4
    assert {cell.tone for line in lines for cell in line if cell.text == sign} <= {
        Tone.WARN,
        Tone.INFO,
    }


@given(
    st.lists(st.none() | st.floats(0, 1e9), max_size=50),
    st.none() | st.floats(0, 1e9),
    st.integers(12, 80),
    st.integers(2, 8),
)
def test_no_values_break_the_drawing(
    values: list[float | None], goal: float | None, width: int, height: int
) -> None:
    for glyphs in (UNICODE, ASCII):
        lines = text_of(columns(values, goal, (width, height), glyphs, lambda v: f"{v:.0f}"))
        assert len(lines) == height and all(len(line) <= width for line in lines)
        if glyphs.ascii:
            assert all(line.isascii() for line in lines)


def made(number: int) -> Made:
    pair = replace(usual(), objectives=Objectives(100, None, 6.0))
    now = int(NOON * 1000) - 86_400_000 * 30
    pair.drills = (rehearsed(),)
    pair.rehearsals = tuple(
        Rehearsal(f"past-{n}", now + n, 0, 0, 20 * n, 500, 4_000 + 500 * n) for n in range(number)
    )
    return pair


@pytest.mark.parametrize("size", [(80, 24), (120, 35), (200, 60)])
def test_the_trend_is_a_key_away_and_beside_the_drills(size: tuple[int, int]) -> None:
    async def flow(console: ConsoleDriver) -> None:
        await console.press("8")
        assert ("RPO, records: 9 rehearsals" in console.text) == (size[0] >= 120)
        await console.press("t")
        assert "RPO, records: 9 rehearsals, at most 100" in console.text
        assert "RTO of the tool: 9 rehearsals, at most 6.0 s" in console.text
        assert "╌" in console.text

    drive(flow, made(8), size=size)


def test_a_single_rehearsal_is_no_trend() -> None:
    async def flow(console: ConsoleDriver) -> None:
        await console.press("8", "t")
        assert "A trend needs two rehearsals" in console.text

    drive(flow, made(0))
