"""Holds the core in C to plain Python: of any bytes, it makes the same, or it refuses them.

Run as a program, it compares for some seconds: ``python -m tests.support.records.core_comparison
LIBRARY SECONDS SEED``, for a library that was compiled with sanitizers.
"""

from __future__ import annotations

import random
import struct
import sys
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from crc32c import crc32c

from k2ktui.log import plain
from k2ktui.log.batch import (
    APPEND_TIME,
    COMPRESSION_MASK,
    CONTROL,
    DELETE_HORIZON,
    TRANSACTIONAL,
    Batch,
    CorruptBatch,
    split_batches,
    stamp_producer,
)
from k2ktui.log.compress import compress
from k2ktui.log.decompress import decompress
from k2ktui.native.binding import Core, CoreError, Located, Piece, Rows, load_library
from tests.support.records.made_batches import Made, Record, log

MOST = 256 << 10
_BODY = 1 << 20


def open_core(path: Path | None = None) -> Core:
    """Return a core with the library of this package, or another one."""
    return Core(load_library(path), convert)


def convert(codec: int, compresses: bool, data: bytes, most: int) -> bytes:
    """Compress or decompress, in Python."""
    return compress(codec, data) if compresses else decompress(codec, data, most)


def exact(data: bytes) -> memoryview:
    """Return bytes in memory of exactly their size, so that a sanitizer sees what is behind it."""
    array = np.empty(len(data), dtype=np.uint8)
    array[:] = np.frombuffer(data, dtype=np.uint8)
    return array.data


@dataclass(slots=True)
class Counts:
    """What was compared: scanned and merged batches, decoded records, and what C refused."""

    scanned: int = 0
    merged: int = 0
    decoded: int = 0
    refused: int = 0


def compare(
    core: Core,
    data: bytes,
    counts: Counts,
    most: int = MOST,
    unmarked: Collection[int] = (),
) -> None:
    """Compare everything that the core does with an answer of these bytes.

    ``unmarked`` are the numbers of batches that may not be merged.
    """
    answer = exact(data)
    rows, consumed = core.scan(answer)
    batches = compare_scan(answer, rows, consumed)
    counts.scanned += len(rows)
    rows["mergeable"] = [at not in unmarked for at in range(len(rows))]
    compare_merges(core, answer, rows, batches, counts, most)
    for at, batch in enumerate(batches):
        compare_columns(core, Piece(answer, rows[at : at + 1]), batch, counts)
    compare_all_columns(core, Piece(answer, rows))
    for batch in batches[:2]:
        compare_stamps(core, batch)


def compare_scan(answer: memoryview, rows: Rows, consumed: int) -> list[Batch]:
    """Compare rows with the batches of the plain reader; return those batches."""
    batches = []
    parsed = split_batches(bytearray(answer))
    for row in rows:
        batch = next(parsed)
        assert (batch.base_offset, batch.last_offset) == (row["base_offset"], row["last_offset"])
        assert (batch.leader_epoch, batch.attributes) == (row["leader_epoch"], row["attributes"])
        assert (batch.base_timestamp, batch.max_timestamp, batch.producer_id, batch.count) == (
            *(row["base_timestamp"], row["max_timestamp"], row["producer_id"], row["count"]),
        )
        at = int(row["position"])
        assert bytes(answer[at : at + int(row["size"])]) == bytes(batch.view)
        assert batch.crc_ok() == bool(row["checksum_ok"])
        assert not row["mergeable"]
        assert struct.unpack_from(">hi", batch.view, 51) == (
            *(row["producer_epoch"], row["base_sequence"]),
        )
        batches.append(batch)
    assert consumed == sum(len(batch.view) for batch in batches)
    # Where the core stops, there is no batch, none of format 2, or none that is whole.
    try:
        following = next(parsed, None)
    except CorruptBatch:
        following = None
    assert following is None or following.magic < 2 or following.last_offset >= (1 << 63) - 1
    return batches


def compare_merges(
    core: Core,
    answer: memoryview,
    rows: Rows,
    batches: Sequence[Batch],
    counts: Counts,
    most: int,
) -> None:
    """Merge all batches from the first on, and again behind what was merged."""
    at = 0
    while at < len(batches):
        marked = rows["mergeable"][at:].tolist()
        behind = at + (marked.index(0) if 0 in marked else len(marked))
        try:
            merged = core.coalesce([Piece(answer, rows[at:])], most)
        except CoreError:
            counts.refused += 1
            if behind > at and not batches[at].attributes & COMPRESSION_MASK and most >= MOST:
                assert _is_refused(batches[at:behind], most), (
                    "plain Python accepts what the core refuses"
                )
            at += 1
            continue
        assert at + merged.batches <= behind, "a batch is merged that may not be"
        same = plain.coalesce(batches[at : at + merged.batches], most)
        assert (merged.batches, merged.count) == (same.batches, same.count)
        assert merged.last_offset == same.last_offset
        assert merged.ranges.tolist() == same.ranges.tolist()
        assert bytes(merged.data) == bytes(same.data)
        if not batches[at].attributes & COMPRESSION_MASK and most >= MOST:
            assert merged.batches == plain.coalesce(batches[at:behind], most).batches
        at += merged.batches
        counts.merged += merged.batches


def _is_refused(batches: Sequence[Batch], most: int) -> bool:
    try:
        plain.coalesce(batches, most)
    except CorruptBatch:
        return True
    return False


def compare_columns(core: Core, piece: Piece, batch: Batch, counts: Counts) -> None:
    """Compare the columns of one batch, and what is built of them again."""
    try:
        payload = plain.read_payload(batch, _BODY)
        records = list(plain.read_records(batch, payload))
        values = [plain.read_value(payload, record) for record in records]
    except CorruptBatch:
        records = None
    try:
        columns = core.columns(piece, _BODY)
    except CoreError:
        counts.refused += 1
        assert records is None or batch.attributes & COMPRESSION_MASK
        return
    assert records is not None, "the core accepts what plain Python refuses"
    begin = 0 if batch.attributes & COMPRESSION_MASK else int(piece.rows["position"][0]) + 61
    body = bytes(columns.body)
    assert body[begin : begin + len(payload)] == payload
    assert columns.offsets.tolist() == [record.offset for record in records]
    assert columns.timestamps.tolist() == [record.timestamp for record in records]
    assert (columns.tails - begin).tolist() == [record.tail for record in records]
    assert (columns.keys - begin).tolist() == [record.key for record in records]
    assert columns.key_lengths.tolist() == [record.key_length for record in records]
    assert (columns.ends - begin).tolist() == [record.end for record in records]
    places = (columns.values - begin, columns.value_lengths, columns.headers - begin)
    assert list(zip(*(place.tolist() for place in places), strict=True)) == values
    counts.decoded += len(records)
    if not records:
        return
    codec, most = batch.attributes & COMPRESSION_MASK, len(payload) // 2 + 61
    located = Located(columns.body, columns.timestamps, columns.tails, columns.ends)
    built = core.build(located, codec, most)
    tails = [(record.timestamp, payload[record.tail : record.end]) for record in records]
    same = plain.build(tails, codec, most)
    assert (bytes(built.data), built.count) == (bytes(same.data), same.count)
    compare_same(core, located, built.data, len(tails))


def compare_same(core: Core, records: Located, built: memoryview, count: int) -> None:
    """Compare records with those of a batch that was built of them, and of a changed one."""
    body = bytearray(built)
    (batch,) = split_batches(body)
    again = core.columns(Piece(exact(bytes(body)), core.scan(exact(bytes(body))).rows), _BODY)
    taken = batch.count
    copy = Located(again.body, again.timestamps, again.tails, again.ends)
    assert core.count_same(records, 0, copy, 0, taken) == taken
    later = again.timestamps.copy()
    later[-1] += 1
    changed = Located(again.body, later, again.tails, again.ends)
    assert core.count_same(records, 0, changed, 0, taken) == taken - 1
    tail = bytearray(again.body)
    tail[int(again.ends[taken // 2]) - 1] ^= 1
    changed = Located(exact(bytes(tail)), again.timestamps, again.tails, again.ends)
    assert core.count_same(records, 0, changed, 0, taken) == taken // 2
    for at, there in ((-1, 0), (0, 1), (count, 0)):
        try:
            core.count_same(records, at, copy, there, taken)
        except CoreError:
            continue
        raise AssertionError("records are compared that are not there")


def compare_all_columns(core: Core, piece: Piece) -> None:
    """Compare columns of several batches with those of each: they follow each other."""
    try:
        columns = core.columns(piece, _BODY)
    except (CoreError, MemoryError):
        return
    offsets: list[int] = []
    for at in range(columns.batches):
        one = core.columns(Piece(piece.answer, piece.rows[at : at + 1]), _BODY)
        rows = slice(len(offsets), len(offsets) + len(one.offsets))
        for tail, end, tail_alone, end_alone in zip(
            columns.tails[rows], columns.ends[rows], one.tails, one.ends, strict=True
        ):
            assert columns.body[tail:end] == one.body[tail_alone:end_alone]
        offsets += one.offsets.tolist()
    assert columns.offsets.tolist() == offsets


def compare_stamps(core: Core, batch: Batch) -> None:
    """Compare a stamped batch, with and without the checksum that it had."""
    for transactional in (False, True):
        expected = memoryview(bytearray(batch.view))
        stamp_producer(expected, 1 << 40, 7, 99, transactional=transactional)
        for known in {False, batch.crc_ok()}:
            stamped = exact(bytes(batch.view))
            core.stamp(stamped, 1 << 40, 7, 99, transactional=transactional, checksum_known=known)
            assert bytes(stamped) == bytes(expected)


def with_checksum(batch: bytes) -> bytes:
    """Return a batch with the checksum that its bytes have."""
    data = bytearray(batch)
    data[17:21] = crc32c(memoryview(data)[21:]).to_bytes(4, "big")
    return bytes(data)


def random_log(luck: random.Random) -> bytes:
    """Return an answer: batches that are often alike, some of them damaged, and perhaps an end."""
    codec, epoch = luck.randrange(5), luck.randrange(3)
    batches = []
    for _ in range(luck.randrange(1, 8)):
        records = tuple(_records(luck))
        flags = luck.choice((0, 0, 0, 0, TRANSACTIONAL, APPEND_TIME, DELETE_HORIZON, CONTROL))
        made = Made(records, codec, flags, epoch=epoch, before=luck.choice((0, 0, 1, 90)))
        if luck.random() < 0.1:
            made = replace(made, codec=luck.randrange(6) % 5, epoch=luck.randrange(3))
        if luck.random() < 0.2:
            made = replace(
                made,
                # The first byte is of the first record's length.
                damage=((luck.choice((0, luck.randrange(400))), luck.randrange(1, 256)),),
                counted=luck.choice((0, 0, 1, -1, 1 << 20)),
                ends=luck.choice((b"", b"\0", b"\x80")),
                before=luck.choice((0, -2)),
            )
        batches.append(made)
    encoded = log(batches)
    if luck.random() < 0.5:
        at = luck.randrange(len(encoded))
        encoded[at] = _damage(luck, encoded[at])
    data = b"".join(encoded)
    return data[: luck.randrange(len(data) + 1)] if luck.random() < 0.2 else data


def _records(luck: random.Random) -> Iterator[Record]:
    for _ in range(luck.choice((0, 1, 2, 3, 8, 60))):
        size = luck.choice((0, 1, 20, 90, 2000))
        yield Record(
            luck.choice((None, b"", b"key", luck.randbytes(9))),
            luck.choice((None, luck.randbytes(size), b"ab" * size)),
            tuple((b"h", luck.choice((None, b"", b"x"))) for _ in range(luck.choice((0, 0, 2)))),
            luck.choice((0, 1, 1000, -5, 1 << 40, -(1 << 40))),
            luck.choice((0, 0, 0, 0, 1, 70)),
        )


def _damage(luck: random.Random, batch: bytes) -> bytes:
    """Change some bytes; often with the right checksum, as a producer may send them."""
    data = bytearray(batch)
    for _ in range(luck.choice((1, 1, 2, 5))):
        place = luck.randrange(61) if luck.random() < 0.2 else luck.randrange(len(data))
        data[place] = luck.choice((0, 1, 0x7F, 0x80, 0xFF, luck.randrange(256)))
    if luck.random() < 0.2:
        del data[luck.randrange(len(data)) :]
    return with_checksum(bytes(data)) if luck.random() < 0.7 and len(data) > 61 else bytes(data)


def random_rows(luck: random.Random, rows: Rows) -> Rows:
    """Return rows of which some lie: about places, sizes, counts and offsets."""
    rows = rows.copy()
    for _ in range(luck.randrange(1, 4)):
        field = luck.choice(("position", "size", "count", "base_offset", "last_offset"))
        at = luck.randrange(len(rows))
        kind = rows.dtype[field]
        rows[field][at] = luck.choice(
            (
                0,
                1,
                60,
                61,
                62,
                int(np.iinfo(kind).max),
                int(np.iinfo(kind).min),
                luck.randrange(999),
            )
        )
    return rows


def lie(core: Core, luck: random.Random, data: bytes) -> None:
    """Give the core rows that are not of these bytes: it must not read beyond them."""
    answer = exact(data)
    rows = core.scan(answer).rows
    if not len(rows):
        return
    rows["mergeable"] = 1
    lying = random_rows(luck, rows)
    for call in (
        lambda: core.coalesce([Piece(answer, lying)], 1 << 14),
        lambda: core.columns(Piece(answer, lying), 1 << 14),
    ):
        try:
            call()
        except (CoreError, MemoryError):
            continue


def damage_each_byte(core: Core, codec: int, counts: Counts) -> None:
    """Damage each byte of the last batch: what it says of lengths leads beyond the answer."""
    records = (Record(b"k", b"v" * 9, ((b"h", None),)), Record(None, None, (), 3, after=1))
    first, last = log([Made(records, codec)] * 2)
    for place in range(len(last)):
        for change in (0x10, 0x80):
            damaged = bytearray(last)
            damaged[place] ^= change
            compare(core, first + with_checksum(bytes(damaged)), counts)


def main() -> None:
    """Compare for some seconds, and print what was seen."""
    core = open_core(Path(sys.argv[1]))
    for codec in {0, int(sys.argv[3]) % 5}:
        damage_each_byte(core, codec, Counts())
    seed, until = int(sys.argv[3]), time.process_time() + float(sys.argv[2])
    counts, examples = Counts(), 0
    while time.process_time() < until or not examples:
        luck = random.Random(seed + examples)
        data = random_log(luck)
        try:
            unmarked = [at for at in range(9) if luck.random() < 0.05]
            compare(core, data, counts, luck.choice((MOST, MOST, 3000)), unmarked)
            lie(core, luck, data)
        except BaseException:
            print(f"seed {seed + examples}", file=sys.stderr)
            raise
        examples += 1
    print(f"{examples} examples from seed {seed} on: {counts}")


if __name__ == "__main__":
    main()
