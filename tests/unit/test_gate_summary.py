"""The end of a gate names what ran in none of its runs, and fails for what is not listed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.schedule.outcomes import VARIABLE, Outcome, State, read_outcomes
from tests.support.schedule.suite import ROOT, run_suite, write_suite
from tests.support.schedule.summary import SKIPS, listed_skips, main, merge, summarize

TESTS = """
import pytest
def test_runs(): pass
@pytest.mark.parametrize("value", ["a@b", "c"])
@pytest.mark.xdist_group("together")
def test_skips(value): pytest.skip("no compiler")
@pytest.mark.skipif(True, reason="no network")
def test_is_skipped(): pass
@pytest.mark.xdist_group("together")
@pytest.mark.slow
def test_long(): pass
"""
MODULE = """
import pytest
pytest.importorskip("k2ktui_no_such_package")
def test_it(): pass
"""
RAN, NO_COMPILER = Outcome(State.RAN), Outcome(State.SKIPPED, "no compiler")
SELECTED = {
    "test_it.py::test_runs": RAN,
    "test_it.py::test_skips[a@b]": NO_COMPILER,
    "test_it.py::test_skips[c]": NO_COMPILER,
    "test_it.py::test_is_skipped": Outcome(State.SKIPPED, "no network"),
}


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    files = {"test_it.py": TESTS, "test_module.py": MODULE}
    return write_suite(tmp_path_factory.mktemp("suite"), files)


def outcomes(suite: Path, tmp_path: Path, *arguments: str) -> dict[str, Outcome]:
    """Run the suite, and return what it has noted."""
    run_suite(suite, *arguments, **{VARIABLE: str(tmp_path / "noted")})
    (file,) = (tmp_path / "noted").iterdir()
    return read_outcomes(file.read_text())


@pytest.mark.parametrize("processes", ["0", "2"])
def test_each_test_is_noted_with_its_reason(suite: Path, tmp_path: Path, processes: str) -> None:
    chosen = ("-n", processes, "--dist", "loadgroup", "-m", "not slow")
    noted = outcomes(suite, tmp_path, *chosen)
    module = noted.pop("test_module.py")
    assert module.state == State.SKIPPED and "k2ktui_no_such_package" in module.reason
    assert noted == {**SELECTED, "test_it.py::test_long": Outcome(State.NOT_SELECTED)}


@pytest.mark.parametrize("processes", ["0", "2"])
def test_what_another_part_has_and_what_the_clock_leaves_out_is_noted(
    suite: Path, tmp_path: Path, processes: str
) -> None:
    chosen = ("-n", processes, "--dist", "loadgroup", "--part", "2/2", "--until", "1")
    noted = outcomes(suite, tmp_path, *chosen)
    assert noted["test_it.py::test_long"].state == State.OTHER_PART
    assert noted["test_it.py::test_runs"].state == State.NOT_REACHED


def test_a_run_of_another_suite_within_a_test_is_not_noted(suite: Path, tmp_path: Path) -> None:
    """The variable ends with the process that notes."""
    probe = tmp_path / "probe"
    probe.mkdir()
    text = f"import os\ndef test_it(): assert {VARIABLE!r} not in os.environ\n"
    for processes in ("0", "1"):
        passed, _ = run_suite(
            write_suite(probe, {"test_it.py": text}),
            "-n",
            processes,
            **{VARIABLE: str(tmp_path / "noted")},
        )
        assert len(passed) == 1


def test_a_test_ran_if_it_ran_in_one_run() -> None:
    late, part, other = map(Outcome, (State.NOT_REACHED, State.OTHER_PART, State.NOT_SELECTED))
    first = {"a": RAN, "b": NO_COMPILER, "c": other, "m.py": NO_COMPILER}
    second = {"a": late, "b": RAN, "c": part, "d": late, "m.py::test": RAN}
    merged = merge([first, second])
    assert merged == {"a": RAN, "b": RAN, "c": part, "d": late, "m.py::test": RAN}
    assert merge([second, first]) == merged


def test_a_name_of_one_python_only_is_no_test_that_no_run_selects() -> None:
    other = Outcome(State.NOT_SELECTED)
    first = {"t.py::test[1]": other, "t.py::test[<a 1>]": RAN}
    second = {"t.py::test[1]": other, "t.py::test[<a 2>]": other}
    assert merge([first, second]) == {"t.py::test[1]": other, "t.py::test[<a 1>]": RAN}


@pytest.mark.parametrize(
    ("outcome", "passes", "passes_all"),
    [
        (RAN, True, True),
        (NO_COMPILER, False, False),
        (Outcome(State.NOT_SELECTED), False, False),
        # A slow machine fails no gate; who runs everything wants everything.
        (Outcome(State.NOT_REACHED), True, False),
        (Outcome(State.OTHER_PART), True, False),
    ],
)
def test_which_tests_fail_a_gate(outcome: Outcome, passes: bool, passes_all: bool) -> None:
    for whole, expected in ((False, passes), (True, passes_all)):
        lines, passed = summarize({"t.py::test[1]": outcome}, {}, whole=whole)
        assert passed == expected
        assert any(str(outcome.state) in line for line in lines) or outcome == RAN
        assert ("NOT LISTED" in "".join(lines)) == (outcome == NO_COMPILER)


@pytest.mark.parametrize("listed", ["t.py::test", "t.py"])
def test_a_listed_skip_is_named_with_its_reason(listed: str) -> None:
    skipped = {"t.py::test[1]": NO_COMPILER, "t.py::test[2]": NO_COMPILER, "u.py::test": RAN}
    lines, passed = summarize(skipped, {listed: "not everywhere"}, whole=True)
    assert passed and lines == [
        "1 of 3 tests ran.",
        "skipped: 2 of t.py::test: no compiler (listed: not everywhere)",
    ]


def test_the_program_reads_what_the_runs_have_noted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    row = {"state": "not reached", "reason": ""}
    (tmp_path / "a.json").write_text(json.dumps({"t.py::test": row}))
    assert main([str(tmp_path)]) == 0
    assert main(["--all", str(tmp_path)]) == 1
    assert "not reached: 1 tests of 1 functions\n  1 of t.py::test\n" in capsys.readouterr().out


def test_listed_tests_exist_and_have_a_reason() -> None:
    for name, reason in listed_skips().items():
        path, _, function = name.partition("::")
        assert f"def {function}" in (ROOT / path).read_text(), f"{SKIPS.name} lists {name}"
        assert len(reason.split()) > 3, name


def test_the_gate_ends_with_the_summary() -> None:
    script = (ROOT / ".ci/run").read_text()
    assert script.index("export K2KTUI_OUTCOMES=") < script.index("${command}")
    assert script.index('"${long[@]}"') < script.index("-m tests.support.schedule.summary")
