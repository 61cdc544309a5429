"""Many mapping records decoded at once are what each is alone; nothing damaged slips through."""

from __future__ import annotations

import warnings
from dataclasses import replace
from itertools import pairwise, product
from typing import Any

import pytest
from confluent_kafka import TIMESTAMP_CREATE_TIME, Message
from hypothesis import given, settings
from hypothesis import strategies as st

from k2ktui.engine.mapping.copy_extent import Overlap
from k2ktui.engine.mapping.log import MappingChunk, MappingLog
from k2ktui.engine.mapping.ranges import MappingRanges
from k2ktui.engine.records.state import (
    Covers,
    MalformedRecord,
    MappingRange,
    MappingRecord,
    ScatteredRun,
    SourcePartition,
    mapping_key,
    mapping_value,
)
from k2ktui.sync.mapping import parse
from k2ktui.sync.mapping.parse import MappingDecoder, read_one
from k2ktui.sync.mapping.sort import MappingSorter

SOURCES = [SourcePartition("s", number) for number in range(3)]
steps = st.tuples(
    st.sampled_from(SOURCES),
    st.lists(st.tuples(st.integers(0, 2), st.integers(1, 4)), max_size=4),
    st.integers(0, 1),  # lane
    st.booleans(),  # a new term
    st.sampled_from(["ranges"] * 6 + ["runs", "other", "left out", "left out"]),
)


def message(offset: int, key: bytes | None, value: bytes | None) -> Message:
    at = (TIMESTAMP_CREATE_TIME, 1_000 + offset)
    return Message(topic="m", partition=1, offset=offset, key=key, value=value, timestamp=at)


def records(
    entries: list[tuple[SourcePartition, list[tuple[int, int]], int, bool, str]],
) -> list[Message]:
    position, target, term = dict.fromkeys(SOURCES, 0), 10, 1
    made: list[Message] = []
    for source, spans, lane, restart, kind in entries:
        first, at = position[source], position[source]
        ranges = []
        for gap, count in spans:
            at, target = at + gap, target + gap
            ranges.append(MappingRange(at, target, count))
            at, target = at + count, target + count
        position[source] = at = max(at, first + 1)
        term += restart
        covers = Covers(first, at)
        pipeline = "other" if kind == "other" else "p"
        mapping = MappingRecord(pipeline, source, "t", lane, term, tuple(ranges), covers=covers)
        if kind == "runs" and ranges:
            offsets = tuple(o for r in ranges for o in range(r.source, r.source + r.count))
            runs = (ScatteredRun(ranges[0].target, offsets),)
            mapping = MappingRecord("p", source, "t", lane, term, (), runs, covers)
        if kind == "left out":
            left_out = ((first, first + 1), *([(at - 1, at)] if at > first + 1 else []))
            mapping = replace(mapping, left_out=left_out)
        made.append(message(len(made), mapping_key(mapping), mapping_value(mapping)))
    return made


def tracks(pieces: list[tuple[SourcePartition, list[MappingChunk]]]) -> object:
    made: dict[SourcePartition, MappingLog] = {}
    for source, chunks in pieces:
        for piece in chunks:
            made.setdefault(source, MappingLog()).take(piece)
    return {
        source: (
            track.known.all(),
            track.left_out_end,
            track.inserted,
            {t: _rows(lane) for t, lane in track.target_ranges.items()},
        )
        for source, track in made.items()
    }


def _rows(lane: MappingRanges) -> list[tuple[int, int]]:
    columns = lane.columns()
    rows = zip(columns.source, columns.target, columns.count, strict=True)
    return [(int(s) + i, int(t) + i) for s, t, n in rows for i in range(int(n))]


def one_by_one(messages: list[Message]) -> tuple[object, MappingSorter]:
    sorter = MappingSorter(("p",))
    sorted_ = [track for one in messages for track in sorter.sort([one])]
    return tracks(sorted_), sorter


@settings(deadline=None)
@given(st.lists(steps, max_size=30))
def test_together_they_are_what_each_is_alone(
    entries: list[tuple[SourcePartition, list[tuple[int, int]], int, bool, str]],
) -> None:
    messages = records(entries)
    sorter = MappingSorter(("p",))
    together = tracks(sorter.sort(messages))
    alone, reference = one_by_one(messages)
    assert together == alone
    assert sorter.malformed_count == reference.malformed_count == 0
    for overlap in Overlap:
        assert sorter.find_overlaps(overlap) == reference.find_overlaps(overlap)


@settings(deadline=None)
@given(st.lists(steps, min_size=1, max_size=10), st.data())
def test_damage_is_reported_and_costs_only_what_it_hit(
    entries: list[tuple[SourcePartition, list[tuple[int, int]], int, bool, str]],
    data: st.DataObject,
) -> None:
    messages = records(entries)
    row = data.draw(st.integers(0, len(messages) - 1))
    hit = messages[row]
    value, key = hit.value() or b"", hit.key() or b""
    at = data.draw(st.integers(0, len(value) - 1))
    damaged = data.draw(
        st.sampled_from(
            [
                (key, None),
                (key, b""),
                (key, value[:at]),
                (key, value.replace(b",", b"", 1)),
                (key, value.replace(b"[", b"[-1,", 1)),
                (key, value.replace(b'"v":1', b'"v":2')),
                (key, value.replace(b'],"ranges"', b'],"leftOut":[[5,5]],"ranges"', 1)),
                (key, value.replace(b'],"ranges"', b'],"leftOut":[7],"ranges"', 1)),
                (key, value.replace(b'"term":', b'"term":1e400,"x":')),
                (key, value.replace(b'"covers":[', b'"covers":[99999999999999999999999,')),
                (None, value),
                (key[:-1], value),
            ]
        )
    )
    messages[row] = message(row, *damaged)
    sorter = MappingSorter(("p",))
    together = tracks(sorter.sort(messages))
    assert together == one_by_one(messages)[0]
    assert together == tracks(MappingSorter(("p",)).sort(messages[:row] + messages[row + 1 :]))
    others = entries[row][4] == "other" and damaged[0] == key
    assert sorter.malformed_count == (0 if others else 1)


@pytest.mark.parametrize("kind", ["ranges", "left out"])
def test_records_that_continue_are_one_piece(kind: str) -> None:
    """They are decoded together, also where records came from the target."""
    made = [(SOURCES[0], [(0, 2), (1, 1)], 0, False, kind)] * 50
    ((_, pieces),) = MappingSorter(("p",)).sort(records(made))
    assert len(pieces) == 1
    assert pieces[0].left_out_end == (200 if kind == "left out" else 0)
    assert (pieces[0].records, pieces[0].last) == (50, 49)
    assert all(a < b for a, b in pairwise(pieces[0].columns.source.tolist()))


numbers = st.integers(0, 12)
row = st.tuples(numbers, numbers, st.integers(1, 3)).map(lambda row: MappingRange(*row))
run = st.tuples(numbers, st.lists(numbers, min_size=1, max_size=5)).map(
    lambda run: ScatteredRun(run[0], tuple(sorted(run[1])))
)
anything = st.tuples(
    st.lists(row, max_size=3), st.lists(run, max_size=2), st.integers(1, 16), st.booleans()
)


@settings(deadline=None)
@given(st.lists(anything, min_size=1, max_size=8), st.lists(row, max_size=2))
def test_many_at_once_are_the_ranges_that_each_has_alone(
    entries: list[tuple[list[MappingRange], list[ScatteredRun], int, bool]],
    spans: list[MappingRange],
) -> None:
    left_out = tuple((span.source, span.source + span.count) for span in spans)
    messages, alone, refused, told = list[Message](), list[MappingChunk](), list[int](), list[int]()
    for number, (ranges, runs, end, again) in enumerate(entries):
        covers = Covers(0, end, 0, 2)  # a part is a chunk of its own
        mapping = MappingRecord(
            "p", SOURCES[0], "t", 0, 1, tuple(ranges), tuple(runs), covers, again, left_out
        )
        messages.append(message(number, mapping_key(mapping), mapping_value(mapping)))
        try:
            alone.append(read_one(messages[-1]))
        except MalformedRecord:
            refused.append(number)
    (together,) = MappingDecoder().decode(
        [messages], lambda _, one, __: told.append(one.offset() or 0)
    )
    assert told == refused
    assert [described(chunk) for chunk in together] == [described(chunk) for chunk in alone]


def described(chunk: MappingChunk) -> object:
    columns = chunk.columns
    lists = columns.source, columns.target, columns.count, columns.further
    return [one.tolist() for one in lists], replace(chunk, columns=None, last_ms=0)  # type: ignore[arg-type]


def test_only_what_is_damaged_is_decoded_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """One by one, records take 20 times as long: their whole batch would, with one among them."""
    layouts: list[dict[str, Any]] = [
        {"ranges": (MappingRange(0, 5, 3), MappingRange(5, 9, 1))},
        {"ranges": (MappingRange(0, 5, 3),), "runs": (ScatteredRun(20, (2, 2, 4)),)},
        {"runs": (ScatteredRun(20, (1, 2, 4)), ScatteredRun(30, (0,)))},
        {},
    ]
    messages: list[Message] = []
    for layout, again, left_out in product(layouts, (False, True), ((), ((0, 1), (7, 8)))):
        mapping = MappingRecord("p", SOURCES[0], "t", 0, 1, covers=Covers(0, 9), **layout)
        mapping = replace(mapping, again=again, left_out=left_out)
        messages.append(message(len(messages), mapping_key(mapping), mapping_value(mapping)))
    value = messages[3].value() or b""
    messages[3] = message(3, messages[3].key(), value.replace(b",", b"", 1))
    alone: list[int | None] = []

    def note(one: Message) -> MappingChunk:
        alone.append(one.offset())
        return read_one(one)

    monkeypatch.setattr(parse, "read_one", note)
    sorter = MappingSorter(("p",))
    ((_, chunks),) = sorter.sort(messages)
    assert (alone, [one.offset for one in sorter.malformed]) == ([3], [3])
    assert sum(chunk.records for chunk in chunks) == len(messages) - 1


def test_reading_mappings_changes_no_filter_of_the_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Another thread's warnings would become exceptions, and the filter could stay."""
    messages = records([(SOURCES[0], [(0, 3), (1, 2)], 0, False, "ranges")])
    key, value = messages[0].key() or b"", messages[0].value() or b""
    messages.append(message(9, key, value.replace(b",", b"", 1)))

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a filter of warnings was set")

    sorter = MappingSorter(("p",))
    with monkeypatch.context() as patch:
        for name in ("catch_warnings", "simplefilter", "filterwarnings"):
            patch.setattr(warnings, name, refuse)
        sorted_ = sorter.sort(messages)
    assert tracks(sorted_) and sorter.malformed_count == 1


def test_ranges_beyond_what_is_covered_are_malformed() -> None:
    for covers in (Covers(1, 20), Covers(0, 9)):
        ranges = (MappingRange(0, 5, 10),)
        mapping = MappingRecord("p", SOURCES[0], "t", 0, 1, ranges, covers=covers)
        sorter = MappingSorter(("p",))
        assert sorter.sort([message(0, mapping_key(mapping), mapping_value(mapping))]) == [
            (SOURCES[0], [])
        ]
        assert sorter.malformed[0].offset == 0
