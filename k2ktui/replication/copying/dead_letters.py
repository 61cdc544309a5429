"""Dead letters: records as they were, with origin and cause, for a dead-letter topic."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from k2ktui.engine.dead_letters import CAUSE_HEADER, ORIGIN_HEADERS, STEP_HEADER
from k2ktui.engine.state import SourcePartition
from k2ktui.log.rebuild import build_batches
from k2ktui.log.records import Records, concatenate
from k2ktui.replication.copying.outgoing_batch import OutgoingBatch, TargetPartition
from k2ktui.replication.copying.partition_reader import now_ms
from k2ktui.replication.copying.record_headers import change_headers
from k2ktui.replication.slot_task import DeadLetterTarget, HeaderRules, OriginHeader


@dataclass(frozen=True, slots=True)
class DeadLetterOwner:
    """The origin of a batch of dead letters, which have no mapping range."""

    source: SourcePartition

    def acknowledge(self, outgoing: OutgoingBatch, target: TargetPartition, base: int) -> None:
        """Nothing follows from where dead letters are."""


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
    found = concatenate(letters)
    return found.take(np.argsort(found.offsets, kind="stable"))


def spread_letters(
    source: SourcePartition, letters: Records, dead: DeadLetterTarget, codec: int
) -> Iterator[tuple[TargetPartition, OutgoingBatch, bool]]:
    """Route dead letters, as ``route_next`` does records."""
    for built in build_batches(letters, codec, dead.batch_limit):
        first, owner = int(built.sources[0]), DeadLetterOwner(source)
        outgoing = OutgoingBatch(memoryview(built.data), built.count, first, built.sources, owner)
        yield (dead.topic, dead.partition), outgoing, True
