"""State of one source partition within a lap: fetched, handed-on and committed offsets."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from k2ktui.engine.records.gaps import with_gap
from k2ktui.engine.records.state import (
    MOST_LANDED,
    Covers,
    FirstLanded,
    Gap,
    Landed,
    MappingRecord,
    Position,
    SourcePartition,
)
from k2ktui.log.batch import (
    APPEND_TIME,
    COMPRESSION_MASK,
    CONTROL,
    DELETE_HORIZON,
    HEADER_BYTES,
    PREFIX_BYTES,
    TRANSACTIONAL,
    AbortedTransactions,
    Batch,
    CorruptBatch,
    split_batches,
    writable,
)
from k2ktui.log.core import core
from k2ktui.log.records import I64
from k2ktui.log.schema_id_columns import UsedId
from k2ktui.native.binding import Core, Rows
from k2ktui.replication.copying.batch_origins import BatchOrigins, Origin
from k2ktui.replication.copying.landed_spans import LandedSpans
from k2ktui.replication.copying.outgoing_batch import OutgoingBatch, TargetPartition
from k2ktui.replication.copying.partition_faults import CORRUPT
from k2ktui.replication.copying.range_builder import RangeBuilder
from k2ktui.replication.copying.slot_task import (
    Assignment,
    Fault,
    SizeLimit,
    SlotTask,
    with_topics,
)
from k2ktui.replication.copying.waiting_batches import WaitingBatches, batch_of

#: Batches up to this size are merged while they wait: a request carries one batch per target
#: partition. Larger ones that are compressed would take longer to compress again.
SMALL_BATCH_BYTES = 16 << 10
#: The same for batches that are not compressed.
SMALL_UNCOMPRESSED_BYTES = 256 << 10
#: Either, by the codec's number.
SMALL_BYTES = np.array([SMALL_UNCOMPRESSED_BYTES] + [SMALL_BATCH_BYTES] * COMPRESSION_MASK)
_SCANNED_FROM = 3


def is_small(batch: Batch) -> bool:
    """Return whether a batch is small enough to be merged."""
    compressed = batch.attributes & COMPRESSION_MASK
    return len(batch.view) <= (SMALL_BATCH_BYTES if compressed else SMALL_UNCOMPRESSED_BYTES)


Span = tuple[int, int]  # of source offsets: [first, end)


@dataclass(frozen=True, slots=True)
class FetchPosition:
    """A partition's fetch request; its response is used only if the position is unchanged.

    Attributes:
        offset: next offset to fetch.
        epoch: leader epoch of the last batch before it, -1 if the broker must not compare epochs.
        jumps: number of jumps so far; separates requests for one offset before and after a return
            to it.
    """

    offset: int
    epoch: int
    jumps: int


@dataclass(frozen=True, slots=True)
class ReaderState:
    """How far a partition was read, for the process that writes its records.

    Attributes:
        handed: everything before this offset was read, or needs no copying.
        epoch: leader epoch of the last batch before it, -1 if unknown.
        gaps: lost source offsets that were skipped.
        left_out: offsets of the opposite pipeline's records.
        fault: why the partition stopped, if it did.
        log_end: last stable offset that the source named last, 0 if unknown.
    """

    handed: int
    epoch: int
    gaps: tuple[Gap, ...]
    left_out: tuple[Span, ...]
    fault: Fault | None = None
    log_end: int = 0


class PartitionReader:
    """The state of one assignment.

    Three offsets advance through the source log: ``fetched`` (next to fetch), ``handed``
    (everything before it was handed to the writer or needs no copying) and ``committed``.

    ``undecided`` has the producer ids of waiting batches that may be the opposite pipeline's;
    nothing is taken from the partition before ``apply_origins`` has cleared it. ``unresolved`` has
    the schema ids that must be looked up before the next batch is taken. ``landed`` is shared by
    all partitions of the slot; without it, the position keeps what it says. ``size_limit`` shrinks
    when the target refuses a batch for its size. ``refused_at`` is the offset of a record that it
    refuses alone, None for none: nothing is copied from there on. ``log_end`` is the last stable
    offset that the source named last.
    """

    def __init__(
        self,
        assignment: Assignment,
        origins: BatchOrigins | None = None,
        landed: LandedSpans | None = None,
    ) -> None:
        self.assignment = assignment
        self.source: SourcePartition = assignment.source
        position = assignment.position
        self.fetched = self.handed = self.committed = position.offset
        self.leader_epoch = self._handed_epoch = position.leader_epoch
        self.check_epoch = position.leader_epoch >= 0
        self.log_end = position.end
        self.ready = WaitingBatches()
        self.ready_bytes = 0  # of ``ready``; it is 0 only if no batch waits
        self.fault: Fault | None = None
        self.gaps: tuple[Gap, ...] = position.gaps
        self.undecided: set[int] = set()
        self.unresolved: frozenset[UsedId] = frozenset()
        self.size_limit: SizeLimit | None = assignment.size_limit
        refused = assignment.refused
        self.refused_at: int | None = None if refused is None else refused.offset
        self._origins = origins
        self._left_out: list[Span] = []
        self._jumps = 0
        self._ranges: dict[TargetPartition, RangeBuilder] = {}
        self._landed = landed
        # Those written last come last.
        self._landed_on = dict.fromkeys((at.topic, at.partition) for at in position.landed)
        # Those to which no run has copied since the position was moved back.
        self._unproven = {(at.topic, at.partition) for at in position.landed if at.first == at.end}
        self._first_landed = _known_firsts(assignment)

    @property
    def next_fetch(self) -> FetchPosition:
        """The position of the next fetch."""
        epoch = self.leader_epoch if self.check_epoch else -1
        return FetchPosition(self.fetched, epoch, self._jumps)

    def awaits(self, asked: FetchPosition | None) -> bool:
        """Return whether the response to this request can still be used."""
        return asked is not None and (asked.offset, asked.jumps) == (self.fetched, self._jumps)

    def receive(self, records: bytes | memoryview, aborted: list[tuple[int, int]]) -> int:
        """Queue the batches of a fetch response.

        Returns:
            The number of bytes added to ``ready``.
        """
        filter_ = AbortedTransactions(aborted)
        before = self.ready_bytes
        view = writable(records)
        in_c = core() if self._waits_in_rows(view) else None
        try:
            at = 0 if in_c is None else self._receive_scanned(in_c, view, filter_)
            for batch in split_batches(view[at:]):
                self._receive(batch, filter_)
        except CorruptBatch as error:
            self.corrupt(error, self.fetched)
        return self.ready_bytes - before

    def _waits_in_rows(self, answer: memoryview) -> bool:
        """Return whether the batches of an answer may be merged, and seem to be several.

        To scan one takes three times as long as to read its header here. The length is in bytes
        8 to 11 of the first.
        """
        if not self.assignment.route.keeps_records or len(answer) < HEADER_BYTES:
            return False
        first = PREFIX_BYTES + int.from_bytes(answer[8:PREFIX_BYTES], "big")
        return len(answer) >= _SCANNED_FROM * first

    def _receive_scanned(self, in_c: Core, answer: memoryview, filter_: AbortedTransactions) -> int:
        """Queue the batches of an answer that the core has scanned: many at once, as rows.

        Returns:
            Where it has stopped: what follows must be looked at one by one.

        Raises:
            CorruptBatch: as ``_receive``.
        """
        rows, consumed = in_c.scan(answer)
        rows["mergeable"] = rows["size"] <= SMALL_BYTES[rows["attributes"] & COMPRESSION_MASK]
        at = 0
        for special in [*np.flatnonzero(~self._are_ordinary(rows, filter_)).tolist(), len(rows)]:
            if at < special:
                self._receive_rows(answer, rows[at:special])
            if special < len(rows):
                self._receive(batch_of(answer, rows[special]), filter_)
            at = special + 1
        return consumed

    def _are_ordinary(self, rows: Rows, filter_: AbortedTransactions) -> NDArray[np.bool_]:
        """Return which rows need no rule of ``_receive``: their batches are copied."""
        last, attributes = rows["last_offset"], rows["attributes"]
        # A batch that ends before the position, or before the one in front of it, is left out.
        before = np.maximum.accumulate(np.concatenate(([self.fetched - 1], last[:-1])))
        ordinary: NDArray[np.bool_] = (
            (rows["checksum_ok"] == 1) & (rows["count"] > 0) & (last > before)
        )
        unruled = CONTROL
        if filter_.is_needed or self._origins is not None:
            unruled |= TRANSACTIONAL
        ordinary &= (attributes & unruled) == 0
        if self.refused_at is not None:
            ordinary &= last < self.refused_at
        return ordinary

    def _receive_rows(self, answer: memoryview, rows: Rows) -> None:
        if rows["base_offset"][0] < self.fetched:
            rows["mergeable"][0] = 0  # its first records were copied before
        self.fetched = int(rows["last_offset"][-1]) + 1
        epochs = rows["leader_epoch"][rows["leader_epoch"] >= 0]
        if len(epochs):
            self.leader_epoch = int(epochs[-1])
        self.ready_bytes += int(rows["size"].sum())
        self.ready.append_rows(answer, rows)

    def _receive(self, batch: Batch, filter_: AbortedTransactions) -> None:
        after = batch.last_offset + 1
        if after <= self.fetched:
            # If compaction removed the rest of a batch, a fetch returns it although it ends before
            # the position; its markers still count for the filter.
            filter_.drops(batch)
            return
        if self.refused_at is not None and self.holds_refused(batch):
            self._stop_before_refused()
            # A message of magic 0 or 1 may have earlier records, too.
            if self.fetched >= self.refused_at or (
                batch.magic >= 2 and batch.base_offset >= self.refused_at
            ):
                return
        if not batch.crc_ok():
            raise CorruptBatch(f"the batch at offset {batch.base_offset} has a wrong checksum")
        dropped = filter_.drops(batch) or batch.count == 0
        if self._origins is not None and batch.is_transactional:
            if dropped:
                self._extend_left_out(after)  # its marker
            else:
                dropped = self._is_left_out(self._origins, batch, after)
        self.fetched = after
        if batch.leader_epoch >= 0:
            self.leader_epoch = batch.leader_epoch
        if not dropped:
            self.ready.append(batch)
            self.ready_bytes += len(batch.view)
        elif not self.ready:
            self.handed, self._handed_epoch = after, self.leader_epoch

    def holds_refused(self, batch: Batch) -> bool:
        """Return whether a batch has the record that the target refuses, or is behind it."""
        return self.refused_at is not None and batch.last_offset >= self.refused_at

    def _stop_before_refused(self) -> None:
        fault = self.assignment.refused
        assert fault is not None
        self.stop(fault)

    def _is_left_out(self, origins: BatchOrigins, batch: Batch, after: int) -> bool:
        """Return whether the opposite pipeline wrote a batch, as far as that is known."""
        origin = origins.origin(batch.producer_id)
        if origin is Origin.UNDECIDED:
            self.undecided.add(batch.producer_id)
        elif origin is Origin.OPPOSITE and not self._extend_left_out(after):
            self._left_out.append((max(batch.base_offset, self.fetched), after))
        return origin is Origin.OPPOSITE

    def _extend_left_out(self, after: int) -> bool:
        """Extend the last offsets left out if they end at the fetch position; return whether so."""
        if not self._left_out or self._left_out[-1][1] != self.fetched:
            return False
        self._left_out[-1] = (self._left_out[-1][0], after)
        return True

    def apply_origins(self) -> int:
        """Drop the waiting batches that the opposite pipeline wrote, as far as that is known.

        Returns:
            The number of bytes dropped.
        """
        if self._origins is None:
            return 0
        before, origins = self.ready_bytes, self._origins
        self.undecided.clear()

        def is_opposite(batch: Batch) -> bool:
            if not batch.is_transactional:
                return False
            origin = origins.origin(batch.producer_id)
            if origin is Origin.UNDECIDED:
                self.undecided.add(batch.producer_id)
            return origin is Origin.OPPOSITE

        for batch in self.ready.leave_out(is_opposite):
            self.ready_bytes -= len(batch.view)
            first = max(batch.base_offset, self.handed)
            self._left_out.append((first, batch.last_offset + 1))
        if not self.ready:
            self._hand_all()
        return before - self.ready_bytes

    def _hand_all(self) -> None:
        """Move on to what was fetched, without a refused record: there is nothing to copy."""
        end = self.fetched if self.refused_at is None else min(self.fetched, self.refused_at)
        self.handed, self._handed_epoch = end, self.leader_epoch

    def leave_out(self, offsets: I64) -> None:
        """Note records that were taken but are not copied, as the opposite pipeline wrote them."""
        for some in np.split(offsets, np.nonzero(np.diff(offsets) != 1)[0] + 1):
            self._left_out.append((int(some[0]), int(some[-1]) + 1))

    @property
    def state(self) -> ReaderState:
        """How far the partition was read, for another process's ``restore``."""
        return ReaderState(
            self.handed,
            self._handed_epoch,
            self.gaps,
            tuple(self._left_out),
            self.fault,
            self.log_end,
        )

    def restore(self, state: ReaderState) -> None:
        """Continue from the state of another process's reader of the same assignment."""
        self.fetched = self.handed = state.handed
        self.leader_epoch = self._handed_epoch = state.epoch
        self.gaps, self._left_out, self.fault = state.gaps, list(state.left_out), state.fault
        self.log_end = state.log_end

    def corrupt(self, error: CorruptBatch, offset: int) -> None:
        """Stop the partition before a batch that cannot be read."""
        self.stop(CORRUPT.at(self.source, offset, error=error))

    def take(self) -> Batch:
        """Remove and return the next batch; the caller must hand all of it to the writer."""
        batch = self.ready.first
        self.take_merged(1, batch.last_offset, batch.leader_epoch)
        return batch

    def take_merged(self, count: int, last_offset: int, leader_epoch: int) -> None:
        """Remove the next batches, of one leader epoch; the caller must hand on all of them."""
        self.ready_bytes -= self.ready.take(count)
        self.handed = last_offset + 1
        if leader_epoch >= 0:
            self._handed_epoch = leader_epoch
        if not self.ready:
            # The rest up to ``fetched`` is control batches and aborted records: nothing to copy.
            self._hand_all()

    def take_before(self, offset: int) -> None:
        """Take the part of the next batch before an offset; drop the rest and what follows."""
        batch = self.take()
        self.handed, self._handed_epoch = offset, batch.leader_epoch
        self.drop_from(offset)

    def acknowledge(self, outgoing: OutgoingBatch, base: int) -> None:
        """Record the target offsets of an acknowledged batch."""
        target = outgoing.target
        if self._landed is not None:
            self._landed.add(target, base, outgoing.count)
            self._landed_on.pop(target, None)
            self._landed_on[target] = None
            self._unproven.discard(target)
        sources = outgoing.sources
        first = outgoing.first_source if sources is None else int(sources[0])
        if self._first_landed is not None and target not in self._first_landed:
            self._first_landed[target] = FirstLanded(*target, first, base)
        into = self._ranges.get(target)
        if into is None:
            into = self._ranges[target] = RangeBuilder()
        if sources is None:
            into.add_range(first, base, outgoing.count)
        else:
            into.add(sources, base)

    @property
    def next_timestamp(self) -> int:
        """Timestamp (epoch ms) of the first record not handed on; -1 if it was not fetched."""
        if not self.ready:
            return -1
        batch = self.ready.first
        # With a delete horizon (KIP-534), the base timestamp is that horizon, which lies ahead.
        latest = batch.attributes & (APPEND_TIME | DELETE_HORIZON)
        return batch.max_timestamp if latest else batch.base_timestamp

    @property
    def can_be_routed(self) -> bool:
        """Whether a batch waits and everything is known that its route depends on."""
        return self.ready_bytes > 0 and not self.undecided and not self.unresolved

    @property
    def dirty(self) -> bool:
        """Whether there is something to commit."""
        return self.handed != self.committed or bool(self._ranges)

    @property
    def active(self) -> bool:
        """Whether there is something to hand on or to commit."""
        return self.ready_bytes > 0 or self.dirty

    @property
    def done(self) -> bool:
        """Whether the lap has nothing more to do for this partition."""
        until = self.assignment.until
        if self.fault is not None:
            return not self.ready
        return until is not None and self.committed >= until

    def position(self, term: int, slot: int, at_ms: int) -> Position:
        """Return the position to commit now."""
        route, before = self.assignment.route, self.assignment.position
        firsts = self._first_landed
        return replace(
            with_topics(before, route.choices, route.partition),
            landed=self._landed_now(),
            first_landed=None if firsts is None else tuple(firsts.values()),
            offset=self.handed,
            leader_epoch=self._handed_epoch,
            term=term,
            slot=slot,
            at_ms=at_ms,
            gaps=tuple(gap for gap in self.gaps if gap.first < self.handed),
            end=self.log_end if self.log_end > self.handed else 0,
        )

    def _landed_now(self) -> tuple[Landed, ...]:
        if self._landed is None:
            return self.assignment.position.landed
        # Other partitions of the slot may have a span there: it is not known of this one.
        return tuple(
            replace(at, first=at.end) if (at.topic, at.partition) in self._unproven else at
            for at in self._landed.of(list(self._landed_on)[-MOST_LANDED:])
        )

    def committed_position(self, term: int, slot: int) -> Position | None:
        """Return the position in the commit topic; None if the lap committed nothing.

        Its term must be that of its record, because the driver rejects older ones after a failure.
        """
        if self.committed == self.assignment.position.offset:
            return None
        return replace(self.position(term, slot, 0), offset=self.committed)

    def mappings(self, pipeline: str, term: int) -> list[MappingRecord]:
        """Return mapping records of where records landed since the last commit.

        Offsets with nothing to copy also get a mapping record, which shows that they were passed.
        """
        route = self.assignment.route
        records = [
            mapping
            for target, landed in self._ranges.items()
            for mapping in landed.mappings(MappingRecord(pipeline, self.source, *target, term))
        ] or [MappingRecord(pipeline, self.source, route.topic, route.partition or 0, term)]
        left_out = merge_spans(clip_spans(self._left_out, self.committed, self.handed))
        records[0] = replace(records[0], left_out=left_out)
        return [
            replace(record, covers=Covers(self.committed, self.handed, part, len(records)))
            for part, record in enumerate(records)
        ]

    def mark_committed(self, offset: int) -> None:
        """Clear what the last transaction covered; ``offset`` is the position that it wrote.

        Markers that arrived meanwhile may have advanced ``handed`` beyond it; the next transaction
        covers them.
        """
        self.committed = offset
        self._ranges.clear()
        self._left_out = clip_spans(self._left_out, offset, self.fetched)

    def stop(self, fault: Fault) -> None:
        """Stop the partition; batches already handed on are still written and committed."""
        if self.fault is None:
            self.fault = fault

    def jump(self, offset: int, reason: str) -> int:
        """Continue at another offset (``onSourceDataLoss: continue``), not before ``handed``.

        Going forward leaves a gap. Going back drops what was fetched from there on and fetches the
        source's current records instead, so nothing is skipped.

        Returns:
            The number of waiting bytes that were dropped.
        """
        before = self.fetched
        dropped = self.drop_from(offset)
        if offset > before:
            self.gaps = with_gap(self.gaps, Gap(before, offset, reason))
            self.fetched = offset
        went_back = self.fetched < before
        self.leader_epoch = self._last_epoch if went_back else -1
        self.check_epoch = self.leader_epoch >= 0
        self._jumps += 1
        if not self.ready:
            self.handed, self._handed_epoch = self.fetched, self.leader_epoch
        return dropped

    @property
    def _last_epoch(self) -> int:
        return self.ready.last.leader_epoch if self.ready else self._handed_epoch

    def drop_from(self, offset: int) -> int:
        """Drop what was fetched at or after this offset and not handed on.

        A batch that contains the offset is dropped completely and fetched again.

        Returns:
            The number of bytes dropped.
        """
        before = self.ready_bytes
        end = min(offset, self.fetched)
        while self.ready and self.ready.last.last_offset >= offset:
            batch = self.ready.take_last()
            self.ready_bytes -= len(batch.view)
            end = min(end, self._first_offset(batch))
        self.fetched = max(end, self.handed)
        self._left_out = clip_spans(self._left_out, 0, self.fetched)
        return before - self.ready_bytes

    def _first_offset(self, dropped: Batch) -> int:
        """Return an offset at or before the first record of a batch that was last in ``ready``."""
        if dropped.magic >= 2:
            return dropped.base_offset
        # A compressed message of magic 0 or 1 has the offset of the last record in it.
        return self.ready.last.last_offset + 1 if self.ready else self.handed

    def agrees_until(self, epoch: int, end: int) -> int:
        """Return the offset up to which the fetched batches match the broker's log.

        Args:
            epoch: the broker's largest leader epoch that is not above the fetched one.
            end: end offset of that epoch in the broker's log.
        """
        newer = (batch.base_offset for batch in self.ready if batch.leader_epoch > epoch)
        return min(end, self.fetched, next(newer, self.fetched))


def _known_firsts(assignment: Assignment) -> dict[TargetPartition, FirstLanded] | None:
    """Return the first copies on target partitions; None if they are not known, or not kept."""
    position = assignment.position
    if len(assignment.route.targets) != 1:
        return None  # they would make each position as large as the target has partitions
    if position.offset == position.start:
        return {}
    if position.first_landed is None:
        return None
    return {(at.topic, at.partition): at for at in position.first_landed}


def make_readers(
    task: SlotTask, origins: BatchOrigins | None = None
) -> tuple[list[PartitionReader], LandedSpans]:
    """Return the readers of a lap's partitions, and where the slot has written, which they share.

    Args:
        task: the slot's task.
        origins: what is known about the opposite pipeline's producer ids; None for one direction.
    """
    positions = (assignment.position for assignment in task.assignments)
    landed = LandedSpans(positions, transactional=task.transactional)
    return [PartitionReader(assignment, origins, landed) for assignment in task.assignments], landed


def clip_spans(spans: Iterable[Span], first: int, end: int) -> list[Span]:
    """Return the parts of the spans within ``[first, end)``."""
    return [(max(a, first), min(b, end)) for a, b in spans if a < end and b > first]


def merge_spans(spans: Iterable[Span]) -> tuple[Span, ...]:
    """Return the spans, sorted; those that overlap or meet become one."""
    merged: list[Span] = []
    for first, end in sorted(spans):
        if merged and merged[-1][1] >= first:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((first, end))
    return tuple(merged)


def now_ms() -> int:
    """Return the wall-clock time in epoch milliseconds."""
    return int(time.time() * 1000)
