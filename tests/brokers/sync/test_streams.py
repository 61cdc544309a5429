"""Kafka Streams applications, old and new, moved to the target and back.

Streams keeps the partition time in the metadata of its commits. Versions up to 3.1 die of metadata
that they cannot read; later ones lose the time without a word.
"""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pytest

from k2ktui.engine.moves.plan import read
from k2ktui.kafka.properties.translation import wire
from k2ktui.kafka.wire.groups import ConsumerGroupClient
from k2ktui.runtime import artifacts
from k2ktui.runtime.java import find_java
from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.kafka import TIMEOUT, Out, create_topic, eventually, produce
from tests.support.commands.cli import k2ktui, k2ktui_json
from tests.support.pipelines.copied import Copied

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

START_MS = int(time.time() * 1000) - 3_600_000  # no retention deletes them
FIRST, SECOND, THIRD = 30, 50, 60


def records(first: int, end: int) -> list[Out]:
    return [Out(b"%d" % n, timestamp=START_MS + n) for n in range(first, end)]


def run_application(
    version: str, node: KafkaNode, name: str, topic: str, count: int, directory: Path
) -> list[tuple[int, int]]:
    """Let the application read, and return the offset and partition time of each record."""
    jars = artifacts.classpath(f"org.apache.kafka:kafka-streams:{version}", artifacts.LOGGING)
    program = Path(__file__).with_name("StreamsApp.java")
    command = [str(find_java().executable), "-cp", jars.argument, str(program)]
    done = subprocess.run(
        [*command, node.bootstrap, name, topic, str(count), str(directory)],
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    if "compiler" in done.stderr and done.returncode:
        pytest.skip("this Java has no compiler")
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    assert not [line for line in lines if line[0] == "died:"], done.stdout
    return [(int(line[1]), int(line[3])) for line in lines if line[0] == "record"]


def commits(copied: Copied, side: str, name: str, topic: str) -> tuple[int, str]:
    cluster = copied.config.source if side == "source" else copied.config.target
    with ConsumerGroupClient(wire(cluster, "admin"), side) as groups:
        groups.open(TIMEOUT)
        commit = groups.read_committed([name])[name].offsets[topic, 0]
    return commit.offset, commit.metadata


def move(copied: Copied) -> None:
    path = copied.directory / f"{copied.name}-plan.json"

    def planned() -> bool:
        k2ktui("plan", "-f", copied.file, "-o", path, code=None)  # 1: nothing can move yet
        return {row.action for row in read(path.read_text()).rows} <= {"create", "advance"}

    eventually(planned, "the application's group has no members")
    assert k2ktui_json("apply", path, "--yes")["counts"] == {"applied": 1}


@pytest.mark.parametrize("version", ["2.8.2", "3.1.2", "3.9.1"])
def test_there_and_back(source: KafkaNode, target: KafkaNode, tmp_path: Path, version: str) -> None:
    there = Copied(tmp_path, source, target)
    name, topic, state = there.group("streams"), create_topic(source), tmp_path / "state"
    produce(source, topic, records(0, FIRST))
    seen = run_application(version, source, name, topic, FIRST, state)
    assert [offset for offset, _ in seen] == list(range(FIRST))
    offset, metadata = commits(there, "source", name, topic)
    assert (offset, bool(metadata)) == (FIRST, True), "it keeps its time there"

    produce(source, topic, records(FIRST, SECOND))
    (landed,) = there.copy(topic).values()
    move(there)
    assert commits(there, "target", name, topic) == (landed[FIRST], metadata)
    seen = run_application(version, target, name, topic, SECOND - FIRST, state)
    assert [offset for offset, _ in seen] == [landed[n] for n in range(FIRST, SECOND)]
    assert seen[0][1] == START_MS + FIRST - 1, "the partition time is that of the last record"

    offset, metadata = commits(there, "target", name, topic)
    assert offset == landed[SECOND - 1] + 1
    back = Copied(tmp_path, target, source)
    back.settings = {"groups": {"pollInterval": "1 second", "consumerGroups": name}}
    back.record(topic, 0, {to: at for at, to in landed.items()}, offset, 0)
    move(back)
    assert commits(there, "source", name, topic) == (SECOND, metadata)
    produce(source, topic, records(SECOND, THIRD))
    seen = run_application(version, source, name, topic, THIRD - SECOND, state)
    assert [offset for offset, _ in seen] == list(range(SECOND, THIRD))
    assert seen[0][1] == START_MS + SECOND - 1
