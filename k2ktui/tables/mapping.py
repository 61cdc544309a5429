"""The table ``ranges``: the mapping of every record, read where the driver of Spark is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

from k2ktui.engine.mapping.range_columns import I64, RangeColumns
from k2ktui.engine.mapping.replica import Replica, TargetPartition
from k2ktui.engine.records.state import SourcePartition
from k2ktui.kafka.clients import Cluster, source_cluster, target_cluster
from k2ktui.sync.flow import Flow
from k2ktui.sync.moves.snapshot import SnapshotReader
from k2ktui.tables.columns import TABLES, arrow_schema

if TYPE_CHECKING:
    import pyarrow as pa

Wanted = Callable[[SourcePartition], bool]

# Rows of a batch: 64 bytes each.
_BATCH_ROWS = 1 << 17


def read_ranges(flow: Flow, wanted: Wanted) -> Iterator[pa.RecordBatch]:
    """Yield the ranges that are in force, by source partition, target partition and offset.

    Raises:
        ConnectionFailed, TimedOut: the target does not answer.
        NothingCopied: nothing has been replicated yet.
    """
    with open_snapshots(flow) as (snapshots, _, _):
        replicas = snapshots.read_mappings(wanted).replicas
        for at, replica in sorted(replicas.items()):
            if not wanted(at):
                continue
            for target, ranges in sorted(replica.target_ranges.items()):
                columns = ranges.columns()
                known = find_known_from(replica, columns)
                for first in range(0, len(columns), _BATCH_ROWS):
                    rows = slice(first, first + _BATCH_ROWS)
                    yield _make_batch(at, target, columns.take(rows), known[rows])


@contextmanager
def open_snapshots(flow: Flow) -> Iterator[tuple[SnapshotReader, Cluster, Cluster]]:
    """Yield a reader of mappings, and connections to source and target."""
    source, target = source_cluster(flow.config), target_cluster(flow.config)
    snapshots = SnapshotReader(flow, source, target, for_plans=False)
    try:
        yield snapshots, source, target
    finally:
        snapshots.close()
        source.disconnect()
        target.disconnect()


def find_known_from(replica: Replica, columns: RangeColumns) -> I64:
    """Return for each range from which source offset on every offset up to it is decided.

    Ranges below the start are of another program, which published single records: such a range
    says nothing about the offsets before it.
    """
    ends = np.array([0, *(end for _, end in replica.holes)], dtype=np.int64)
    behind_hole = ends[np.searchsorted(ends, columns.source, side="right") - 1]
    known = np.maximum(behind_hole, replica.known_from)
    return np.minimum(known, columns.source)


def _make_batch(
    at: SourcePartition, target: TargetPartition, columns: RangeColumns, known: I64
) -> pa.RecordBatch:
    import pyarrow as pa

    rows = len(columns)
    own = {
        "topic": [at.topic] * rows,
        "partition": [at.partition] * rows,
        "offset": columns.source,
        "count": columns.count,
        "target_topic": [target[0]] * rows,
        "target_partition": [target[1]] * rows,
        "target_offset": columns.target,
        "further": columns.further,
        "known_from": known,
    }
    schema = arrow_schema(TABLES["ranges"])
    arrays = [pa.array(own[field.name], type=field.type) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
