"""Decode mapping records into columns, many at once.

Loading millions of ranges is too slow with one object per range. The layouts that ``mapping_value``
(``engine/records/state.py``) writes are split at the ends of their lists. NumPy converts the
numbers of all records at once, after the separators between them were checked. A record that is
damaged, or that another program has written, is found by halving the batch: ``read_one`` decodes or
refuses it, and the others stay fast.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
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
    find_further,
    find_single_gaps,
    fold_columns,
    join_columns,
)
from k2ktui.engine.mapping.replica import TargetPartition
from k2ktui.engine.records.run_record import LARGEST_TERM
from k2ktui.engine.records.state import VERSION, Covers, MalformedRecord, read_mapping_record
from k2ktui.engine.strict_json import LARGEST_INT, integer, parse_object
from k2ktui.engine.strict_json import text as strict_text

_FIRST, _AGAIN = b'{"covers":', b'{"again":true,"covers":'
_FIELDS = {"targetPartition", "targetTopic", "term", "v"}
_DIGITS = b"0123456789"
_BLANKED = bytes.maketrans(b"[]", b"  ")
_LARGEST = 1 << 53
_TAILS = 100_000

Refuse = Callable[[int, Message, MalformedRecord], object]
"""Takes a record that cannot be decoded, and the number of its group."""


@dataclass(frozen=True, slots=True)
class _Tail:
    """The fields of a record that follow its lists."""

    number: int
    term: int
    target: TargetPartition


class MappingDecoder:
    """Decodes mapping records; parses each distinct tail (the fields after the lists) once."""

    def __init__(self) -> None:
        self._tails: dict[bytes, _Tail] = {}

    def decode(
        self, groups: Sequence[Sequence[Message]], refuse: Refuse
    ) -> list[list[MappingChunk]]:
        """Return the chunks of each group of records.

        Args:
            groups: records of one source partition each, in the order of the topic.
            refuse: called for each record that is left out.
        """
        if len(self._tails) > _TAILS:  # bounds the memory that garbage records can take
            self._tails.clear()
        messages = [message for group in groups for message in group]
        numbers = np.repeat(np.arange(len(groups)), [len(group) for group in groups])
        chunks: list[list[MappingChunk]] = [[] for _ in groups]
        if messages:
            self._decode(messages, numbers, chunks, refuse)
        return chunks

    def _decode(
        self,
        messages: Sequence[Message],
        groups: I64,
        chunks: Sequence[list[MappingChunk]],
        refuse: Refuse,
    ) -> None:
        try:
            records = self._read([message.value() or b"" for message in messages])
            for low, high in records.spans(groups):
                chunks[groups[low]].append(records.chunk(messages, low, high))
        except MalformedRecord:
            half = len(messages) // 2
            if half:
                self._decode(messages[:half], groups[:half], chunks, refuse)
                self._decode(messages[half:], groups[half:], chunks, refuse)
                return
            try:
                chunks[groups[0]].append(read_one(messages[0]))
            except MalformedRecord as error:
                refuse(int(groups[0]), messages[0], error)

    def _read(self, values: Sequence[bytes]) -> _Records:
        """Return the records; raises MalformedRecord if ``mapping_value`` writes one otherwise."""
        tails, again, covers, left_out, ranges, runs = [], [], [], [], [], []
        for value in values:
            head, _, rest = value.partition(b'],"ranges":[')
            covered, _, spans = head.partition(b'],"leftOut":[')
            lists, _, tail = rest.rpartition(b'],"targetPartition":')
            in_ranges, _, in_runs = lists.partition(b'],"runs":[')
            tails.append(self._tail(tail))
            again.append(covered.startswith(_AGAIN))
            covers.append(covered.removeprefix(_AGAIN if again[-1] else _FIRST) + b"]")
            left_out.append(spans)
            ranges.append(in_ranges)
            runs.append(in_runs)
        whole, ends = _read_covers(covers), _read_left_out(left_out)
        return _Records(tails, np.array(again), whole, ends, *_read_ranges(ranges, runs, whole))

    def _tail(self, text: bytes) -> _Tail:
        if text not in self._tails:
            self._tails[text] = _read_tail(text, len(self._tails))
        return self._tails[text]


@dataclass(frozen=True, slots=True)
class _Records:
    """Decoded records; record n has the ranges ``starts[n]:starts[n+1]``.

    ``left_out_ends`` has the source offset after each record's last one that came from the target;
    ``inserted`` the ranges that a single target offset precedes, in the same record.
    """

    tails: Sequence[_Tail]
    again: Flags
    covers: I64
    left_out_ends: I64
    ranges: RangeColumns
    starts: I64
    inserted: I64

    def spans(self, groups: I64) -> Iterator[tuple[int, int]]:
        """Yield the records ``[low, high)`` of each chunk: each continues the one before it."""
        tails = np.array([tail.number for tail in self.tails])
        alone = (self.covers[:, 3] == 1) & ~self.again
        goes_on = alone[1:] & alone[:-1] & (self.covers[1:, 0] == self.covers[:-1, 1])
        goes_on &= (tails[1:] == tails[:-1]) & (groups[1:] == groups[:-1])
        firsts = [0, *(np.flatnonzero(~goes_on) + 1).tolist()]
        return zip(firsts, [*firsts[1:], len(self.tails)], strict=True)

    def chunk(self, messages: Sequence[Message], low: int, high: int) -> MappingChunk:
        """Return the records ``[low, high)`` as one."""
        first, _, part, parts = self.covers[low].tolist()
        begin, end = self.starts[low], self.starts[high]
        rows = self.inserted[slice(*np.searchsorted(self.inserted, [begin, end]))]
        return MappingChunk(
            self.tails[low].term,
            messages[low].partition() or 0,
            messages[low].offset() or 0,
            messages[low].timestamp()[1],
            messages[high - 1].offset() or 0,
            Covers(first, int(self.covers[high - 1, 1]), part, parts),
            self.tails[low].target,
            self.ranges.take(slice(begin, end)),
            bool(self.again[low]),
            high - low,
            messages[high - 1].timestamp()[1],
            int(self.left_out_ends[low:high].max()),
            () if self.again[low] else tuple((self.ranges.target[rows] - 1).tolist()),
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
    whole = np.array([[covers.first, covers.end]])
    record = np.zeros(len(columns), dtype=np.int64)
    _check(columns, record, whole)
    rows = find_single_gaps(columns, record)
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
        inserted=() if mapping.again else tuple((columns.target[rows] - 1).tolist()),
    )


def _require(is_so: object) -> None:
    if not is_so:
        raise MalformedRecord("not as it is written")


def _read_covers(texts: Sequence[bytes]) -> I64:
    """Return the row of each record."""
    covers, record = _read_table(texts, 4)
    _require(len(covers) == len(texts) and (np.diff(record) == 1).all())
    _require((covers[:, 0] < covers[:, 1]).all() and (covers[:, 2] < covers[:, 3]).all())
    return covers


def _read_left_out(texts: Sequence[bytes]) -> I64:
    """Return the end of each record's last span, 0 without one."""
    spans, record = _read_table(texts, 2)
    _require((spans[:, 0] < spans[:, 1]).all())
    ends = np.zeros(len(texts), dtype=np.int64)
    np.maximum.at(ends, record, spans[:, 1])
    return ends


def _read_ranges(
    ranges: Sequence[bytes], runs: Sequence[bytes], covers: I64
) -> tuple[RangeColumns, I64, I64]:
    """Return the ranges of all records, sorted by source, where those of each begin, and which a
    single target offset precedes.
    """
    table, record = _read_table(ranges, 3)
    columns = RangeColumns(*table.T)
    _check(columns, record, covers)
    if any(runs):
        columns, record = _join_runs(columns, record, *_read_rows(runs))
        _check(columns, record, covers)
    begins = np.searchsorted(record, np.arange(len(covers) + 1))
    return columns, begins, find_single_gaps(columns, record)


def _check(columns: RangeColumns, record: I64, covers: I64) -> None:
    """Require that the ranges of each record are sorted, and in the offsets that it covers."""
    if not len(columns):
        return
    source, count = columns.source, columns.count
    ends = source + count
    first, end = covers[record, 0], covers[record, 1]
    is_sound = (
        (count.min() >= 1 and count.max() <= LARGEST_COUNT)
        and ((source[1:] >= ends[:-1]) | (record[1:] != record[:-1])).all()
        and ((first <= source) & (ends <= end)).all()
        and end.max() < _LARGEST
        # Its end, too: a repeat of a part of it must be valid.
        and (columns.target + count + columns.further).max() <= _LARGEST
    )
    if not is_sound:
        raise MalformedRecord("ranges that overlap or do not match the offsets covered")


def _join_runs(
    ranges: RangeColumns, record: I64, numbers: I64, widths: I64, run_record: I64
) -> tuple[RangeColumns, I64]:
    """Return ranges and scattered runs together, and the record of each."""
    _require(widths.min() >= 2)
    begins = np.cumsum(widths) - widths
    is_record = np.ones(len(numbers), dtype=np.bool_)
    is_record[begins] = False
    # Behind its target, a run has the first source offset and what is added for each further one.
    sums = np.cumsum(np.where(is_record, numbers, 0))
    source = (sums - np.repeat(sums[begins], widths))[is_record]
    nth = np.arange(len(numbers)) - np.repeat(begins + 1, widths)
    target = (np.repeat(numbers[begins], widths) + nth)[is_record]
    _require(source.max() < _LARGEST)  # each addition is smaller: none overflows unseen
    columns = join_columns([ranges, RangeColumns(source, target, np.ones_like(source))])
    record = np.concatenate([record, np.repeat(run_record, widths - 1)])
    order = np.lexsort((columns.target, columns.source, record))
    columns, record = columns.take(order), record[order]
    is_further = find_further(columns)
    is_further[1:] &= record[1:] == record[:-1]
    return fold_columns(columns, is_further), record[~is_further]


def _read_table(texts: Sequence[bytes], width: int) -> tuple[I64, I64]:
    """Return the rows of all records, and the record of each row."""
    numbers, widths, record = _read_rows(texts)
    _require((widths == width).all())
    return numbers.reshape(-1, width), record


def _read_rows(texts: Sequence[bytes]) -> tuple[I64, I64, I64]:
    """Convert the rows of numbers of all records.

    Returns:
        The numbers, how many of them each row has, and the record of each row.
    """
    joined = b",".join(filter(None, texts))
    shape = np.frombuffer(joined.translate(None, _DIGITS), dtype=np.uint8)
    brackets = np.flatnonzero(shape != ord(","))
    begins, ends = brackets[::2], brackets[1::2]
    _require(len(begins) == len(ends))
    widths = ends - begins
    if not joined:
        return np.empty(0, dtype=np.int64), widths, widths
    # Rows follow each other, and none is a part of two records.
    counts = [text.count(b"[") for text in texts]
    _require(counts == [text.count(b"]") for text in texts])
    _require((shape[begins] == ord("[")).all() and (shape[ends] == ord("]")).all())
    _require(len(begins) and begins[0] == 0 and ends[-1] == len(shape) - 1)
    _require((begins[1:] == ends[:-1] + 2).all())
    try:
        # A missing number is a ValueError, or with NumPy before 2.3 ends the conversion early, with
        # a warning: the length tells. A filter for that would be one of the whole process.
        numbers: I64 = np.fromstring(joined.translate(_BLANKED), dtype=np.int64, sep=" , ")
    except (ValueError, DeprecationWarning):
        numbers = np.empty(0, dtype=np.int64)
    _require(len(numbers) == widths.sum() and numbers.max() < _LARGEST)
    return numbers, widths, np.repeat(np.arange(len(texts)), counts)


def _read_tail(text: bytes, number: int) -> _Tail:
    """Parse the tail; raises MalformedRecord unless it has exactly the fields that are written."""
    fields = parse_object(b'{"targetPartition":' + text)
    _require(set(fields) == _FIELDS and integer(fields["v"]) == VERSION)
    partition = integer(fields["targetPartition"], high=LARGEST_INT)
    target = strict_text(fields["targetTopic"]), partition
    return _Tail(number, integer(fields["term"], high=LARGEST_TERM), target)
