"""Mapping records into columns, many at once.

Loading millions of ranges leaves no time for an object a range. Records that have the very layout
of ``engine.state.mapping_value`` are cut around their list of numbers; the lists of all records of
a source partition become one text, a comparison of its separators shows whether it is well formed,
and NumPy converts it. Whatever looks different goes to ``engine.state.read_mapping_record``.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from k2ktui.engine.ranges import I64, LARGEST_COUNT, Columns, columns_of, overlapping
from k2ktui.engine.replica import TargetPartition
from k2ktui.engine.state import VERSION, MalformedRecord, Mapping, read_mapping_record

_RANGES, _RUNS = b'{"ranges":[[', b'{"ranges":[],"runs":[['
_TAIL = b']],"targetPartition":'
_FIELDS = frozenset({"targetPartition", "targetTopic", "term", "v"})
_DIGITS = b"0123456789"
_BLANKED = bytes.maketrans(b"[]", b"  ")
_BETWEEN = b"],["
# Separators of "source,target,count],[source,target,count],[…".
_PATTERN = b",,],["
_LARGEST = 1 << 53
_NOTHING = np.zeros(1, dtype=np.int64)
_UNSOUND = Columns(_NOTHING, _NOTHING, _NOTHING)


@dataclass(frozen=True, slots=True)
class Lane:
    """Where records of one source partition landed, in one term."""

    target: TargetPartition
    term: int


@dataclass(slots=True)
class _Text:
    """Number lists of one lane and kind, ready to be converted.

    ``lengths`` holds how many numbers each run has; None for ranges, which have three each.
    """

    lane: Lane
    text: bytes
    numbers: int
    lengths: I64 | None


class Texts:
    """Number lists of several groups of records, converted in one go.

    A group is what ``add`` is called with: values of one source partition, in order.
    """

    def __init__(self, tails: dict[bytes, Lane | None]) -> None:
        self._tails = tails
        self._groups: list[list[_Text]] = []

    def add(self, values: Iterable[bytes | None]) -> int | None:
        """Take in a group and return its number; None if a record has another layout."""
        found = self._cut(values)
        texts = []
        for (lane, runs), lists in (found or {}).items():
            made = _runs_text(lane, lists) if runs else _ranges_text(lane, lists)
            if made is None:
                return None
            texts.append(made)
        if not texts:
            return None
        self._groups.append(texts)
        return len(self._groups) - 1

    def _cut(self, values: Iterable[bytes | None]) -> dict[tuple[Lane, bool], list[bytes]] | None:
        found: dict[tuple[Lane, bool], list[bytes]] = {}
        lists: dict[tuple[bool, bytes], list[bytes]] = {}
        for value in values:
            if value is None:
                return None
            at = value.rfind(_TAIL)
            runs = not value.startswith(_RANGES)
            if at < 0 or (runs and not value.startswith(_RUNS)):
                return None
            numbers = value[len(_RUNS if runs else _RANGES) : at]
            lists.setdefault((runs, value[at:]), []).append(numbers)
        for (runs, tail), cut in lists.items():
            lane = self._lane(tail)
            if lane is None:
                return None
            found.setdefault((lane, runs), []).extend(cut)
        return found

    def _lane(self, tail: bytes) -> Lane | None:
        if tail not in self._tails:
            self._tails[tail] = _lane_of(tail)
        return self._tails[tail]

    def columns(self) -> list[list[tuple[Lane, Columns]]] | None:
        """Return each group's columns, one a lane, in the order of the records.

        None if a number cannot be converted: the groups must then be read record by record.
        """
        texts = [text for group in self._groups for text in group]
        if not texts:
            return []
        joined = b",".join(text.text for text in texts)
        try:
            # Text without any number at a place ends the conversion early.
            numbers = np.fromstring(joined, dtype=np.int64, sep=" , ")
        except ValueError:
            return None
        if len(numbers) != sum(text.numbers for text in texts) or numbers.max() >= _LARGEST:
            return None
        ends = itertools.accumulate((text.numbers for text in texts), initial=0)
        parts = iter([numbers[a:b] for a, b in itertools.pairwise(ends)])
        found = [[(text.lane, _columns(text, next(parts))) for text in g] for g in self._groups]
        sound = all(_sound(columns) for group in found for _, columns in group)
        return found if sound else None


def read_one(key: bytes | None, value: bytes | None) -> tuple[Mapping, Columns]:
    """Decode one mapping record of any layout; the columns are sorted by source offset.

    Raises:
        MalformedRecord: it is not one of ours, damaged, or of a newer version.
    """
    mapping = read_mapping_record(key, value)
    try:
        columns = columns_of(mapping)
    except OverflowError as error:
        raise MalformedRecord("an offset beyond 64 bits") from error
    if not _sound(columns) or overlapping(columns):
        raise MalformedRecord("ranges that overlap, or of an impossible size")
    return mapping, columns


def _sound(columns: Columns) -> bool:
    if not len(columns):
        return True
    return (
        int(columns.count.min()) >= 1
        and int(columns.count.max()) <= LARGEST_COUNT
        and int(columns.source.max()) < _LARGEST
        and int(columns.target.max()) < _LARGEST
    )


def _lane_of(tail: bytes) -> Lane | None:
    """Read what follows the numbers; None unless it is exactly what ``mapping_value`` writes."""
    try:
        fields: dict[str, Any] = json.loads(b"{" + tail[len(b"]],") :])
    except (ValueError, RecursionError):
        return None
    partition, topic, term = (fields.get(f) for f in ("targetPartition", "targetTopic", "term"))
    if frozenset(fields) != _FIELDS or fields["v"] != VERSION or not isinstance(topic, str):
        return None
    if type(partition) is not int or type(term) is not int:
        return None
    return Lane((topic, partition), term)


def _ranges_text(lane: Lane, lists: Sequence[bytes]) -> _Text | None:
    raw = _BETWEEN.join(lists)
    separators = raw.translate(None, _DIGITS)
    rows, rest = divmod(len(separators) + len(_BETWEEN), len(_PATTERN))
    if rest or separators != (_PATTERN * rows)[: len(separators)]:
        return None
    return _Text(lane, raw.translate(_BLANKED), 3 * rows, None)


def _runs_text(lane: Lane, lists: Sequence[bytes]) -> _Text | None:
    raw = _BETWEEN.join(lists)
    separators = np.frombuffer(raw.translate(None, _DIGITS), dtype=np.uint8)
    closing = np.flatnonzero(separators == ord("]"))
    # Between two closing brackets: ",[" and the commas of one run.
    commas = np.diff(np.concatenate([[-3], closing, [len(separators)]])) - 3
    rebuilt = _BETWEEN.join([b"," * count for count in commas.tolist()])
    if (commas < 1).any() or rebuilt != separators.tobytes():
        return None
    lengths = commas + 1
    return _Text(lane, raw.translate(_BLANKED), int(lengths.sum()), lengths)


def _columns(text: _Text, numbers: I64) -> Columns:
    if text.lengths is None:
        rows = numbers.reshape(-1, 3)
        return Columns(rows[:, 0], rows[:, 1], rows[:, 2])
    return _run_columns(numbers, text.lengths)


def _run_columns(numbers: I64, lengths: NDArray[np.int64]) -> Columns:
    """Expand runs ``target, source, d1, d2, …``: one row a record."""
    starts = np.cumsum(lengths) - lengths
    steps = numbers.copy()
    steps[starts] = 0
    if (np.delete(steps, np.concatenate([starts, starts + 1])) < 1).any():
        return _UNSOUND  # a run that does not increase
    summed = np.cumsum(steps)
    keep = np.ones(len(numbers), dtype=bool)
    keep[starts] = False
    records = lengths - 1
    source = summed[keep] - np.repeat(summed[starts], records)
    nth = np.arange(len(source)) - np.repeat(np.cumsum(records) - records, records)
    target = np.repeat(numbers[starts], records) + nth
    return Columns(source, target, np.ones(len(source), dtype=np.int64))
