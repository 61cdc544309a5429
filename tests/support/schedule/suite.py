"""A suite of a few tests that has the schedule's plugins, to test these."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parents[3]
_CONFTEST = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
pytest_plugins = [
    "tests.support.schedule.plugin",
    "tests.support.schedule.outcomes",
    "tests.support.schedule.shuffle",
]
def pytest_addoption(parser):
    parser.addoption("--seeds", type=int)
"""
_OPTIONS = "[pytest]\nmarkers =\n  built\n  longer\n  matrix\n  proof\n  rotate\n  seeds\n  slow\n"


def write_suite(directory: Path, files: Mapping[str, str]) -> Path:
    """Write the files of a suite, and return its directory."""
    (directory / "conftest.py").write_text(_CONFTEST)
    (directory / "pytest.ini").write_text(_OPTIONS)
    for name, text in files.items():
        (directory / name).write_text(text)
    return directory


def run_suite(suite: Path, *arguments: str, **environment: str) -> tuple[list[str], str]:
    """Return the tests of a suite that pass, in their order, and the output; none may fail."""
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider", *arguments],
        cwd=suite,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    words = (word for line in ran.stdout.splitlines() if "PASSED" in line for word in line.split())
    return [word for word in words if "::" in word], ran.stdout
