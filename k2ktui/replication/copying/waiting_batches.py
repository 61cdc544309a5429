"""The batches of a partition that were fetched and wait to be copied.

Most of them are small and are merged unseen: they wait as rows of the core's scan. A :class:`Batch`
is made of a row when somebody asks for it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from k2ktui.log.batch import Batch
from k2ktui.native.binding import HEADER_BYTES, Core, Piece, Rows


@dataclass(frozen=True, slots=True)
class _Block:
    """Rows of one answer that wait, of small batches: the core may merge them."""

    answer: memoryview
    rows: Rows

    def __len__(self) -> int:
        return len(self.rows)

    def batch(self, at: int) -> Batch:
        return batch_of(self.answer, self.rows[at])

    def after(self, count: int) -> _Block:
        return replace(self, rows=self.rows[count:])


class WaitingBatches:
    """Batches in the order of their offsets; like a deque, but for what is done with rows."""

    def __init__(self) -> None:
        self._parts: deque[Batch | _Block] = deque()
        self._count = 0
        self._first: Batch | None = None

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Batch]:
        for part in self._parts:
            if isinstance(part, Batch):
                yield part
            else:
                yield from map(part.batch, range(len(part)))

    @property
    def first(self) -> Batch:
        """The next batch; the same object until it is taken."""
        if self._first is None:
            part = self._parts[0]
            self._first = part if isinstance(part, Batch) else part.batch(0)
        return self._first

    @property
    def last(self) -> Batch:
        """The batch behind all others."""
        part = self._parts[-1]
        return part if isinstance(part, Batch) else part.batch(-1)

    def append(self, batch: Batch) -> None:
        """Add a batch behind all others."""
        self._parts.append(batch)
        self._count += 1

    def append_rows(self, answer: memoryview, rows: Rows) -> None:
        """Add batches of format 2 behind all others, by their rows in an answer."""
        self._count += len(rows)
        small = rows["mergeable"] == 1
        changes = np.flatnonzero(small[1:] != small[:-1]) + 1
        for begin, end in pairwise([0, *changes.tolist(), len(rows)]):
            if small[begin]:
                self._parts.append(_Block(answer, rows[begin:end]))
            else:  # each of them is asked for
                self._parts += [_batch(answer, row) for row in rows[begin:end].tolist()]

    def take(self, count: int) -> int:
        """Remove the next batches; return their bytes."""
        size = 0
        self._count -= count
        self._first = None
        while count:
            part = self._parts.popleft()
            if isinstance(part, Batch):
                size += len(part.view)
                count -= 1
                continue
            taken = min(count, len(part))
            size += int(part.rows["size"][:taken].sum())
            count -= taken
            if taken < len(part):
                self._parts.appendleft(part.after(taken))
        return size

    def take_last(self) -> Batch:
        """Remove and return the batch behind all others."""
        batch = self.last
        part = self._parts.pop()
        if isinstance(part, _Block) and len(part) > 1:
            self._parts.append(replace(part, rows=part.rows[:-1]))
        self._count -= 1
        if not self._count:
            self._first = None
        return batch

    def leave_out(self, is_left_out: Callable[[Batch], bool]) -> list[Batch]:
        """Remove all batches of which a function says so; return them."""
        removed = []
        parts, self._parts = self._parts, deque()
        for part in parts:
            if isinstance(part, Batch):
                if is_left_out(part):
                    removed.append(part)
                else:
                    self._parts.append(part)
                continue
            batches = [part.batch(at) for at in range(len(part))]
            kept = np.array([not is_left_out(batch) for batch in batches])
            removed += [batch for batch, keep in zip(batches, kept, strict=True) if not keep]
            if kept.any():
                self._parts.append(replace(part, rows=part.rows[kept]))
        self._count -= len(removed)
        self._first = None
        return removed

    def mergeable(
        self, in_c: Core, most: int, may_be_merged: Callable[[Batch], bool]
    ) -> list[Piece]:
        """Return the rows of the next batches, for a merge of ``most`` bytes; at least of two.

        Args:
            in_c: scans batches that did not wait as rows.
            most: no more batches are returned once they have so many bytes.
            may_be_merged: whether such a batch may be; the first that may not be ends the rows.
        """
        pieces: list[Piece] = []
        count = size = 0
        for part in self._parts:
            if size >= most:
                break
            if isinstance(part, _Block):
                piece = Piece(part.answer, part.rows[: most // HEADER_BYTES + 1])
            elif may_be_merged(part):
                piece = Piece(part.view, in_c.scan(part.view).rows)
                piece.rows["mergeable"] = 1
            else:
                break
            pieces.append(piece)
            count += len(piece.rows)
            size += int(piece.rows["size"].sum())
        return pieces if count > 1 else []


def batch_of(answer: memoryview, row: np.void) -> Batch:
    """Return the batch of a row."""
    return _batch(answer, row.item())


def _batch(answer: memoryview, row: Any) -> Batch:
    base, last, first_time, latest, producer, position, size, epoch, _, count, attributes, *_ = row
    view = answer[position : position + size]
    return Batch(view, base, last, epoch, 2, attributes, first_time, latest, producer, count)
