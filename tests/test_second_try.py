"""The gate tries failed tests once more, except those in which the oracle found a difference."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.second_try import FINAL

_LATE = "def test_late{}():\n    assert False, 'not in time'\n"
_WRONG = (
    "from tests.support.oracle import NotExactlyOnce\n"
    "def test_wrong():\n    raise NotExactlyOnce('1 difference')\n"
)


@pytest.mark.parametrize(
    ("tests", "processes", "status"),
    [
        ("def test_good():\n    pass\n", 0, 0),
        ("".join(map(_LATE.format, range(5))), 0, 1),
        ("".join(map(_LATE.format, range(6))), 0, FINAL),
        (_LATE.format(0) + _WRONG, 0, FINAL),
        (_LATE.format(0), 2, 1),
        (_LATE.format(0) + _WRONG, 2, FINAL),
    ],
)
def test_status_says_whether_a_second_try_is_due(
    tests: str, processes: int, status: int, tmp_path: Path
) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "test_made.py").write_text(tests)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.second_try", "-n", str(processes)]
    done = subprocess.run(
        [*command, "--rootdir", str(tmp_path), "-c", str(tmp_path / "pytest.ini"), str(tmp_path)],
        cwd=Path(__file__).parent.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == status, done.stdout + done.stderr
