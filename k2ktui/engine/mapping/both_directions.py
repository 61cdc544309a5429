"""Translate committed offsets where two pipelines copy the same topics in opposite directions.

A target partition then has records of three kinds: copies of source records, by this pipeline; its
own records that the opposite pipeline copied to the source; and its own records that nothing has
copied yet. A group that has worked on the source has read some of the first two, in another order
than on the target. Its position on the target is the lowest target offset of any record that it has
not read on the source:

- the first unread source record, by the mapping;
- the first unread record that came from the target, by the inverse of the opposite mapping;
- the first record that was never copied to the source.

Nothing is skipped. Records from that position on that the group has read on the source are counted:
they are read again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from k2ktui.engine.mapping.intervals import FOREVER, Span
from k2ktui.engine.mapping.opposite_copy import Commits, OppositeCopy, TailKind, find_lost_end
from k2ktui.engine.mapping.ranges import MappingRanges, find_one
from k2ktui.engine.mapping.replica import (
    Lookup,
    Replica,
    TargetLog,
    TargetPartition,
    may_precede,
)
from k2ktui.engine.mapping.translate import (
    Basis,
    Translation,
    lost_reason,
    lost_records_reason,
    translate,
)
from k2ktui.engine.records.state import SourcePartition
from k2ktui.text import counted

_NOTHING: Mapping[TargetPartition, int] = {}
_UNREAD_RETURNED = (
    "the source does not answer, and the group had not read all records there that came from the "
    "target"
)
_MAYBE_UNREAD = (
    "the source does not answer, and the mapping topic does not say whether records that the group "
    "has not read there came from the target"
)


class _Read(StrEnum):
    """Whether a group has read the records of offsets whose mapping is missing."""

    ALL = "all"
    NONE = "none"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class _Native:
    """The first unread record of a source partition on the target; None if none is there.

    ``again`` counts records that are read again and that no mapping names.
    """

    offset: int | None
    basis: Basis
    again: int = 0
    reason: str = ""


def translate_both_ways(
    replicas: Mapping[SourcePartition, Replica],
    commits: Commits,
    targets: Mapping[TargetPartition, TargetLog],
    opposite: Mapping[TargetPartition, OppositeCopy],
    lookup: Lookup | None = None,
    current: Mapping[TargetPartition, int] = _NOTHING,
) -> list[Translation]:
    """Translate one group's committed offsets; other arguments and the result as ``translate``.

    Args:
        replicas: state of each source partition's copy.
        commits: committed offset per source partition; negative means none.
        targets: bounds of the target partitions.
        opposite: what was copied from target partitions to the source; the others are translated
            as in one direction.
        lookup: lookups shared by many groups.
        current: the group's committed offsets on the target, where it has any: it has read there
            what precedes them.
    """
    if lookup is None:
        lookup = Lookup(replicas, {source: [offset] for source, offset in commits.items()})
    rows = translate(replicas, commits, targets, lookup, opposite.keys())
    return [
        _Joined(row, replicas, commits, log, opposite, current.get(row.target)).translate(lookup)
        if row.target in opposite and (log := targets.get(row.target)) is not None
        else row
        for row in rows
    ]


@dataclass(frozen=True, slots=True)
class _Joined:
    """The translation for one target partition, in one direction, and what it is joined with."""

    row: Translation
    replicas: Mapping[SourcePartition, Replica]
    commits: Commits
    log: TargetLog
    copies: Mapping[TargetPartition, OppositeCopy]
    current: int | None

    @property
    def opposite(self) -> OppositeCopy:
        """The opposite copy of this target partition."""
        return self.copies[self.row.target]

    def translate(self, lookup: Lookup) -> Translation:
        if self.row.offset is None or self.row.basis is Basis.UNMAPPED:
            return self.row
        returned = self.opposite.returned
        if returned is not None:
            return self._without_opposite(returned)
        if self.opposite.replica.unusable_reason:
            return self.row.unmapped(f"opposite pipeline: {self.opposite.replica.unusable_reason}")
        natives = [self._native(source) for source in self.row.sources]
        offsets = [native.offset for native in natives if native.offset is not None]
        offsets += self._returned()
        offset = min([*offsets, self.opposite.tail])
        lost = self._lost()
        unknown = [span for span, read in lost if read is _Read.UNKNOWN and span[0] < offset]
        offset = min([offset, *(first for first, _ in unknown)])
        missing = self._without_commit(offset, lookup)
        if missing:
            names = ", ".join(str(source) for source in missing)
            return self.row.unmapped(
                f"{names} has records of this partition, and the group has no offset there"
            )
        is_record = offset in offsets
        if offset + is_record > self.log.written:
            return self.row.unmapped(lost_reason(offset, self.log.written))
        return self._describe(offset, natives, lost, unknown, is_record=is_record)

    def _without_opposite(self, returned: Commits) -> Translation:
        """Return the row as in one direction, if nothing unread on the source came from here."""
        topics = {at.topic for at in self.row.sources}
        reasons = {
            reason
            for at, end in returned.items()
            if at.topic in topics and (reason := self._explain_unread(at, end))
        }
        if not reasons:
            return self.row
        return self.row.unmapped(_UNREAD_RETURNED if _UNREAD_RETURNED in reasons else _MAYBE_UNREAD)

    def _explain_unread(self, at: SourcePartition, end: int) -> str:
        """Return why a group may have records of the target to read before a source offset."""
        committed, lost = self.commits.get(at, -1), find_lost_end(self.replicas[at])
        if committed < 0 and end <= lost:
            # Of what the mapping does not have, a group without a commit is not said to read any.
            return _UNREAD_RETURNED if self.replicas[at].left_out_end else ""
        if committed >= end:
            return ""
        return _MAYBE_UNREAD if committed < lost else _UNREAD_RETURNED

    def _describe(
        self,
        offset: int,
        natives: list[_Native],
        lost: list[tuple[Span, _Read]],
        unknown: list[Span],
        *,
        is_record: bool,
    ) -> Translation:
        read = self._count_read(offset)
        again = read + sum(
            max(0, end - max(first, offset)) for (first, end), how in lost if how is not _Read.NONE
        )
        ahead = sum(native.again for native in natives if native.basis is Basis.AHEAD)
        bounded = [native for native in natives if native.basis is Basis.BOUNDED]
        again += sum(native.again for native in bounded)
        gone, ended = self._count_deleted(), self._count_lost()
        reasons = dict.fromkeys(native.reason for native in natives if native.reason)
        for first, end in unknown:
            reasons[_describe_lost(first, end)] = None
        if read:
            reasons["records of both directions interleave here: no single position"] = None
        if offset == self.opposite.tail and not is_record:
            reasons.update(self._describe_tail(offset))
        if gone:
            start = self.log.start
            reasons[f"the target has deleted {gone} unread records (log start offset {start})"] = (
                None
            )
        if ended:
            reasons[lost_records_reason(ended)] = None
        basis = Basis.EXACT if is_record else Basis.END
        if self.opposite.tail_kind is TailKind.RECORD and offset == self.opposite.tail:
            basis = Basis.EXACT
        if ahead:
            basis = Basis.AHEAD
        if again or bounded or unknown:
            basis = Basis.BOUNDED
        return Translation(
            self.row.target,
            self.row.sources,
            offset,
            basis,
            again + ahead,
            gone + ended,
            "; ".join(reasons),
        )

    def _describe_tail(self, offset: int) -> dict[str, None]:
        if self.opposite.tail_kind is TailKind.RECORD:
            return {f"records from offset {offset} on were not copied to the source": None}
        if self.opposite.tail_kind is TailKind.UNCHECKED:
            why = f"whether records from offset {offset} on were copied to the source is unknown"
            return {why: None}
        return {}

    def _native(self, source: SourcePartition) -> _Native:
        """Return the first unread record of a source partition that the target retains."""
        replica, committed, target = self.replicas[source], self.commits[source], self.row.target
        rows = translate(
            {source: replica}, {source: committed}, {target: self.log}, None, (target,)
        )
        (part,) = (row for row in rows if row.target == target)
        if part.basis is Basis.END:
            return _Native(None, Basis.END)
        if part.basis is Basis.AHEAD:
            return self._ahead(source, part)
        if part.basis is Basis.EXACT and part.skipped:
            return _Native(self._first_retained(replica, committed), Basis.EXACT)
        return _Native(part.offset, part.basis, part.reread or 0, part.reason)

    def _ahead(self, source: SourcePartition, part: Translation) -> _Native:
        """Return how far a group is ahead, without the records that came from the target."""
        committed, ahead = self.commits[source], part.reread or 0
        at = (source.topic, source.partition)
        came = sum(
            ranges.count_within((0, FOREVER), (committed - ahead, committed))
            for copy in self.copies.values()
            if (ranges := copy.replica.target_ranges.get(at)) is not None
        )
        if came >= ahead:
            return _Native(None, Basis.END)
        if not came:
            return _Native(None, Basis.AHEAD, ahead, part.reason)
        reason = f"the group is up to {ahead - came} records past what was copied"
        return _Native(None, Basis.AHEAD, ahead - came, f"{reason}; those are re-read")

    def _first_retained(self, replica: Replica, committed: int) -> int | None:
        ranges = replica.target_ranges.get(self.row.target)
        if ranges is None:
            return None
        first = find_one(ranges.back, self.log.start)
        return None if first is None else find_one(ranges.translate, max(first, committed))

    def _returned(self) -> Iterator[int]:
        """Yield the first unread record that came from the target, per partition there."""
        for _, committed, ranges in self._copied_back():
            first = find_one(ranges.back, committed)
            if first is not None:
                retained = find_one(ranges.first_at_or_after, max(first, self.log.start))
                if retained is not None:
                    yield retained

    def _copied_back(self) -> Iterator[tuple[SourcePartition, int, MappingRanges]]:
        """Yield each partition that has records of the target partition, with a commit."""
        for (topic, partition), ranges in self.opposite.replica.target_ranges.items():
            source = SourcePartition(topic, partition)
            if len(ranges) and self.commits.get(source, -1) >= 0:
                yield source, self.commits[source], ranges

    def _without_commit(self, offset: int, lookup: Lookup) -> list[SourcePartition]:
        """Return the partitions without a commit that share records before the offset."""
        feeds = lookup.feeds.get(self.row.target, frozenset())
        sources = {
            source
            for source in feeds - set(self.row.sources)
            if may_precede(self.replicas[source], self.row.target, offset)
        }
        committed = {source for source, _, _ in self._copied_back()}
        for where, ranges in self.opposite.replica.target_ranges.items():
            source = SourcePartition(*where)
            if source not in committed and ranges.count_within(
                (self.log.start, offset), (0, FOREVER)
            ):
                sources.add(source)
        return sorted(sources)

    def _lost(self) -> list[tuple[Span, _Read]]:
        """Return the target offsets whose mapping to the source is missing, as far as retained."""
        replica, start = self.opposite.replica, self.log.start
        position = replica.position
        if position is None:
            return []
        spans = [(self.current or 0, position.start), *replica.unknown_spans]
        return [
            ((max(first, start), end), self._is_read(first, end, position.start))
            for first, end in spans
            if end > max(first, start)
        ]

    def _is_read(self, first: int, end: int, begun: int) -> _Read:
        """Return whether the records at these target offsets were read on the source.

        Records of one partition keep their order in the copy: all before a read record were read,
        and all after an unread one were not.
        """
        if end <= begun:
            return _Read.UNKNOWN  # never copied
        copies = list(self._copied_back())
        every = len(copies) == len(self.opposite.replica.target_ranges) > 0
        following = [find_one(ranges.translate, end) for _, _, ranges in copies]
        if every and all(
            at is not None and at <= committed
            for at, (_, committed, _) in zip(following, copies, strict=True)
        ):
            return _Read.ALL
        if every and all(
            ranges.count_within((0, first), (committed, FOREVER)) for _, committed, ranges in copies
        ):
            return _Read.NONE
        return _Read.UNKNOWN

    def _count_read(self, offset: int) -> int:
        """Count the records from a target offset on that were read on the source."""
        count = 0
        for source in self.row.sources:
            ranges = self.replicas[source].target_ranges.get(self.row.target)
            if ranges is not None:
                count += ranges.count_within((0, self.commits[source]), (offset, FOREVER))
        for _, committed, ranges in self._copied_back():
            count += ranges.count_within((offset, FOREVER), (0, committed))
        return count

    def _count_lost(self) -> int:
        """Count the unread copies at the end of the target's log that it has lost."""
        copies = (
            (at, self.replicas[at].target_ranges.get(self.row.target)) for at in self.row.sources
        )
        return sum(
            ranges.count_lost(self.log.written, self.commits[at])
            for at, ranges in copies
            if ranges is not None
        )

    def _count_deleted(self) -> int:
        """Count the unread records before the target's log start offset."""
        start, count = self.log.start, 0
        for source in self.row.sources:
            ranges = self.replicas[source].target_ranges.get(self.row.target)
            if ranges is not None:
                count += ranges.count_within((self.commits[source], FOREVER), (0, start))
        for _, committed, ranges in self._copied_back():
            count += ranges.count_within((0, start), (committed, FOREVER))
        return count


def _describe_lost(first: int, end: int) -> str:
    return (
        f"whether {counted(end - first, 'target offset')} from {first} on were read is unknown: "
        "the opposite pipeline's mapping does not have them"
    )
