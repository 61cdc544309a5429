"""Parts of the long tests: together they are all, and each takes about as long."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.schedule.examples import VARIABLE, examples, examples_of
from tests.support.schedule.parts import EVERY_TIME, Part
from tests.support.schedule.suite import run_suite, write_suite

ROOT = Path(__file__).parents[2]
SCRIPT = (ROOT / ".ci/run").read_text()
# As the gate has it; what holds for parts is tried with several.
PARTS = int(re.findall(r"^parts=(\d+)$", SCRIPT, re.M)[0])
SEVERAL = 4
DURATIONS = st.dictionaries(st.text(), st.floats(1, 300), max_size=40)


@given(DURATIONS, st.integers(1, 5))
def test_each_group_is_in_one_part_and_parts_take_about_as_long(
    durations: dict[str, float], count: int
) -> None:
    parts = [Part(number, count).groups(durations) for number in range(1, count + 1)]
    assert sorted(group for part in parts for group in part) == sorted(durations)
    seconds = [sum(durations[group] for group in part) for part in parts]
    assert max(seconds) - min(seconds) <= max(durations.values(), default=0) + 1e-6


@pytest.mark.parametrize("text", ["0/4", "5/4", "1/0", "4", "a/b", ""])
def test_what_is_no_part_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        Part.parse(text)


def test_tests_of_every_gate_exist() -> None:
    assert all((ROOT / path).exists() for path in EVERY_TIME)


# Prints the long tests of each part, a line of JSON.
PRINT = """
import json, pytest
from tests.support.schedule.parts import Part, is_long

class Parts:
    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items):
        items = [item for item in items if is_long(item)]
        parts = [Part(number, COUNT).choose(items) for number in range(1, COUNT + 1)]
        names = [sorted(item.nodeid for item in part) for part in parts]
        print()
        print(json.dumps([sorted(item.nodeid for item in items), *names]))

pytest.main(["-q", "--collect-only", "-m", ""], plugins=[Parts()])
"""


@pytest.fixture(scope="module")
def all_and_parts() -> list[set[str]]:
    """Return all long tests, then those of each part."""
    code = PRINT.replace("COUNT", str(SEVERAL))
    ran = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    (line,) = (line for line in ran.stdout.splitlines() if line.startswith("["))
    return [set(names) for names in json.loads(line)]


def test_all_parts_together_are_all_long_tests(all_and_parts: list[set[str]]) -> None:
    everything, *parts = all_and_parts
    assert len(everything) > 500 and set.union(*parts) == everything


def test_every_part_has_the_proofs_of_the_copy_the_fuzzing_and_the_matrix(
    all_and_parts: list[set[str]],
) -> None:
    everything, *parts = all_and_parts
    common = set.intersection(*parts)
    proofs = {name for name in everything if name.startswith(EVERY_TIME)}
    assert common == proofs
    for path in EVERY_TIME:
        assert any(name.startswith(path) for name in common)


# Plain pytest runs the first test, which shares brokers, and the last one, which does not.
FAST = """
import pytest
@pytest.fixture
def class_archives(): pass
def test_on_brokers(class_archives): pass
@pytest.mark.longer
def test_longer(class_archives): pass
def test_alone(): pass
"""


def test_of_the_fast_tests_those_on_brokers_that_have_run_are_dealt(tmp_path: Path) -> None:
    names = [f"test_{number}.py" for number in range(9)]
    suite = write_suite(tmp_path, dict.fromkeys(names, FAST))
    parts = [run_suite(suite, "-n", "0", "--part", f"{number}/3")[0] for number in (1, 2, 3)]
    dealt = [test for part in parts for test in part if "test_on_brokers" in test]
    assert sorted(dealt) == [f"{name}::test_on_brokers" for name in names]
    for part in parts:
        others = {test for test in part if "test_on_brokers" not in test}
        assert others == {f"{name}::test_{test}" for name in names for test in ("alone", "longer")}


def test_each_property_test_tries_all_its_examples_in_one_of_the_parts() -> None:
    for module in ("tests.conftest", "tests.unit.a", "tests.unit.b", "tests.unit.c"):
        parts = [examples_of(module, 400, f"{number}/4") for number in (1, 2, 3, 4)]
        assert sorted(parts) == [100, 100, 100, 400]
        assert examples_of(module, 400, "1") == 400 and examples_of(module, 400, "") == 100
    assert examples_of("tests.unit.a", 20, "") == 10
    with pytest.raises(ValueError):
        examples_of("tests.unit.a", 20, "yes")


def test_examples_are_those_of_the_calling_module(monkeypatch: pytest.MonkeyPatch) -> None:
    for number in (1, 2, 3, 4):
        monkeypatch.setenv(VARIABLE, f"{number}/4")
        assert examples(400) == examples_of(__name__, 400, f"{number}/4")


def test_the_gate_runs_a_part() -> None:
    assert '--part "${part}/${parts}"' in SCRIPT and "|| say" not in SCRIPT


@pytest.mark.parametrize(
    ("commits", "shown"),
    [
        (2 * PARTS - 1, f"{PARTS} other/bin/python"),
        (2 * PARTS, "1 one/python"),
        (3 * PARTS, "1 other/bin/python"),
    ],
)
def test_the_gate_changes_python_after_each_part(commits: int, shown: str) -> None:
    chosen = re.search(r"^parts=.*?^(?=cores=)", SCRIPT, re.M | re.S)
    assert chosen
    before = f"set -eu; commits={commits}; bin=one; other=other\n"
    text = f'{before}{chosen[0]}echo "${{part}} ${{python}}"'
    ran = subprocess.run(["bash", "-c", text], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == shown


def test_every_second_gate_has_the_newest_python() -> None:
    """And goes on with another one where that cannot be had; a test that fails there fails it."""
    chosen = re.search(r"^code=77$.*?^if \(\(code\)\); then exit.*?fi$", SCRIPT, re.M | re.S)
    assert chosen
    ran = {}
    for commits, newest in ((30, 0), (31, 0), (31, 77), (31, 1)):
        before = f"""
            set -eu; commits={commits}; bin=bin; other=other; fast=fast; version=3.13
            fast_until=0; fast_minute=0; again=1/3
            say() {{ echo "$*"; }}; within() {{ echo "ran $2"; }}; until_minute() {{ echo 1; }}
            fast_on_debian() {{ return {newest}; }}
        """
        done = subprocess.run(
            ["bash", "-c", f"{before}\n{chosen[0]}"], capture_output=True, text=True, check=False
        )
        ran[commits, newest] = "3.14" in done.stdout, "ran other" in done.stdout, done.returncode
    assert ran == {
        (30, 0): (False, True, 0),
        (31, 0): (True, False, 0),
        (31, 77): (True, True, 0),
        (31, 1): (True, False, 1),
    }


def test_no_gate_is_green_without_its_proofs() -> None:
    """What begins too late is skipped, but for the proofs and the matrix: those fail."""
    for file, code in (
        ("matrix/test_faults.py", 1),
        ("spark/ownership/test_standby.py", 0),
        ("unit/test_text.py", 0),
    ):
        ran = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-m", "", "--until=1", f"tests/{file}"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        assert ran.returncode == code and "not reached" in ran.stdout, ran.stdout
