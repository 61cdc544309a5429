"""A run with what shells, images and profiles export (docs/troubleshooting.md).

Variables that do not meet share a run: a start of Spark takes ten seconds.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from k2ktui.errors import ExitCode
from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.kafka import create_topic, produce
from tests.support.pipelines.environment import (
    FILES,
    REFUSED,
    TOGETHER,
    WRONG_PYTHON,
    Case,
    variables_of,
)
from tests.support.pipelines.pipeline import RUN_TIMEOUT, STARTS, Pipeline

pytestmark = pytest.mark.slow

K2KTUI = [sys.executable, "-P", "-m", "k2ktui"]
ROOT = Path(__file__).parents[3]
# As an installed program is, k2ktui is found without the working directory.
INSTALLED = {"PYTHONPATH": str(ROOT)}
RECORDS = 50


@pytest.fixture
def pipe(source: KafkaNode, target: KafkaNode, tmp_path: Path) -> Pipeline:
    topic = create_topic(source, partitions=2)
    produce(source, topic, [b"v"] * RECORDS)
    return Pipeline(tmp_path, source, target, [topic])


def shell(command: str) -> tuple[str, ...]:
    """Return the words with which a shell runs a command before the program."""
    return ("bash", "-c", f'{command}; exec "$@"', "bash")


def start(
    pipe: Pipeline,
    variables: dict[str, str],
    *before: str,
    code: int = 0,
    directory: Path | None = None,
) -> str:
    """Start a run as an operator does; return what it printed.

    One that clusters do not answer in time is repeated, as in :meth:`Pipeline.catch_up`.
    """
    kept = {name: value for name, value in os.environ.items() if name != "K2KTUI_CRASH_DIR"}
    for _ in range(STARTS):
        done = subprocess.run(
            [*before, *K2KTUI, "start", "-f", str(pipe.write()), "--until-caught-up"],
            env={**kept, **variables},
            cwd=directory,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=RUN_TIMEOUT,
            check=False,
        )
        if done.returncode != ExitCode.TIMEOUT:
            break
    printed = " ".join((done.stdout + done.stderr).split())
    assert done.returncode == code, printed
    assert "Traceback" not in printed and "internal error" not in printed
    return printed


@pytest.mark.parametrize("cases", TOGETHER.values(), ids=TOGETHER)
def test_a_run_copies_whatever_is_exported(
    pipe: Pipeline, tmp_path: Path, cases: tuple[Case, ...]
) -> None:
    """The one without a PYTHONPATH of its own also runs in a directory that was deleted."""
    (tmp_path / "two words").mkdir()
    (tmp_path / "startup.py").write_text("raise SystemExit(1)\n")
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "spark-env.sh").write_text("exit 1\n")
    for package in ("pyspark", "py4j"):
        (tmp_path / "other" / package).mkdir(parents=True)
        module = tmp_path / "other" / package / "__init__.py"
        module.write_text("raise ImportError('of another Spark')\n")
    variables = variables_of(cases, tmp_path)
    before: tuple[str, ...] = ()
    place = None
    if "PYTHONPATH" not in variables:
        variables |= INSTALLED
        before, place = shell('rmdir "$PWD"'), tmp_path / "place"
        place.mkdir()

    printed = start(pipe, variables, *before, directory=place)

    assert pipe.prove(RECORDS)
    notes = printed.partition("not used: ")[2].partition(";")[0]
    for name in (name for case in cases for name in case.noted):
        assert name in notes, printed


def test_a_run_in_its_own_environment_has_no_note(pipe: Pipeline, tmp_path: Path) -> None:
    """A low soft limit of open files is raised; modules of the working directory are not used."""
    for name in ("random", "queue", "socket"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit(1)\n")
    variables = {"PYSPARK_PYTHON": sys.executable, **INSTALLED}
    printed = start(pipe, variables, *shell("ulimit -S -n 256"), directory=tmp_path)
    assert "not used" not in printed
    assert pipe.prove(RECORDS)


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case.shown)
def test_a_start_that_cannot_be_names_the_variable(
    pipe: Pipeline, tmp_path: Path, case: Case
) -> None:
    assert case.message in start(pipe, variables_of((case,), tmp_path), code=case.code)


def test_a_limit_of_open_files_is_named(pipe: Pipeline) -> None:
    assert FILES.message in start(pipe, {}, *shell("ulimit -n 256"), code=FILES.code)


@pytest.mark.rotate("mode", ["exclusive", "shared"])
def test_workers_that_cannot_start_end_the_start(pipe: Pipeline, tmp_path: Path, mode: str) -> None:
    """And not laps without records, and without end."""
    python = tmp_path / "python"
    python.write_text(
        "#!/bin/sh\necho \"  ModuleNotFoundError: No module named 'kafka'\" >&2; exit 1\n"
    )
    python.chmod(0o755)
    pipe.settings = {"spark.config": {"spark.pyspark.python": str(python)}}
    pipe.mode = mode
    printed = start(pipe, {}, code=WRONG_PYTHON.code)
    assert f"{WRONG_PYTHON.message}ModuleNotFoundError: No module named 'kafka'" in printed
    assert f"Set spark.pyspark.python, which is {python}" in printed
