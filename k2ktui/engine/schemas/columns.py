"""Schema ids in the payloads of many records at once; ``schema_ids`` has the forms."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from k2ktui.engine.schemas.ids import LARGEST_INT, LARGEST_LONG

Bytes = NDArray[np.uint8]
Offsets = NDArray[np.int64]

_SHORT_AT, _SHORT_WIDTH = 1, 4
_LONG_AT, _LONG_WIDTH = 1, 8


@dataclass(frozen=True, slots=True)
class PayloadIds:
    """The schema ids of payloads in one buffer.

    Attributes:
        rows: indexes of the payloads that begin with an id, ascending.
        ids: their ids.
        is_long: whether each id is 8 bytes wide (``SchemaIdForm.LONG_PREFIX``), else 4.
    """

    rows: Offsets
    ids: Offsets
    is_long: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.rows)


def find_payload_ids(data: Bytes, starts: Offsets, lengths: Offsets) -> PayloadIds:
    """Return the schema ids that payloads begin with.

    Args:
        data: the bytes of all payloads.
        starts: where each payload begins in ``data``.
        lengths: its length in bytes; a null payload has a negative length or 0.
    """
    rows = np.flatnonzero(lengths >= _SHORT_AT + _SHORT_WIDTH)
    rows = rows[data[starts[rows]] == 0]
    ids = _read(data, starts[rows] + _SHORT_AT, _SHORT_WIDTH)
    is_long = (ids == 0) & (lengths[rows] >= _LONG_AT + _LONG_WIDTH)
    ids[is_long] = _read(data, starts[rows[is_long]] + _LONG_AT, _LONG_WIDTH)
    # An 8-byte id whose first bit is set is negative here.
    good = (ids > 0) & (ids <= np.where(is_long, LARGEST_LONG, LARGEST_INT))
    return PayloadIds(rows[good], ids[good], is_long[good])


def write_payload_ids(data: Bytes, starts: Offsets, old: PayloadIds, ids: Offsets) -> None:
    """Write other ids into payloads, in place.

    Args:
        data: the bytes of all payloads; changed.
        starts: where each payload begins, as for :func:`find_payload_ids`.
        old: the ids to replace.
        ids: the new ids, one per row of ``old``.

    Raises:
        ValueError: an id does not fit into the bytes of the one that it replaces; nothing is
            written.
    """
    if np.any(ids <= 0) or np.any(ids[~old.is_long] > LARGEST_INT):
        raise ValueError("a new schema id does not fit into the bytes of the old one")
    at = starts[old.rows]
    _write(data, at[~old.is_long] + _SHORT_AT, _SHORT_WIDTH, ids[~old.is_long])
    _write(data, at[old.is_long] + _LONG_AT, _LONG_WIDTH, ids[old.is_long])


def _read(data: Bytes, at: Offsets, width: int) -> Offsets:
    """Return the big-endian numbers of ``width`` bytes at the given places."""
    numbers = np.zeros(len(at), np.int64)
    for byte in range(width):
        numbers = (numbers << 8) | data[at + byte]
    return numbers


def _write(data: Bytes, at: Offsets, width: int, numbers: Offsets) -> None:
    for byte in range(width):
        data[at + byte] = (numbers >> (8 * (width - 1 - byte))) & 0xFF
