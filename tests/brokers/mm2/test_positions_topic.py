"""Positions of a real dedicated MirrorMaker 2, which has no REST interface."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from k2ktui.engine.records.state import SourcePartition
from k2ktui.errors import Refused
from k2ktui.mm2.flows.settings import load_settings
from k2ktui.mm2.offsets.positions import plan
from k2ktui.mm2.offsets.positions_topic import TopicPositions
from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.kafka import (
    TIMEOUT,
    Got,
    Out,
    create_topic,
    end_offsets,
    eventually,
    produce,
    read_all,
    unique_name,
)
from tests.support.clusters.mirrormaker import MirrorMaker
from tests.support.commands.cli import k2ktui, k2ktui_json

pytestmark = pytest.mark.slow

ENDS = {0: 10, 1: 10, 2: 10}
# Several, so that a record in the wrong one would not be found.
STORAGE = {"{target}.offset.storage.partitions": "5", "offset.storage.partitions": "5"}
# One that was killed counts as running for so long; with the default of 10 s, a command on a busy
# machine may come too late to see it.
SESSION = {"{target}.session.timeout.ms": "30000", "session.timeout.ms": "30000"}


class Mirror:
    """A topic of 30 records in three partitions, copied by a MirrorMaker 2 of its own."""

    def __init__(self, source: KafkaNode, target: KafkaNode, directory: Path) -> None:
        self.topic = create_topic(source, unique_name("moved"), 3)
        for number in range(3):
            produce(source, self.topic, [Out(b"%d" % n, partition=number) for n in range(10)])
        self.maker = MirrorMaker(
            source, target, directory, self.topic, properties={**STORAGE, **SESSION}
        )
        self.target = target
        self.copy = f"{self.maker.source}.{self.topic}"
        self.known = TopicPositions(load_settings(self.maker.file).flow())
        self.args = ("-f", self.maker.file)

    def await_copied(self, ends: dict[int, int]) -> None:
        eventually(lambda: end_offsets(self.target, self.copy) == ends, f"{self.copy} is copied")

    def await_stored(self) -> None:
        eventually(lambda: self.positions() == ENDS, "positions are stored")

    def positions(self) -> dict[int, int]:
        positions = self.known.positions()
        return {s.partition: at for s, at in positions.items() if s.topic == self.topic}

    def stored(self) -> dict[bytes, Got]:
        records = read_all(self.target, f"mm2-offsets.{self.maker.source}.internal")
        return {got.key or b"": got for got in records if self.topic.encode() in (got.key or b"")}

    def values(self, partition: int) -> list[int]:
        copies = read_all(self.target, self.copy)
        return [int(got.value or b"") for got in copies if got.partition == partition]


@pytest.fixture(scope="module")
def mirror(
    clusters: tuple[KafkaNode, KafkaNode], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Mirror]:
    mirror = Mirror(*clusters, tmp_path_factory.mktemp("mirror"))
    with mirror.maker:
        eventually(lambda: mirror.copy in _topics(mirror.target), "it copies", 200)
        mirror.await_copied(ENDS)
        eventually(lambda: mirror.maker.log() and mirror.stored(), "positions are stored")
        mirror.await_stored()
        yield mirror


def _topics(node: KafkaNode) -> set[str]:
    from tests.support.clusters.kafka import admin

    return set(admin(node).list_topics(timeout=TIMEOUT).topics)


def test_it_is_refused_while_it_runs(mirror: Mirror) -> None:
    shown = k2ktui_json("mm2", "offsets", "show", *mirror.args)
    assert shown["state"] == "RUNNING"
    assert {
        p["partition"]: p["position"] for p in shown["partitions"] if p["topic"] == mirror.topic
    } == ENDS
    wanted = (*mirror.args, f"{mirror.topic}:0:4", "--yes")
    refused = k2ktui("mm2", "offsets", "set", *wanted, code=5)
    assert f"its workers' group {mirror.maker.source}-mm2 is Stable" in refused.stderr
    assert "Stop every process" in refused.stderr
    assert mirror.positions() == ENDS


def test_one_that_was_killed_counts_as_running_for_a_while(mirror: Mirror) -> None:
    mirror.maker.kill()
    change = plan(mirror.known.read(), {SourcePartition(mirror.topic, 0): 4}, None)
    with pytest.raises(Refused, match="still copies") as reported:
        mirror.known.apply(change, lambda _: None)
    assert reported.value.unchanged == "No offset was changed."


def test_what_is_written_is_what_it_reads_at_its_next_start(mirror: Mirror) -> None:
    eventually(lambda: mirror.known.read().state == "STOPPED", "its session has ended")
    before = mirror.stored()
    wanted = (f"{mirror.topic}:0:4", f"{mirror.topic}:1:9")
    done = k2ktui_json("mm2", "offsets", "set", *mirror.args, *wanted, "--yes")
    assert [(m["effect"], m["again"]) for m in done["moves"]] == [("back", 6), ("back", 1)]
    k2ktui_json("mm2", "offsets", "clear", *mirror.args, f"{mirror.topic}:2", "--yes")
    after = mirror.stored()
    assert after.keys() == before.keys()
    for key, got in after.items():
        assert got.partition == before[key].partition
    assert sorted((got.value or b"", key) for key, got in after.items())[0][0] == b""
    assert {got.value for got in after.values()} == {b'{"offset":3}', b'{"offset":8}', None}
    mirror.maker.start()
    mirror.await_copied({0: 16, 1: 11, 2: 20})
    assert mirror.values(0) == [*range(10), *range(4, 10)]
    assert mirror.values(1) == [*range(10), 9]
    mirror.await_stored()


def test_what_was_there_can_be_put_back(mirror: Mirror) -> None:
    mirror.maker.stop()
    eventually(lambda: mirror.known.read().state == "STOPPED", "its workers have left")
    done = k2ktui_json("mm2", "offsets", "set", *mirror.args, f"{mirror.topic}:0:2", "--yes")
    assert mirror.positions() == ENDS | {0: 2}
    journal = k2ktui_json("journal", *mirror.args)["journal"]
    assert journal[0]["operation"] == "mm2 offsets" and journal[0]["counts"] == {"back": 1}
    k2ktui_json("mm2", "offsets", "set", *mirror.args, "--from", done["before"], "--yes")
    assert mirror.positions() == ENDS
