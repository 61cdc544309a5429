"""Decompress the records of a batch up to a limit: a few kilobytes can hold gigabytes of zeros.

Batches on the verbatim path are not decompressed.
"""

from __future__ import annotations

import threading
import zlib
from collections.abc import Callable, Iterator

import lz4.frame
import zstandard
from cramjam import snappy

from k2ktui.log.batch import CorruptBatch

_LEAST_BYTES = 64 << 20
_RATIO = 32
_CHUNK_BYTES = 1 << 20
_GZIP_WINDOW = 31
_XERIAL = b"\x82SNAPPY\x00"
_XERIAL_HEADER_BYTES = 16
_LZ4_MAGIC_BYTES, _LZ4_CONTENT_SIZE_FLAG = 4, 0x08


def limit_of(size: int) -> int:
    """Return the maximum decompressed size of ``size`` compressed bytes.

    It is 32 times their size, at least 64 MiB. The topic's ``max.message.bytes`` bounds the size of
    a batch, and so this limit.
    """
    return max(_LEAST_BYTES, _RATIO * size)


def decompress(codec: int, data: bytes, most: int | None = None) -> bytes:
    """Return ``data`` decompressed; ``codec`` is the number in a batch's attributes.

    ``most`` is the maximum size of the result, ``limit_of`` by default.

    Raises:
        CorruptBatch: the data is damaged or too large, or the codec is unknown.
    """
    if codec not in _CODECS:
        raise CorruptBatch(f"unknown compression codec {codec}")
    name, chunks = _CODECS[codec]
    limit = limit_of(len(data)) if most is None else most
    pieces: list[bytes] = []
    size = 0
    try:
        for chunk in chunks(data, limit):
            pieces.append(chunk)
            size += len(chunk)
            if size > limit:
                raise _too_large(name, len(data), limit)
    except CorruptBatch:
        raise
    except Exception as error:  # the codecs raise many kinds of errors for damaged data
        raise CorruptBatch(f"its {name} data is damaged ({type(error).__name__})") from error
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def with_lz4_checksum(data: bytes) -> bytes:
    """Return an LZ4 frame of a v0 message with a standard header checksum.

    Kafka 0.8 and 0.9 also included the magic bytes in the checksum (KIP-57).

    Raises:
        CorruptBatch: there is no frame header.
    """
    at = _LZ4_MAGIC_BYTES + 2 + (8 if data[4:5] and data[4] & _LZ4_CONTENT_SIZE_FLAG else 0)
    for guess in range(256):
        head = data[:at] + bytes((guess,))
        try:
            lz4.frame.get_frame_info(head)
        except RuntimeError:
            continue
        return head + data[at + 1 :]
    raise CorruptBatch("its lz4 data is damaged (no frame header)")


def _too_large(name: str, size: int, limit: int) -> CorruptBatch:
    return CorruptBatch(
        f"its {size} bytes of {name} data hold more than {limit} bytes: the limit is {_RATIO} "
        f"times as much, and at least {_LEAST_BYTES} bytes"
    )


def _gzip(data: bytes, _: int) -> Iterator[bytes]:
    while data:
        member = zlib.decompressobj(_GZIP_WINDOW)
        while not member.eof:
            chunk = member.decompress(data, _CHUNK_BYTES)
            if not chunk and not member.eof:
                raise EOFError
            yield chunk
            data = member.unconsumed_tail
        data = member.unused_data


def _snappy(data: bytes, limit: int) -> Iterator[bytes]:
    if not data.startswith(_XERIAL):
        yield _snappy_block(data, limit)
        return
    at = _XERIAL_HEADER_BYTES
    while at < len(data):
        end = at + 4 + int.from_bytes(data[at : at + 4], "big")
        if end > len(data):
            raise EOFError
        yield _snappy_block(data[at + 4 : end], limit)
        at = end


def _snappy_block(data: bytes, limit: int) -> bytes:
    if int(snappy.decompress_raw_len(data)) > limit:
        raise _too_large("snappy", len(data), limit)
    return bytes(snappy.decompress_raw(data))


def _lz4(data: bytes, _: int) -> Iterator[bytes]:
    frame = lz4.frame.LZ4FrameDecompressor()
    while not frame.eof:
        chunk = frame.decompress(data, _CHUNK_BYTES)
        if not chunk and not frame.eof:
            raise EOFError
        yield chunk
        data = b""


class _Contexts(threading.local):
    """The zstd context of each thread: to make one takes ten times as long as a small batch.

    It is used again only after a batch that was decompressed to its end: damaged data leaves
    nothing in it for the next batch.
    """

    zstd: zstandard.ZstdDecompressor | None = None


_contexts = _Contexts()


def _zstd(data: bytes, _: int) -> Iterator[bytes]:
    context, _contexts.zstd = _contexts.zstd or zstandard.ZstdDecompressor(), None
    reader = context.stream_reader(data, read_across_frames=True)
    while chunk := reader.read(_CHUNK_BYTES):
        yield chunk
    _contexts.zstd = context


_CODECS: dict[int, tuple[str, Callable[[bytes, int], Iterator[bytes]]]] = {
    1: ("gzip", _gzip),
    2: ("snappy", _snappy),
    3: ("lz4", _lz4),
    4: ("zstd", _zstd),
}
