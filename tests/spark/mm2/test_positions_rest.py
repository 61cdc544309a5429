"""Positions of a real MirrorSourceConnector, changed through a real Connect's REST interface."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from k2ktui.engine.records.state import SourcePartition
from k2ktui.errors import ConfigError, K2kError, Refused
from k2ktui.mm2.flows.connect import Connect, SourceOffset
from k2ktui.mm2.flows.connect_settings import ConnectSettings
from k2ktui.mm2.offsets.positions import SOURCE_CONNECTOR, Connector, plan
from k2ktui.mm2.offsets.positions_rest import RestPositions
from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.kafka import (
    TIMEOUT,
    Out,
    create_topic,
    end_offsets,
    eventually,
    produce,
    read_all,
    unique_name,
)
from tests.support.clusters.mirrormaker import ConnectWorker
from tests.support.commands.cli import k2ktui, k2ktui_json
from tests.support.pipelines.pipeline import Pipeline

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def worker(
    clusters: tuple[KafkaNode, KafkaNode], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ConnectWorker]:
    with ConnectWorker(clusters[1], tmp_path_factory.mktemp("connect")) as worker:
        yield worker


def _config(alias: str, source: KafkaNode, target: KafkaNode, topic: str) -> dict[str, str]:
    return {
        "connector.class": SOURCE_CONNECTOR,
        "source.cluster.alias": alias,
        "target.cluster.alias": unique_name("dst"),
        "source.cluster.bootstrap.servers": source.bootstrap,
        "target.cluster.bootstrap.servers": target.bootstrap,
        "topics": topic,
        "replication.factor": "1",
        "offset-syncs.topic.replication.factor": "1",
        "sync.topic.acls.enabled": "false",
    }


class Mirror:
    """A topic of 30 records in three partitions, copied by a connector of its own."""

    def __init__(self, worker: ConnectWorker, source: KafkaNode, target: KafkaNode) -> None:
        self.topic = create_topic(source, unique_name("moved"), 3)
        for number in range(3):
            produce(source, self.topic, [Out(b"%d" % n, partition=number) for n in range(10)])
        self.alias = alias = unique_name("src")
        self.name, self.source, self.target = f"{alias}-Source", source, target
        self.copy = f"{alias}.{self.topic}"
        worker.create(self.name, _config(alias, source, target, self.topic))
        self.connect = Connect(ConnectSettings(url=worker.url, timeout_s=TIMEOUT))
        self.args = ("--connect", worker.url, "--connector", self.name)
        self.await_copied({0: 10, 1: 10, 2: 10})
        eventually(lambda: self.positions() == {0: 10, 1: 10, 2: 10}, "positions are stored")

    def await_copied(self, ends: dict[int, int]) -> None:
        eventually(lambda: end_offsets(self.target, self.copy) == ends, f"{self.copy} is copied")

    def read(self) -> Connector:
        return RestPositions(self.connect, self.name).read()

    def positions(self) -> dict[int, int]:
        at_source = self.read().positions  # heartbeats that are on the source are copied, too
        return {s.partition: at for s, at in at_source.items() if s.topic == self.topic}

    def values(self, partition: int) -> list[int]:
        copies = read_all(self.target, self.copy)
        return [int(got.value or b"") for got in copies if got.partition == partition]

    def at(self, partition: int) -> SourcePartition:
        return SourcePartition(self.topic, partition)


@pytest.fixture(scope="module")
def mirror(worker: ConnectWorker, clusters: tuple[KafkaNode, KafkaNode]) -> Mirror:
    return Mirror(worker, *clusters)


def test_show_set_clear_and_back(mirror: Mirror) -> None:
    shown = k2ktui_json("mm2", "offsets", "show", *mirror.args)
    assert shown["state"] == "RUNNING" and shown["auto_offset_reset"] == "earliest"
    own = [p for p in shown["partitions"] if p["topic"] == mirror.topic]
    assert [(p["position"], p["high_watermark"]) for p in own] == [(10, 10)] * 3

    topic = mirror.topic
    k2ktui("mm2", "offsets", "set", *mirror.args, f"{topic}:0:4", code=5)
    assert mirror.positions() == {0: 10, 1: 10, 2: 10}
    wanted = (f"{topic}:0:4", f"{topic}:1:7")
    dry = k2ktui_json("mm2", "offsets", "set", *mirror.args, *wanted, "--dry-run")
    assert [(m["effect"], m["again"]) for m in dry["moves"]] == [("back", 6), ("back", 3)]
    assert not dry["applied"] and mirror.positions() == {0: 10, 1: 10, 2: 10}
    done = k2ktui_json("mm2", "offsets", "set", *mirror.args, *wanted, "--yes")
    assert done["applied"] and done["state"] == "RUNNING"
    mirror.await_copied({0: 16, 1: 13, 2: 10})
    assert mirror.values(0) == [*range(10), *range(4, 10)]
    eventually(lambda: mirror.positions() == {0: 10, 1: 10, 2: 10}, "positions are stored")

    k2ktui_json("mm2", "offsets", "clear", *mirror.args, f"{topic}:2", "--yes")
    mirror.await_copied({0: 16, 1: 13, 2: 20})
    assert mirror.values(2) == [*range(10), *range(10)]

    before = json.loads(Path(done["before"]).read_text())
    assert before["offsets"][0]["offset"] == {"offset": 9}


def test_a_stopped_connector_stays_stopped_and_skips_what_is_skipped(mirror: Mirror) -> None:
    mirror.connect.stop(mirror.name)
    mirror.connect.await_stopped(mirror.name)
    before = end_offsets(mirror.target, mirror.copy)
    produce(mirror.source, mirror.topic, [Out(b"%d" % n, partition=1) for n in (10, 11, 12)])
    done = k2ktui_json("mm2", "offsets", "set", *mirror.args, f"{mirror.topic}:1:12", "--yes")
    assert done["state"] == "STOPPED" and done["moves"][0]["left_out"] == 2
    assert mirror.positions()[1] == 12
    mirror.connect.resume(mirror.name)
    mirror.await_copied(before | {1: before[1] + 1})
    assert mirror.values(1)[-1] == 12


def test_what_cannot_be_is_refused_and_nothing_changes(mirror: Mirror) -> None:
    beyond = k2ktui("mm2", "offsets", "set", *mirror.args, f"{mirror.topic}:0:99", code=5)
    assert "beyond the high watermark, 10" in beyond.stderr
    missing = k2ktui("mm2", "offsets", "set", *mirror.args, f"{mirror.topic}:7:1", code=5)
    assert "the source has no such partition" in missing.stderr
    unknown = (*mirror.args[:3], "missing")
    assert "has no connector missing" in k2ktui("mm2", "offsets", "show", *unknown, code=2).stderr
    assert mirror.positions()[0] == 10


def test_connect_itself_refuses_while_it_runs(mirror: Mirror) -> None:
    with pytest.raises(Refused, match="STOPPED") as reported:
        offset = SourceOffset({"cluster": "x", "partition": 0, "topic": "t"}, {"offset": 1})
        mirror.connect.alter_offsets(mirror.name, [offset])
    assert reported.value.unchanged == "No offset was changed."


class Failing(Connect):
    """A Connect whose first change of offsets is cut short, after the fact."""

    has_failed = False

    def alter_offsets(self, connector: str, offsets: Sequence[SourceOffset]) -> str:
        message = super().alter_offsets(connector, offsets)
        if self.has_failed:
            return message
        self.has_failed = True
        raise K2kError("the connection broke")


def test_what_was_there_is_put_back_when_a_step_fails(
    mirror: Mirror, worker: ConnectWorker
) -> None:
    eventually(lambda: mirror.connect.state(mirror.name).state == "RUNNING", "it runs")
    before = end_offsets(mirror.target, mirror.copy)
    positions = end_offsets(mirror.source, mirror.topic)
    eventually(lambda: mirror.positions() == positions, "positions are stored")
    change = plan(mirror.read(), {mirror.at(0): 1, mirror.at(2): None}, None)
    with pytest.raises(K2kError, match="the connection broke"):
        failing = Failing(ConnectSettings(url=worker.url, timeout_s=TIMEOUT))
        RestPositions(failing, mirror.name).apply(change, lambda _: None)
    eventually(lambda: worker.runs(mirror.name), "it runs again")
    assert mirror.positions() == positions
    produce(mirror.source, mirror.topic, [Out(b"13", partition=0)])
    mirror.await_copied(before | {0: before[0] + 1})


def test_overtaken_moves_are_refused_and_the_connector_continues(
    mirror: Mirror, worker: ConnectWorker
) -> None:
    now = mirror.read()
    stale = Connector(now.name, now.cluster, now.state, now.reset, {mirror.at(2): 3})
    change = plan(stale, {mirror.at(2): 5}, None)
    with pytest.raises(Refused, match="its position is 10 now"):
        RestPositions(mirror.connect, mirror.name).apply(change, lambda _: None)
    eventually(lambda: worker.runs(mirror.name), "it runs again")


def test_a_stopped_connector_is_taken_over_from(mirror: Mirror, tmp_path: Path) -> None:
    made = {"source.topic": mirror.topic, "sink.topic": {"prefix": f"{mirror.alias}."}}
    settings = {f"replication.{key}": value for key, value in made.items()}
    pipeline = Pipeline(tmp_path, mirror.source, mirror.target, mirror.topic, settings)
    args = ("-f", pipeline.write(), *mirror.args)
    assert "is RUNNING with 1 tasks" in k2ktui("mm2", "takeover", *args, "--yes", code=5).stderr
    mirror.connect.stop(mirror.name)
    mirror.connect.await_stopped(mirror.name)
    rows = {
        row["partition"]: row
        for row in k2ktui_json("mm2", "takeover", *args, "--yes")["partitions"]
    }
    ends = end_offsets(mirror.source, mirror.topic)
    assert {number: row["position"] for number, row in rows.items()} == ends
    assert not any(row["doubt"] or row["missing"] for row in rows.values() if row["partition"] != 1)
    assert rows[1]["missing"] == 2  # they were skipped on purpose
    shown = k2ktui_json("offsets", "show", "-f", args[1])["partitions"]
    assert {row["partition"]: row["position"] for row in shown} == ends
    mirror.connect.resume(mirror.name)
    mirror.connect.await_running(mirror.name)


def test_the_only_connector_is_found(worker: ConnectWorker, mirror: Mirror) -> None:
    assert RestPositions(mirror.connect).read().name == mirror.name
    other = f"{mirror.name}-2"
    worker.create(other, _config(unique_name("src"), mirror.source, mirror.target, mirror.topic))
    with pytest.raises(ConfigError, match="has 2 MirrorSourceConnectors"):
        RestPositions(mirror.connect)


def test_a_checkpoint_connector_has_no_positions(worker: ConnectWorker, mirror: Mirror) -> None:
    name = f"{mirror.name}-Checkpoint"
    kind = SOURCE_CONNECTOR.replace("Source", "Checkpoint")
    config = {**mirror.connect.config(mirror.name), "name": name, "connector.class": kind}
    worker.ask("PUT", f"/connectors/{name}/config", config)
    wrong = (*mirror.args[:3], name)
    assert "it has no source positions" in k2ktui("mm2", "offsets", "show", *wrong, code=5).stderr
