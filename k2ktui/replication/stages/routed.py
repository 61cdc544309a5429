"""Records whose target topic or partition an expression has chosen."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from k2ktui.log.records import I64, Records
from k2ktui.replication.copying.batch_routing import spread
from k2ktui.replication.copying.outgoing_batch import OutgoingBatch, TargetPartition
from k2ktui.replication.copying.partition_reader import PartitionReader
from k2ktui.replication.slot_task import Route


def spread_routed(
    reader: PartitionReader,
    records: Records,
    topics: Sequence[int | None],
    partitions: Sequence[int | None],
    by_key: Callable[[Route], I64],
    codec: int,
) -> Iterator[tuple[TargetPartition, OutgoingBatch, bool]]:
    """Route records to the topics and partitions that were chosen for them.

    Args:
        reader: their source partition.
        records: as they are written.
        topics: the index of the topic that an expression chose for each of them, or null.
        partitions: the partition that an expression chose for each of them, or null.
        by_key: the partition of each record on a route, where no expression chooses it.
        codec: compression of the batches.

    Yields:
        As ``route_next``; the order within each target partition is that of the source.
    """
    route = reader.assignment.route
    assert route.transform is not None and route.transform.routing is not None
    by_expression = bool(route.transform.routing.partition)
    # Without an expression, there is one topic.
    indexes = np.array([topic or 0 for topic in topics], dtype=np.int64)
    for number in np.unique(indexes).tolist():
        topic = route.choices[number]
        (rows,) = np.nonzero(indexes == number)
        if by_expression:
            chosen = np.array(partitions, dtype=np.int64)
        else:
            chosen = by_key(replace(route, partitions=topic.partitions))
        yield from spread(reader, records.take(rows), chosen[rows], codec, topic.name)
