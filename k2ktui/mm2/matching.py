"""Which source record each record of a copy is: found by comparing contents in order.

For copies that were made without a record of where each record landed. A copy holds the source's
records in order; some may be missing (compacted, filtered, lost), records of others may lie
between them, and a copier that crashed may have copied a stretch twice. Nothing here reads Kafka.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from k2ktui.engine.state import MappingRange

Print = tuple[int, bytes]


@dataclass(frozen=True, slots=True)
class Matched:
    """What was found.

    Attributes:
        pairs: source and target offset of records, both strictly increasing, so that every record
            from a pair's source offset on has a copy from its target offset on.
        copied: source offsets that are on the copy.
        twice: how many records of the copy are there again behind it.
        strange: target offsets of records that are not known on the source.
    """

    pairs: tuple[tuple[int, int], ...]
    copied: frozenset[int]
    twice: int
    strange: tuple[int, ...]

    @property
    def ranges(self) -> tuple[MappingRange, ...]:
        """The pairs, as ranges of a mapping."""
        found: list[MappingRange] = []
        for source, target in self.pairs:
            last = found[-1] if found else None
            if last and (source, target) == (last.source + last.count, last.target + last.count):
                found[-1] = MappingRange(last.source, last.target, last.count + 1)
            else:
                found.append(MappingRange(source, target, 1))
        return tuple(found)


def match(source: Sequence[Print], copy: Sequence[Print], known: Mapping[int, int]) -> Matched:
    """Find the source record of each record of a copy.

    A record that follows a matched one and equals the source's next is that one. Elsewhere only a
    record that is there once on the source tells where the copy is; ``known`` helps where none is.

    Args:
        source: offset and digest of each record, in order.
        copy: the same of the copy.
        known: source offset of some target offsets; what contradicts the digests is not used.
    """
    places = _Places(source)
    rows: list[int | None] = []
    expected: int | None = None
    for target, digest in copy:
        row = places.at(expected, digest)
        if row is None:
            row = places.of_offset(known.get(target), digest)
        if row is None:
            row = places.single(digest)
        rows.append(row)
        expected = None if row is None else row + 1
    _fill_backwards(rows, copy, places)
    found = [
        (source[row][0], target)
        for row, (target, _) in zip(rows, copy, strict=True)
        if row is not None
    ]
    pairs = safe_pairs(found)
    return Matched(
        pairs=tuple(pairs),
        copied=frozenset(offset for offset, _ in found),
        twice=len(found) - len({offset for offset, _ in found}),
        strange=tuple(t for row, (t, _) in zip(rows, copy, strict=True) if row is None),
    )


class _Places:
    """Where contents are on the source."""

    def __init__(self, source: Sequence[Print]) -> None:
        self._source = source
        self._rows: dict[int, int] = {offset: row for row, (offset, _) in enumerate(source)}
        self._singles: dict[bytes, int | None] = {}
        for row, (_, digest) in enumerate(source):
            self._singles[digest] = None if digest in self._singles else row

    def at(self, row: int | None, digest: bytes) -> int | None:
        """Return the row if that content is there."""
        if row is None or not 0 <= row < len(self._source):
            return None
        return row if self._source[row][1] == digest else None

    def of_offset(self, offset: int | None, digest: bytes) -> int | None:
        """Return the row of an offset if that content is there."""
        return None if offset is None else self.at(self._rows.get(offset), digest)

    def single(self, digest: bytes) -> int | None:
        """Return the row of a content that is there once."""
        return self._singles.get(digest)


def _fill_backwards(rows: list[int | None], copy: Sequence[Print], places: _Places) -> None:
    """Match records before a matched one: those that equal others are told by what follows."""
    for i in range(len(rows) - 2, -1, -1):
        after = rows[i + 1]
        if rows[i] is None and after is not None:
            rows[i] = places.at(after - 1, copy[i][1])


def safe_pairs(found: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Keep what increases on both sides, and leads nobody past a record that he has not read.

    Of a record that was copied twice the last copy counts. Where a later record's last copy lies
    before it, only that one is kept: who goes on there meets both.
    """
    last = dict(found)  # a later copy replaces an earlier one
    kept: list[tuple[int, int]] = []
    for source in sorted(last, reverse=True):
        if not kept or last[source] < kept[-1][1]:
            kept.append((source, last[source]))
    kept.reverse()
    return kept
