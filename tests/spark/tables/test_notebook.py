"""A new user follows docs/tables.md in a new environment: the five queries, on a cluster.

The user's host has no Java and no Python on its PATH; the pipeline runs meanwhile. On this host
alone, ``test_page.py`` runs the page's code.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyspark
import pytest

from k2ktui.runtime.node import KafkaNode
from tests.spark.tables.test_page import COUNT, HOUR_MS, PAGE, blocks, commit, fill
from tests.support.clusters.kafka import create_topic, eventually, unique_name
from tests.support.clusters.spark_cluster import SparkCluster
from tests.support.commands.offline import offline_environment
from tests.support.commands.spark_script import Ended, User, run_script
from tests.support.commands.verbs import k2ktui
from tests.support.pipelines.pipeline import Pipeline

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]
ROOT = PAGE.parents[1]
NAMES = ("again", "behind", "hourly", "moves", "translated")
READ_AGAIN_FROM, BILLING, SHIPPING, CHECKPOINT = 350, 712, 300, 640


def cells() -> list[str]:
    """The first cell of the page, and the five queries, as they are printed."""
    queries = PAGE.read_text().split("## Five queries")[1].split("\n## ")[0]
    return [blocks()[0], *re.findall(r"```python\n(.*?)```", queries, re.DOTALL)]


@pytest.fixture
def user(tmp_path_factory: pytest.TempPathFactory) -> Iterator[User]:
    """Somebody who has run the page's command in a checkout."""
    checkout = tmp_path_factory.mktemp("checkout")
    for name in ("k2ktui", "themes"):
        shutil.copytree(ROOT / name, checkout / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "hatch_build.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, checkout)
    (checkout / "programs").mkdir()
    (checkout / "programs" / "python3").symlink_to(Path(sys.executable).resolve())
    # The workers of the test's cluster have this test's PySpark.
    (checkout / "constraints").write_text(f"pyspark=={pyspark.__version__}\n")
    path = f"{checkout / 'programs'}{os.pathsep}{os.environ['PATH']}"
    constraints = {"PIP_CONSTRAINT": str(checkout / "constraints")}
    (command,) = re.findall(r"<!-- tables -->\n```sh\n(.*?)```", PAGE.read_text(), re.DOTALL)
    installed = subprocess.run(
        ["sh", "-exc", command],
        cwd=checkout,
        env={**os.environ, "PATH": path, **constraints},
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert installed.returncode == 0, installed.stderr[-4000:]
    python = checkout / ".venv" / "bin" / "python"
    yield User(python, offline_environment(checkout / "home"))
    shutil.rmtree(checkout)  # 900 MB, which pytest would keep for three runs


@dataclass(frozen=True)
class Moved:
    """A pipeline that runs, and two groups of which one was moved.

    Attributes:
        landed: target offset by partition and source offset.
    """

    pipe: Pipeline
    topic: str
    billing: str
    shipping: str
    landed: Mapping[tuple[int, int], int]

    @property
    def notebook(self) -> str:
        """All cells, with the names that topic and group have here."""
        return (
            "\n\n# %%\n".join(cells())
            .replace("'orders'", repr(self.topic))
            .replace('"orders"', repr(self.topic))
            .replace('"billing"', repr(self.billing))
        )


def translate(file: Path, topic: str, partition: int, offset: int) -> int:
    said = k2ktui("translate", "-f", file, "--json", f"{topic}:{partition}:{offset}")
    assert said.code == 0, said.err
    (row,) = said.json["positions"]
    assert row["offset"] == offset
    return int(row["translated_offset"])


@pytest.fixture
def moved(source: KafkaNode, target: KafkaNode, tmp_path: Path) -> Iterator[Moved]:
    topic, name = create_topic(source, unique_name("orders"), 2), unique_name("pipe")
    pipe = Pipeline(
        tmp_path,
        source,
        target,
        [topic],
        {"groups.consumerGroups": f"{name}-.*", "spark.lap": "20 seconds"},
        name,
    )
    billing, shipping = f"{name}-billing", f"{name}-shipping"
    began_ms = int(time.time() * 1000) // HOUR_MS * HOUR_MS - 5 * HOUR_MS
    fill(source, topic, COUNT, began_ms)
    commit(source, billing, {(topic, 0): BILLING, (topic, 1): COUNT})
    commit(source, shipping, {(topic, 0): SHIPPING})
    with pipe.start() as run:
        eventually(lambda: pipe.is_caught_up(topic), lambda: f"copied\n{run.tail()}", 180.0)
        file, plan = pipe.write(), tmp_path / "plan.json"
        for words in (
            ("plan", "-f", file, "--group", shipping, "-o", plan),
            ("apply", plan, "--yes"),
        ):
            said = k2ktui(*words)
            assert said.code == 0, said.err
        landed = {
            (partition, offset): translate(file, topic, partition, offset)
            for partition, offset in (
                *((0, offset) for offset in (READ_AGAIN_FROM, BILLING, SHIPPING)),
                *((1, offset) for offset in (CHECKPOINT, COUNT)),
            )
        }
        commit(
            target,
            billing,
            {(topic, 0): landed[0, READ_AGAIN_FROM], (topic, 1): landed[1, COUNT]},
        )
        shutil.copy(file, tmp_path / "pipeline.yaml")
        yield Moved(pipe, topic, billing, shipping, landed)
        assert run.running, run.tail()
        assert run.stop() == 0


def run_notebook(moved: Moved, user: User, script: str, env: Mapping[str, str]) -> Ended:
    rows = [f"[row.asDict() for row in {name}.collect()]" for name in NAMES]
    ended = run_script(
        script, moved.pipe.directory, [*rows, "spark.sparkContext.master"], env, user=user
    )
    assert ended.code == 0, ended.err[-5000:]
    return ended


def assert_answers(moved: Moved, ended: Ended) -> None:
    answers: dict[str, list[dict[str, Any]]] = dict(zip(NAMES, ended.values.values(), strict=False))
    again = answers["again"]
    assert {row["topic"] for row in again} == {moved.topic}
    assert sum(row["records"] for row in again) == BILLING - READ_AGAIN_FROM
    assert answers["behind"] == []
    hourly = answers["hourly"]
    assert len(hourly) == 2
    assert all(row["source"] == row["target"] == COUNT for row in hourly)
    (move,) = answers["moves"]
    assert (move["group"], move["operation"], move["result"]) == (
        moved.shipping,
        "apply",
        "applied",
    )
    assert (move["before"], move["after"]) == (None, moved.landed[0, SHIPPING])
    starting = {moved.topic: {"0": moved.landed[0, BILLING], "1": moved.landed[1, CHECKPOINT]}}
    assert json.dumps(starting) in ended.out.splitlines()
    assert ended.out.count("+---") >= 3 * 4  # the four frames are shown


def test_on_two_workers(user: User, moved: Moved, tmp_path: Path) -> None:
    """With the cluster's master; the site's settings are where Spark has them."""
    with SparkCluster(tmp_path / "spark") as cluster:
        settings = tmp_path / "conf" / "spark-defaults.conf"
        settings.parent.mkdir()
        settings.touch(mode=0o600)
        settings.write_text("".join(f"{key} {text}\n" for key, text in cluster.settings.items()))
        script = moved.notebook.replace('"local[2]"', repr(cluster.master))
        ended = run_notebook(moved, user, script, {"SPARK_CONF_DIR": str(settings.parent)})
    assert_answers(moved, ended)
    assert ended.values["spark.sparkContext.master"] == cluster.master
