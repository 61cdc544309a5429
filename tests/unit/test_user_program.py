"""A program with ``from k2ktui import …`` is type-checked as strictly as our own code."""

from __future__ import annotations

import subprocess
import sys
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


def check(directory: Path, program: str) -> subprocess.CompletedProcess[str]:
    """Run mypy as a user does: elsewhere, with no configuration but the command line's."""
    file = directory / "program.py"
    file.write_text(program)
    cache = ROOT / ".mypy_cache" / "user_program"
    options = ["--strict", "--config-file=", f"--cache-dir={cache}", "--no-error-summary"]
    return subprocess.run(
        [sys.executable, "-m", "mypy", *options, file.name],
        cwd=directory,
        capture_output=True,
        text=True,
    )


@pytest.mark.slow
def test_a_users_program_passes_and_its_mistakes_are_named(tmp_path: Path) -> None:
    done = check(tmp_path, PROGRAM)
    assert (done.returncode, done.stdout) == (0, ""), done.stdout + done.stderr
    snippets = [part.partition("```")[0] for part in PAGE.read_text().split("```python\n")[1:]]
    for snippet in snippets:
        done = check(tmp_path, snippet)
        assert (done.returncode, done.stdout) == (0, ""), done.stdout + done.stderr
    wrong = check(tmp_path, WRONG).stdout.splitlines()
    assert [line.rpartition("[")[2] for line in wrong] == [
        "attr-defined]",
        "arg-type]",
        "dict-item]",
        "attr-defined]",
    ]
