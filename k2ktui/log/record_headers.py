"""What the record path does to headers: keeps, drops, renames and adds them, marks the origin."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache

import numpy as np

from k2ktui.engine.records.state import SourcePartition
from k2ktui.engine.transforms.header_names import (
    EVERY_HEADER,
    SAME_HEADERS,
    HeaderRules,
    OriginHeader,
)
from k2ktui.log.batch import CorruptBatch
from k2ktui.log.records import I64, Records, encode_nullable
from k2ktui.log.varints import encode_varint, read_varint

_NO_KEY_NO_VALUE = b"\x01\x01"


def native_rows(records: Records, origin: OriginHeader) -> I64:
    """Return the rows of the records that the opposite pipeline did not write, by their headers.

    Raises:
        CorruptBatch: the headers of a record cannot be read.
    """
    name = origin.name.encode()
    left_out = {(name, value.encode()) for value in origin.left_out}
    rows = [
        row
        for row, tail in enumerate(records.tails)
        if name not in tail or left_out.isdisjoint(_headers(tail))
    ]
    return np.array(rows, dtype=np.int64)


def change_headers(
    records: Records,
    rules: HeaderRules,
    source: SourcePartition,
    pipeline: str,
    origin: OriginHeader | None = None,
) -> Records:
    """Return records with the headers that they get on the target.

    Raises:
        CorruptBatch: the headers of a record cannot be read.
    """
    if rules == SAME_HEADERS and origin is None:
        return records
    rename = _renamer(rules, origin)
    constants = b"".join(_header(name, value) for name, value in rules.constants)
    fixed = {"partition": str(source.partition), "topic": source.topic, "pipeline": pipeline}

    def change(offset: int, tail: bytes) -> bytes:
        at = _headers_at(tail)
        count, after = read_varint(tail, at)
        kept = tail[after:]
        if rules.drop:
            count, kept = 0, b""
        elif count and rename is not None:
            named = [(rename(name), value) for name, value in _headers(tail)]
            chosen = [_header_bytes(name, value) for name, value in named if name is not None]
            count, kept = len(chosen), b"".join(chosen)
        count += len(rules.constants) + len(rules.added)
        added = constants + b"".join(
            _header(name, fixed.get(what) or str(offset)) for what, name in rules.added
        )
        for mark in _origins(tail, rules, origin):
            added += mark
            count += 1
        return tail[:at] + encode_varint(count) + kept + added

    try:
        tails = [change(o, t) for o, t in zip(records.offsets.tolist(), records.tails, strict=True)]
    except IndexError as error:
        raise CorruptBatch("the headers of a record are missing or damaged") from error
    return Records(records.offsets, records.timestamps, tails)


def set_headers(encoded: bytes, assigned: Sequence[tuple[str, bytes | None]]) -> bytes:
    """Return the encoded headers of a record with others in place of those of these names.

    A header with the value None is removed.

    Raises:
        CorruptBatch: the headers cannot be read.
    """
    names = {name.encode() for name, _ in assigned}
    kept = [header for header in _headers(_NO_KEY_NO_VALUE + encoded) if header[0] not in names]
    kept += [(name.encode(), value) for name, value in assigned if value is not None]
    return encode_headers(kept)


def encode_headers(headers: Sequence[tuple[bytes, bytes | None]]) -> bytes:
    """Return the headers of a record as its last part."""
    return encode_varint(len(headers)) + b"".join(_header_bytes(*header) for header in headers)


def _renamer(
    rules: HeaderRules, origin: OriginHeader | None
) -> Callable[[bytes], bytes | None] | None:
    """Return a function of a header's name to its name on the target, None if it is dropped.

    Returns None if the rules change no name. The origin must survive, or the record would come
    back.
    """
    if rules.names == EVERY_HEADER:
        return None
    mark = origin.name.encode() if origin is not None else None

    @cache
    def rename(name: bytes) -> bytes | None:
        if name == mark:
            return name
        new_name = rules.names.target_for(name.decode("utf-8", "surrogateescape"))
        return None if new_name is None else new_name.encode("utf-8", "surrogateescape")

    return rename


def _origins(tail: bytes, rules: HeaderRules, origin: OriginHeader | None) -> Iterator[bytes]:
    """Yield the origin headers that a record still needs."""
    if origin is None:
        return
    name = origin.name.encode()
    present = [value for key, value in _headers(tail) if key == name] if name in tail else []
    if rules.drop:
        # The origin must survive, or the record would come back.
        yield from (_header_bytes(name, value) for value in present)
    if origin.own.encode() not in present and not (origin.first_only and present):
        yield _header(origin.name, origin.own)


def _headers(tail: bytes) -> list[tuple[bytes, bytes | None]]:
    headers = []
    try:
        count, at = read_varint(tail, _headers_at(tail))
        for _ in range(count):
            length, at = read_varint(tail, at)
            key, at = tail[at : at + length], at + length
            length, at = read_varint(tail, at)
            value = tail[at : at + length] if length >= 0 else None
            headers.append((key, value))
            at += max(0, length)
    except IndexError as error:
        raise CorruptBatch("the headers of a record are missing or damaged") from error
    return headers


def _headers_at(tail: bytes) -> int:
    at = 0
    for _ in ("key", "value"):
        length, at = read_varint(tail, at)
        at += max(0, length)
    return at


def _header(name: str, value: str) -> bytes:
    return _header_bytes(name.encode(), value.encode())


def _header_bytes(key: bytes, value: bytes | None) -> bytes:
    return encode_nullable(key) + encode_nullable(value)
