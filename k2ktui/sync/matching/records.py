"""Matches the records of a copy to source records by comparing contents in order.

Used for copies without recorded offset mappings. A copy holds the source's records in order; some
may be missing (compacted, filtered, lost), records of other producers may lie between them, and a
copier that crashed may have copied a range twice. This module does not access Kafka.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from k2ktui.engine.records.state import MappingRange

Fingerprint = tuple[int, bytes]


@dataclass(frozen=True, slots=True)
class MatchResult:
    """Result of a match.

    Attributes:
        pairs: source and target offsets of records, both strictly increasing. Every copied record
            at or after a pair's source offset has a copy at or after its target offset.
        copied: source offsets of records that are on the copy.
        repeated: number of copied records that occur again later on the copy.
        unmatched: target offsets of records without a source record.
    """

    pairs: tuple[tuple[int, int], ...]
    copied: frozenset[int]
    repeated: int
    unmatched: tuple[int, ...]

    @property
    def ranges(self) -> tuple[MappingRange, ...]:
        """The pairs as mapping ranges."""
        ranges: list[MappingRange] = []
        for source, target in self.pairs:
            last = ranges[-1] if ranges else None
            if last and (source, target) == (last.source + last.count, last.target + last.count):
                ranges[-1] = MappingRange(last.source, last.target, last.count + 1)
            else:
                ranges.append(MappingRange(source, target, 1))
        return tuple(ranges)


def match_records(
    source: Sequence[Fingerprint], copy: Sequence[Fingerprint], known: Mapping[int, int]
) -> MatchResult:
    """Find the source record of each record of a copy.

    A record after a matched one is matched if it equals the source's next record. Otherwise a
    record is matched through ``known``, or if its content is unique on the source.

    Args:
        source: offset and digest of each source record, in order.
        copy: offset and digest of each record of the copy, in order.
        known: source offsets of some target offsets; ignored where the digests differ.
    """
    index = _SourceIndex(source)
    rows: list[int | None] = []
    expected: int | None = None
    for target, digest in copy:
        row = index.at(expected, digest)
        if row is None:
            row = index.find_offset(known.get(target), digest)
        if row is None:
            row = index.find_unique(digest)
        rows.append(row)
        expected = None if row is None else row + 1
    _fill_backwards(rows, copy, index)
    matched = [
        (source[row][0], target)
        for row, (target, _) in zip(rows, copy, strict=True)
        if row is not None
    ]
    pairs = safe_pairs(matched)
    return MatchResult(
        pairs=tuple(pairs),
        copied=frozenset(offset for offset, _ in matched),
        repeated=len(matched) - len({offset for offset, _ in matched}),
        unmatched=tuple(t for row, (t, _) in zip(rows, copy, strict=True) if row is None),
    )


class _SourceIndex:
    """Index of the source records by offset and digest."""

    def __init__(self, source: Sequence[Fingerprint]) -> None:
        self._source = source
        self._rows: dict[int, int] = {offset: row for row, (offset, _) in enumerate(source)}
        self._unique: dict[bytes, int | None] = {}
        for row, (_, digest) in enumerate(source):
            self._unique[digest] = None if digest in self._unique else row

    def at(self, row: int | None, digest: bytes) -> int | None:
        """Return ``row`` if its record has that content."""
        if row is None or not 0 <= row < len(self._source):
            return None
        return row if self._source[row][1] == digest else None

    def find_offset(self, offset: int | None, digest: bytes) -> int | None:
        """Return the row of a source offset if its record has that content."""
        return None if offset is None else self.at(self._rows.get(offset), digest)

    def find_unique(self, digest: bytes) -> int | None:
        """Return the row of a content that is unique on the source."""
        return self._unique.get(digest)


def _fill_backwards(
    rows: list[int | None], copy: Sequence[Fingerprint], index: _SourceIndex
) -> None:
    """Match records with ambiguous content through the matched record that follows them."""
    for i in range(len(rows) - 2, -1, -1):
        after = rows[i + 1]
        if rows[i] is None and after is not None:
            rows[i] = index.at(after - 1, copy[i][1])


def safe_pairs(matched: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Keep the pairs that increase on both sides and never skip an unread record.

    The last copy of a record counts. A pair is dropped if a later record's last copy lies before
    it; a consumer that resumes at the later record's copy reads both.
    """
    last = dict(matched)  # later copies replace earlier ones
    kept: list[tuple[int, int]] = []
    for source in sorted(last, reverse=True):
        if not kept or last[source] < kept[-1][1]:
            kept.append((source, last[source]))
    kept.reverse()
    return kept
