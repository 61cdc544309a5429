"""Checkpoints of a real MirrorMaker 2, committed for groups that move to the target."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.kafka import (
    TIMEOUT,
    Out,
    admin,
    create_topic,
    end_offsets,
    eventually,
    group_consumer,
    produce,
    read_all,
    unique_name,
)
from tests.support.clusters.mirrormaker import MirrorMaker
from tests.support.commands.acting import repeatedly
from tests.support.commands.cli import k2ktui, k2ktui_json
from tests.support.oracle.group_offsets import commit_offsets
from tests.support.pipelines.copied import committed

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

RECORDS = 250
# MirrorMaker 2 replaces a checkpoint by one of a lower source offset, or by one of a higher target
# offset (MirrorCheckpointTask.checkpointIsMoreRecent). A group that moves forward between two
# offset syncs keeps its old checkpoint, so groups of these tests move back, or past a sync.
LAG_MAX = 10
# Seconds in which a client on a busy machine shows that it runs.
WATCH_S = "8"
PAUSE_S = 0.2  # between two acts of such a client


class Moving:
    """A topic of two partitions that MirrorMaker 2 copied, and groups that read some of it."""

    def __init__(self, source: KafkaNode, target: KafkaNode, directory: Path) -> None:
        self.source, self.target = source, target
        self.topic = create_topic(source, unique_name("moving"), 2)
        self.produce(0, 1)
        self.caught, self.lagging = unique_name("caught"), unique_name("lagging")
        self.commit(self.caught, 1, 1)
        self.maker = MirrorMaker(
            source,
            target,
            directory,
            self.topic,
            groups=f"{self.caught}|{self.lagging}",
            properties={"sync.group.offsets.enabled": "false", "offset.lag.max": str(LAG_MAX)},
        )
        self.copy = f"{self.maker.source}.{self.topic}"
        self.args = ("-f", self.maker.file, "--topic", self.topic)

    def produce(self, first: int, end: int) -> None:
        """Produce the records from one offset to another to both partitions."""
        for number in range(2):
            values = [Out(b"%d-%d" % (number, n), partition=number) for n in range(first, end)]
            produce(self.source, self.topic, values)

    def commit(self, group: str, *offsets: int) -> None:
        commit_offsets(self.source, group, {(self.topic, n): at for n, at in enumerate(offsets)})

    def on_target(self, group: str) -> list[int | None]:
        offsets = committed(self.target, group, [(self.copy, 0), (self.copy, 1)])
        return [offsets[self.copy, 0], offsets[self.copy, 1]]


@pytest.fixture(scope="module")
def moving(
    clusters: tuple[KafkaNode, KafkaNode], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Moving]:
    moving = Moving(*clusters, tmp_path_factory.mktemp("moving"))
    with moving.maker:
        checkpoints = f"{moving.maker.source}.checkpoints.internal"

        def translated(count: int) -> bool:
            topics = admin(moving.target).list_topics(timeout=TIMEOUT).topics
            if checkpoints not in topics or moving.copy not in topics:
                return False
            return len({got.key for got in read_all(moving.target, checkpoints)}) >= count

        # Of what was copied before its checkpoint task has started, it knows the last offset only.
        eventually(lambda: translated(2), "the checkpoint task runs", 300)
        moving.produce(1, RECORDS)
        moving.commit(moving.caught, RECORDS, RECORDS)
        moving.commit(moving.lagging, 240, 100)
        eventually(lambda: translated(4), "both groups have checkpoints")
        ends = {0: RECORDS, 1: RECORDS}
        eventually(lambda: end_offsets(moving.target, moving.copy) == ends, "all is copied")
        yield moving


def test_nothing_is_committed_while_producers_run(moving: Moving) -> None:
    more = [Out(b"more", partition=0)]
    with repeatedly(lambda: produce(moving.source, moving.topic, more), PAUSE_S):
        args = (*moving.args, "--watch", WATCH_S, "--yes")
        reply = k2ktui_json("mm2", "apply-checkpoints", *args, code=5)
    assert "producers-stopped" in reply["blocking"]
    assert not reply["applied"]
    assert moving.on_target(moving.lagging) == [None, None]
    # Enough for an offset sync, however few were produced meanwhile.
    produce(moving.source, moving.topic, [Out(b"more", partition=0)] * (2 * LAG_MAX + 2))
    ends = end_offsets(moving.source, moving.topic)
    eventually(lambda: end_offsets(moving.target, moving.copy) == ends, "the rest is copied")
    moving.commit(moving.caught, ends[0], ends[1])


def test_nothing_is_committed_while_consumers_run_on_the_source(moving: Moving) -> None:
    """One that is a member, and one that only commits."""
    consumer = group_consumer(moving.source, moving.lagging, "earliest")
    consumer.subscribe([moving.topic])
    try:
        assert consumer.poll(TIMEOUT) is not None
        args = (*moving.args, "--watch", "0", "--yes")
        reply = k2ktui_json("mm2", "apply-checkpoints", *args, code=5)
    finally:
        consumer.close()
    assert "consumers-stopped" in reply["blocking"] and not reply["applied"]
    assert moving.on_target(moving.lagging) == [None, None]
    # All beyond the offset that the group returns to, in 30 s at least.
    offsets = itertools.cycle(range(101, RECORDS))
    with repeatedly(lambda: moving.commit(moving.lagging, 240, next(offsets)), PAUSE_S):
        args = (*moving.args, "--watch", WATCH_S, "--yes")
        reply = k2ktui_json("mm2", "apply-checkpoints", *args, code=5)
    assert "consumers-stopped" in reply["blocking"] and not reply["applied"]
    moving.commit(moving.lagging, 240, 100)


def test_checkpoints_are_applied_verified_and_undone(moving: Moving) -> None:
    def settled() -> bool:
        args = (*moving.args, "--dry-run", "--watch", "0")
        dry_run = k2ktui("mm2", "apply-checkpoints", *args, code=None)
        return (
            "everything-replicated: every record" in dry_run.stdout
            and "the checkpoint is of" not in dry_run.stdout
        )

    eventually(settled, "positions and checkpoints are up to date")
    refused = k2ktui("mm2", "apply-checkpoints", *moving.args, "--watch", "1", code=5)
    assert "confirmation is required" in refused.stderr
    assert moving.on_target(moving.caught) == [None, None]

    reply = k2ktui_json("mm2", "apply-checkpoints", *moving.args, "--watch", "1", "--yes")
    assert {check["outcome"] for check in reply["checks"]} == {"pass"}
    rows = {(row["group"], row["partition"]): row for row in reply["plan"]["rows"]}
    values = {
        number: [
            got.value for got in read_all(moving.target, moving.copy) if got.partition == number
        ]
        for number in (0, 1)
    }
    for (group, number), row in rows.items():
        # What the plan promises is what a consumer of the target meets.
        expected = 250 if group == moving.caught else (240, 100)[number]
        if group == moving.lagging:
            position = values[number].index(b"%d-%d" % (number, expected))
            assert row["skipped"] == 0
            assert position - row["proposed"] == row["reread"]
            assert row["basis"] == ("exact" if position == row["proposed"] else "bounded")
    assert moving.on_target(moving.lagging) == [
        rows[moving.lagging, 0]["proposed"],
        rows[moving.lagging, 1]["proposed"],
    ]
    k2ktui("undo", reply["result"]["id"], "--yes")
    assert moving.on_target(moving.lagging) == [None, None]
    assert moving.on_target(moving.caught) == [None, None]


def test_what_is_behind_is_reported(moving: Moving) -> None:
    moving.maker.stop()
    produce(moving.source, moving.topic, [Out(b"uncopied", partition=1)])
    reply = k2ktui_json("mm2", "apply-checkpoints", *moving.args, "--watch", "0", "--yes", code=5)
    assert reply["blocking"] == ["everything-replicated"]
    reported = k2ktui("mm2", "apply-checkpoints", *moving.args, "--watch", "0", "--yes", code=5)
    assert "1 source partition with up to 1 record not copied yet" in reported.stdout
    assert "--accept everything-replicated" in reported.stderr
