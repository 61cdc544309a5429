"""Records on a target partition that no registered pipeline wrote: strange records in a copy; pure.

Nothing is read to see that there are none. A position says up to which target offset its pipeline
has written, and from which one on the offsets before it hold only its own records and markers
(``Landed``). What lies outside of this span is told apart by the headers of its batches: markers,
aborted records and batches of registered producer ids are not strange.

What was written before the newest span, and followed by copies since, follows from the mapping:
target offsets between two ranges that no range names. A single one is where a transaction has its
marker, unless both ranges are of one transaction: a mapping record has the ranges of one, and that
it has a single offset between two of them is kept when it is read. Repeats have ranges of several.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from k2ktui.engine.mapping.intervals import FOREVER, OffsetIntervals, Span
from k2ktui.engine.mapping.replica import Replica, TargetPartition
from k2ktui.engine.records.state import Landed
from k2ktui.text import counted, list_names, safe_message, safe_text

# Why of some partitions not all is told: the mapping, which tells it, was not read yet.
NOT_MAPPED = "what was written before the newest copies was not compared with the mapping"
PARTLY_MAPPED = "the mapping in memory does not reach back to its first copy"
NOTHING_COPIED = "nothing is copied into it yet, and what it held before is not judged"
# What was written since is known all the same, and most pipelines that run for long have these.
_OF_BEFORE = frozenset({NOT_MAPPED, PARTLY_MAPPED, NOTHING_COPIED})
# Stretches of strange records that are kept of a partition, and producer ids that are named.
_MOST_STRETCHES = 1_000
_MOST_PRODUCERS = 20
_NAMED = 3


@dataclass(frozen=True, slots=True)
class WrittenBatch:
    """The header of a committed batch of records, as far as it lies in what was read.

    Attributes:
        first: offset of its first record.
        end: offset after its last one.
        producer: producer id, -1 for none.
        records: number of its records.
    """

    first: int
    end: int
    producer: int
    records: int


@dataclass(frozen=True, slots=True)
class StrangeRecords:
    """The strange records of one target partition.

    Attributes:
        topic, partition: on the target.
        first: offset of the first one.
        end: offset after the last one; copies may lie between.
        records: how many they are.
        producers: producer ids of those that have one, the 20 lowest.
        without_id: how many of them have none.
        at_least: whether there may be more that were not read.
    """

    topic: str
    partition: int
    first: int
    end: int
    records: int
    producers: tuple[int, ...] = ()
    without_id: int = 0
    at_least: bool = False

    @property
    def name(self) -> str:
        """The target partition; not safe to print."""
        return f"{self.topic}-{self.partition}"

    def describe(self) -> str:
        """Return how many they are, where, and who wrote them, without the partition."""
        least = "at least " if self.at_least else ""
        where = f"offset {self.first:,}"
        if self.end > self.first + 1:
            where = f"offsets {self.first:,} to {self.end - 1:,}"
        by = [f"producer id {list_names(self.producers, _NAMED)}"] if self.producers else []
        by += ["a producer without id"] if self.without_id else []
        count = counted(self.records, "record")
        return f"{least}{count} at {where} that no registered pipeline wrote, by {' and '.join(by)}"


@dataclass(frozen=True, slots=True)
class OtherWriters:
    """Who else has written to the target partitions of a pipeline.

    Attributes:
        strange: the strange records, by target partition.
        why: why they cannot be told at all; "" if they can.
        untold: for how many target partitions it is not fully known; by the reason.
        unread: for how many of them something had to be read and could not be; by the reason.
        expected: the setting by which other writers are expected; "" if none are.
    """

    strange: tuple[StrangeRecords, ...] = ()
    why: str = ""
    untold: Mapping[str, int] = field(default_factory=dict)
    unread: Mapping[str, int] = field(default_factory=dict)
    expected: str = ""

    @property
    def records(self) -> int | None:
        """Number of strange records that are a problem; None if they cannot be told."""
        if self.why or ((self.unread or self._untold_now()) and not self.strange):
            return None
        return 0 if self.expected else sum(one.records for one in self.strange)

    @property
    def awaits_mapping(self) -> bool:
        """Whether the next reading tells more, once the mapping is read."""
        return NOT_MAPPED in self.untold

    def as_json(self) -> dict[str, Any]:
        """Return the object that commands print."""

        def listed(reasons: Mapping[str, int]) -> list[dict[str, Any]]:
            return [{"reason": why, "partitions": count} for why, count in reasons.items()]

        return {
            "strange": [asdict(one) for one in self.strange],
            "reason": self.why,
            "untold": listed(self.untold),
            "unread": listed(self.unread),
            "expected": self.expected,
        }

    def describe(self) -> list[str]:
        """Return lines for an operator: the strange records, and why more cannot be told."""
        if self.why:
            return [f"Records of other writers cannot be told from copies: {self.why}."]
        if self.expected:
            return []
        strange = [f"{safe_text(one.name)}: {one.describe()}" for one in self.strange]
        return [*strange, *(f"{text[0].upper()}{text[1:]}." for text in self.list_unread())]

    def list_unread(self) -> list[str]:
        """Return a text for each reason why something could not be read."""
        return _list_reasons(self.unread)

    def notes(self) -> list[str]:
        """Return what an operator is told that is no problem."""
        notes = []
        if self.strange and self.expected:
            first = self.strange[0]
            at = f"{safe_text(first.name)} from offset {first.first:,} on"
            count = counted(len(self.strange), "target partition")
            notes.append(
                f"{count} with records of other writers, which {self.expected} expects: {at}"
                + (" and others" if len(self.strange) > 1 else "")
            )
        return notes if self.expected else [*notes, *_list_reasons(self._untold_now())]

    def _untold_now(self) -> dict[str, int]:
        return {why: count for why, count in self.untold.items() if why not in _OF_BEFORE}


def _list_reasons(reasons: Mapping[str, int]) -> list[str]:
    return [
        f"whether other writers have written to {counted(partitions, 'target partition')} "
        f"cannot be told: {safe_message(why)}"
        for why, partitions in reasons.items()
    ]


class CopyLog:
    """What is known of the writers of one target partition, from one reading to the next.

    Attributes:
        known_from: offset from which on it is known; None before the first reading.
        has_looked_back: whether what was written before the first reading is known, as far as it
            can be.
    """

    def __init__(self) -> None:
        self.known_from: int | None = None
        self.has_looked_back = False
        self._gaps, self._given_up = OffsetIntervals(), OffsetIntervals()
        self._known_to = 0
        self._strange: list[WrittenBatch] = []
        self._at_least = False

    @property
    def gaps(self) -> tuple[Span, ...]:
        """The stretches ``[low, high)`` whose headers must be read, the lowest first."""
        return self._gaps.all()

    @property
    def is_strange(self) -> bool:
        """Whether it has strange records."""
        return bool(self._strange)

    def unexplained(self, landed: Landed | None, stable: int) -> list[Span]:
        """Return the stretches below the log's end that the pipeline does not account for.

        Args:
            landed: how far the pipeline has written; None if it has written nothing here.
            stable: the last stable offset, which may be older or newer.
        """
        if self.known_from is not None:
            low = self._known_to
        elif landed is None:
            return []
        else:
            low = landed.first
        if landed is None:
            return [(low, stable)] if low < stable else []
        spans = [(low, min(landed.first, stable)), (max(low, landed.end), stable)]
        # The transaction of the last copy has ended below the last stable offset: its marker is one
        # of the offsets from there on. If that is the only one, nothing else can be there.
        if spans[1] == (landed.end, landed.end + 1):
            spans.pop()
        return [span for span in spans if span[0] < span[1]]

    def see(self, landed: Landed | None, stable: int) -> None:
        """Take note of a reading: what it leaves unexplained must be read; see ``unexplained``."""
        if self.known_from is not None and stable < self._known_to:  # the log has lost records
            self._known_to = stable
            self._forget(stable, FOREVER)
        for low, high in self.unexplained(landed, stable):
            self._gaps.add(low, high)
        if self.known_from is None:
            self.known_from = self._known_to = stable if landed is None else landed.first
        self._known_to = max(self._known_to, stable)

    def look_back(self, known_from: int, gaps: Iterable[Span]) -> None:
        """Take note of what the mapping leaves unexplained before the first reading."""
        if self.known_from is not None and known_from < self.known_from:
            self.known_from = known_from
            self._gaps = OffsetIntervals([*gaps, *self.gaps])

    def learn(
        self, batches: Iterable[WrittenBatch], registered: Collection[int], left: Iterable[Span]
    ) -> None:
        """Take note of who has written batches in the gaps.

        Args:
            batches: committed batches of records, without control batches.
            registered: the producer ids of pipelines, read after the batches.
            left: what is not read of the gaps.
        """
        self._gaps = OffsetIntervals(left)
        self._strange += [batch for batch in batches if batch.producer not in registered]
        self._strange.sort(key=lambda batch: batch.first)
        if len(self._strange) > _MOST_STRETCHES:
            del self._strange[:-_MOST_STRETCHES]  # the newest are deleted last
            self._at_least = True

    def give_up(self) -> None:
        """Leave the gaps unread: where some records are strange, more of them change little."""
        self._at_least |= bool(self._gaps)
        spans = (*self._given_up.all(), *self._gaps.all())
        self._given_up = OffsetIntervals(spans[-_MOST_STRETCHES:])
        self._gaps = OffsetIntervals()

    def forget_before(self, start: int) -> None:
        """Forget the strange records before a log start offset."""
        self._forget(0, start)

    def _forget(self, low: int, high: int) -> None:
        self._strange = [one for one in self._strange if one.first < low or one.end > high]
        for spans in (self._gaps, self._given_up):
            spans.forget(low, high)
        if not self._strange:  # whether there are more is a question again
            self._gaps = OffsetIntervals([*self._given_up.all(), *self._gaps.all()])
            self._given_up, self._at_least = OffsetIntervals(), False

    def describe(self, at: TargetPartition) -> StrangeRecords | None:
        """Return the strange records; None if none is known."""
        if not self._strange:
            return None
        ids = {batch.producer for batch in self._strange if batch.producer >= 0}
        return StrangeRecords(
            *at,
            first=min(batch.first for batch in self._strange),
            end=max(batch.end for batch in self._strange),
            records=sum(batch.records for batch in self._strange),
            producers=tuple(sorted(ids)[:_MOST_PRODUCERS]),
            without_id=sum(batch.records for batch in self._strange if batch.producer < 0),
            at_least=self._at_least,
        )


def find_unnamed(
    replica: Replica, target: TargetPartition, below: int
) -> tuple[int, Sequence[Span]] | None:
    """Return from where on a mapping names the records of a target partition, and what it leaves.

    None if it does not tell: it is still being read, or has no range below the offset.

    Args:
        replica: the copy of the only source partition that is copied there.
        target: the target partition.
        below: the target offset up to which it is asked for.
    """
    ranges = replica.target_ranges.get(target)
    if ranges is None or replica.behind or replica.anchors is not None:
        return None
    columns = ranges.columns()
    columns = columns.take(columns.source >= replica.held_from)
    order = np.argsort(columns.target)
    begins = columns.target[order]
    ends = (columns.target + columns.count + columns.further)[order]
    begins, ends = begins[begins < below], ends[begins < below]
    if not len(begins):
        return None
    # Copies that were made again after a move back have overlapped nothing, but the mapping names
    # only the later ones.
    reached = np.maximum.accumulate(ends)
    apart = np.flatnonzero(begins[1:] - reached[:-1] > 1)
    gaps = list(zip(reached[:-1][apart].tolist(), begins[1:][apart].tolist(), strict=True))
    gaps += [(at, at + 1) for at in replica.inserted.get(target, ()) if at < below]
    # The span of the pipeline's own offsets begins here: something broke it, if only one offset.
    if reached[-1] < below:
        gaps.append((int(reached[-1]), below))
    return int(begins[0]), gaps
