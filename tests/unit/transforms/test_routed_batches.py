"""Records are written to the topics and partitions that expressions chose, in source order."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from k2ktui.engine.records.state import Position, SourcePartition
from k2ktui.engine.transforms.model import Routing, Transform
from k2ktui.log.records import I64, Records, encode_nullable
from k2ktui.replication.copying.outgoing_batch import TargetPartition
from k2ktui.replication.copying.partition_reader import PartitionReader
from k2ktui.replication.copying.slot_task import Assignment, CopyPath, Route, RoutedTopic, SizeLimit
from k2ktui.replication.transforms.router import spread_routed

TOPICS = (RoutedTopic("eu", 2, "1"), RoutedTopic("us", 3, "2"))
EMPTY = encode_nullable(None) * 2 + b"\0"

chosen = st.sampled_from([(index, n) for index in (0, 1) for n in range(TOPICS[index].partitions)])


def written(
    where: list[tuple[int, int]], routing: Routing, partition: int | None = None
) -> dict[TargetPartition, list[int]]:
    """Return the source offsets on each target partition; each record counts from 10 by 3."""
    topics = TOPICS if routing.topic else TOPICS[:1]
    transform = Transform(routing=routing)
    route = Route(CopyPath.RECORD, "eu", partition, 2, transform=transform, choices=topics)
    position = Position(0, 0, -1, "", 1, 0, "eu", partition)
    limit = SizeLimit(0, 400)
    reader = PartitionReader(Assignment(SourcePartition("t", 0), position, route, size_limit=limit))
    offsets = [10 + 3 * n for n in range(len(where))]
    times = np.zeros(len(where), dtype=np.int64)
    records = Records(np.array(offsets, dtype=np.int64), times, [EMPTY] * len(where))
    chosen_topics = [index if routing.topic else None for index, _ in where]
    chosen_partitions = [number if routing.partition else None for _, number in where]

    def by_key(rules: Route) -> I64:
        fixed = rules.partition
        numbers = np.arange(len(where)) % rules.partitions
        return numbers if fixed is None else np.full(len(where), fixed)

    landed: dict[TargetPartition, list[int]] = defaultdict(list)
    for outgoing in spread_routed(reader, records, chosen_topics, chosen_partitions, by_key, 0):
        assert outgoing.sources is not None and outgoing.count == len(outgoing.sources)
        landed[outgoing.target] += outgoing.sources.tolist()
    return dict(landed)


def expected(targets: list[TargetPartition]) -> dict[TargetPartition, list[int]]:
    offsets: dict[TargetPartition, list[int]] = defaultdict(list)
    for n, target in enumerate(targets):
        offsets[target].append(10 + 3 * n)
    return dict(offsets)


@given(st.lists(chosen, max_size=60))
def test_each_record_is_where_the_expressions_say(where: list[tuple[int, int]]) -> None:
    targets = [(TOPICS[index].name, number) for index, number in where]
    assert written(where, Routing("t", ("eu", "us"), "p")) == expected(targets)


@given(st.lists(chosen, max_size=60))
def test_keys_are_spread_over_the_partitions_of_each_topic(where: list[tuple[int, int]]) -> None:
    names = [TOPICS[index] for index, _ in where]
    targets = [(topic.name, n % topic.partitions) for n, topic in enumerate(names)]
    assert written(where, Routing("t", ("eu", "us"))) == expected(targets)
    kept = [(topic.name, 1) for topic in names]
    assert written(where, Routing("t", ("eu", "us")), 1) == expected(kept)


@given(st.lists(st.integers(0, 1), max_size=60))
def test_one_topic_needs_no_name(partitions: list[int]) -> None:
    where = [(0, number) for number in partitions]
    assert written(where, Routing(partition="p")) == expected([("eu", n) for n in partitions])
