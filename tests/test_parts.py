"""Parts of the long tests: together they are all, and each takes about as long."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.parts import EVERY_TIME, Part

ROOT = Path(__file__).parents[1]
DURATIONS = st.dictionaries(st.text(), st.floats(1, 300), max_size=40)


@given(DURATIONS, st.integers(1, 5))
def test_each_group_is_in_one_part_and_parts_take_about_as_long(
    durations: dict[str, float], count: int
) -> None:
    turns = [Part(number, count).turns(durations) for number in range(1, count + 1)]
    parts = [[group for group, turn in found.items() if turn == 0] for found in turns]
    assert sorted(group for part in parts for group in part) == sorted(durations)
    seconds = [sum(durations[group] for group in part) for part in parts]
    assert max(seconds) - min(seconds) <= max(durations.values(), default=0) + 1e-6
    for group in durations:  # the parts after it follow in order
        assert [found[group] for found in turns] == [
            (turns[0][group] - number) % count for number in range(count)
        ]


@pytest.mark.parametrize("text", ["0/4", "5/4", "1/0", "4", "a/b", ""])
def test_what_is_no_part_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        Part.parse(text)


def test_tests_of_every_gate_exist() -> None:
    assert all((ROOT / path).exists() for path in EVERY_TIME)


def test_the_gate_runs_the_next_part_after_each_commit() -> None:
    script = (ROOT / ".ci/run").read_text()
    count = re.search(r"^parts=(\d+)$", script, re.M)
    assert count and int(count[1]) == 5
    for page in ("docs/exactly-once.md", "CONTRIBUTING.md"):
        assert "another fifth of them for each commit" in " ".join(
            (ROOT / page).read_text().split()
        )
    assert '--part "${part}/${parts}"' in script and "|| say" not in script


@pytest.mark.parametrize(
    ("commits", "shown"),
    [(1034, "5 one/python"), (1035, "1 other/bin/python"), (1040, "1 one/python")],
)
def test_the_gate_changes_python_after_each_part(commits: int, shown: str) -> None:
    script = (ROOT / ".ci/run").read_text()
    chosen = re.search(r"^parts=.*?^(?=cores=)", script, re.M | re.S)
    assert chosen
    before = f"set -eu; git() {{ echo {commits}; }}; bin=one; other=other\n"
    text = f'{before}{chosen[0]}echo "${{part}} ${{python}}"'
    ran = subprocess.run(["bash", "-c", text], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == shown


def test_no_gate_is_green_without_its_proofs() -> None:
    """What begins too late is skipped, but for the proofs and the matrix: those fail."""
    for file, code in (("matrix/test_faults.py", 1), ("replication/test_standby.py", 0)):
        ran = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-m", "", "--until=1", f"tests/{file}"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        assert ran.returncode == code and "not reached" in ran.stdout, ran.stdout
