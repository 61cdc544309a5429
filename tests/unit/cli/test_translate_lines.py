"""Lines of ``translate --stdin``: whatever they hold, each has one answer."""

from __future__ import annotations

import json
import os
from io import BytesIO
from itertools import chain

from hypothesis import given
from hypothesis import strategies as st

from k2ktui.cli.translate import parse_line, read_lines
from k2ktui.engine.mapping.translate import Basis, Translation, list_translated
from k2ktui.engine.records.state import SourcePartition
from k2ktui.errors import ConfigError

TOPICS = st.text("abc._-", min_size=1, max_size=5).filter(lambda name: name not in (".", ".."))
PLACES = st.builds(SourcePartition, TOPICS, st.integers(0, (1 << 31) - 1))
OFFSETS = st.dictionaries(PLACES, st.integers(0, (1 << 63) - 1), min_size=1, max_size=5)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(["topic", "positions"]), inner),
)


def as_lines(offsets: dict[SourcePartition, int]) -> list[dict[str, object]]:
    return [
        {"topic": at.topic, "partition": at.partition, "offset": offset}
        for at, offset in offsets.items()
    ]


@given(OFFSETS)
def test_offsets_are_read_as_they_were_written(offsets: dict[SourcePartition, int]) -> None:
    positions = as_lines(offsets)
    assert parse_line(json.dumps({"positions": positions}).encode()) == (offsets, True)
    for position, (at, offset) in zip(positions, offsets.items(), strict=True):
        assert parse_line(json.dumps(position).encode()) == ({at: offset}, False)


@given(st.binary() | JSON.map(lambda value: json.dumps(value).encode()))
def test_any_other_line_is_an_error_for_people(line: bytes) -> None:
    try:
        offsets, is_list = parse_line(line)
    except ConfigError as error:
        assert error.message
        assert str(error).isprintable() or "\n" in str(error)
    else:
        assert (offsets, is_list) == ({}, True)


@given(st.lists(st.binary(max_size=20).map(lambda raw: raw.replace(b"\n", b""))))
def test_there_are_as_many_lines_as_were_sent(lines: list[bytes]) -> None:
    whole = b"".join(line + b"\n" for line in lines)
    assert list(chain(*read_lines(BytesIO(whole)))) == lines


def test_what_has_come_is_answered_at_once_and_together() -> None:
    reads, writes = os.pipe()
    with os.fdopen(reads, "rb") as stream, os.fdopen(writes, "wb", buffering=0) as program:
        batches = read_lines(stream)
        program.write(b"one\ntwo\nthr")
        assert next(batches) == [b"one", b"two"]
        program.write(b"ee\n")
        assert next(batches) == [b"three"]


def test_a_long_line_is_one_line_and_the_last_needs_no_end() -> None:
    long = b"x" * (3 << 20)
    first, second, third = chain(*read_lines(BytesIO(long + b"\n{}\n" + b"end")))
    assert long.startswith(first) and len(first) == (1 << 20) + 1
    assert (second, third) == (b"{}", b"end")
    assert [len(lines) for lines in read_lines(BytesIO(long))] == [1]


@given(OFFSETS, st.data())
def test_each_offset_has_a_row_for_each_partition_it_leads_to(
    offsets: dict[SourcePartition, int], data: st.DataObject
) -> None:
    targets = st.tuples(TOPICS, st.integers(0, 5))
    sources = st.lists(st.sampled_from(sorted(offsets)), min_size=1, unique=True).map(tuple)
    fed = data.draw(st.dictionaries(targets, sources, max_size=5))
    translations = [Translation(to, some, 7, Basis.EXACT) for to, some in fed.items()]
    rows = list_translated(offsets, translations)
    for at, offset in offsets.items():
        own = [row for row in rows if (row.topic, row.partition) == (at.topic, at.partition)]
        assert {row.offset for row in own} == {offset}
        leads_to = {to for to, some in fed.items() if at in some}
        if leads_to:
            assert {(row.target_topic, row.target_partition) for row in own} == leads_to
            assert all(row.is_certain for row in own)
        else:
            (row,) = own
            assert (row.target_partition, row.translated_offset) == (None, None)
            assert not row.is_certain and row.reason == f"{at} is not replicated"
