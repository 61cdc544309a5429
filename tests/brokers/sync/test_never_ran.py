"""A pipeline that never ran, or whose name is mistyped: every command says so and exits with 1."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.kafka import TIMEOUT, create_topic, eventually, produce, unique_name
from tests.support.commands.cli import k2ktui, k2ktui_json
from tests.support.oracle.group_offsets import commit_offsets
from tests.support.pipelines.copied import Copied, committed

slow = pytest.mark.slow
COMMANDS = (
    ("groups",),
    ("plan",),
    ("verify",),
    ("sync", "--once"),
    ("status",),
    ("status", "--groups"),
    ("watch", "--once"),
)


@pytest.fixture
def copied(source: KafkaNode, target: KafkaNode, tmp_path: Path) -> Copied:
    """A pipeline that has copied a topic of one partition, with one group."""
    made = Copied(tmp_path, source, target)
    topic = create_topic(source)
    produce(source, topic, [b"%d" % n for n in range(50)])
    made.copy(topic)
    commit_offsets(source, made.group("g"), {(topic, 0): 20})
    return made


def misname(copied: Copied) -> Path:
    """Return the pipeline's file with a letter less in its name."""
    text = copied.file.read_text()
    path = copied.file.with_name("mistyped.yaml")
    path.write_text(text.replace(f"\nname: {copied.name}\n", f"\nname: {copied.name[:-1]}\n"))
    return path


def test_a_mistyped_name(copied: Copied) -> None:
    file = misname(copied)
    topic = f"topic {copied.commits} on the target cluster has runs of {copied.name}"
    for command in COMMANDS:
        done = k2ktui(command[0], "-f", file, *command[1:], code=1)
        said = done.stdout + done.stderr
        assert f"no run of pipeline {copied.name[:-1]} is known: {topic}" in said, command
        assert said.count("no run of pipeline") == 1, command
    k2ktui("translate", "-f", file, "t:0:1", code=1)
    assert k2ktui_json("watch", "-f", file, "--once", code=1)["has_run"] is False


def test_a_pipeline_that_never_ran(copied: Copied) -> None:
    copied.settings = {"coordination": {"commit": {"topic": "__never_made", "group": "other"}}}
    for command in COMMANDS:
        done = k2ktui(command[0], "-f", copied.file, *command[1:], code=1)
        said = done.stdout + done.stderr
        assert f"pipeline {copied.name} (coordination.commit.group other) is known" in said
        assert "topic __never_made on the target cluster does not exist" in said


@slow
def test_sync_waits_for_the_first_run(source: KafkaNode, target: KafkaNode, tmp_path: Path) -> None:
    """The mapping application and the pipeline are often started together."""
    late, topic = Copied(tmp_path, source, target), create_topic(source)
    produce(source, topic, [b"%d" % n for n in range(50)])
    where, group = (topic, 0), late.group("g")
    commit_offsets(source, group, {where: 20})
    late.commits = unique_name("__commits")
    log = tmp_path / "log"
    command = [sys.executable, "-m", "k2ktui", "sync", "-f", str(late.file)]
    with log.open("w") as out, subprocess.Popen(command, stdout=out, stderr=out) as run:
        try:
            eventually(lambda: "does not exist; waiting" in log.read_text(), log.read_text)
            create_topic(target, late.commits, 1, {"cleanup.policy": "compact"})
            eventually(lambda: "of any pipeline; waiting" in log.read_text(), log.read_text)
            late.put_run()
            late.copy(topic)
            eventually(lambda: "1 committed" in log.read_text(), log.read_text)
        finally:
            run.terminate()
            assert run.wait(TIMEOUT) == 0
    assert committed(target, group, [where]) == {where: 27}
    assert log.read_text().count("waiting") == 2


def test_a_mapping_topic_without_the_pipelines_mappings(
    copied: Copied, source: KafkaNode, target: KafkaNode, tmp_path: Path
) -> None:
    """The pipeline's file and that of ``sync`` name different topics."""
    other = Copied(tmp_path, source, target)
    topic = create_topic(source)
    produce(source, topic, [b"%d" % n for n in range(50)])
    other.copy(topic)
    copied.put_run()
    written = copied.mappings
    copied.mappings = other.mappings
    said = k2ktui("sync", "-f", copied.file, "--once", code=1).stderr
    assert f"no record of pipeline {copied.name} is mapped in topic {other.mappings}" in said
    assert f"which has mappings of {other.name}; its last run wrote them to topic {written}" in said
