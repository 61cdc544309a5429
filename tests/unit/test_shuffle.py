"""Another order of tests: the same for a seed, and each module stays together."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path

import pytest

from tests.support.schedule.shuffle import order_of
from tests.support.schedule.suite import run_suite, write_suite

TESTS = """
import pytest
@pytest.mark.parametrize("number", range(4))
def test_numbers(number): pass
class TestClass:
    def test_one(self): pass
    def test_two(self): pass
def test_last(): pass
"""
NAMES = [f"test_{name}.py" for name in "abcd"]


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_suite(tmp_path_factory.mktemp("suite"), dict.fromkeys(NAMES, TESTS))


def test_a_seed_is_an_order_that_is_printed(suite: Path) -> None:
    orders = []
    for seed in ("1", "1", "2"):
        passed, shown = run_suite(suite, "-n", "0", "--shuffle", seed)
        assert f"--shuffle {seed}" in shown
        orders.append(passed)
    plain, _ = run_suite(suite, "-n", "0")
    first, again, other = orders
    assert first == again
    assert len({tuple(order) for order in (first, other, plain)}) == 3
    assert sorted(first) == sorted(other) == sorted(plain)
    for order in (first, other):
        assert len([*groupby(test.partition("::")[0] for test in order)]) == len(NAMES)
        within = [("TestClass" in test, test.partition("::")[0]) for test in order]
        assert len([inside for (inside, _), _ in groupby(within) if inside]) == len(NAMES)


def test_two_tests_keep_their_order_when_others_are_left_out() -> None:
    tests = [f"test_{file}.py::test_{test}" for file in "ab" for test in range(9)]
    ordered = sorted(tests, key=lambda test: order_of(test, 7))
    assert sorted(tests[::2], key=lambda test: order_of(test, 7)) == [
        test for test in ordered if test in tests[::2]
    ]


def test_processes_collect_the_same_order(suite: Path) -> None:
    """Otherwise xdist would refuse to run."""
    passed, _ = run_suite(suite, "--shuffle", "3", "-n", "2")
    assert len(passed) == 7 * len(NAMES)
