"""Where a MirrorMaker 2 has come to, judged by what it left: every kind of end that it can have.

What it leaves is written by hand here, byte for byte; a real one is in ``test_takeover``.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from k2ktui.engine.records.state import SourcePartition
from k2ktui.mm2.flows.formats import (
    SOURCE_CONNECTOR,
    ConnectorPartition,
    OffsetSync,
    connect_offset_key,
    connect_offset_value,
    offset_sync_key,
    offset_sync_value,
)
from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.kafka import (
    TIMEOUT,
    Out,
    create_topic,
    delete_before,
    open_transaction,
    produce,
    produce_transaction,
    unique_name,
)
from tests.support.clusters.mirrormaker import MirrorMaker
from tests.support.commands import verbs
from tests.support.commands.cli import k2ktui, k2ktui_json

# Recent, or retention deletes the records.
BASE = int(time.time() * 1000) - 60_000


class Left:
    """A MirrorMaker 2 that has ended, and what it left for each topic."""

    def __init__(self, source: KafkaNode, target: KafkaNode, directory: Path) -> None:
        self.source, self.target = source, target
        self.stem = unique_name("left")
        self.maker = MirrorMaker(source, target, directory, f"{self.stem}-.*")
        self.alias = self.maker.source
        self.offsets = create_topic(target, f"mm2-offsets.{self.alias}.internal", 2)
        self.syncs = create_topic(source, f"mm2-offset-syncs.{self.maker.target}.internal")
        self.pipeline = directory / "pipeline.yaml"
        k2ktui("mm2", "import", self.maker.file, "-o", self.pipeline)

    def topic(self, kind: str, count: int = 20) -> str:
        name = create_topic(self.source, f"{self.stem}-{kind}")
        produce(self.source, name, [Out(b"%d" % n, timestamp=BASE + n) for n in range(count)])
        return name

    def copied(self, topic: str, *values: int | bytes, stamped: bool = False) -> None:
        copy = f"{self.alias}.{topic}"
        kind = {"message.timestamp.type": "LogAppendTime"} if stamped else {}
        create_topic(self.target, copy, config=kind)
        outs = [
            Out(v) if isinstance(v, bytes) else Out(b"%d" % v, timestamp=BASE + v) for v in values
        ]
        produce(self.target, copy, outs)

    def stored(self, topic: str, last: int) -> None:
        at = ConnectorPartition(SOURCE_CONNECTOR, self.alias, SourcePartition(topic, 0))
        out = Out(connect_offset_value(last), connect_offset_key(at), None)
        produce(self.target, self.offsets, [out], partitioner="murmur2_random")

    def reported(self, topic: str, upstream: int, downstream: int) -> None:
        sync = OffsetSync(SourcePartition(topic, 0), upstream, downstream)
        produce(
            self.source, self.syncs, [Out(offset_sync_value(sync), offset_sync_key(sync.source))]
        )

    def notes(self) -> list[str]:
        files = ("-f", self.pipeline, "--from", self.maker.file)
        notes: list[str] = k2ktui_json("mm2", "takeover", *files, "--dry-run", code=5)["notes"]
        return notes

    def plan(self, *options: str, code: int = 0) -> dict[str, dict[str, Any]]:
        files = ("-f", self.pipeline, "--from", self.maker.file)
        reply = k2ktui_json("mm2", "takeover", *files, *options, code=code)
        return {row["topic"].removeprefix(f"{self.stem}-"): row for row in reply["partitions"]}


@pytest.mark.slow
def test_every_end_that_it_can_have(source: KafkaNode, target: KafkaNode, tmp_path: Path) -> None:
    left = Left(source, target, tmp_path)

    plain = left.topic("plain")
    left.copied(plain, *range(15))
    left.stored(plain, 14)

    behind = left.topic("behind")  # killed before it stored what it had copied
    left.copied(behind, *range(15))
    left.stored(behind, 4)

    stamped = left.topic("stamped")  # its broker replaces the times
    left.copied(stamped, *range(15), stamped=True)
    left.stored(stamped, 14)

    exactly = left.topic("exactly")  # exactly once: transactions, one of which was cut short
    copied = create_topic(target, f"{left.alias}.{exactly}")
    for numbers, commit in ((range(8), True), (range(8, 12), False), (range(8, 15), True)):
        outs = [Out(b"%d" % n, timestamp=BASE + n) for n in numbers]
        produce_transaction(target, copied, outs, commit=commit)
    left.stored(exactly, 14)

    twice = left.topic("twice")  # killed, started, killed again
    left.copied(twice, *range(12), *range(5, 8))
    left.stored(twice, 4)

    unstored = left.topic("unstored")  # killed before it stored anything
    left.copied(unstored, *range(3))

    new = left.topic("new")  # its topic was made, nothing was copied
    left.copied(new)

    filtered = left.topic("filtered")
    left.copied(filtered, *range(0, 20, 2))
    left.stored(filtered, 19)

    foreign = left.topic("foreign")
    left.copied(foreign, *range(10), b"somebody else's")
    left.stored(foreign, 9)

    deleted = left.topic("deleted")
    left.copied(deleted, *range(10))
    left.stored(deleted, 9)
    left.reported(deleted, 0, 0)
    left.reported(deleted, 6, 6)
    delete_before(target, f"{left.alias}.{deleted}", 10)

    # What was learned helps among records that are all alike.
    alike = create_topic(source, f"{left.stem}-alike")
    produce(source, alike, [Out(b"same", timestamp=BASE)] * 10)
    copied = create_topic(target, f"{left.alias}.{alike}")
    produce(target, copied, [Out(b"same", timestamp=BASE)] * 6)
    left.stored(alike, 5)
    left.reported(alike, 3, 3)

    marked = create_topic(source, f"{left.stem}-marked")
    produce_transaction(source, marked, [Out(b"%d" % n, timestamp=BASE + n) for n in range(5)])
    left.copied(marked, *range(5))
    left.stored(marked, 4)

    opened = left.topic("open", 5)  # it reads uncommitted by default
    producer = open_transaction(source, opened, [Out(b"5", timestamp=BASE + 5)])
    left.copied(opened, *range(6))
    left.stored(opened, 5)

    try:
        rows = left.plan("--yes", code=5)  # some are not proven
    finally:
        producer.abort_transaction(TIMEOUT)

    def seen(kind: str) -> tuple[int, int, int, int]:
        row = rows[kind]
        return row["position"], row["exact_from"], row["mapped"], row["missing"]

    assert seen("plain") == (15, 0, 15, 0)
    assert seen("stamped") == (15, 0, 15, 0)
    assert seen("exactly") == (15, 0, 15, 0) and rows["exactly"]["twice"] == 0
    assert seen("behind") == (15, 0, 15, 0)
    assert seen("twice") == (12, 0, 12 - 3, 0) and rows["twice"]["twice"] == 3
    assert seen("unstored") == (3, 0, 3, 0) and rows["unstored"]["stored"] is None
    assert "new" not in rows
    assert seen("filtered") == (20, 0, 10, 10)
    assert seen("alike") == (6, 0, 6, 0)
    assert seen("marked") == (5, 0, 5, 0)
    doubts = {kind: row["doubt"] for kind, row in rows.items() if row["doubt"]}
    assert doubts.keys() == {"foreign", "deleted", "open"}
    assert "last 1 records on the target" in doubts["foreign"]
    assert rows["deleted"]["position"] == 10 and rows["deleted"]["from_syncs"] == 2
    assert rows["open"]["position"] == 6 and rows["open"]["strange"] == 1

    # What the pipeline changes is said for each topic, before anything is written.
    assert not [note for note in left.notes() if "changes those that follow" in note]
    text = left.pipeline.read_text()
    rules = yaml.safe_load(text)
    rules["replication"] = [
        *({"transform": [{"topics": plain, "set": {"value": "upper(value)"}}]},),
        *({"headers": [{"topics": stamped, "add": {"site": "east"}}]},),
        *rules["replication"],
    ]
    rules["features"] = {**rules.get("features", {}), "schemaMapping": "enabled"}
    no_ids = {"pattern": ".*", "key": "disabled", "value": "disabled"}
    rules["schemaMapping"] = {"topics": [{"pattern": behind}, no_ids]}
    for side in ("source", "target"):
        rules[side]["registry"] = {"config": {"schema.registry.url": "http://localhost:1"}}
    left.pipeline.write_text(yaml.safe_dump(rules))
    changed = [note for note in left.notes() if "changes those that follow" in note]
    left.pipeline.write_text(text)
    assert [note.partition(":")[0] for note in changed] == sorted([plain, stamped, behind])
    for topic, words in (
        (plain, "replication.transform sets value"),
        (stamped, "replication.headers adds headers (site)"),
        (behind, "schemaMapping replaces schema ids in key and value"),
    ):
        (note,) = [note for note in changed if note.startswith(f"{topic}: the target keeps ")]
        assert note.endswith(words)

    again = left.plan("--dry-run", code=5)
    assert again["plain"] == rows["plain"]  # nothing was written
    done = left.plan("--yes", "--accept-unproven")
    assert done.keys() == rows.keys()
    shown = k2ktui_json("offsets", "show", "-f", left.pipeline)["partitions"]
    positions = {p["topic"].removeprefix(f"{left.stem}-"): p["position"] for p in shown}
    assert positions["behind"] == 15 and positions["deleted"] == 10 and positions["new"] is None
    for word, offset, basis in (
        (f"{behind}:0:7", 7, "exact"),
        (f"{behind}:0:15", 15, "end"),
        (f"{exactly}:0:8", 14, "exact"),  # behind two markers and what was aborted
        (f"{twice}:0:6", 8, "exact"),
        (f"{deleted}:0:7", 10, "bounded"),  # what it had not read was deleted on the target
        (f"{deleted}:0:9", 10, "bounded"),
        (f"{deleted}:0:10", 10, "end"),
    ):
        (row,) = verbs.k2ktui("translate", "-f", left.pipeline, word, "--json").json["positions"]
        assert (row["translated_offset"], row["basis"]) == (offset, basis), word
