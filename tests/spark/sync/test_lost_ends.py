"""The end of a target's log is lost, or a group has committed past the end of the source's."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer

from k2ktui.engine.mapping.translate import Basis
from k2ktui.engine.moves.groups import make_group_rows
from k2ktui.kafka.properties.translation import load_checked
from k2ktui.mm2.publish import checkpoints_of, syncs_of
from k2ktui.runtime.node import KafkaNode
from k2ktui.sync.flow import Flow
from k2ktui.sync.moves.snapshot import SnapshotReader
from tests.support.clusters.kafka import Out, client, create_topic, eventually, produce, read_all
from tests.support.commands.cli import k2ktui, k2ktui_json
from tests.support.drill.checks import FAIL, Drilled
from tests.support.oracle.group_offsets import commit_offsets
from tests.support.pipelines.copied import Copied
from tests.support.pipelines.pipeline import Pipeline
from tests.support.records.traffic import Traffic

pytestmark = pytest.mark.slow

NOWHERE = {"source": {"kafka": {"common": {"bootstrap.servers": "localhost:1"}}}}


@pytest.fixture
def copied(source: KafkaNode, target: KafkaNode, tmp_path: Path) -> Copied:
    return Copied(tmp_path, source, target, prior=0)


def _topic(node: KafkaNode, records: int) -> str:
    name = create_topic(node)
    produce(node, name, [Out(b"%d" % n) for n in range(records)])
    return name


def test_nothing_is_exact_beyond_the_targets_end(
    copied: Copied, source: KafkaNode, target: KafkaNode
) -> None:
    """1,000 records were copied; of the target's log, the first 20 are left."""
    topic = _topic(source, 1000)
    copied.copy(topic, list(read_all(source, topic))[:20])
    copied.record(topic, 0, {n: n for n in range(1000)}, 1000, 0)
    offsets = {"a": 10, "b": 500, "c": 1000}
    for stem, offset in offsets.items():
        commit_offsets(source, copied.group(stem), {(topic, 0): offset})
    commit_offsets(target, copied.group("b"), {(topic, 0): 500})

    def rows(listed: list[dict[str, object]]) -> dict[object, dict[str, object]]:
        return {str(row["group"]).removeprefix(f"{copied.name}-"): row for row in listed}

    groups = rows(k2ktui_json("groups", "-f", copied.file, code=None)["groups"])
    assert {name: row["basis"] for name, row in groups.items()} == {
        "a": "exact",
        "b": "unmapped",
        "c": "unmapped",
    }
    assert "the target has lost: its log ended at 20" in str(groups["b"]["reason"])
    assert "the target's log ends at 20, before its committed offset there" in str(
        groups["b"]["reason"]
    )
    assert (groups["a"]["translated_offset"], groups["a"]["skipped"]) == (10, 980)
    for offset in (20, 500, 1000):
        (row,) = k2ktui_json("translate", "-f", copied.file, f"{topic}:0:{offset}", code=None)[
            "positions"
        ]
        assert (row["translated_offset"], row["basis"]) == (None, "unmapped")
    planned = rows(k2ktui_json("plan", "-f", copied.file, code=None)["rows"])
    assert {name: row["action"] for name, row in planned.items()} == {
        "a": "create",
        "b": "skip",
        "c": "skip",
    }
    aliases = ("--source-alias", copied.name, "--target-alias", "there")
    k2ktui("mm2", "publish", "-f", copied.file, *aliases, "--once")
    # Group a skips records that are lost; the last copied record is one of them.
    assert not list(read_all(target, f"{copied.name}.checkpoints.internal"))


def test_d14_counts_what_the_target_has_lost(
    source: KafkaNode, target: KafkaNode, tmp_path: Path
) -> None:
    drilled = Drilled(tmp_path, source, target, partitions=1, records=30)
    drilled.copied.record(drilled.topic, 0, {n: n + 1000 for n in range(30)}, 30, 0)
    drilled.commit("a", 5)
    result = drilled.check("D14")
    assert result.outcome is FAIL
    assert "1 unmapped" in result.evidence and "the target has lost" in result.evidence


def test_a_group_past_the_sources_end_is_not_safe_to_move(
    copied: Copied, source: KafkaNode, target: KafkaNode
) -> None:
    """10 records are left on the source, and the group committed 100 when there were more."""
    topic = _topic(source, 10)
    copied.copy(topic)
    group, ahead = copied.group("past"), copied.group("ahead")
    commit_offsets(source, group, {(topic, 0): 100})
    produce(source, topic, [b"not copied yet"] * 5)
    commit_offsets(source, ahead, {(topic, 0): 15})

    def check(file: Path, action: str) -> None:
        groups = k2ktui_json("groups", "-f", file, code=None)["groups"]
        bases = {row["group"]: row["basis"] for row in groups}
        assert bases == {group: "unmapped", ahead: "ahead"}
        (row,) = (row for row in groups if row["group"] == group)
        assert "past the source's end (15)" in row["reason"]
        rows = k2ktui_json("plan", "-f", file, code=None)["rows"]
        assert {row["group"]: row["action"] for row in rows} == {group: "skip", ahead: action}

    check(copied.file, "create")
    k2ktui("sync", "-f", copied.file, "--once", code=None)
    # The source is lost: what was seen of it last is enough to know.
    copied.settings = NOWHERE
    check(copied.file, "keep")


@contextmanager
def consuming(node: KafkaNode, group: str, topic: str, isolation: str) -> Iterator[None]:
    """Read and commit without a pause."""
    over = threading.Event()
    consumer = Consumer(
        client(
            node,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            isolation_level=isolation,
            fetch_wait_max_ms=10,
        )
    )
    consumer.subscribe([topic])

    def run() -> None:
        while not over.is_set():
            if consumer.consume(200, 0.02):
                consumer.commit(asynchronous=False)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        consumer.close()


def test_a_busy_pipeline_raises_no_false_alarm(
    source: KafkaNode, target: KafkaNode, tmp_path: Path
) -> None:
    """Groups read what was written a moment ago, on the source above the last stable offset."""
    topic = create_topic(source, partitions=3)
    settings = {"groups.consumerGroups": f"{topic}-.*"}
    pipeline = Pipeline(tmp_path, source, target, [topic], settings)
    groups = {"uncommitted": "read_uncommitted", "committed": "read_committed"}
    bases, readings = set(), 0
    with Traffic(source, {topic: 3}, 1, pause=0.01):
        run = pipeline.start()
        run.expect("progress")
        snapshots = SnapshotReader(Flow(load_checked((str(pipeline.write()),)).config))
        try:
            with (
                consuming(source, f"{topic}-uncommitted", topic, groups["uncommitted"]),
                consuming(source, f"{topic}-committed", topic, groups["committed"]),
                consuming(target, f"{topic}-committed", topic, groups["committed"]),
            ):
                eventually(lambda: len(make_group_rows(snapshots.take())) == 6, "all commit")
                until = time.monotonic() + 10
                while time.monotonic() < until or readings <= 20 or Basis.AHEAD not in bases:
                    snapshot = snapshots.take()
                    rows = make_group_rows(snapshot)
                    bases |= {row.basis for row in rows}
                    readings += 1
                    assert not [row for row in rows if row.basis is Basis.UNMAPPED or row.skipped]
                    assert not [row.reason for row in rows if "log ends" in row.reason]
                    assert checkpoints_of(snapshot)[1] == 0
                    assert len(syncs_of(snapshot.replicas, snapshot.logs)) == 3
        finally:
            snapshots.close()
        assert run.stop() == 0
