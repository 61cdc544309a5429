"""The live table says what the snapshots say, safely."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys

import pytest
from rich.console import Console

from k2ktui.demo.screen import Screen, TopicLine, summarize_topics, topics_table
from k2ktui.watch.model import PartName
from tests.support.clusters.kafka import TIMEOUT
from tests.support.console.views import Made


def made(topic: str = "orders", *, lag: int = 10) -> Made:
    """A pipeline of one partition; 100 records are on the source."""
    made = Made()
    made.partition(topic, 0, end=100, lag=lag)
    return made


def lines_of(made: Made) -> list[TopicLine]:
    return summarize_topics(made.view())


def text_of(table: object, width: int = 140) -> str:
    out = io.StringIO()
    Console(file=out, width=width).print(table)
    return out.getvalue()


def test_a_topic_sums_up_its_partitions() -> None:
    pipeline = made()
    pipeline.partition("orders", 1, end=50)
    [line] = lines_of(pipeline)
    assert (line.partitions, line.position, line.end) == (2, 140, 150)
    assert (line.lag_records, line.lag_seconds, line.mapped) == (10, 3.0, 140)
    assert line.states == ("behind", "caught-up")
    assert line.example == (0, 90, 97)


def test_what_is_not_known_is_not_zero() -> None:
    pipeline = made()
    pipeline.unread = {PartName.TARGET, PartName.GROUPS}
    pipeline.positions.clear()
    [line] = lines_of(pipeline)
    assert (line.position, line.lag_records, line.lag_seconds) == (None, None, None)
    assert (line.mapped, line.rate, line.example) == (None, None, None)
    assert len(re.findall(r" —(?= |$)", text_of(topics_table([line])))) == 5


def test_rates_are_those_of_the_other_screens() -> None:
    pipeline = made()
    for _ in range(6):
        view = pipeline.view()
        pipeline.now += 5
        pipeline.copy(100)
    [line] = summarize_topics(view)
    assert line.rate == view.totals.rate == 20


def test_table_shows_the_divergence_and_no_markup() -> None:
    shown = text_of(topics_table(lines_of(made("[red]x[/red]\x1b[2J")), "note [blink]"))
    assert "p0 90 → 97" in shown
    assert "[red]x[/red]\\x1b[2J" in shown
    assert "note [blink]" in shown
    assert "\x1b" not in shown


def test_narrow_terminal_gets_fewer_columns_whole() -> None:
    shown = text_of(topics_table(lines_of(made()), "", 80), 80)
    assert "offsets differ" not in shown
    assert "behind" in shown
    assert "…" not in shown


def test_without_a_terminal_lines_are_plain() -> None:
    out = io.StringIO()
    screen = Screen(Console(file=out, width=300))
    with screen.busy("Working [x]"):
        pass
    with screen.live() as show:
        show(lines_of(made()), "", ())
        show([], "not so soon", ())
    lines = out.getvalue().splitlines()
    assert lines[0].endswith("Working [x]")
    assert "orders" in out.getvalue()
    assert "not so soon" not in out.getvalue()


def test_closed_terminal_disturbs_nothing() -> None:
    tried: list[str] = []

    class Gone(io.StringIO):
        def write(self, text: str) -> int:
            tried.append(text)
            raise OSError(5, "Input/output error")

        def isatty(self) -> bool:
            return True

    screen = Screen(Console(file=Gone(), force_terminal=True))
    screen.say("hello")
    with screen.busy("Working"):
        pass
    with screen.live() as show:
        show([], "note", ())
    assert tried


_TALKS_TO_A_CLOSED_PIPE = """
import sys
from k2ktui.demo.screen import Screen
from tests.unit.demo.test_table import lines_of, made

screen = Screen()
with screen.live() as show:
    show(lines_of(made()), "", ())
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
            timeout=TIMEOUT,
            check=False,
            text=True,
        )
    finally:
        os.close(writing)
    assert (ended.returncode, ended.stderr) == (0, "it has ended in order\n")
