"""A real MirrorMaker 2's copy of a compacted topic: exact wherever the neighbours are left."""

from __future__ import annotations

from pathlib import Path

import pytest

from k2ktui.mm2.flows.settings import load_settings
from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.kafka import (
    TIMEOUT,
    Got,
    Out,
    admin,
    create_topic,
    eventually,
    produce,
    read_all,
    unique_name,
)
from tests.support.clusters.mirrormaker import MirrorMaker
from tests.support.commands.cli import k2ktui_json
from tests.support.oracle.group_offsets import commit_offsets

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

RECORDS = 400
COMPACTED = {
    "cleanup.policy": "compact",
    "segment.ms": "200",
    "min.cleanable.dirty.ratio": "0.01",
    "min.compaction.lag.ms": "0",
}


def stays(number: int) -> bool:
    """Of five records two have keys of their own, so that compaction leaves them."""
    return number % 5 < 2


def test_exact_where_neighbours_are_left(
    clusters: tuple[KafkaNode, KafkaNode], tmp_path: Path
) -> None:
    """Between the records that tell where they landed, compaction has deleted most others."""
    source, target = clusters
    topic, stem = create_topic(source, config=COMPACTED), unique_name("app")
    keys = [b"own %d" % n if stays(n) else b"shared" for n in range(RECORDS)]
    where = produce(source, topic, [Out(b"%d" % n, key) for n, key in enumerate(keys)])
    with MirrorMaker(source, target, tmp_path, topic, f"{stem}.*") as maker:
        copy = load_settings(maker.file).flow().target_topic(topic)

        def copied() -> bool:
            if copy not in admin(target).list_topics(timeout=TIMEOUT).topics:
                return False
            return _last(read_all(target, copy)) == _last(read_all(source, topic))

        eventually(copied, "everything is copied", 200)
        wanted = {f"{stem}-{n}": n for n in range(7, RECORDS, 9)}
        for group, number in wanted.items():
            commit_offsets(source, group, {(topic, 0): where[number]})

    def compacted() -> bool:
        # A segment is closed when something is appended and it is old enough.
        produce(source, topic, [Out(b"end", unique_name("end").encode())])
        return len(read_all(source, topic)) < RECORDS * 0.6

    eventually(compacted, "the source is compacted")

    listed = k2ktui_json("groups", "-f", maker.file)["groups"]

    rows = {row["group"]: row for row in listed}
    values = ((got.value or b"", got.offset) for got in read_all(target, copy))
    there = {int(value): offset for value, offset in values if value.isdigit()}
    assert rows.keys() == wanted.keys()
    for group, number in wanted.items():
        row = rows[group]
        begin = row["translated_offset"]
        read_again = [n for n, at in there.items() if n < number and at >= begin]
        assert row["skipped"] == 0
        assert not [n for n, at in there.items() if n >= number and at < begin], "skipped"
        if row["basis"] == "exact":
            assert read_again == [], row
        if stays(number - 1) and stays(number):
            assert row["basis"] == "exact", row
    compared = [row for row in rows.values() if "compared" in row["reason"]]
    assert len(compared) > len(wanted) // 5


def _last(copies: list[Got]) -> bytes | None:
    return copies[-1].value if copies else None
