"""How long tests take: the longest begin first, so that no process works alone at the end.

``durations.txt`` has the mean seconds of each long test function, of all its parameters, and of
each whose many cases take less than the others are assumed to. Write it again from pytest's reports
of a whole run:
``python -m tests.support.schedule.durations REPORT.xml…``.

``longer.txt`` has the fast test functions that take longest, with all their parameters: a run of
the whole suite leaves them to the gate. With ``--longer`` before the reports, it is written again.
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from statistics import fmean
from xml.etree import ElementTree

import pytest

TABLE = Path(__file__).with_name("durations.txt")
LONGER = Path(__file__).with_name("longer.txt")
_LISTED_S = 10.0
_OTHERS_S = 5.0
# Functions of many cases are listed, too, if the assumption would be wrong by so much for them.
_WRONG_S = 30.0
# On two cores beside other work; about a third of it without.
_LONGER_S = 1.0


def function_of(nodeid: str) -> str:
    """Return the test function of a node id, without parameters and xdist's group."""
    return re.split(r"[\[@]", nodeid, maxsplit=1)[0]


def without_group(nodeid: str) -> str:
    """Return a node id without xdist's group, which is behind the parameters."""
    name, at, _ = nodeid.rpartition("@")
    return name if at and nodeid.rfind("]") < len(name) else nodeid


@cache
def known_durations() -> Mapping[str, float]:
    """Return the mean seconds of the listed test functions."""
    rows = (line.split() for line in TABLE.read_text().splitlines())
    return {function: float(seconds) for seconds, function in rows}


@cache
def longer_functions() -> frozenset[str]:
    """Return the listed fast test functions."""
    return frozenset(LONGER.read_text().splitlines())


def group_of(item: pytest.Item) -> str:
    """Return the name of what runs in one process: a group of tests, or one test."""
    mark = item.get_closest_marker("xdist_group")
    if mark is None:
        return item.nodeid
    return str(mark.args[0] if mark.args else mark.kwargs["name"])


def group_durations(items: Iterable[pytest.Item]) -> Mapping[str, float]:
    """Return the seconds that the tests of each group take together."""
    durations: dict[str, float] = defaultdict(float)
    for item in items:
        durations[group_of(item)] += known_durations().get(function_of(item.nodeid), _OTHERS_S)
    return durations


def longest_first(item: pytest.Item, durations: Mapping[str, float]) -> tuple[float, str]:
    """Return a key that sorts groups by their seconds, and leaves each group together."""
    group = group_of(item)
    return (-durations[group], group) if group in durations else (0.0, "")


def write_table(reports: Iterable[Path], table: Path = TABLE) -> None:
    """Write the table of long tests from JUnit reports."""
    rows = [
        f"{fmean(seconds):.0f} {name}\n"
        for name, seconds in sorted(_seconds(reports).items())
        if fmean(seconds) >= _LISTED_S or abs(sum(seconds) - len(seconds) * _OTHERS_S) >= _WRONG_S
    ]
    table.write_text("".join(rows))


def write_longer(reports: Iterable[Path], table: Path = LONGER) -> None:
    """Write the list of fast tests that take longest from JUnit reports."""
    sums = {function: sum(seconds) for function, seconds in _seconds(reports).items()}
    rows = [f"{name}\n" for name, seconds in sorted(sums.items()) if seconds >= _LONGER_S]
    table.write_text("".join(rows))


def _seconds(reports: Iterable[Path]) -> Mapping[str, list[float]]:
    """Return the seconds of each test function's cases."""
    seconds: dict[str, list[float]] = defaultdict(list)
    for report in reports:
        for case in ElementTree.parse(report).iter("testcase"):
            path = case.attrib["classname"].replace(".", "/")
            function = function_of(f"{path}.py::{case.attrib['name']}")
            seconds[function].append(float(case.attrib["time"]))
    return seconds


if __name__ == "__main__":
    if sys.argv[1] == "--longer":
        write_longer(map(Path, sys.argv[2:]))
    else:
        write_table(map(Path, sys.argv[1:]))
