"""What is said of groups on real clusters: of those that continue, and of records that are gone."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from confluent_kafka import Consumer, TopicPartition

from k2ktui.engine.moves.groups import make_group_rows
from k2ktui.sync.flow import Flow
from k2ktui.sync.moves.snapshot import SnapshotReader
from tests.support.clusters.kafka import (
    Out,
    client,
    create_topic,
    delete_before,
    eventually,
    produce,
)
from tests.support.commands.cli import k2ktui, k2ktui_json
from tests.support.oracle.group_offsets import commit_offsets
from tests.support.pipelines.copied import Copied

RECORDS, PACE = 20_000, 7


def topic_of(copied: Copied, records: int) -> tuple[str, Mapping[int, int]]:
    """Make a topic and its copy; return where each record landed."""
    topic = create_topic(copied.source)
    produce(copied.source, topic, [Out(b"%d" % n) for n in range(records)])
    return topic, copied.copy(topic)[topic, 0]


@contextmanager
def continuing(
    copied: Copied, group: str, topic: str, landed: Mapping[int, int]
) -> Iterator[threading.Event]:
    """Commit on both clusters without a pause, on the source always first."""
    over, begun = threading.Event(), threading.Event()
    nodes = copied.source, copied.target
    sides = [Consumer(client(n, group_id=group, enable_auto_commit=False)) for n in nodes]

    def run() -> None:
        for offset in range(PACE, RECORDS, PACE):
            for side, at in zip(sides, (offset, landed[offset]), strict=True):
                side.commit(offsets=[TopicPartition(topic, 0, at)], asynchronous=False)
            begun.set()
            if over.is_set():
                return

    for node in nodes:  # its coordinator is there
        commit_offsets(node, group, {(topic, 0): 0})
    thread = threading.Thread(target=run)
    thread.start()
    try:
        eventually(begun.is_set, "it continues")
        yield over
    finally:
        over.set()
        thread.join()
        for side in sides:
            side.close()


def test_a_group_that_continues_on_both_clusters_is_no_alarm(copied: Copied) -> None:
    topic, landed = topic_of(copied, RECORDS)
    group, divergences = copied.group("g"), []
    snapshots = SnapshotReader(Flow(copied.config))
    try:
        with continuing(copied, group, topic, landed):
            for _ in range(6):
                (row,) = make_group_rows(snapshots.take())
                divergences.append(row.divergence)
    finally:
        snapshots.close()
    # At any moment the target is where the source is, or one commit behind.
    assert [
        divergence
        for divergence in divergences
        if divergence is None or not -PACE <= divergence <= 0
    ] == []


def test_what_the_target_has_deleted_is_skipped_now_and_after_a_move(copied: Copied) -> None:
    topic, landed = topic_of(copied, 50)
    group, late = copied.group("g"), copied.group("late")
    commit_offsets(copied.source, group, {(topic, 0): 10})
    commit_offsets(copied.target, group, {(topic, 0): landed[35]})
    commit_offsets(copied.source, late, {(topic, 0): 10})
    delete_before(copied.target, topic, landed[30])
    row, other = k2ktui_json("groups", "-f", copied.file)["groups"]
    plan = {row["group"]: row for row in k2ktui_json("plan", "-f", copied.file)["rows"]}
    assert [row["skipped"], other["skipped"]] == [20, 20]
    assert [plan[name]["skipped"] for name in (group, late)] == [20, 20]
    assert (row["divergence"], row["skipped_now"], row["reread_now"]) == (5, 25, 0)
    assert (other["divergence"], other["skipped_now"]) == (None, None)
    text = k2ktui("groups", "-f", copied.file).stdout
    assert "as committed now 25 records skipped, 0 re-read; after a move 40 records skipped" in text


def test_watch_looks_twice_before_it_says_that_a_group_skips(copied: Copied) -> None:
    topic, landed = topic_of(copied, 50)
    sink = {"sink": {"topic": "source", "partition": "source"}}
    copied.settings = {"replication": [{"source": {"topic": [topic]}}, sink]}
    group = copied.group("g")
    commit_offsets(copied.source, group, {(topic, 0): 10})
    commit_offsets(copied.target, group, {(topic, 0): landed[15]})
    said = k2ktui("watch", "-f", copied.file, "--once", code=1).stdout
    assert f"problem (bad) group {group}: on the target it would skip 5 records" in said
