"""A program with ``from k2ktui import …`` is type-checked as strictly as our own code."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "python.md"

PROGRAM = '''
"""What a user writes."""

from pathlib import Path

import k2ktui
from k2ktui import Applied, Basis, ExitCode, GroupRow, K2kError, Pipeline, PipelineStatus, Plan


def lag(file: Path) -> int | None:
    with Pipeline.open(file) as pipeline:
        status: PipelineStatus = pipeline.status()
        return status.lag_records


def uncertain(pipeline: Pipeline) -> list[GroupRow]:
    return [row for row in pipeline.groups().rows if row.basis is not Basis.EXACT]


def move(pipeline: Pipeline) -> Applied | None:
    try:
        plan: Plan = pipeline.plan("billing", rewind="follow", choices={("g", "t", 0): "+5"})
        return pipeline.apply(plan)
    except K2kError as error:
        return None if error.exit_code is ExitCode.REFUSED else pipeline.undo(error.hint)


for row in Pipeline.open("f").translate({"t": {0: 1}}):
    print(k2ktui.__version__, row.translated_offset)
'''
WRONG = """
import k2ktui
from k2ktui import Pipeline

k2ktui.Pipelines
Pipeline.open("f").plan(rewind="always")
Pipeline.open("f").translate({"t": 712})
Pipeline.open("f").status().lag
"""


def check(directory: Path, programs: Mapping[str, str]) -> list[str]:
    """Run mypy as a user does: elsewhere, with no configuration but the command line's.

    Args:
        directory: for the programs' files.
        programs: content by name.

    Returns:
        The errors, each with its file.
    """
    for name, program in programs.items():
        (directory / f"{name}.py").write_text(program)
    cache = ROOT / ".mypy_cache" / "user_program"
    options = ["--strict", "--config-file=", f"--cache-dir={cache}", "--no-error-summary"]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *options, *(f"{name}.py" for name in programs)],
        cwd=directory,
        capture_output=True,
        text=True,
    )
    assert not done.stderr and done.returncode == 1, done.stdout + done.stderr
    return done.stdout.splitlines()


@pytest.mark.slow
def test_a_users_program_passes_and_its_mistakes_are_named(tmp_path: Path) -> None:
    """One run for all, which reads our own code once."""
    snippets = [part.partition("```")[0] for part in PAGE.read_text().split("```python\n")[1:]]
    assert snippets
    pages = {f"snippet_{number}": snippet for number, snippet in enumerate(snippets)}
    errors = check(tmp_path, {"program": PROGRAM, "wrong": WRONG, **pages})
    assert [(line.partition(".py:")[0], line.rpartition("[")[2]) for line in errors] == [
        ("wrong", "attr-defined]"),
        ("wrong", "arg-type]"),
        ("wrong", "dict-item]"),
        ("wrong", "attr-defined]"),
    ], errors
