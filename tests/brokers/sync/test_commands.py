"""translate, verify and sync as a user calls them; a dead source."""

from __future__ import annotations

import pytest

from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.kafka import Out, create_topic, eventually, produce, read_all
from tests.support.commands.cli import k2ktui, k2ktui_json
from tests.support.oracle.group_offsets import commit_offsets
from tests.support.pipelines.copied import Copied, committed

pytestmark = pytest.mark.slow


@pytest.fixture
def topic(source: KafkaNode) -> str:
    name = create_topic(source)
    produce(source, name, [Out(b"%d" % n, b"k") for n in range(50)])
    return name


def test_translate(copied: Copied, topic: str) -> None:
    copied.copy(topic)
    (row,) = k2ktui_json("translate", "-f", copied.file, f"{topic}:0:11")["positions"]
    assert (row["translated_offset"], row["basis"]) == (18, "exact")
    k2ktui("translate", "-f", copied.file, "other:0:1", code=1)
    k2ktui("translate", "-f", copied.file, "nonsense", code=2)
    checkpoint = copied.directory / "3"
    checkpoint.write_text(f'v1\n{{}}\n{{"{topic}":{{"0":11}}}}\n')
    done = k2ktui("translate", "-f", copied.file, "--from-spark-checkpoint", checkpoint)
    assert done.stdout == f'v1\n{{}}\n{{"{topic}":{{"0":18}}}}\n'


def test_sync_follows_and_verify_proves(
    copied: Copied, topic: str, source: KafkaNode, target: KafkaNode
) -> None:
    copied.copy(topic)
    group = copied.group("g")
    for offset in (5, 20):
        commit_offsets(source, group, {(topic, 0): offset})
        turn = k2ktui_json("sync", "-f", copied.file, "--once")
        assert turn["applied"] and not turn["failed"]
        assert committed(target, group, [(topic, 0)]) == {(topic, 0): offset + 7}
    reported = k2ktui_json("verify", "-f", copied.file)
    assert (reported["positions"]["same"], reported["records"]["same"]) == (1, 50)
    # A rewind on the source is followed when that is wanted, and only then.
    commit_offsets(source, group, {(topic, 0): 2})
    k2ktui("sync", "-f", copied.file, "--once")
    assert committed(target, group, [(topic, 0)]) == {(topic, 0): 27}
    k2ktui("sync", "-f", copied.file, "--once", "--rewind", "follow")
    assert committed(target, group, [(topic, 0)]) == {(topic, 0): 9}
    # What the application committed on the target itself is not undone.
    commit_offsets(target, group, {(topic, 0): 40})
    k2ktui("sync", "-f", copied.file, "--once", "--rewind", "follow")
    assert committed(target, group, [(topic, 0)]) == {(topic, 0): 40}
    assert k2ktui_json("verify", "-f", copied.file, code=1)["positions"]["different"] == 1


def test_a_plan_without_any_group_is_a_finding(
    copied: Copied, topic: str, source: KafkaNode
) -> None:
    copied.copy(topic)
    planned = k2ktui("plan", "-f", copied.file, code=1)
    assert f"no group of source cluster {source.cluster_id} has committed" in planned.stderr


def test_the_source_is_gone(
    copied: Copied, topic: str, source: KafkaNode, target: KafkaNode
) -> None:
    landed = copied.copy(topic)[topic, 0]
    group = copied.group("g")
    commit_offsets(source, group, {(topic, 0): 30})
    k2ktui("sync", "-f", copied.file, "--once")
    commit_offsets(target, group, {(topic, 0): 8})  # as if it had never been moved
    source.kill()
    try:
        reported = k2ktui_json("groups", "-f", copied.file)
        (row,) = reported["groups"]
        assert reported["source_down"]
        assert reported["commits_at"] < reported["taken_at"]
        assert (row["translated_offset"], row["basis"]) == (landed[30], "exact")
        plan = copied.directory / "plan.json"
        reported = k2ktui("plan", "-f", copied.file, "-o", plan)
        assert (
            "the source did not answer: its commits are of 20" in reported.stdout + reported.stderr
        )
        reported = k2ktui("apply", plan, "--yes")
        assert (
            "the source did not answer: its commits are of 20" in reported.stdout + reported.stderr
        )
    finally:
        source.restart()
    at = committed(target, group, [(topic, 0)])[topic, 0]
    unread = [got.value for got in read_all(target, topic) if at is not None and got.offset >= at]
    assert unread == [b"%d" % n for n in range(30, 50)]
    eventually(lambda: source.running, "the source is back")


def test_watch_shows_the_same_numbers(copied: Copied, topic: str, source: KafkaNode) -> None:
    # Topics of other tests would be problems that come first.
    sink = {"sink": {"topic": "source", "partition": "source"}}
    copied.settings = {"replication": [{"source": {"topic": [topic]}}, sink]}
    copied.copy(topic)
    group = copied.group("g")
    commit_offsets(source, group, {(topic, 0): 5})
    text = k2ktui("watch", "-f", copied.file, "--once").stdout
    assert "groups 1: 1 exact" in text
