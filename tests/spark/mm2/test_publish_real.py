"""Our pipeline read by MirrorMaker 2's own Java client."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from k2ktui.mm2.flows import formats
from k2ktui.runtime import artifacts
from k2ktui.runtime.java import find_java
from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.kafka import (
    TIMEOUT,
    Out,
    admin,
    create_topic,
    eventually,
    produce,
    produce_transaction,
    read_all,
    unique_name,
)
from tests.support.commands.cli import k2ktui, k2ktui_json
from tests.support.oracle.group_offsets import commit_offsets
from tests.support.pipelines.copied import Copied
from tests.support.pipelines.pipeline import START_TIMEOUT, Pipeline

pytestmark = pytest.mark.slow


def translated(target: KafkaNode, alias: str, group: str) -> list[str]:
    """What ``RemoteClusterUtils`` says, line by line."""
    jars = artifacts.classpath(artifacts.CONNECT_MIRROR, artifacts.LOGGING)
    program = Path(__file__).with_name("Translate.java")
    command = [str(find_java().executable), "-cp", jars.argument, str(program)]
    done = subprocess.run(
        [*command, target.bootstrap, alias, group],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    if "compiler" in done.stderr and done.returncode:
        pytest.skip("this Java has no compiler")
    assert done.returncode == 0, done.stderr
    # The client that committed ends its metadata with a NUL.
    return [line.rstrip("\0 ") for line in done.stdout.splitlines()]


def checkpoints(target: KafkaNode, alias: str) -> set[int]:
    """Offsets on the target of all checkpoints that were written."""
    topic = f"{alias}.checkpoints.internal"
    if topic not in admin(target).list_topics(timeout=TIMEOUT).topics:
        return set()
    read = [formats.read_checkpoint(got.key, got.value)[1] for got in read_all(target, topic)]
    return {checkpoint.downstream for checkpoint in read if checkpoint}


def test_remote_cluster_utils(source: KafkaNode, target: KafkaNode, tmp_path: Path) -> None:
    """Exact offsets come out of its translateOffsets; they follow; heartbeats are seen."""
    copied = Copied(tmp_path, source, target)
    topic, alias = create_topic(source, partitions=2), unique_name("east")
    produce(source, topic, [Out(b"%d" % n, b"k", partition=n % 2) for n in range(50)])
    copied.copy(topic)
    group = copied.group("g")
    commit_offsets(source, group, {(topic, 0): 11, (topic, 1): 25})
    aliases = ("--source-alias", alias, "--target-alias", "west")
    publish = ("mm2", "publish", "-f", copied.file, *aliases, "--once")
    shown = k2ktui_json(*publish)
    assert (shown["checkpoints"], shown["left_out"]) == (2, 0) and shown["offset_syncs"] > 0
    lines = translated(target, alias, group)
    assert sorted(lines[:-1]) == [f"{topic} 0 18", f"{topic} 1 32"]
    assert alias in lines[-1]
    commit_offsets(source, group, {(topic, 0): 12})
    k2ktui(*publish)
    assert f"{topic} 0 19" in translated(target, alias, group)
    syncs = [
        formats.read_offset_sync(got.key, got.value)[1]
        for got in read_all(target, f"mm2-offset-syncs.{alias}.internal")
    ]
    assert {(s.upstream, s.downstream) for s in syncs if s} == {(24, 31)}


def test_it_refuses_beside_mirrormaker(
    source: KafkaNode, target: KafkaNode, tmp_path: Path
) -> None:
    """Two writers of the same topics would contradict each other."""
    copied = Copied(tmp_path, source, target)
    alias = unique_name("east")
    create_topic(target, f"mm2-offsets.{alias}.internal")
    publish = ("mm2", "publish", "-f", copied.file, "--source-alias", alias)
    done = k2ktui(*publish, "--target-alias", "west", "--once", code=5)
    assert "contradict" in done.stderr


def test_a_running_pipeline_publishes(source: KafkaNode, target: KafkaNode, tmp_path: Path) -> None:
    """With ``mm2.publish: enabled`` nothing else has to run; the command takes the same aliases."""
    topic, group, alias = create_topic(source), unique_name("g"), unique_name("east")
    # What was aborted is not copied, so the offsets differ.
    produce_transaction(source, topic, [b"aborted"] * 5, commit=False)
    offsets = produce(source, topic, [b"%d" % n for n in range(20)])
    commit_offsets(source, group, {(topic, 0): offsets[7]})
    settings = {
        "mm2.publish": "enabled",
        "mm2.sourceAlias": alias,
        "mm2.targetAlias": "west",
        "mm2.interval": "500 milliseconds",
        "groups.consumerGroups": [group],
    }
    pipeline = Pipeline(tmp_path, source, target, [topic], settings)
    with pipeline.start() as run:
        eventually(lambda: 7 in checkpoints(target, alias), "a checkpoint", START_TIMEOUT)
        assert f"{topic} 0 7" in translated(target, alias, group)
        commit_offsets(source, group, {(topic, 0): offsets[9]})
        eventually(
            lambda: 9 in checkpoints(target, alias), "a checkpoint that follows", START_TIMEOUT
        )
        assert f"{topic} 0 9" in translated(target, alias, group)
        assert not [event for event in run.events("note") if "MirrorMaker" in event["text"]]
    commit_offsets(source, group, {(topic, 0): offsets[11]})
    k2ktui("mm2", "publish", "-f", pipeline.write(), "--once")
    assert f"{topic} 0 11" in translated(target, alias, group)


def test_a_run_that_ends_publishes_what_it_copied_last(
    source: KafkaNode, target: KafkaNode, tmp_path: Path
) -> None:
    """And one beside a MirrorMaker 2 reports it, and copies nevertheless."""
    topic, group, alias = create_topic(source), unique_name("g"), unique_name("east")
    produce_transaction(source, topic, [b"aborted"] * 5, commit=False)
    offsets = produce(source, topic, [b"%d" % n for n in range(20)])
    commit_offsets(source, group, {(topic, 0): offsets[7]})
    settings = {
        "mm2.publish": "enabled",
        "mm2.sourceAlias": alias,
        "mm2.targetAlias": "west",
        "mm2.interval": "1 hour",
        "groups.consumerGroups": [group],
    }
    Pipeline(tmp_path, source, target, [topic], settings).catch_up()
    assert f"{topic} 0 7" in translated(target, alias, group)
    other = unique_name("east")
    create_topic(target, f"mm2-offsets.{other}.internal")
    beside = Pipeline(tmp_path, source, target, [topic], {**settings, "mm2.sourceAlias": other})
    run = beside.catch_up()
    assert any(
        "are not written in MirrorMaker 2's format" in note["text"] for note in run.events("note")
    )
    assert not {
        name for name in admin(target).list_topics(timeout=TIMEOUT).topics if name.startswith(other)
    }
