"""Slot tasks as bytes; parts unchanged since the last lap are neither packed nor unpacked again.

A task names every partition of its slot, which may be thousands. They are packed in chunks. The
driver packs a chunk again if something in it has changed; a worker that has unpacked a chunk of the
same bytes before uses that.
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import dataclass, replace

from k2ktui.replication.copying.slot_task import Assignment, SlotTask

_CHUNK = 100

_Assignments = tuple[Assignment, ...]


@dataclass(frozen=True, slots=True)
class PackedTask:
    """A slot task; ``rest`` is the pickled task without its assignments."""

    slot: int
    rest: bytes
    chunks: tuple[bytes, ...]


class TaskPacker:
    """Packs the tasks of a session's laps; a slot has one task at a time."""

    def __init__(self) -> None:
        self._last: dict[int, list[tuple[_Assignments, bytes]]] = {}

    def pack(self, task: SlotTask) -> PackedTask:
        """Return the task as bytes."""
        assignments, last = task.assignments, self._last.get(task.slot, [])
        packed = []
        for number, first in enumerate(range(0, len(assignments), _CHUNK)):
            chunk = assignments[first : first + _CHUNK]
            before = last[number] if number < len(last) else ((), b"")
            same = _is_same(chunk, before[0])
            packed.append(before if same else (chunk, pickle.dumps(chunk)))
        self._last[task.slot] = packed
        rest = pickle.dumps(replace(task, assignments=()))
        return PackedTask(task.slot, rest, tuple(data for _, data in packed))


def _is_same(one: _Assignments, other: _Assignments) -> bool:
    """Return whether both are equal; most of them have the same objects."""
    return len(one) == len(other) and all(map(_is_equal, one, other))


def _is_equal(one: Assignment, other: Assignment) -> bool:
    return (
        one.position is other.position
        and one.source == other.source
        and one.until == other.until
        and one.size_limit == other.size_limit
        and one.refused == other.refused
        and one.max_message_bytes == other.max_message_bytes
        and (one.route is other.route or one.route == other.route)
    )


class TaskUnpacker:
    """Unpacks tasks in a worker process."""

    def __init__(self) -> None:
        self._known: dict[int, dict[bytes, _Assignments]] = {}

    def unpack(self, packed: PackedTask) -> SlotTask:
        """Return the task."""
        known, now = self._known.get(packed.slot, {}), dict[bytes, _Assignments]()
        for chunk in packed.chunks:
            assignments = known.get(chunk)
            now[chunk] = pickle.loads(chunk) if assignments is None else assignments  # noqa: S301 - our own
        self._known[packed.slot] = now
        task: SlotTask = pickle.loads(packed.rest)  # noqa: S301 - our own
        chunks: Sequence[_Assignments] = [now[chunk] for chunk in packed.chunks]
        return replace(
            task, assignments=tuple(assignment for chunk in chunks for assignment in chunk)
        )
