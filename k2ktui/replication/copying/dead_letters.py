"""Dead letters: records as they were, with origin and cause, for a dead-letter topic."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from k2ktui.engine.records.state import SourcePartition
from k2ktui.engine.transforms.dead_letters import CAUSE_HEADER, ORIGIN_HEADERS, STEP_HEADER
from k2ktui.engine.transforms.header_names import HeaderRules, OriginHeader
from k2ktui.log.record_headers import change_headers
from k2ktui.log.records import Records, concatenate
from k2ktui.replication.copying.outgoing_batch import OutgoingBatch
from k2ktui.replication.copying.partition_reader import PartitionReader, now_ms


@dataclass(frozen=True, slots=True)
class DeadLetterOwner:
    """The origin of a batch of dead letters, which have no mapping range."""

    source: SourcePartition

    def acknowledge(self, outgoing: OutgoingBatch, base: int) -> None:
        """Dead letters are not part of the mapping."""


def make_letters(
    reader: PartitionReader,
    records: Records,
    causes: Sequence[tuple[str, str]],
    pipeline: str,
    origin: OriginHeader | None,
) -> Records:
    """Return the dead letters of records that failed.

    Args:
        reader: their partition.
        records: as they are on the source, in offset order.
        causes: the step that each of them failed, and why.
        pipeline: name of the pipeline.
        origin: header that marks where records came from.

    Raises:
        CorruptBatch: the headers of a record cannot be read.
    """
    if reader.assignment.route.now_timestamps:
        stamps = np.full_like(records.timestamps, now_ms())
        records = Records(records.offsets, stamps, records.tails)
    rows: dict[tuple[str, str], list[int]] = defaultdict(list)
    for row, why in enumerate(causes):
        rows[why].append(row)
    letters = []
    for (step, cause), some in rows.items():
        rules = HeaderRules(
            added=ORIGIN_HEADERS, constants=((STEP_HEADER, step), (CAUSE_HEADER, cause))
        )
        failed = records.take(np.array(some, dtype=np.int64))
        letters.append(change_headers(failed, rules, reader.source, pipeline, origin))
    made = concatenate(letters)
    return made.take(np.argsort(made.offsets, kind="stable"))
