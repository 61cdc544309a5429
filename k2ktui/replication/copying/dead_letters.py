"""Dead letters: records as they were, with origin and cause, for a dead-letter topic."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from k2ktui.engine.records.state import SourcePartition
from k2ktui.engine.transforms.dead_letters import CAUSE_HEADER, ORIGIN_HEADERS, STEP_HEADER
from k2ktui.engine.transforms.header_names import HeaderRules, OriginHeader
from k2ktui.log.record_headers import change_headers
from k2ktui.log.records import Records, concatenate
from k2ktui.replication.copying.outgoing_batch import OutgoingBatch
from k2ktui.replication.copying.partition_reader import now_ms


@dataclass(frozen=True, slots=True)
class DeadLetterOwner:
    """The origin of a batch of dead letters, which have no mapping range."""

    source: SourcePartition

    def acknowledge(self, outgoing: OutgoingBatch, base: int) -> None:
        """Dead letters are not part of the mapping."""


@dataclass(frozen=True, slots=True)
class LetterMaker:
    """Makes the dead letters of one source partition.

    Attributes:
        source: the partition.
        pipeline: name of the pipeline.
        origin: header that marks where records came from.
        now: stamp dead letters with the current time.
    """

    source: SourcePartition
    pipeline: str
    origin: OriginHeader | None
    now: bool

    def make(self, records: Records, step: str, cause: str) -> Records:
        """Return the dead letters of records that failed a step.

        Raises:
            CorruptBatch: the headers of a record cannot be read.
        """
        rules = HeaderRules(
            added=ORIGIN_HEADERS, constants=((STEP_HEADER, step), (CAUSE_HEADER, cause))
        )
        if self.now:
            stamps = np.full_like(records.timestamps, now_ms())
            records = Records(records.offsets, stamps, records.tails)
        return change_headers(records, rules, self.source, self.pipeline, self.origin)


def in_offset_order(letters: list[Records]) -> Records:
    """Return dead letters of several steps or causes in the order of their source offsets."""
    records = concatenate(letters)
    return records.take(np.argsort(records.offsets, kind="stable"))
