"""Values that take turns: one in each run, all after as many commits, all at once on request."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.schedule.rotation import ALL, Rotation, count_commits, parse_rotation
from tests.support.schedule.suite import ROOT, run_suite, write_suite

TESTS = """
from pytest import mark
@mark.rotate("codec", ["lz4", "zstd", "gzip"])
@mark.rotate("mode", ["shared", "exclusive"], ids=str.upper)
def test_both(codec, mode): pass
@mark.seeds(2)
def test_seeds(seed): pass
"""


def test_each_value_has_its_turn() -> None:
    values = ["a", "b", "c"]
    assert [[*Rotation(number).take(values)] for number in range(4)] == [["a"], ["b"], ["c"], ["a"]]
    assert Rotation(None).take(values) == values and Rotation(5).take([]) == []


def test_all_combinations_of_two_lists_come_round() -> None:
    numbers = map(Rotation, range(8))
    seen = {(*turn.take("ab"), *turn.after(2).take("wxyz")) for turn in numbers}
    assert len(seen) == 8


def test_another_quarter_runs_last_each_time() -> None:
    names = [f"tests/test_{number}.py" for number in range(400)]
    last = [{name for name in names if Rotation(number).puts_last(name)} for number in range(5)]
    assert set.union(*last[:4]) == set(names) and last[4] == last[0]
    assert sum(map(len, last[:4])) == len(names)
    assert all(70 < len(quarter) < 130 for quarter in last)
    assert not any(map(Rotation(None).puts_last, names))


@pytest.mark.parametrize("text", ["", "none", "1/2"])
def test_what_is_no_rotation_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse_rotation(text)


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a suite with tests that rotate; it is not in a checkout: no commits."""
    return write_suite(tmp_path_factory.mktemp("suite"), {"test_it.py": TESTS})


def run(suite: Path, *arguments: str) -> tuple[set[str], str]:
    """Return the tests that have passed, without the file, and the output."""
    passed, shown = run_suite(suite, *arguments)
    return {test.partition("::")[2] for test in passed}, shown


@pytest.mark.parametrize(
    ("number", "tests"),
    [
        ("0", {"test_both[SHARED-lz4]", "test_seeds[0]"}),
        ("1", {"test_both[EXCLUSIVE-lz4]", "test_seeds[1]"}),
        ("4", {"test_both[SHARED-gzip]", "test_seeds[0]"}),
    ],
)
def test_a_run_takes_the_values_of_its_number(suite: Path, number: str, tests: set[str]) -> None:
    passed, shown = run(suite, "--rotation", number)
    assert passed == tests and f"rotation: {number} " in shown


def test_all_values_and_more_seeds_run_on_request(suite: Path) -> None:
    passed, shown = run(suite, "--rotation", ALL)
    assert len(passed) == 8 and "rotation: all" in shown
    passed, _ = run(suite, "--seeds", "2", "-k", "seeds")
    assert passed == {f"test_seeds[{seed}]" for seed in range(4)}


def test_a_test_that_is_named_with_its_value_runs(suite: Path) -> None:
    assert run(suite, "test_it.py::test_seeds[1]")[0] == {"test_seeds[1]"}


def test_processes_take_the_same_values(suite: Path) -> None:
    assert run(suite, "-n", "2", "--rotation", "3")[0] == {
        "test_both[EXCLUSIVE-zstd]",
        "test_seeds[1]",
    }


def test_the_number_is_that_of_commits(tmp_path: Path, suite: Path) -> None:
    assert count_commits(tmp_path) == 0
    assert "rotation: 0 " in run(suite)[1]
    if (ROOT / ".git").exists():
        assert count_commits(ROOT) > 0


@pytest.mark.parametrize("number", range(4))
def test_where_time_is_short_the_quarter_of_this_run_comes_last(
    tmp_path: Path, number: int
) -> None:
    tests = "".join(f"@mark.slow\ndef test_{number}(): pass\n" for number in range(12))
    suite = write_suite(tmp_path, {"test_it.py": f"from pytest import mark\n{tests}"})
    options = ("-n", "0", "--rotation", str(number), "--until", "9e9")
    passed, _ = run_suite(suite, *options)
    last = [Rotation(number).puts_last(test) for test in passed]
    assert len(passed) == 12 and last == sorted(last)


def test_the_gate_runs_all_values_on_request() -> None:
    assert "--rotation all" in (ROOT / ".ci/run").read_text()
