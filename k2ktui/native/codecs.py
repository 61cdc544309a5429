"""Functions that compress and decompress, for the core: taken from packages that are dependencies.

No source of a codec is in this project. The extension modules of ``lz4`` and ``zstandard`` export
their libraries' public functions; each codec is tried with a known text before it is used. A codec
whose functions are not there, or fail the trial, goes to Python, one call a batch.
"""

from __future__ import annotations

import ctypes
import logging
from collections.abc import Callable
from ctypes import CFUNCTYPE, Structure, c_int32, c_int64, c_uint64, c_void_p
from importlib.util import find_spec

log = logging.getLogger(__name__)

GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4
DAMAGED, NO_ROOM, NO_CODEC = -1, -2, -3

#: Codec, whether to compress, the bytes, and the maximum size of the result. Anything that it
#: raises means that the bytes cannot be read.
PythonCodec = Callable[[int, bool, bytes, int], bytes]

_Callback = CFUNCTYPE(c_int64, c_int32, c_int32, c_void_p, c_uint64, c_void_p, c_uint64)

# What ``codecs`` in core.c has: its field, and the function's name in the library.
_LZ4 = {
    "lz4_new": "LZ4F_createDecompressionContext",
    "lz4_free": "LZ4F_freeDecompressionContext",
    "lz4_reset": "LZ4F_resetDecompressionContext",
    "lz4_decompress": "LZ4F_decompress",
    "lz4_compress": "LZ4F_compressFrame",
    "lz4_is_error": "LZ4F_isError",
}
_ZSTD = {
    "zstd_new_reader": "ZSTD_createDCtx",
    "zstd_free_reader": "ZSTD_freeDCtx",
    "zstd_decompress": "ZSTD_decompressDCtx",
    "zstd_new_writer": "ZSTD_createCCtx",
    "zstd_free_writer": "ZSTD_freeCCtx",
    "zstd_compress": "ZSTD_compressCCtx",
    "zstd_is_error": "ZSTD_isError",
}
_LIBRARIES = {LZ4: ("lz4.frame._frame", _LZ4), ZSTD: ("zstandard._cffi", _ZSTD)}
NAMES = {GZIP: "gzip", SNAPPY: "snappy", LZ4: "lz4", ZSTD: "zstd"}

# A text that repeats, and what it is when compressed.
TEXT = b"Kafka " * 20 + b"batch"
COMPRESSED = {
    SNAPPY: bytes.fromhex("7d144b61666b6120fe0600c60600106261746368"),
    LZ4: bytes.fromhex(
        "04224d1868407d00000000000000d4100000006f4b61666b612006005f50626174636800000000"
    ),
    ZSTD: bytes.fromhex("28b52ffd207d950000584b61666b6120626174636801002f692902"),
}


class Codecs(Structure):
    """The functions as the core takes them; ``codecs`` in core.c."""

    _fields_ = [
        *((field, c_void_p) for field in (*_LZ4, *_ZSTD)),
        ("python", _Callback),
    ]


def find_codecs(python: PythonCodec, interrupted: Callable[[BaseException], None]) -> Codecs:
    """Return the functions of those codecs that export them; ``python`` does the others.

    ``interrupted`` gets what ends a program while a codec runs in Python: Ctrl-C, for example.
    """
    functions = Codecs(python=_Callback(_without_exceptions(python, interrupted)))
    for codec, (module, names) in _LIBRARIES.items():
        try:
            library = ctypes.CDLL(_file_of(module))
            addresses = {
                field: ctypes.cast(getattr(library, name), c_void_p).value
                for field, name in names.items()
            }
        except (OSError, AttributeError, ImportError, ValueError) as error:
            log.info("%s goes through Python: %s", NAMES[codec], error)
            continue
        for field, address in addresses.items():
            setattr(functions, field, address)
    return functions


def drop_codec(functions: Codecs, codec: int) -> None:
    """Let Python do a codec."""
    for field in _LIBRARIES[codec][1]:
        setattr(functions, field, None)


def exported(functions: Codecs) -> list[int]:
    """Return the codecs whose functions come from a library."""
    return [
        codec
        for codec, (_, names) in _LIBRARIES.items()
        if all(getattr(functions, field) for field in names)
    ]


def _file_of(module: str) -> str:
    spec = find_spec(module)
    if spec is None or spec.origin is None:
        raise ImportError(f"there is no {module}")
    return spec.origin


def _without_exceptions(
    python: PythonCodec, interrupted: Callable[[BaseException], None]
) -> Callable[..., int]:
    """Return the function as C calls it: an exception would vanish, and leave a wrong length."""

    def call(codec: int, compresses: int, data: int, size: int, out: int, room: int) -> int:
        try:
            result = python(codec, bool(compresses), ctypes.string_at(data, size), room)
            if len(result) > room:
                return NO_ROOM
            ctypes.memmove(out, result, len(result))
            return len(result)
        except Exception:
            return NO_CODEC if compresses else DAMAGED
        except BaseException as error:
            interrupted(error)
            return NO_CODEC

    return call
