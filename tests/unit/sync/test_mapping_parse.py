"""Many mapping records decoded at once are what each is alone; nothing damaged slips through."""

from __future__ import annotations

import warnings
from dataclasses import replace
from itertools import pairwise

import pytest
from confluent_kafka import TIMESTAMP_CREATE_TIME, Message
from hypothesis import given, settings
from hypothesis import strategies as st

from k2ktui.engine.mapping.copy_extent import Overlap
from k2ktui.engine.mapping.log import MappingChunk, MappingLog
from k2ktui.engine.mapping.ranges import MappingRanges
from k2ktui.engine.records.state import (
    Covers,
    MappingRange,
    MappingRecord,
    ScatteredRun,
    SourcePartition,
    mapping_key,
    mapping_value,
)
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
            at += gap
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
