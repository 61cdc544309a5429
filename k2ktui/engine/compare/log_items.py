"""What a walk reads of a log: batches of records, and offsets without any."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

I64 = NDArray[np.int64]
Flags = NDArray[np.bool_]


class AbsentKind(StrEnum):
    """Why offsets of a log hold no committed record."""

    DELETED = "below the log start offset"
    NO_RECORD = "no committed record"
    HELD_BACK = "held back by an open transaction"
    END = "beyond the end of the log"
    UNREAD = "could not be read"


@dataclass(frozen=True, slots=True)
class Absent:
    """Offsets ``first … last`` without a committed record; ``reason`` is that of ``UNREAD``."""

    first: int
    last: int
    kind: AbsentKind
    reason: str = ""


class BatchRows(Protocol):
    """The records of a batch; a row is an index of ``offsets``."""

    @property
    def offsets(self) -> I64:
        """Their offsets, in order."""
        ...

    def key(self, row: int) -> bytes | None:
        """Return the key of a record; None for null."""
        ...

    def is_tombstone(self, row: int) -> bool:
        """Whether the value of a record is null."""
        ...

    def time_ms(self, row: int) -> int:
        """Return the timestamp of a record."""
        ...

    def kept(self) -> Flags | None:
        """Whether one record is made of each; None if several may be, or it is not known."""
        ...

    def is_left_out(self, row: int) -> bool | None:
        """Whether the pipeline makes no record of a source record; None if that is not known."""
        ...


class LogBatch(Protocol):
    """A batch of committed records, not decoded yet."""

    @property
    def first(self) -> int:
        """The base offset."""
        ...

    @property
    def last(self) -> int:
        """The last offset, which may hold no record any more."""
        ...

    @property
    def count(self) -> int:
        """Number of records; those of a compacted log may be fewer than the offsets."""
        ...

    def same_bytes(self, other: LogBatch) -> bool:
        """Whether both are the same records, as their bytes show without decoding them."""
        ...

    def digest(self) -> int:
        """Return a digest of the base offset and the records."""
        ...

    def rows(self) -> BatchRows:
        """Decode the batch.

        Raises:
            UnreadableBatch: it cannot be decoded.
        """
        ...


class UnreadableBatch(Exception):
    """A batch that cannot be decoded; the text says why."""


LogItem = LogBatch | Absent
LogItems = Iterator[LogItem]
