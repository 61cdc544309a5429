"""The core of batches in C for the threads of this process, or why there is none."""

from __future__ import annotations

import logging
import threading
from functools import cache
from typing import Protocol

from k2ktui.errors import K2kError
from k2ktui.log import batch
from k2ktui.log.compress import compress
from k2ktui.log.decompress import decompress
from k2ktui.native.binding import VARIABLE, Core, Library, Unavailable, is_required, load_library

log = logging.getLogger(__name__)


class ProducerStamp(Protocol):
    """Rewrites a batch in place for a producer, as :func:`k2ktui.log.batch.stamp_producer`.

    ``checksum_known``: the checksum in the batch is right. The core then does not read the records
    again, and a byte of them that was damaged in memory meanwhile is found by the target.
    """

    def __call__(
        self,
        view: memoryview,
        producer_id: int,
        epoch: int,
        sequence: int,
        /,
        *,
        transactional: bool,
        checksum_known: bool,
    ) -> None: ...


class _Contexts(threading.local):
    core: Core | None = None


_contexts = _Contexts()


def core() -> Core | None:
    """Return the core of this thread; None where plain Python does its work.

    Raises:
        K2kError: it is required, and cannot be used.
    """
    library = _library()
    if isinstance(library, str):
        return None
    known = _contexts.core
    if known is None:
        known = _contexts.core = Core(library, _convert)
    return known


def why_not() -> str:
    """Return why plain Python does the core's work; empty if it does not."""
    library = _library()
    return library if isinstance(library, str) else ""


def producer_stamp() -> ProducerStamp:
    """Return what stamps batches in this thread.

    Raises:
        K2kError: as ``core``.
    """
    in_c = core()
    return batch.stamp_producer if in_c is None else in_c.stamp


@cache
def _library() -> Library | str:
    required = is_required()
    try:
        library = load_library()
    except Unavailable as error:
        if required:
            raise K2kError(
                f"The core of batches in C cannot be used, and {VARIABLE} requires it: {error}.",
                unchanged="Nothing was copied.",
                hint="Install k2ktui again where it can be compiled, or unset the variable.",
            ) from error
        log.info("batches are copied in plain Python, slower: %s", error)
        return str(error)
    with_instruction = "with" if library.has_instruction() else "without"
    log.debug("the core of batches is loaded, %s the instruction for CRC-32C", with_instruction)
    return library


def _convert(codec: int, compresses: bool, data: bytes, most: int) -> bytes:
    return compress(codec, data) if compresses else decompress(codec, data, most)
