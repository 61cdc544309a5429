"""The longest tests begin first, and the table of durations names tests that exist."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.schedule.durations import (
    LONGER,
    TABLE,
    group_durations,
    known_durations,
    longer_functions,
    longest_first,
    write_longer,
    write_table,
)

ROOT = Path(__file__).parents[2]


@dataclass
class Collected:
    """What the order looks at of a collected test."""

    nodeid: str
    group: str = ""

    def get_closest_marker(self, _: str) -> pytest.Mark | None:
        return pytest.mark.xdist_group(self.group).mark if self.group else None


@pytest.mark.parametrize("table", [TABLE, LONGER])
def test_each_listed_test_exists(table: Path) -> None:
    functions: dict[str, set[str]] = {}
    for name in longer_functions() if table == LONGER else known_durations():
        path, _, function = name.partition("::")
        functions.setdefault(path, set()).add(function)
    assert functions
    for path, names in functions.items():
        tree = ast.parse((ROOT / path).read_text())
        defined = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
        assert names <= defined, f"{table.name} lists tests that {path} does not have"


def test_the_longest_group_begins_first_and_stays_together() -> None:
    long = max(known_durations(), key=lambda name: known_durations()[name])
    items: Any = [
        Collected("tests/fast.py::test_1"),
        Collected("tests/short.py::test_1"),
        Collected("tests/one.py::test_1", "one"),
        Collected(f"{long}[a]"),
        Collected(f"{long}[b]@one", "one"),
        Collected("tests/fast.py::test_0"),
    ]
    fast = (items[0], items[-1])
    durations = group_durations(items[1:-1])
    ordered = sorted(items, key=lambda item: longest_first(item, durations))
    assert ordered == [items[2], items[4], items[3], items[1], *fast]


def write_report(directory: Path, first: float, second: float, other: float) -> Path:
    """Write how many seconds both cases of a test took, and another test."""
    path = directory / "report.xml"
    case = '<testcase classname="tests.a.test_b" name="{}" time="{}"/>'.format
    cases = case("test_c[1]", first), case("test_c[2]@group", second), case("test_d", other)
    path.write_text(f"<testsuites><testsuite>{''.join(cases)}</testsuite></testsuites>")
    return path


def test_the_table_has_the_means_of_reports(tmp_path: Path) -> None:
    report = write_report(tmp_path, 30, 10.4, 1)
    write_table([report], tmp_path / "table.txt")
    assert (tmp_path / "table.txt").read_text() == "20 tests/a/test_b.py::test_c\n"


def test_the_table_has_what_is_not_as_the_others(tmp_path: Path) -> None:
    """Many cases that take no time; few are as good as what the others are assumed to take."""
    case = '<testcase classname="tests.a.test_b" name="test_{}[{}]" time="0.2"/>'
    cases = [case.format("many", n) for n in range(10)] + [case.format("few", 0)]
    report = tmp_path / "report.xml"
    report.write_text(f"<testsuites><testsuite>{''.join(cases)}</testsuite></testsuites>")
    write_table([report], tmp_path / "table.txt")
    assert (tmp_path / "table.txt").read_text() == "0 tests/a/test_b.py::test_many\n"


def test_the_list_has_the_functions_whose_cases_take_longest(tmp_path: Path) -> None:
    report = write_report(tmp_path, 1.0, 0.6, 0.9)
    write_longer([report], tmp_path / "list.txt")
    assert (tmp_path / "list.txt").read_text() == "tests/a/test_b.py::test_c\n"
