"""Batches as producers, compaction and damage leave them, and strategies that make them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from crc32c import crc32c
from hypothesis import strategies as st

from k2ktui.log.batch import APPEND_TIME, DELETE_HORIZON, HEADER, TRANSACTIONAL
from k2ktui.log.compress import compress
from k2ktui.log.records import encode_nullable
from k2ktui.log.varints import encode_varint


@dataclass(frozen=True)
class Record:
    """One record; ``after`` is how many offsets compaction removed before it."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[bytes, bytes | None], ...] = ()
    time: int = 0
    after: int = 0

    def tail(self) -> bytes:
        headers = b"".join(
            encode_varint(len(key)) + key + encode_nullable(value) for key, value in self.headers
        )
        count = encode_varint(len(self.headers))
        return encode_nullable(self.key) + encode_nullable(self.value) + count + headers


@dataclass(frozen=True)
class Made:
    """A batch; ``damage`` are the places in the header or the decompressed records to change."""

    records: tuple[Record, ...]
    codec: int = 0
    flags: int = 0
    producer: int = -1
    before: int = 0
    behind: int = 0
    base_time: int = 1_700_000_000_000
    latest: int = 1_700_000_000_999
    damage: tuple[tuple[int, int], ...] = ()
    counted: int = 0
    epoch: int = 3
    ends: bytes = field(default=b"")

    def encode(self, first: int) -> tuple[bytes, int]:
        """Return the batch from an offset on, and the offset after it."""
        body, at = bytearray(), 0
        for record in self.records:
            at += record.after
            rest = b"\0" + encode_varint(record.time) + encode_varint(at) + record.tail()
            body += encode_varint(len(rest)) + rest
            at += 1
        for place, change in self.damage:
            if body:
                body[place % len(body)] ^= change
        body += self.ends
        packed = compress(self.codec, bytes(body)) if self.codec else bytes(body)
        last = max(0, at - 1 + self.behind)
        count = max(0, len(self.records) + self.counted)
        header = HEADER.pack(
            *(first, 49 + len(packed), self.epoch, 2, 0, self.codec | self.flags, last),
            *(self.base_time, self.latest, self.producer, 0, 0, count),
        )
        data = bytearray(header + packed)
        data[17:21] = crc32c(memoryview(data)[21:]).to_bytes(4, "big")
        return bytes(data), first + last + 1


BLOBS = st.none() | st.binary(max_size=90)
RECORDS = st.builds(
    Record,
    BLOBS,
    BLOBS | st.integers(100, 9000).map(bytes),
    st.lists(st.tuples(st.binary(max_size=3), BLOBS), max_size=2).map(tuple),
    st.integers(-5, 1000) | st.sampled_from((-(1 << 40), 1 << 40)),
    st.sampled_from((0, 0, 0, 1, 70)),
)
FLAGS = st.sampled_from((0, 0, 0, 0, TRANSACTIONAL, APPEND_TIME, DELETE_HORIZON))
WHOLE = st.builds(
    Made,
    st.lists(RECORDS, max_size=6).map(tuple),
    st.integers(0, 4),
    FLAGS,
    st.integers(-1, 2),
    st.sampled_from((0, 0, 0, 1, 200)),
    st.sampled_from((0, 0, 0, 2)),
)
DAMAGED = st.builds(
    lambda made, damage, counted, ends, overlap: replace(
        made, damage=tuple(damage), counted=counted, ends=ends, before=overlap
    ),
    WHOLE,
    st.lists(st.tuples(st.integers(0, 400), st.integers(1, 255)), max_size=2),
    st.sampled_from((0, 0, 0, 1, -1, 1 << 20)),
    st.sampled_from((b"", b"", b"", b"\0", b"\x80")),
    st.sampled_from((0, 0, 0, -2)),
)


def alike(batches: list[Made], codec: int | None) -> list[Made]:
    """Batches of one codec, as one producer sends them; None: as they are."""
    return batches if codec is None else [replace(batch, codec=codec) for batch in batches]


def log(batches: list[Made]) -> list[bytes]:
    """Encode batches one after the other."""
    encoded, at = [], 10
    for made in batches:
        data, at = made.encode(max(0, at + made.before))
        encoded.append(data)
    return encoded
