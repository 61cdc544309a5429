"""Read records that were copied, and their copies."""

from __future__ import annotations

from collections.abc import Generator, Sequence

from k2ktui.engine.moves.recovery import Copy
from k2ktui.engine.records.state import SourcePartition
from k2ktui.kafka.clients import Cluster
from k2ktui.log.content import ContentReader, RecordRange

_READ_S = 60.0
_AT_ONCE = 1_000


def read_copies(
    source: Cluster, target: Cluster, copies: Sequence[tuple[SourcePartition, Copy]]
) -> Generator[tuple[SourcePartition, Copy, RecordRange, RecordRange], None, None]:
    """Yield each copy with what the source and the target have at its offsets.

    Close it where the loop may end early: it has a reader of each cluster.
    """
    with ContentReader(source) as left, ContentReader(target) as right:
        for begin in range(0, len(copies), _AT_ONCE):
            some = copies[begin : begin + _AT_ONCE]
            there = right.stretches(
                [((*copy.target, copy.target_offset), 1) for _, copy in some], _READ_S
            )
            here = left.stretches(
                [((at.topic, at.partition, copy.offset), 1) for at, copy in some], _READ_S
            )
            for (at, copy), one, other in zip(some, here, there, strict=True):
                yield at, copy, one, other
