"""The live table says what the snapshots say, safely."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
from dataclasses import dataclass

import pytest
from rich.console import Console

from k2ktui.demo.screen import Screen
from k2ktui.demo.status import PartitionStatus
from k2ktui.demo.table import Rates, render, summarise


@dataclass(frozen=True)
class Stub:
    topic: str = "orders"
    partition: int = 0
    state: str = "behind"
    path: str = "verbatim"
    source_start: int | None = 0
    source_end: int | None = 100
    position: int | None = 90
    lag_records: int | None = 10
    lag_seconds: float | None = 0.5
    target_topic: str | None = "orders"
    target_partition: int | None = 0
    target_end: int | None = 1290
    mapped_records: int | None = 80
    coverage: float | None = 1.0


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def text_of(table: object, width: int = 140) -> str:
    out = io.StringIO()
    Console(file=out, width=width).print(table)
    return out.getvalue()


def test_a_topic_sums_up_its_partitions() -> None:
    found: list[PartitionStatus] = [
        Stub(),
        Stub(partition=1, state="caught-up", position=50, lag_records=0, lag_seconds=2.0),
    ]
    [line] = summarise(found, Rates())
    assert (line.partitions, line.position, line.end) == (2, 140, 200)
    assert (line.lag_records, line.lag_seconds, line.mapped) == (10, 2.0, 160)
    assert line.states == ("behind", "caught-up")
    assert line.example == (0, 90, 1290)


def test_what_is_not_known_is_not_zero() -> None:
    unknown = Stub(position=None, lag_records=None, lag_seconds=None, mapped_records=None)
    [line] = summarise([unknown], Rates())
    assert (line.position, line.lag_records, line.lag_seconds) == (None, None, None)
    assert (line.rate, line.example) == (None, None)
    assert len(re.findall(r" -(?= |$)", text_of(render([line])))) == 5


def test_rates_look_back_a_few_seconds() -> None:
    clock = Clock()
    rates = Rates(clock)
    assert rates.take("a", 0) is None
    clock.now = 2.0
    assert rates.take("a", 200) == 100.0
    for second in range(3, 20):
        clock.now = float(second)
        last = rates.take("a", 200)
    assert last == 0.0
    assert rates.take("b", None) is None


def test_table_shows_the_divergence_and_no_markup() -> None:
    hostile = Stub(topic="[red]x[/red]\x1b[2J", state="[bold]")
    shown = text_of(render(summarise([hostile], Rates()), "note [blink]"))
    assert "p0 90 → 1,290" in shown
    assert "[red]x[/red]\\x1b[2J" in shown
    assert "note [blink]" in shown
    assert "\x1b" not in shown


def test_narrow_terminal_gets_fewer_columns_whole() -> None:
    shown = text_of(render(summarise([Stub()], Rates()), "", 80), 80)
    assert "offsets differ" not in shown
    assert "behind" in shown
    assert "…" not in shown


def test_without_a_terminal_lines_are_plain() -> None:
    out = io.StringIO()
    screen = Screen(Console(file=out, width=300))
    with screen.busy("Working [x]"):
        pass
    with screen.live() as show:
        show(summarise([Stub()], Rates()), "")
        show([], "not so soon")
    lines = out.getvalue().splitlines()
    assert lines[0].endswith("Working [x]")
    assert "orders" in out.getvalue()
    assert "not so soon" not in out.getvalue()


def test_closed_terminal_disturbs_nothing() -> None:
    class Gone(io.StringIO):
        def write(self, text: str) -> int:
            raise OSError(5, "Input/output error")

        def isatty(self) -> bool:
            return True

    screen = Screen(Console(file=Gone(), force_terminal=True))
    screen.say("hello")
    with screen.busy("Working"):
        pass
    with screen.live() as show:
        show([], "note")


_TALKS_TO_A_CLOSED_PIPE = """
import sys
from k2ktui.demo.screen import Screen
from tests.demo.test_table import Rates, Stub, summarise

screen = Screen()
with screen.live() as show:
    show(summarise([Stub()], Rates()), "")
screen.say("shut down")
print("it has ended in order", file=sys.stderr)
"""


@pytest.mark.parametrize("first", ["line", "table"])
def test_a_closed_pipe_disturbs_nothing(first: str) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    code = _TALKS_TO_A_CLOSED_PIPE
    if first == "table":
        code = code.replace("with screen.live", "screen.say = lambda text: None\nwith screen.live")
        code = code.replace('screen.say("shut down")', "")
    try:
        ended = subprocess.run(
            [sys.executable, "-c", code],
            stdout=writing,
            stderr=subprocess.PIPE,
            timeout=60,
            check=False,
            text=True,
        )
    finally:
        os.close(writing)
    assert (ended.returncode, ended.stderr) == (0, "it has ended in order\n")
