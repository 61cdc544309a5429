"""The core in C makes the same of any bytes as plain Python, or refuses them."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from k2ktui.log.batch import APPEND_TIME
from k2ktui.native.binding import Core
from tests.support.records.core_comparison import (
    MOST,
    Counts,
    compare,
    lie,
    random_log,
    with_checksum,
)
from tests.support.records.made_batches import DAMAGED, WHOLE, Made, Record, alike, log
from tests.support.records.native_library import installed_or_compiled
from tests.support.schedule.examples import examples

RECORDS = (
    Record(b"k", b"vw" * 40, ((b"h", b""), (b"h", None))),
    Record(None, None, (), 3, after=1),
    Record(b"", b"", (), -2),
)


@pytest.fixture(scope="module")
def core() -> Core:
    return installed_or_compiled()


@given(
    st.lists(WHOLE | DAMAGED, min_size=1, max_size=12) | st.lists(WHOLE, min_size=3, max_size=12),
    st.none() | st.integers(0, 4),
    st.sampled_from((MOST, MOST, 3000)),
)
@settings(max_examples=examples(200), deadline=None)
def test_any_batches(core: Core, batches: list[Made], codec: int | None, most: int) -> None:
    compare(core, b"".join(log(alike(batches, codec))), Counts(), most)


@pytest.mark.parametrize("seed", range(4))
def test_damaged_bytes_and_rows_that_lie(core: Core, seed: int) -> None:
    counts = Counts()
    for number in range(examples(200)):
        luck = random.Random(seed * 1_000_000 + number)
        data = random_log(luck)
        compare(core, data, counts, luck.choice((MOST, 3000)))
        lie(core, luck, data)
    assert counts.merged > counts.scanned // 4, "most of it is not damaged"
    assert counts.refused > 10


@pytest.mark.parametrize("codec", range(5))
@pytest.mark.parametrize("flags", [0, APPEND_TIME])
def test_whole_batches_of_every_codec_are_not_refused(core: Core, codec: int, flags: int) -> None:
    counts = Counts()
    batches = [Made(RECORDS, codec, flags, before=at % 2) for at in range(20)]
    batches += [Made((Record(b"k", bytes(9000)), Record(b"l", b"x" * 9000)), codec, flags)] * 9
    compare(core, b"".join(log(batches)), counts)
    assert (counts.scanned, counts.merged, counts.refused) == (29, 29, 0)
    assert counts.decoded == 20 * 3 + 9 * 2


@pytest.mark.parametrize("codec", range(5))
@pytest.mark.parametrize("change", [0x01, 0x80, 0xFF])
def test_a_damaged_byte_at_every_position(core: Core, codec: int, change: int) -> None:
    """As it arrives, and as a producer may have sent it: with the right checksum."""
    first, middle, last = log([Made(RECORDS, codec) for _ in range(3)])
    counts = Counts()
    for place in range(len(middle)):
        damaged = bytearray(middle)
        damaged[place] ^= change
        for batch in (bytes(damaged), with_checksum(bytes(damaged))):
            compare(core, first + batch + last, counts)
    assert counts.refused


@pytest.mark.parametrize("codec", range(5))
def test_an_answer_that_ends_at_every_position(core: Core, codec: int) -> None:
    data = b"".join(log([Made(RECORDS, codec) for _ in range(3)]))
    counts = Counts()
    for end in range(len(data)):
        compare(core, data[:end], counts)
    assert counts.merged


@pytest.mark.parametrize("codec", range(1, 5))
def test_records_that_end_at_every_position(core: Core, codec: int) -> None:
    """The compressed bytes of a batch are cut; its header says how many there are."""
    (batch,) = log([Made(RECORDS, codec)])
    whole = replace(Made(RECORDS, codec), before=len(RECORDS) + 8)
    behind = log([Made(RECORDS, codec), whole])[1]
    counts = Counts()
    for end in range(61, len(batch)):
        cut = bytearray(batch[:end])
        cut[8:12] = (end - 12).to_bytes(4, "big")
        compare(core, with_checksum(bytes(cut)) + behind, counts)
    assert counts.refused
