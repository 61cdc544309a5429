"""The tail of a failback: records of the old source that were never copied; pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from pydantic import FailFast

from k2ktui.engine.bounded import Count, Millis, Number, Text
from k2ktui.text import counted, moment, safe_text

_NAMED = 50


class TailChoice(StrEnum):
    """What to do with the tail.

    ``stop`` lists it and stops. ``replay`` copies it to the new primary, after what was written
    there. ``export`` writes it to files, and ``discard`` does not; both leave it on the old source.
    """

    STOP = "stop"
    REPLAY = "replay"
    EXPORT = "export"
    DISCARD = "discard"


@dataclass(frozen=True, slots=True)
class TailPartition:
    """The tail of one partition of the old source.

    Attributes:
        topic, partition: the partition.
        first: offset of its first record.
        end: offset after its last record.
        records: number of records; other pipelines' copies between them do not count.
        oldest_ms, newest_ms: lowest and highest timestamp; None if no record has one.
        keys: the first keys, if they were asked for; escaped.
    """

    topic: Text
    partition: Number
    first: Count
    end: Count
    records: Count
    oldest_ms: Millis | None = None
    newest_ms: Millis | None = None
    keys: Annotated[tuple[Text, ...], FailFast()] = ()

    @property
    def name(self) -> str:
        """Topic and partition, safe to print."""
        return f"{safe_text(self.topic)}-{self.partition}"


@dataclass(frozen=True, slots=True)
class PartitionEnd:
    """The log end offset of a partition at one moment of a drill."""

    topic: Text
    partition: Number
    end: Count


def count_records(tail: Iterable[TailPartition]) -> int:
    """Return the number of records of a tail."""
    return sum(part.records for part in tail)


def describe_tail(tail: Sequence[TailPartition]) -> str:
    """Return the size of a tail and its time span in one line."""
    times = [ms for part in tail for ms in (part.oldest_ms, part.newest_ms) if ms is not None]
    span = f", {_span(min(times), max(times))}" if times else ""
    records = counted(count_records(tail), "record")
    return f"{records} on {counted(len(tail), 'partition')}{span}"


def list_tail(tail: Sequence[TailPartition]) -> list[str]:
    """Return each partition of a tail: offsets, records, time span and the first keys."""
    lines = [_describe(part) for part in tail[:_NAMED]]
    more = len(tail) - _NAMED
    return [*lines, *([f"and {more:,} more partitions"] if more > 0 else [])]


def _describe(part: TailPartition) -> str:
    span = ""
    if part.oldest_ms is not None and part.newest_ms is not None:
        span = f", {_span(part.oldest_ms, part.newest_ms)}"
    keys = f", first keys: {', '.join(part.keys)}" if part.keys else ""
    offsets = f"offsets {part.first} to {part.end - 1}"
    return f"{part.name}: {counted(part.records, 'record')}, {offsets}{span}{keys}"


def _span(first_ms: int, last_ms: int) -> str:
    first, last = moment(first_ms / 1000), moment(last_ms / 1000)
    return f"of {first}" if first == last else f"of {first} to {last}"
