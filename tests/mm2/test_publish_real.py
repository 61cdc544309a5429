"""Our pipeline read by MirrorMaker 2's own Java client."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from k2ktui.mm2 import formats
from k2ktui.runtime import artifacts
from k2ktui.runtime.java import find_java
from k2ktui.runtime.node import KafkaNode
from tests.support.cli import k2ktui
from tests.support.copied import Copied, commit
from tests.support.kafka import Out, create_topic, produce, read_all, unique_name

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
        timeout=120,
        check=False,
    )
    if "compiler" in done.stderr and done.returncode:
        pytest.skip("this Java has no compiler")
    assert done.returncode == 0, done.stderr
    # The client that committed ends its metadata with a NUL.
    return [line.rstrip("\0 ") for line in done.stdout.splitlines()]


def test_remote_cluster_utils(source: KafkaNode, target: KafkaNode, tmp_path: Path) -> None:
    """Exact offsets come out of its translateOffsets; they follow; heartbeats are seen."""
    copied = Copied(tmp_path, source, target)
    topic, alias = create_topic(source, partitions=2), unique_name("east")
    produce(source, topic, [Out(b"%d" % n, b"k", partition=n % 2) for n in range(50)])
    copied.copy(topic)
    group = copied.group("g")
    commit(source, group, {(topic, 0): 11, (topic, 1): 25})
    publish = ("mm2", "publish", "-f", copied.file, "--source-alias", alias)
    publish = (*publish, "--target-alias", "west", "--once")
    k2ktui(*publish)
    lines = translated(target, alias, group)
    assert sorted(lines[:-1]) == [f"{topic} 0 18", f"{topic} 1 32"]
    assert alias in lines[-1]
    commit(source, group, {(topic, 0): 12})
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
