"""Records whose target topic or partition an expression has chosen."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from k2ktui.log.records import I64, Records
from k2ktui.replication.copying.batch_routing import spread
from k2ktui.replication.copying.outgoing_batch import OutgoingBatch, TargetPartition
from k2ktui.replication.copying.partition_reader import PartitionReader
from k2ktui.replication.slot_task import Route
from k2ktui.replication.stages.transformed import Transformed


def spread_routed(
    reader: PartitionReader,
    records: Records,
    found: Transformed,
    by_key: Callable[[Route], I64],
    codec: int,
) -> Iterator[tuple[TargetPartition, OutgoingBatch, bool]]:
    """Route records to the topics and partitions that were chosen for them.

    Args:
        reader: their source partition.
        records: as they are written.
        found: what the expressions chose for each of them.
        by_key: the partition of each record on a route, where no expression chooses it.
        codec: compression of the batches.

    Yields:
        As ``route_next``; the order within each target partition is that of the source.
    """
    route = reader.assignment.route
    assert route.transform is not None and route.transform.routing is not None
    by_expression = bool(route.transform.routing.partition)
    topics = _topics(found)
    for number in np.unique(topics).tolist():
        topic = route.choices[number]
        (rows,) = np.nonzero(topics == number)
        if by_expression:
            partitions = np.array(found.partitions, dtype=np.int64)
        else:
            partitions = by_key(replace(route, partitions=topic.partitions))
        yield from spread(reader, records.take(rows), partitions[rows], codec, topic.name)


def _topics(found: Transformed) -> I64:
    """Return the index of each record's topic; without an expression, there is one topic."""
    return np.array([topic or 0 for topic in found.topics], dtype=np.int64)
