"""Calls ``core.c`` by ctypes: the library that lies beside this file, one context a thread."""

from __future__ import annotations

import ctypes
import logging
import os
from collections.abc import Sequence
from ctypes import POINTER, Structure, byref, c_char, c_int32, c_int64, c_uint32, c_uint64, c_void_p
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from pkgutil import get_data
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from k2ktui.errors import ConfigError
from k2ktui.native import codecs
from k2ktui.native.codecs import Codecs, PythonCodec

log = logging.getLogger(__name__)

#: The variable of the shell: ``off`` uses plain Python, ``require`` fails without the library.
VARIABLE = "K2KTUI_NATIVE"
#: Beside this file, on every platform; with another suffix, it could be imported as a module.
LIBRARY = "core.shared"
#: Beside the archive with the code that executors of a Spark cluster get, which has its checksum.
SHIPPED_LIBRARY = "k2ktui-core.shared"
CHECKSUM = "core.sha256"
#: Of the structs and functions in ``core.c``.
ABI = 4
HEADER_BYTES = 61
_RECORD_HEAD_BYTES = 21
_TABLE_ROWS = 4096
_DAMAGED, _NO_ROOM, _NO_CODEC, _NO_MEMORY = -1, -2, -3, -4

#: A batch of a fetch answer; ``row`` in ``core.c``.
ROW = np.dtype(
    [
        ("base_offset", "i8"),
        ("last_offset", "i8"),
        ("base_timestamp", "i8"),
        ("max_timestamp", "i8"),
        ("producer_id", "i8"),
        ("position", "u8"),
        ("size", "u4"),
        ("leader_epoch", "i4"),
        ("base_sequence", "i4"),
        ("count", "i4"),
        ("attributes", "i2"),
        ("producer_epoch", "i2"),
        ("checksum_ok", "u1"),
        ("mergeable", "u1"),
        ("reserved", "u1", 2),
    ]
)
assert ROW.itemsize == 72

I64 = NDArray[np.int64]
Rows = NDArray[np.void]
Buffer = bytes | bytearray | memoryview


class _Piece(Structure):
    _fields_ = [
        ("bytes", c_void_p),
        ("size", c_uint64),
        ("rows", c_void_p),
        ("count", c_int64),
    ]


class _Built(Structure):
    _fields_ = [
        ("size", c_uint64),
        ("body", c_uint64),
        ("taken", c_int64),
        ("count", c_int64),
        ("ranges", c_int64),
        ("last_offset", c_int64),
    ]


class _Located(Structure):
    _fields_ = [
        ("bytes", c_void_p),
        ("size", c_uint64),
        ("timestamps", c_void_p),
        ("tails", c_void_p),
        ("ends", c_void_p),
        ("count", c_int64),
    ]


class Unavailable(Exception):
    """The library cannot be used; the text says why."""


class CoreError(Exception):
    """The core does not do this input, for the reason in the text; plain Python decides."""


class CoreRoom(CoreError):
    """A buffer was too small for the first of the batches."""


class Scanned(NamedTuple):
    """The batches of a fetch answer; ``rows`` are of type ``ROW``.

    What lies from ``consumed`` bytes on is not a whole batch of format 2.
    """

    rows: Rows
    consumed: int


class Piece(NamedTuple):
    """Rows of one fetch answer."""

    answer: Buffer
    rows: Rows


@dataclass(frozen=True, slots=True)
class Coalesced:
    """Batches that became one.

    Attributes:
        data: the batch, with a right checksum and without a producer.
        batches: how many source batches are in it.
        count: records.
        ranges: the records' source offsets: first and count of those that follow each other.
        last_offset: the last source offset of the last batch.
    """

    data: memoryview
    batches: int
    count: int
    ranges: I64
    last_offset: int


@dataclass(frozen=True, slots=True)
class Columns:
    """Records of batches in offset order, by where they are in ``body``.

    A tail is the encoded key, value and headers. Negative lengths are null.

    Attributes:
        batches: how many batches they are of.
    """

    body: memoryview
    batches: int
    offsets: I64
    timestamps: I64
    tails: I64
    keys: I64
    key_lengths: I64
    values: I64
    value_lengths: I64
    headers: I64
    ends: I64


_COLUMNS = 9


class Located:
    """Records by where their tails are in ``body``, for any number of calls.

    Args:
        body: has the tails.
        timestamps: epoch milliseconds.
        tails: where each tail begins in ``body``.
        ends: where it ends.
    """

    __slots__ = ("_kept", "sizes", "struct")

    def __init__(self, body: Buffer, timestamps: I64, tails: I64, ends: I64) -> None:
        if not len(timestamps) == len(tails) == len(ends):
            raise ValueError("columns of different lengths")
        columns = [
            np.ascontiguousarray(column, dtype=np.int64) for column in (timestamps, tails, ends)
        ]
        self._kept = body, columns  # the struct has their addresses
        self.sizes: I64 = columns[2] - columns[1]
        self.struct = _Located(
            _address(body), len(body), *(column.ctypes.data for column in columns), len(tails)
        )


@dataclass(frozen=True, slots=True)
class BuiltRecords:
    """A batch of records, with a right checksum and without a producer; ``count`` are in it."""

    data: memoryview
    count: int


_PLACE, _SIZE, _COUNT, _NUMBER = c_void_p, c_uint64, c_int64, c_int32
#: Of each function in ``core.c``: what it returns, and its arguments.
_FUNCTIONS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "scan": (c_int64, (_PLACE, _SIZE, _PLACE, _COUNT, _PLACE)),
    "coalesce": (
        c_int64,
        (
            *(_PLACE, _PLACE, _COUNT, _COUNT, _SIZE, _SIZE, _NUMBER),
            *(_PLACE, _SIZE, _PLACE, _COUNT, _PLACE),
        ),
    ),
    "columns": (c_int64, (_PLACE, _PLACE, _PLACE, _SIZE, _PLACE, _COUNT, _PLACE, _PLACE)),
    "build": (c_int64, (_PLACE, _PLACE, _SIZE, _NUMBER, _NUMBER, _PLACE, _SIZE, _PLACE)),
    "same": (c_int64, (_PLACE, _COUNT, _PLACE, _COUNT, _COUNT)),
    "stamp": (c_int64, (_PLACE, _SIZE, c_int64, _NUMBER, _NUMBER, _NUMBER, _NUMBER)),
    "room": (c_uint64, (_SIZE,)),
    "checksum": (c_uint32, (_PLACE, _SIZE, _NUMBER)),
    "has_instruction": (c_int32, ()),
    "codec": (c_int64, (_PLACE, _NUMBER, _NUMBER, _PLACE, _SIZE, _PLACE, _SIZE)),
    "open": (c_void_p, (POINTER(Codecs),)),
    "close": (None, (_PLACE,)),
}


class Library:
    """The library's functions, without ``k2k_`` before their names.

    Raises:
        Unavailable: it cannot be loaded, or is another version.
    """

    scan: Any
    coalesce: Any
    columns: Any
    build: Any
    same: Any
    stamp: Any
    room: Any
    checksum: Any
    has_instruction: Any
    codec: Any
    open: Any
    close: Any

    def __init__(self, path: Path) -> None:
        try:
            library = ctypes.CDLL(str(path))
            abi = library.k2k_start()
            if abi != ABI:
                raise Unavailable(f"{path.name} has version {abi}, not {ABI}")
            for name, (result, arguments) in _FUNCTIONS.items():
                function = getattr(library, f"k2k_{name}")
                function.restype, function.argtypes = result, arguments
                setattr(self, name, function)
        except (OSError, AttributeError) as error:
            raise Unavailable(f"{path.name} cannot be loaded: {error}") from error


def is_required() -> bool:
    """Return whether the variable of the shell requires the library.

    Raises:
        ConfigError: it has an unknown value.
    """
    value = os.environ.get(VARIABLE, "")
    if value not in ("", "off", "require"):
        raise ConfigError(
            f"The environment variable {VARIABLE} has a value that is not off or require.",
            unchanged="Nothing was copied.",
            hint="Unset it, or set it to one of the two.",
        )
    return value == "require"


def load_library(path: Path | None = None) -> Library:
    """Load the library beside this file, or another one.

    Raises:
        Unavailable: there is none, it cannot be loaded, or, for the one beside this file,
            ``K2KTUI_NATIVE`` is ``off``.
    """
    if path is None and os.environ.get(VARIABLE) == "off":
        raise Unavailable(f"{VARIABLE} is off")
    return Library(path or _find_library())


def _find_library() -> Path:
    """Return where the library is: beside this file, or beside the archive that this file is in.

    Raises:
        Unavailable: there is none, or it is not the one that belongs to the archive.
    """
    # In executors, the archive has the name of a file in their working directory: a library of such
    # a name would be looked for in the system's directories.
    here = Path(__file__).absolute()
    archive = next((path for path in here.parents if path.is_file()), None)
    if archive is None:
        path = here.with_name(LIBRARY)
        if not path.is_file():
            raise Unavailable("the package was installed without it")
        return path
    path = archive.with_name(SHIPPED_LIBRARY)
    try:
        expected = get_data("k2ktui.native", CHECKSUM)
        content = path.read_bytes()
    except OSError as error:
        raise Unavailable(f"it was not sent with the code: {error}") from error
    if expected is None or sha256(content).hexdigest().encode() != expected:
        raise Unavailable(f"{path.name} is not the library that was sent with the code")
    return path


class Core:
    """What one thread does with the library.

    Args:
        library: the library.
        python: what does the codecs whose functions no package exports.

    ``exported`` has the codecs whose functions come from a package. All methods raise
    :class:`CoreError` for what the core does not do. Tables that a call fills are kept for the next
    one: memory of their sizes costs a page fault for each 4 KiB otherwise.
    """

    def __init__(self, library: Library, python: PythonCodec) -> None:
        self._library = library
        self._interrupts: list[BaseException] = []
        self._functions = codecs.find_codecs(python, self._interrupts.append)
        self._context = library.open(byref(self._functions))
        if not self._context:
            raise MemoryError
        self._try_codecs()
        self.exported = codecs.exported(self._functions)
        self._scratch = bytearray()
        self._ranges = np.empty((0, 2), dtype=np.int64)
        self._table = np.empty(_TABLE_ROWS * ROW.itemsize, dtype=np.uint8)
        self._table_at = self._table.ctypes.data  # to ask for it takes longer than to scan a batch

    def __del__(self) -> None:
        if getattr(self, "_context", None):
            self._library.close(self._context)

    def _try_codecs(self) -> None:
        """Use only functions that make of a known text what they should."""
        for codec in codecs.exported(self._functions):
            text, known = codecs.TEXT, codecs.COMPRESSED[codec]
            compressed = self._convert(codec, text, 4096, compresses=True)
            if (
                not text
                == self._convert(codec, known, 4096)
                == self._convert(codec, compressed or b"", 4096)
            ):
                log.warning("%s goes through Python: its library is another", codecs.NAMES[codec])
                codecs.drop_codec(self._functions, codec)
        self._library.close(self._context)
        self._context = self._library.open(byref(self._functions))

    def _ended(self, result: int) -> int:
        """Return what a function returned, unless Ctrl-C has ended a codec in Python meanwhile."""
        if self._interrupts:
            raise self._interrupts.pop()
        return result

    def _convert(
        self, codec: int, data: bytes, room: int, *, compresses: bool = False
    ) -> bytes | None:
        out = ctypes.create_string_buffer(room)
        size = self._ended(
            self._library.codec(self._context, codec, compresses, data, len(data), out, room)
        )
        return None if size < 0 else out.raw[:size]

    def decompress(self, codec: int, data: bytes, most: int) -> bytes:
        """Return the records of a batch, decompressed to at most ``most`` bytes."""
        result = self._convert(codec, data, most)
        if result is None:
            raise CoreError("the data is damaged, or too large")
        return result

    def scan(self, answer: Buffer) -> Scanned:
        """Return a row for each batch from the beginning of a fetch answer."""
        place, size, table = _address(answer), len(answer), self._table
        parts: list[Rows] = []
        at, consumed = 0, c_uint64()
        while True:
            count = self._library.scan(
                place + at, size - at, self._table_at, _TABLE_ROWS, byref(consumed)
            )
            rows = np.frombuffer(bytearray(table.data[: count * ROW.itemsize]), dtype=ROW)
            if at:
                rows["position"] += at
            parts.append(rows)
            at += consumed.value
            if count < _TABLE_ROWS:
                return Scanned(rows if len(parts) == 1 else np.concatenate(parts), at)

    def coalesce(
        self,
        pieces: Sequence[Piece],
        most: int,
        level: int = 0,
        *,
        least: int = 1,
        largest: int | None = None,
    ) -> Coalesced:
        """Merge batches that are alike, from the first on; their rows are ``mergeable``.

        Args:
            pieces: the batches, in offset order.
            most: no batch more is merged once those merged have so many bytes, compressed or not.
            level: of the compression, 0 for the codec's usual one.
            least: fewer batches are not merged.
            largest: bytes of its records before compression; twice ``most`` by default.

        Raises:
            CoreError: the first one is damaged or too large, or fewer than ``least`` are alike.
        """
        array = (_Piece * len(pieces))()
        for place, (answer, rows) in zip(array, pieces, strict=True):
            place.bytes, place.size = _address(answer), len(answer)
            place.rows, place.count = rows.ctypes.data, len(rows)
        compressed = any(len(rows) and rows["attributes"][0] & 7 for _, rows in pieces[:1])
        largest = 2 * most if largest is None else largest
        out, room = self._room_for(pieces, most, largest, compressed=compressed)
        if len(self._ranges) < most // 16 + 16:
            self._ranges = np.empty((most // 16 + 16, 2), dtype=np.int64)
        ranges, built = self._ranges, _Built()
        size = self._ended(self._library.coalesce(
            self._context, array, len(pieces), least, most, largest, level, _address(out), room,
            ranges.ctypes.data, len(ranges), byref(built),
        ))  # fmt: skip
        if size <= 0:
            raise _as_error(size)
        data = memoryview(bytearray(out[:size]) if compressed else out)[:size]
        return Coalesced(
            data, built.taken, built.count, ranges[: built.ranges].copy(), built.last_offset
        )

    def _room_for(
        self, pieces: Sequence[Piece], most: int, largest: int, *, compressed: bool
    ) -> tuple[bytearray | memoryview, int]:
        """Return where a merged batch is written.

        Compressed, it is smaller than what is needed to write it: it is copied from there.
        Uncompressed, it is written in its own place.
        """
        if compressed:
            room = int(self._library.room(largest))
            if len(self._scratch) < room:
                self._scratch = bytearray(room)
            return memoryview(self._scratch), room
        rows = pieces[0].rows if len(pieces) == 1 else np.concatenate([rows for _, rows in pieces])
        sizes = np.cumsum(rows["size"], dtype=np.int64)
        number = int(np.searchsorted(sizes, most)) + 1  # that can be merged
        size = int(sizes[:number][-1]) if len(sizes) else 0
        count = int(rows["count"][:number].sum(dtype=np.int64))
        room = HEADER_BYTES + max(0, min(largest, size + _RECORD_HEAD_BYTES * count))
        return np.empty(room, dtype=np.uint8).data, room

    def columns(self, piece: Piece, most: int) -> Columns:
        """Decode the records of batches, from the first on, up to ``most`` decompressed bytes.

        It stops before the first batch that is damaged or too large.

        Raises:
            CoreRoom: the first one is too large.
            CoreError: the first one is damaged.
        """
        answer, rows = piece
        place = _Piece(_address(answer), len(answer), rows.ctypes.data, len(rows))
        in_place = not (rows["attributes"] & 7).any()
        body = None if in_place else np.empty(most, dtype=np.uint8)
        room = int(rows["count"].sum(dtype=np.int64))
        # A record has 7 bytes: counts in headers are not believed.
        room = max(0, min(room, (len(answer) if in_place else most) // 7))
        columns = np.empty((_COLUMNS, room), dtype=np.int64)
        taken, used = c_int64(), c_uint64()
        count = self._ended(self._library.columns(
            self._context, byref(place), None if body is None else body.ctypes.data, most,
            columns.ctypes.data, room, byref(taken), byref(used),
        ))  # fmt: skip
        if count < 0 or not taken.value:
            raise _as_error(count)
        data = memoryview(answer) if body is None else body.data[: used.value]
        return Columns(data, taken.value, *(column[:count] for column in columns))

    def build(self, records: Located, codec: int, most: int, level: int = 0) -> BuiltRecords:
        """Encode records into one batch of at most ``most`` bytes before compression.

        A larger record is alone in its batch.

        Args:
            records: the records, in this order.
            codec: the number in a batch's attributes.
            most: bytes.
            level: as for ``coalesce``.
        """
        sizes = np.clip(records.sizes, 0, records.struct.size)
        largest = int(sizes.max(initial=0)) + HEADER_BYTES + _RECORD_HEAD_BYTES
        total = HEADER_BYTES + int(sizes.sum()) + _RECORD_HEAD_BYTES * len(sizes)
        room = int(self._library.room(max(largest, min(most, total))))
        out = np.empty(room, dtype=np.uint8)
        built = _Built()
        size = self._ended(self._library.build(
            self._context, byref(records.struct), most, codec, level, out.ctypes.data, room,
            byref(built),
        ))  # fmt: skip
        if size <= 0:
            raise _as_error(size)
        # Compressed, it would hold the room that is needed to write it.
        data = memoryview(bytearray(out[:size])) if codec else out.data[:size]
        return BuiltRecords(data, built.count)

    def count_same(self, one: Located, at: int, other: Located, there: int, count: int) -> int:
        """Return how many of ``count`` records from two places on have the same timestamp and tail.

        Those after the first that has not are not looked at.
        """
        same: int = self._library.same(byref(one.struct), at, byref(other.struct), there, count)
        if same < 0:
            raise _as_error(same)
        return same

    def stamp(
        self,
        batch: memoryview,
        producer_id: int,
        epoch: int,
        sequence: int,
        *,
        transactional: bool,
        checksum_known: bool,
    ) -> None:
        """Write a producer into a batch in place, and its checksum.

        ``checksum_known``: the one in the batch is right, so that the new one follows from it. Can
        be called in any thread, as it uses nothing of this core.
        """
        place = ctypes.addressof(c_char.from_buffer(batch))  # it refuses one that is read-only
        error = self._library.stamp(
            place, len(batch), producer_id, epoch, sequence, transactional, checksum_known
        )
        if error:
            raise _as_error(error)


def _address(data: Buffer) -> int:
    """Return where bytes are; the caller keeps them."""
    if isinstance(data, memoryview) and not data.readonly and len(data):
        return ctypes.addressof(c_char.from_buffer(data))  # an eighth of NumPy's time
    return int(np.frombuffer(data, dtype=np.uint8).ctypes.data) if len(data) else 0


def _as_error(code: int) -> Exception:
    if code == _NO_MEMORY:
        return MemoryError()
    if code == _NO_ROOM:
        return CoreRoom("the records need more room")
    if code == _NO_CODEC:
        return CoreError("the codec failed")
    return CoreError("the bytes do not follow the format, or nothing was given")
