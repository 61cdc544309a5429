"""Parse mapping records into columns, many at once.

Loading millions of ranges is too slow with one object per range. Records in the exact layout of
``mapping_value`` (``engine/records/state.py``) are split around their lists of numbers. The lists
are joined into one text, a comparison of its separators validates it, and NumPy converts it. If any
record has another layout, all of them go to ``read_mapping_record``, one by one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from confluent_kafka import Message

from k2ktui.engine.mapping.log import MappingChunk
from k2ktui.engine.mapping.range_columns import (
    I64,
    LARGEST_COUNT,
    Flags,
    RangeColumns,
    decode_columns,
    has_overlap,
)
from k2ktui.engine.mapping.replica import TargetPartition
from k2ktui.engine.records.run_record import LARGEST_TERM
from k2ktui.engine.records.state import VERSION, Covers, MalformedRecord, read_mapping_record
from k2ktui.engine.strict_json import LARGEST_INT, integer, parse_object
from k2ktui.engine.strict_json import text as strict_text

_HEAD, _MIDDLE, _TAIL = b'{"covers":[', b'],"ranges":[', b'],"targetPartition":'
_LEFT_OUT = b'],"leftOut":['
_FIELDS = {"targetPartition", "targetTopic", "term", "v"}
_DIGITS = b"0123456789"
_BLANKED = bytes.maketrans(b"[]", b"  ")
_LARGEST = 1 << 53
_TAILS = 100_000


@dataclass(frozen=True, slots=True)
class _Tail:
    """The fields of a record that follow its numbers."""

    number: int
    term: int
    target: TargetPartition


class MappingParser:
    """Decodes mapping records; parses each distinct tail (the fields after the numbers) once."""

    def __init__(self) -> None:
        self._tails: dict[bytes, _Tail | None] = {}

    def pieces(self, groups: Sequence[Sequence[Message]]) -> list[list[MappingChunk]] | None:
        """Return the chunks of each group of records.

        Args:
            groups: records of one source partition each, in the order of the topic.

        Returns:
            None if any record has an unexpected layout: use ``read_one`` for all of them.
        """
        if len(self._tails) > _TAILS:  # bounds the memory that garbage records can take
            self._tails.clear()
        parsed = self._parse([message.value() for group in groups for message in group])
        if parsed is None:
            return None
        begins = np.cumsum([0, *(len(group) for group in groups)])
        return [
            list(_pieces(parsed, group, int(begin)))
            for group, begin in zip(groups, begins, strict=False)
        ]

    def _parse(self, values: Sequence[bytes | None]) -> _Parsed | None:
        heads, left_out, lists, tails = [], [], [], []
        for value in values:
            if value is None or not value.startswith(_HEAD):
                return None
            middle, end = value.find(_MIDDLE), value.rfind(_TAIL)
            if not 0 < middle < end:
                return None
            tail = self._tail(value[end:])
            if tail is None:
                return None
            tails.append(tail)
            head, _, spans_left_out = value[len(_HEAD) : middle].partition(_LEFT_OUT)
            heads.append(head)
            left_out.append(spans_left_out)
            lists.append(value[middle + len(_MIDDLE) : end])
        covers = _numbers(b",".join(heads), b",,,", b",", len(heads))
        counts, numbers = _rows(lists, b"[,,]")
        left_out_ends = _left_out_ends(left_out)
        if covers is None or numbers is None or left_out_ends is None:
            return None
        starts = np.concatenate([[0], np.cumsum(counts)])
        parsed = _Parsed(covers, tails, starts, numbers, left_out_ends)
        return parsed if parsed.sound() else None

    def _tail(self, text: bytes) -> _Tail | None:
        if text not in self._tails:
            self._tails[text] = _read_tail(text, len(self._tails))
        return self._tails[text]


@dataclass(frozen=True, slots=True)
class _Parsed:
    """Records: four numbers and one tail each; record n has ranges ``starts[n]:starts[n+1]``.

    ``left_out_ends`` has the source offset after each record's last one that came from the target.
    """

    covers: I64
    tails: Sequence[_Tail]
    starts: I64
    rows: I64
    left_out_ends: I64

    def columns(self, low: int, high: int) -> RangeColumns:
        """Return the ranges of the records ``[low, high)``."""
        rows = self.rows[self.starts[low] : self.starts[high]]
        return RangeColumns(rows[:, 0], rows[:, 1], rows[:, 2])

    def sound(self) -> bool:
        """Whether each record's ranges are sorted and inside the offsets it covers."""
        covers = self.covers
        if (covers[:, 0] >= covers[:, 1]).any() or (covers[:, 2] >= covers[:, 3]).any():
            return False
        source, count = self.rows[:, 0], self.rows[:, 2]
        if not len(source):
            return True
        record = np.repeat(np.arange(len(covers)), np.diff(self.starts))
        ends = source + count
        inside = (covers[record, 0] <= source) & (ends <= covers[record, 1])
        follows = (source[1:] >= ends[:-1]) | (record[1:] != record[:-1])
        bounded = count.min() >= 1 and count.max() <= LARGEST_COUNT
        ends_there = (self.rows[:, 1] + count).max() <= _LARGEST
        return bool(inside.all() and follows.all() and bounded and ends_there)

    def breaks(self, low: int, high: int) -> Flags:
        """Whether each record starts a new chunk instead of continuing the previous record."""
        covers = self.covers[low:high]
        tail_numbers = np.array([tail.number for tail in self.tails[low:high]])
        alone = covers[:, 3] == 1
        goes_on = alone[1:] & alone[:-1] & (covers[1:, 0] == covers[:-1, 1])
        return np.concatenate([[True], ~goes_on | (tail_numbers[1:] != tail_numbers[:-1])])


def _pieces(parsed: _Parsed, messages: Sequence[Message], begin: int) -> Iterator[MappingChunk]:
    firsts = np.flatnonzero(parsed.breaks(begin, begin + len(messages))).tolist()
    for low, high in zip(firsts, [*firsts[1:], len(messages)], strict=True):
        tail = parsed.tails[begin + low]
        first, _, part, parts = parsed.covers[begin + low].tolist()
        end = int(parsed.covers[begin + high - 1, 1])
        yield MappingChunk(
            tail.term,
            messages[low].partition() or 0,
            messages[low].offset() or 0,
            messages[low].timestamp()[1],
            messages[high - 1].offset() or 0,
            Covers(first, end, part, parts),
            tail.target,
            parsed.columns(begin + low, begin + high),
            records=high - low,
            last_ms=messages[high - 1].timestamp()[1],
            left_out_end=int(parsed.left_out_ends[begin + low : begin + high].max()),
        )


def read_one(message: Message) -> MappingChunk:
    """Decode one mapping record of any layout.

    Raises:
        MalformedRecord: it is not a mapping record, is damaged, or has a newer version.
    """
    mapping = read_mapping_record(message.key(), message.value())
    try:
        columns = decode_columns(mapping)
    except OverflowError as error:
        raise MalformedRecord("an offset beyond 64 bits") from error
    covers = mapping.covers
    assert covers is not None
    if len(columns) and (
        has_overlap(columns)
        or int(columns.count.max()) > LARGEST_COUNT
        or int(columns.source[0]) < covers.first
        or int(columns.source[-1] + columns.count[-1]) > covers.end
        or covers.end >= _LARGEST
        # Its end, too: a repeat of a part of it must be valid.
        or int((columns.target + columns.count + columns.further).max()) > _LARGEST
    ):
        raise MalformedRecord("ranges that overlap or do not match the offsets covered")
    offset = message.offset() or 0
    return MappingChunk(
        mapping.term,
        message.partition() or 0,
        offset,
        message.timestamp()[1],
        offset,
        covers,
        (mapping.target_topic, mapping.target_partition),
        columns,
        mapping.again,
        left_out_end=max((end for _, end in mapping.left_out), default=0),
    )


def _left_out_ends(lists: Sequence[bytes]) -> I64 | None:
    """Return the end of each record's last span left out, 0 without one; None if one is wrong."""
    counts, spans = _rows(lists, b"[,]")
    if spans is None or (spans[:, 0] >= spans[:, 1]).any():
        return None
    ends = np.zeros(len(lists), dtype=np.int64)
    np.maximum.at(ends, np.repeat(np.arange(len(lists)), counts), spans[:, 1])
    return ends


def _rows(lists: Sequence[bytes], pattern: bytes) -> tuple[I64, I64 | None]:
    """Convert lists of rows; return the number of rows of each, and all rows, as ``_numbers``."""
    counts = np.array([text.count(b"[") for text in lists], dtype=np.int64)
    return counts, _numbers(b",".join(filter(None, lists)), pattern, b",", int(counts.sum()))


def _numbers(text: bytes, pattern: bytes, between: bytes, rows: int) -> I64 | None:
    """Convert rows of numbers whose separators repeat ``pattern``; None if they do not match."""
    width = pattern.count(b",") + 1
    if not rows:
        return None if text else np.empty((0, width), dtype=np.int64)
    expected = (pattern + between) * (rows - 1) + pattern
    if text.translate(None, _DIGITS) != expected:
        return None
    try:
        # A missing number is a ValueError, or with NumPy before 2.3 ends the conversion early, with
        # a warning: the length tells. A filter for that would be one of the whole process.
        numbers: I64 = np.fromstring(text.translate(_BLANKED), dtype=np.int64, sep=" , ")
    except (ValueError, DeprecationWarning):
        return None
    if len(numbers) != rows * width or int(numbers.max()) >= _LARGEST:
        return None
    return numbers.reshape(rows, width)


def _read_tail(text: bytes, number: int) -> _Tail | None:
    """Parse the tail; None unless it has exactly the fields that ``mapping_value`` writes."""
    try:
        fields = parse_object(b"{" + text.removeprefix(b"],"))
        if set(fields) != _FIELDS or integer(fields["v"]) != VERSION:
            return None
        topic = strict_text(fields["targetTopic"])
        partition = integer(fields["targetPartition"], high=LARGEST_INT)
        return _Tail(number, integer(fields["term"], high=LARGEST_TERM), (topic, partition))
    except MalformedRecord:
        return None
