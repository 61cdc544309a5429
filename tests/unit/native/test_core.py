"""What the core in C does, and what it does not do: in numbers."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from crc32c import crc32c

from k2ktui.log.batch import APPEND_TIME, split_batches
from k2ktui.log.compress import compress
from k2ktui.log.records import decode_records
from k2ktui.native import codecs
from k2ktui.native.binding import (
    Coalesced,
    Core,
    CoreError,
    CoreRoom,
    Library,
    Located,
    Piece,
    Rows,
    Unavailable,
    load_library,
)
from tests.support.records.core_comparison import (
    MOST,
    Counts,
    compare,
    convert,
    with_checksum,
)
from tests.support.records.made_batches import Made, Record, log
from tests.support.records.native_library import installed_or_compiled, library_path

RECORDS = tuple(Record(b"k%d" % n, b"v" * 50) for n in range(5))


@pytest.fixture(scope="module")
def core() -> Core:
    return installed_or_compiled()


def scanned(core: Core, batches: Sequence[Made]) -> tuple[memoryview, Rows]:
    """Return an answer with these batches, and its rows, all of them mergeable."""
    answer = memoryview(bytearray(b"".join(log(list(batches)))))
    rows = core.scan(answer).rows
    rows["mergeable"] = 1
    return answer, rows


def merged(core: Core, batches: Sequence[Made], most: int = MOST) -> Coalesced:
    return core.coalesce([Piece(*scanned(core, batches))], most)


@pytest.mark.parametrize("size", [0, 1, 7, 8, 9, 100, 767, 768, 769, 5000, 70_001])
def test_checksums(core: Core, size: int) -> None:
    data = random.Random(size).randbytes(size)
    library = core._library  # noqa: SLF001 - its functions are what is tested
    assert [library.checksum(data, size, by_tables) for by_tables in (0, 1)] == [crc32c(data)] * 2


@pytest.mark.parametrize("codec", range(5))
def test_alike_batches_become_one(core: Core, codec: int) -> None:
    one = merged(core, [Made(RECORDS, codec)] * 6)
    assert (one.batches, one.count, one.last_offset) == (6, 30, 39)
    assert one.ranges.tolist() == [[10, 30]]
    (batch,) = split_batches(one.data)
    assert batch.crc_ok()
    assert (batch.base_offset, batch.last_offset, batch.count) == (0, 29, 30)
    assert (batch.attributes, batch.producer_id, batch.leader_epoch) == (codec, -1, -1)


def test_holes_of_compaction_are_in_the_ranges(core: Core) -> None:
    holed = tuple(Record(b"k", b"v", after=after) for after in (2, 0, 70))
    one = merged(core, [Made(holed, behind=3), Made(RECORDS, before=1), Made(RECORDS)])
    assert one.ranges.tolist() == [[12, 2], [84, 1], [89, 10]]
    assert one.last_offset == 98


def test_append_time_becomes_create_time(core: Core) -> None:
    one = merged(core, [Made(RECORDS, flags=APPEND_TIME, latest=at) for at in (7, 5, 9)])
    (batch,) = split_batches(one.data)
    assert decode_records(batch).timestamps.tolist() == [7] * 5 + [5] * 5 + [9] * 5
    assert (batch.attributes, batch.base_timestamp, batch.max_timestamp) == (0, 7, 9)


@pytest.mark.parametrize(
    "other", [Made(RECORDS, 3), Made(RECORDS, epoch=4), Made(RECORDS, epoch=-1)]
)
def test_batches_of_another_codec_or_leader_epoch_end_a_merge(core: Core, other: Made) -> None:
    one = merged(core, [Made(RECORDS), Made(RECORDS), other, Made(RECORDS)])
    assert (one.batches, one.count) == (2, 10)


@pytest.mark.parametrize("at", range(4))
def test_batches_that_are_not_marked_end_a_merge(core: Core, at: int) -> None:
    answer, rows = scanned(core, [Made(RECORDS)] * 4)
    rows["mergeable"][at] = 0
    if at == 0:
        with pytest.raises(CoreError):
            core.coalesce([Piece(answer, rows)], MOST)
    else:
        assert core.coalesce([Piece(answer, rows)], MOST).batches == at


def test_a_batch_before_the_end_of_another_ends_a_merge(core: Core) -> None:
    assert merged(core, [Made(RECORDS), Made(RECORDS), Made(RECORDS, before=-1)]).batches == 2


def test_a_damaged_batch_ends_a_merge(core: Core) -> None:
    one = merged(core, [Made(RECORDS, 3), Made(RECORDS, 3), Made(RECORDS, 3, counted=1)])
    assert (one.batches, one.count) == (2, 10)


@pytest.mark.parametrize("codec", range(5))
def test_answers_are_merged_together(core: Core, codec: int) -> None:
    batches = log([Made(RECORDS, codec)] * 5)
    pieces = []
    for part in (batches[:2], batches[2:]):
        answer = memoryview(bytearray(b"".join(part)))
        rows = core.scan(answer).rows
        rows["mergeable"] = 1
        pieces.append(Piece(answer, rows))
    one = core.coalesce(pieces, MOST)
    assert (one.batches, one.ranges.tolist()) == (5, [[10, 25]])


@pytest.mark.parametrize("codec", range(5))
def test_a_merge_has_an_upper_size(core: Core, codec: int) -> None:
    record = (Record(None, b"ab" * 5_000),)
    one = merged(core, [Made(record, codec)] * 60)
    assert one.batches == MOST // 10_000 + 1


@pytest.mark.parametrize("codec", range(1, 5))
def test_batches_that_hold_much_more_are_refused(core: Core, codec: int) -> None:
    """A few kilobytes may hold gigabytes; what a merge may need is allocated, and no more."""
    bomb = Made((Record(None, bytes(4 << 20)),), codec)
    with pytest.raises(CoreError):
        merged(core, [bomb, bomb])
    assert merged(core, [Made(RECORDS, codec), bomb]).batches == 1
    answer, rows = scanned(core, [bomb])
    with pytest.raises(CoreError):
        core.columns(Piece(answer, rows), MOST)
    assert len(core.columns(Piece(answer, rows), 5 << 20).offsets) == 1


def test_columns_end_before_what_has_no_room(core: Core) -> None:
    answer, rows = scanned(core, [Made((Record(None, bytes(1000)),), 3)] * 9)
    assert core.columns(Piece(answer, rows), 3100).batches == 3
    with pytest.raises(CoreRoom):
        core.columns(Piece(answer, rows), 900)


def test_a_count_that_lies_allocates_nothing(core: Core) -> None:
    (batch,) = log([Made(RECORDS)])
    data = bytearray(batch)
    data[57:61] = (0x7FFFFFFF).to_bytes(4, "big")
    answer = memoryview(bytearray(with_checksum(bytes(data))))
    with pytest.raises(CoreError):
        core.columns(Piece(answer, core.scan(answer).rows), MOST)


def test_a_batch_is_built_up_to_a_size(core: Core) -> None:
    body = b"".join(record.tail() for record in RECORDS)
    ends = np.cumsum([len(record.tail()) for record in RECORDS])
    tails, times = ends - len(RECORDS[0].tail()), np.arange(5) + 1_000
    one = len(RECORDS[0].tail()) + 21
    records = Located(body, times, tails, ends)
    assert core.build(records, 0, 61 + 3 * one).count == 3
    assert core.build(records, 0, 10).count == 1, "one alone is never too large"
    (batch,) = split_batches(core.build(records, 4, 1 << 20).data)
    built = decode_records(batch)
    assert built.timestamps.tolist() == times.tolist()
    assert list(built.tails) == [record.tail() for record in RECORDS]
    for beyond in (Located(body, times, tails, ends + 1), Located(body, times, tails - 1, ends)):
        with pytest.raises(CoreError):
            core.build(beyond, 0, 1 << 20)
        with pytest.raises(CoreError):
            core.count_same(beyond, 0, beyond, 0, 5)


def test_a_stamp_keeps_what_was_damaged_in_memory_detectable(core: Core) -> None:
    one = merged(core, [Made(RECORDS)] * 3).data
    one[100] ^= 1
    core.stamp(one, 1, 2, 3, transactional=True, checksum_known=True)
    (batch,) = split_batches(one)
    assert not batch.crc_ok()
    with pytest.raises(CoreError):
        core.stamp(one[:60], 1, 2, 3, transactional=True, checksum_known=True)
    with pytest.raises(TypeError):
        core.stamp(one.toreadonly(), 1, 2, 3, transactional=True, checksum_known=True)


def test_lz4_and_zstd_are_taken_from_their_packages(core: Core) -> None:
    assert core.exported == [codecs.LZ4, codecs.ZSTD]


@pytest.mark.parametrize("codec", sorted(codecs.COMPRESSED))
def test_known_bytes_are_decompressed(core: Core, codec: int) -> None:
    assert core.decompress(codec, codecs.COMPRESSED[codec], 200) == codecs.TEXT
    with pytest.raises(CoreError):
        core.decompress(codec, codecs.COMPRESSED[codec], len(codecs.TEXT) - 1)


def test_without_functions_of_packages_python_makes_the_same() -> None:
    with mock.patch.object(codecs, "find_spec", return_value=None):
        core = installed_or_compiled()
    assert core.exported == []
    counts = Counts()
    for codec in range(5):
        compare(core, b"".join(log([Made(RECORDS, codec)] * 4)), counts)
    assert (counts.merged, counts.refused) == (20, 0)


def test_functions_that_make_something_else_are_not_used() -> None:
    other = codecs.COMPRESSED | {codecs.LZ4: compress(codecs.LZ4, b"another text")}
    with mock.patch.object(codecs, "COMPRESSED", other):
        assert installed_or_compiled().exported == [codecs.ZSTD]


@pytest.mark.parametrize(
    ("raised", "expected"), [(OSError, CoreError), (KeyboardInterrupt, KeyboardInterrupt)]
)
def test_an_exception_of_a_codec_in_python_refuses_the_batch_and_ctrl_c_is_raised(
    raised: type[BaseException], expected: type[BaseException]
) -> None:
    """C cannot pass an exception on: without a note of it, Ctrl-C would vanish."""
    library = Library(library_path())

    def fails(codec: int, compresses: bool, data: bytes, most: int) -> bytes:
        if compresses:
            raise raised
        return convert(codec, compresses, data, most)

    core = Core(library, fails)
    with pytest.raises(expected):
        merged(core, [Made(RECORDS, codecs.GZIP)] * 3)
    assert merged(core, [Made(RECORDS)] * 3).batches == 3


def test_fewer_batches_than_asked_for_are_not_compressed_again() -> None:
    library, compressed = Library(library_path()), []

    def note(codec: int, compresses: bool, data: bytes, most: int) -> bytes:
        compressed.append(compresses)
        return convert(codec, compresses, data, most)

    core = Core(library, note)
    answer, rows = scanned(core, [Made(RECORDS, codecs.GZIP), Made(RECORDS)])
    with pytest.raises(CoreError):
        core.coalesce([Piece(answer, rows)], MOST, least=2)
    assert compressed == [False]
    assert core.coalesce([Piece(answer, rows)], MOST).batches == 1


def test_another_version_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    path = library_path()
    monkeypatch.setattr("k2ktui.native.binding.ABI", 0)
    with pytest.raises(Unavailable, match=r"has version \d+, not 0"):
        Library(path)


def test_another_file_is_not_used() -> None:
    with pytest.raises(Unavailable, match="cannot be loaded"):
        Library(Path(__file__))


def test_it_can_be_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("K2KTUI_NATIVE", "off")
    with pytest.raises(Unavailable, match="off"):
        load_library()


def test_an_answer_with_more_batches_than_a_table_has_rows(core: Core) -> None:
    batches = log([Made((Record(None, b"v"),))] * 9000)
    answer = memoryview(bytearray(b"".join(batches)))
    rows, consumed = core.scan(answer)
    assert (len(rows), consumed) == (9000, len(answer))
    assert rows["base_offset"].tolist() == list(range(10, 9010))
    sizes = np.array([len(batch) for batch in batches])
    assert rows["position"].tolist() == (np.cumsum(sizes) - sizes).tolist()


@pytest.mark.parametrize("codec", sorted(codecs.COMPRESSED))
def test_damaged_bytes_leave_nothing_for_the_next_batch(core: Core, codec: int) -> None:
    """LZ4's reset keeps how much is missing of a frame: one without a size was refused then."""
    empty = bytes.fromhex("04224d1860408200000000")
    for end in range(1, len(codecs.COMPRESSED[codec])):
        with pytest.raises(CoreError):
            core.decompress(codec, codecs.COMPRESSED[codec][:end], 200)
        if codec == codecs.LZ4:
            assert core.decompress(codec, empty, 200) == b""
        assert core.decompress(codec, codecs.COMPRESSED[codec], 200) == codecs.TEXT
