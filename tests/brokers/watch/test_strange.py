"""Records that a stranger writes into a copy are seen, and nothing else is taken for them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from k2ktui.engine.drill.checks import DrillCheckOutcome
from k2ktui.engine.records.cluster_pair import ClusterPair
from k2ktui.engine.records.producer_registration import (
    ProducerRegistration,
    registration_key,
    registration_value,
)
from k2ktui.engine.records.run_record import Run, run_key, run_value
from k2ktui.kafka.producer_id import Producer
from k2ktui.replication.copying.slot_task import LapOutcome, SlotResult, StateTopics
from k2ktui.runtime.node import KafkaNode
from k2ktui.sync.flow import Flow
from k2ktui.watch.poller import open_poller
from tests.brokers.replication.test_kept_readings import Slot
from tests.brokers.watch.test_live import Views
from tests.support.clusters.kafka import (
    Out,
    delete_before,
    end_offsets,
    eventually,
    produce,
    produce_transaction,
    unique_name,
)
from tests.support.commands.verbs import k2ktui
from tests.support.drill.checks import run_check
from tests.support.pipelines.copied import Copied

pytestmark = pytest.mark.slow


@dataclass
class Pipeline:
    """A pipeline's file, and its slot, which copies in transactions as a run does."""

    directory: Path
    source: KafkaNode
    target: KafkaNode
    files: Copied = field(init=False)

    def __post_init__(self) -> None:
        self.slot = Slot(self.source, self.target)
        sink = {"topic": {"static": self.slot.copy}, "partition": "source"}
        replication = [{"source": {"topic": [self.slot.topic]}}, {"sink": sink}]
        settings = {"replication": replication}
        self.files = Copied(self.directory, self.source, self.target, settings)
        pair = ClusterPair(self.source.cluster_id, self.target.cluster_id, self.files.mappings)
        run = Run(1, 1, self.files.name, pair=pair, registers=True)
        produce(self.target, self.files.commits, [Out(run_value(run), run_key(self.files.name))])

    def register(self, producer_id: int, group: str = "") -> None:
        """Register a producer id, as a run does before it writes with it."""
        one = ProducerRegistration(producer_id, self.source.cluster_id, self.target.cluster_id)
        key = registration_key(group or self.files.name, producer_id)
        produce(self.target, self.files.commits, [Out(registration_value(one), key)])

    def lap(self) -> SlotResult:
        files = self.files
        return self.slot.lap(
            state_topics=StateTopics(files.name, files.name, 1, files.commits, 0, files.mappings, 1)
        )

    def copy(self, values: list[Out | bytes]) -> None:
        """Write records to the source, and copy them, in a transaction at least."""
        produce(self.source, self.slot.topic, values)
        copied = 0

        def is_copied() -> bool:
            nonlocal copied
            copied += self.lap().stats.records
            return copied == len(values)

        eventually(is_copied, "the records are copied")

    @contextmanager
    def watched(self) -> Iterator[Views]:
        """The views of a feed, as the console has them."""
        views, feed = Views(), open_poller(Flow(self.files.config), 1.0)
        feed.start(views.take)
        try:
            yield views
        finally:
            feed.close()

    def writers(self) -> dict[str, Any]:
        """What a new process says of who has written to the copies.

        A slow machine may not read all in the time that a view has for it: this is said.
        """
        found: dict[str, Any] = {}

        def is_told() -> bool:
            said = k2ktui("status", "-f", self.files.file, "--json")
            assert said.code == 0, said.err
            found.update(json.loads(said.out)["other_writers"])
            return (found["reason"], found["untold"], found["unread"]) == ("", [], [])

        eventually(is_told, lambda: f"all is told: {found}")
        return found


def test_seven_records_of_strangers(source: KafkaNode, target: KafkaNode, tmp_path: Path) -> None:
    pipeline = Pipeline(tmp_path, source, target)
    slot, copy = pipeline.slot, pipeline.slot.copy
    try:
        eventually(lambda: pipeline.lap().outcome is LapOutcome.DONE, "a lap connects in its time")
        pipeline.register(slot.token.producer_id)
        for _ in range(2):
            pipeline.copy([Out(b"%d" % n, partition=n % 3) for n in range(9)])
        assert pipeline.writers()["strange"] == [], "markers"

        # An aborted attempt of the slot, and a transaction of another pipeline; then copies again.
        mine = [Out(b"aborted", partition=n) for n in range(3)]
        own = slot.token.transactional_id
        produce_transaction(target, copy, mine, commit=False, transactional_id=own)
        assert pipeline.writers()["strange"] == [], "aborted records"
        slot.token = Producer(own)
        pipeline.copy([Out(b"later", partition=n) for n in range(3)])
        assert pipeline.writers()["strange"] == [], "aborted records before copies"

        ends = end_offsets(target, copy)
        with pipeline.watched() as views:
            views.first(lambda view: view.whole and view.other_writers, "the clusters are read")
            produce(target, copy, [Out(b"stray", partition=0)] * 4)
            strays = [Out(b"stray", partition=2)] * 3
            produce_transaction(target, copy, strays, transactional_id=unique_name("app"))
            views.first(
                lambda view: view.other_writers and view.other_writers.records == 7, "they are seen"
            )
        result = run_check(Flow(pipeline.files.config), "D37")
        assert result.outcome is DrillCheckOutcome.FAIL
        assert f"{copy}-0: 4 records at offsets {ends[0]} to" in result.evidence
        first, second = pipeline.writers()["strange"]
        assert (first["topic"], first["partition"]) == (copy, 0)
        assert (first["first"], first["end"], first["records"]) == (ends[0], ends[0] + 4, 4)
        assert (first["without_id"], first["producers"]) == (4, [])
        assert (second["partition"], second["first"], second["records"]) == (2, ends[2], 3)
        [stranger] = second["producers"]
        assert stranger != slot.token.producer_id

        # Copies follow: now only the mapping says where the strangers have written.
        pipeline.copy([Out(b"after", partition=n % 3) for n in range(6)])
        assert pipeline.writers()["strange"] == [first, second]
        problem = f"problem (bad) copy {copy}-0: 4 records at offset"

        def is_printed() -> bool:
            said = k2ktui("watch", "-f", pipeline.files.file, "--once")
            return said.code == 1 and problem in said.out

        eventually(is_printed, "a view has the problem")

        # Once it is registered, it is a pipeline: a stranger is who is not.
        pipeline.register(stranger, "another")
        assert pipeline.writers()["strange"] == [first]

        # An operator has two ways to end it: others are expected, or the records are deleted.
        shared = tmp_path / "shared.yaml"
        shared.write_text("target: {writers: shared}\n")
        command = ("status", "-f", pipeline.files.file, "-f", str(shared))

        def is_expected() -> bool:
            writers = json.loads(k2ktui(*command, "--json").out)["other_writers"]
            return bool(writers["strange"]) and writers["expected"] == "target.writers: shared"

        eventually(is_expected, "others are expected")
        assert "that no registered pipeline wrote" not in k2ktui(*command).out
        assert (
            "that no registered pipeline wrote" in k2ktui("status", "-f", pipeline.files.file).out
        )
        with pipeline.watched() as views:
            views.first(
                lambda view: view.other_writers and view.other_writers.records == 4, "it is seen"
            )
            delete_before(target, copy, first["end"])
            views.first(
                lambda view: view.other_writers and view.other_writers.records == 0, "it has ended"
            )
        assert pipeline.writers()["strange"] == []
    finally:
        slot.close()
