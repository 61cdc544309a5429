"""``k2ktui compare`` on what a pipeline has copied: topics of every kind, and damage in each."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.kafka import (
    Out,
    create_topic,
    end_offsets,
    eventually,
    produce_transaction,
    read_all,
    unique_name,
)
from tests.support.commands.cli import k2ktui_json
from tests.support.pipelines.pipeline import Pipeline
from tests.support.records.damage import damage_log, flip_byte
from tests.support.records.kinds import make_all


def by_topic(report: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    partitions: dict[str, list[dict[str, Any]]] = {}
    for one in report["partitions"]:
        partitions.setdefault(one["topic"], []).append(one)
    return partitions


@pytest.mark.slow
def test_topics_of_every_kind(source: KafkaNode, target: KafkaNode, tmp_path: Path) -> None:
    kinds = make_all(source, unique_name("compare"))
    pipe = Pipeline(tmp_path, source, target, list(kinds.values()))
    pipe.catch_up()
    file = pipe.write()
    report = k2ktui_json("compare", "-f", file)
    assert report["differences"] == 0, report
    copied = {kind: len(list(read_all(target, topic))) for kind, topic in kinds.items()}
    partitions = by_topic(report)
    for kind, topic in kinds.items():
        equal = sum(one["counts"].get("equal", 0) for one in partitions.get(topic, ()))
        # Compaction goes on, on either side.
        assert equal == copied[kind] or kind == "compacted", (kind, partitions[topic])
    places = {}
    for topic in kinds.values():
        held = [got for got in read_all(target, topic) if got.value]
        if held:
            places[topic] = held[len(held) // 2]
    target.stop()
    for topic, got in places.items():
        damage_log(target, topic, got.offset, flip_byte, got.partition)
    target.start()
    for topic in places:
        end_offsets(target, topic)  # it leads its partitions again
    report = k2ktui_json("compare", "-f", file, "--no-store", code=1)
    found = {
        (one["target_topic"], one["target_partition"], one["target_offset"], one["reason"])
        for partition in report["partitions"]
        for one in partition["findings"]
    }
    assert found == {
        (topic, got.partition, got.offset, "value differs") for topic, got in places.items()
    }


@pytest.mark.slow
def test_while_the_pipeline_copies(source: KafkaNode, target: KafkaNode, tmp_path: Path) -> None:
    """What is copied meanwhile is no stranger's, and nothing that is not copied yet is missing."""
    topic = create_topic(source, partitions=2)
    pipe = Pipeline(tmp_path, source, target, [topic])
    stopped = threading.Event()

    def write() -> None:
        while not stopped.is_set():
            for number in range(2):
                outs = [Out(b"v" * 100, partition=partition) for partition in (0, 1)] * 50
                produce_transaction(source, topic, outs, commit=number == 0)

    writer = threading.Thread(target=write)
    with pipe.start() as run:
        writer.start()
        try:
            pipe.await_copying()
            reports = list[dict[str, Any]]()

            def has_grown() -> bool:
                reports.append(k2ktui_json("compare", "-f", pipe.write()))
                first, last = (one["counts"].get("equal", 0) for one in (reports[0], reports[-1]))
                return len(reports) >= 4 and first < last

            eventually(has_grown, "a later comparison has more records")
        finally:
            stopped.set()
            writer.join()
        pipe.end(run)
    equal = [report["counts"].get("equal", 0) for report in reports]
    assert [set(report["counts"]) for report in reports if report["counts"]] == [{"equal"}] * sum(
        count > 0 for count in equal
    )
    assert equal == sorted(equal)
