"""The copy of a source partition, and lookups in it for many groups at once."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import numpy as np

from k2ktui.engine.mapping.anchors import OffsetAnchors
from k2ktui.engine.mapping.intervals import FOREVER, OffsetIntervals, Span
from k2ktui.engine.mapping.ranges import NOT_FOUND, MappingRanges, find_one
from k2ktui.engine.records.gaps import find_returned_end
from k2ktui.engine.records.state import Position, SourcePartition

TargetPartition = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Replica:
    """The known state of one source partition's copy.

    Attributes:
        position: replicated position, None if the partition was never replicated.
        target_ranges: mapping ranges by target partition.
        complete_from: source offset from which the mapping is complete except for ``holes``; None:
            since the start.
        source_start: log start offset on the source, None if the source is unreachable.
        holes: source offsets ``[first, end)`` whose mapping is lost or damaged.
        behind: whether mappings below the position could not be read yet, and may still arrive.
        mapped: number of mapped records; ``target_ranges`` may hold only the newest.
        held_from: source offset from which ``target_ranges`` hold all ranges; each also holds
            its last.
        unusable_reason: why committed offsets do not belong to the copied log, such as a
            re-created topic; empty if they do.
        anchors: anchors in place of a complete mapping, where another program copies; the ranges
            then hold single records, and nothing is known about the records between them.
        only_proven: whether only anchors that were compared count, and nothing between them.
        left_out_end: source offset after the last record that came from the target; 0 if the
            mapping names none.
        inserted: single target offsets that others took in the middle of a transaction of the copy,
            as far as it is known.
        source_end: high watermark on the source, read after the groups' commits; None if it was
            not read because no group has committed past the position, or is unknown.
        compared: anchors for offsets whose mapping is missing, some proven by comparing records;
            None where the mapping is enough, or nothing was compared.
    """

    position: Position | None
    target_ranges: Mapping[TargetPartition, MappingRanges] = field(default_factory=dict)
    complete_from: int | None = None
    source_start: int | None = None
    holes: tuple[Span, ...] = ()
    behind: bool = False
    mapped: int = 0
    held_from: int = 0
    unusable_reason: str = ""
    anchors: OffsetAnchors | None = None
    only_proven: bool = False
    left_out_end: int = 0
    inserted: Mapping[TargetPartition, Collection[int]] = field(default_factory=dict)
    source_end: int | None = None
    compared: OffsetAnchors | None = None

    @property
    def known_from(self) -> int:
        """Lowest source offset that the mapping can translate."""
        start = self.position.start if self.position else 0
        return start if self.complete_from is None else max(start, self.complete_from)

    @property
    def is_incomplete(self) -> bool:
        """Whether the mapping of copied offsets is missing, or not readable yet."""
        return self.complete_from is not None or bool(self.holes) or self.behind

    @property
    def lost_spans(self) -> list[Span]:
        """Copied source offsets ``[first, end)`` whose mapping has expired, is lost or damaged."""
        first, position = self.complete_from, self.position
        before = [] if first is None or position is None else [(position.start, first)]
        return [*before, *self.holes]

    @property
    def unknown_spans(self) -> list[Span]:
        """Those, and the offsets before the position whose mapping could not be read yet."""
        spans, position = self.lost_spans, self.position
        if self.behind and position is not None:
            ends = [ranges.end or 0 for ranges in self.target_ranges.values()]
            spans.append((max([position.start, *ends]), position.offset))
        return spans


def make_replica(position: Position, known: Collection[Span], *, unread: bool) -> Replica:
    """Return the copy with the gaps that mapping records leave; the ranges are not in it.

    Args:
        position: the replicated position.
        known: source offsets that the records cover.
        unread: whether some records have not been read yet.
    """
    spans = OffsetIntervals((*known, *((gap.first, gap.end) for gap in position.gaps)))
    # After a move back, copies from the position on count until they are copied again.
    end = max((position.offset, *(high for _, high in known)))
    missing = spans.missing(position.start, end)
    behind = unread and bool(missing) and missing[-1][1] == position.offset
    if behind:
        missing.pop()
    complete_from = None
    if missing and missing[0][0] == position.start:
        complete_from = missing.pop(0)[1]
    return Replica(
        position,
        complete_from=complete_from,
        holes=tuple(missing),
        behind=behind,
        left_out_end=find_returned_end(position.gaps),
    )


@dataclass(frozen=True, slots=True)
class TargetLog:
    """Bounds of a target partition: log start offset and last stable offset.

    ``clear_from`` is an offset from which the target is proven to hold only control records up to
    ``end``; None if that was not checked. ``high`` is the high watermark, read after the mapping;
    None if nothing reaches beyond ``end``.
    """

    start: int
    end: int
    clear_from: int | None = None
    high: int | None = None

    @property
    def written(self) -> int:
        """Offset from which the target holds no record that the mapping may name.

        ``end`` does not prove that a record is lost: it was read before the mapping, and an open
        transaction holds it back.
        """
        return self.end if self.high is None else max(self.end, self.high)


@dataclass(frozen=True, slots=True)
class FoundRecords:
    """Target and source offset of the first mapped record; NOT_FOUND if there is none.

    ``lost_from`` is the target offset from which its range is overwritten (``MappingRanges``).
    """

    target: int
    source: int
    lost_from: int = FOREVER


class Lookup:
    """Batched lookups of committed offsets: one vectorized search per source and target partition.

    Args:
        replicas: state of each source partition's copy.
        offsets: the committed offsets to look up, per source partition.

    Attributes:
        feeds: the source partitions that have records on each target partition.
    """

    def __init__(
        self,
        replicas: Mapping[SourcePartition, Replica],
        offsets: Mapping[SourcePartition, Collection[int]],
    ) -> None:
        self.feeds: dict[TargetPartition, frozenset[SourcePartition]] = _feeds(replicas)
        self._landed: dict[
            tuple[SourcePartition, TargetPartition], dict[int, tuple[int, int, int]]
        ] = {}
        for source, wanted in offsets.items():
            replica = replicas.get(source)
            if replica is None:
                continue
            asked = np.array(sorted(set(wanted)), dtype=np.int64)
            for target, ranges in replica.target_ranges.items():
                landed = ranges.translate(asked)
                origin = ranges.first_at_or_after(asked)
                lost_from = ranges.overwritten_from(asked)
                columns = (asked.tolist(), landed.tolist(), origin.tolist(), lost_from.tolist())
                self._landed[source, target] = {
                    offset: (at, of, limit) for offset, at, of, limit in zip(*columns, strict=True)
                }

    def find(self, source: SourcePartition, target: TargetPartition, offset: int) -> FoundRecords:
        """Return the first mapped record at or after a source offset, on one target partition."""
        offsets = self._landed.get((source, target), {}).get(offset)
        return FoundRecords(NOT_FOUND, NOT_FOUND) if offsets is None else FoundRecords(*offsets)


def target_partitions_of(replica: Replica | None) -> set[TargetPartition]:
    """Return the target partitions that a source partition feeds.

    Where mappings are missing, those that its position names are added.
    """
    if replica is None or replica.position is None:
        return set()
    position, partitions = replica.position, set(replica.target_ranges)
    if position.target_partition is not None:
        partitions.add((position.target_topic, position.target_partition))
    if replica.is_incomplete:
        partitions.update((at.topic, at.partition) for at in position.landed)
    return partitions


def is_mapping_complete(replica: Replica, target: TargetPartition, low: int, high: int) -> bool:
    """Whether the mapping of the target offsets ``[low, high)`` is complete, and in memory."""
    position = replica.position
    assert position is not None
    ranges = replica.target_ranges.get(target, MappingRanges())
    begin = ranges.begins_before(low + 1)
    if begin is None and replica.held_from > 0:
        return False  # older ranges are not in memory
    first = find_one(ranges.back, high)
    if first is not None:
        before = first
    elif high <= (ranges.target_end or 0):
        before = ranges.end or 0
    elif replica.behind:
        return False
    else:
        before = max(position.offset, ranges.end or 0)
    after = position.start if begin is None else begin
    return not any(a < before and after < b for a, b in replica.lost_spans)


def may_precede(replica: Replica, target: TargetPartition, offset: int) -> bool:
    """Whether a source partition may have records on a target partition before an offset."""
    ranges = replica.target_ranges.get(target, MappingRanges())
    if ranges.target_records_between(0, offset):
        return True
    if replica.complete_from is None and not replica.holes and (len(ranges) or not replica.behind):
        return False  # what is not readable yet landed after the ranges
    first = replica.position.first_landed_on(target) if replica.position else None
    return first is None or first.target < offset


def _feeds(
    replicas: Mapping[SourcePartition, Replica],
) -> dict[TargetPartition, frozenset[SourcePartition]]:
    """Return the source partitions that feed each target partition.

    Ranges say it where the mapping is complete. Elsewhere the positions do: if keys or an
    expression choose the partition, a source partition may have fed each one of its topics.
    """
    feeds: dict[TargetPartition, set[SourcePartition]] = {}
    scattering: list[SourcePartition] = []
    for source, replica in replicas.items():
        targets = {at for at, ranges in replica.target_ranges.items() if len(ranges)}
        if replica.is_incomplete:
            targets |= target_partitions_of(replica)
            if replica.position is not None and replica.position.target_partition is None:
                scattering.append(source)
        for target in targets:
            feeds.setdefault(target, set()).add(source)
    topics: dict[str, set[SourcePartition]] = {}
    for source in scattering:
        position = replicas[source].position
        for topic in position.target_topics if position else ():
            topics.setdefault(topic, set()).add(source)
    return {
        target: frozenset(sources | topics.get(target[0], set()))
        for target, sources in feeds.items()
    }
