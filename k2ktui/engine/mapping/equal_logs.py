"""Whether an offset means the same in two logs, which another program keeps equal.

A batch is the same on both clusters if it has the same offsets and checksum, which covers
everything but the first offset and the leader epoch (``DefaultRecordBatch.java``); an epoch is the
cluster's own, and no consumer reads it. A copy with other offsets has other batches there, and so
has a target on which others have written, after a promotion for example. Compaction rewrites a
batch, with the offsets that it had: such a batch proves nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import NamedTuple


class BatchIdentity(NamedTuple):
    """What two batches have in common only if they are the same one."""

    base_offset: int
    last_offset: int
    checksum: int


@dataclass(frozen=True, slots=True)
class LogPart:
    """The batches of a log at some offsets.

    Attributes:
        start: log start offset.
        end: high watermark.
        batches: by offset; none where compaction or a deletion has left nothing.
        unread: why it could not be read; "" if it was.
    """

    start: int = -1
    end: int = -1
    batches: Mapping[int, BatchIdentity] = field(default_factory=dict)
    unread: str = ""


class Equality(Enum):
    """What two logs show about an offset."""

    PROVEN = auto()
    DIFFERENT = auto()
    UNKNOWN = auto()


class Judged(NamedTuple):
    """What is known about an offset, and why; the reason of a proof is empty."""

    equality: Equality
    reason: str = ""


def around(offset: int) -> tuple[int, ...]:
    """Return the offsets whose batches prove one: of the last record before it, and its own."""
    return (offset - 1, offset) if offset > 0 else (offset,)


def judge(offset: int, source: LogPart, target: LogPart) -> Judged:
    """Compare two logs around an offset; ``target`` was read first.

    At the end of the copy, the batch before the offset proves it. Where both logs have no record
    that could be compared, their equal ends do.
    """
    for side, part in (("source", source), ("target", target)):
        if part.end < 0:
            return Judged(Equality.UNKNOWN, f"the {side} could not be read: {part.unread}")
    if offset > target.end:
        return Judged(Equality.UNKNOWN, "its record is not on the target yet")
    if target.end > source.end:
        why = f"the target has offsets from {source.end} on that the source does not have"
        return Judged(Equality.DIFFERENT, why)
    start = max(source.start, target.start)
    if offset < start:
        return Judged(Equality.UNKNOWN, f"one side has deleted its records below offset {start}")
    compared = [at for at in around(offset) if start <= at < target.end]
    for at in compared:
        judged = _judge_batches(at, source, target)
        if judged is not None:
            return judged
    if not compared and target.end != source.end:
        return Judged(Equality.UNKNOWN, "both logs have no record next to it")
    return Judged(Equality.PROVEN)


def _judge_batches(at: int, source: LogPart, target: LogPart) -> Judged | None:
    """Compare the batches at an offset; None if they are the same."""
    for side, part in (("source", source), ("target", target)):
        if at not in part.batches:
            why = part.unread or "no batch is left there, by compaction"
            return Judged(Equality.UNKNOWN, f"the {side} has no batch at offset {at}: {why}")
    ours, copy = source.batches[at], target.batches[at]
    if ours == copy:
        return None
    if ours[:2] == copy[:2]:
        why = f"the batch at offset {at} is another one, or was compacted on one side"
        return Judged(Equality.UNKNOWN, why)
    return Judged(Equality.DIFFERENT, f"the batches at offset {at} have other offsets")
