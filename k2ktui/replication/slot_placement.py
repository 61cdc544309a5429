"""Assignment of new source partitions to slots."""

from __future__ import annotations

from collections.abc import Sequence

from k2ktui.replication.slot_task import CopyPath

# A produce request holds one batch of each partition, and its cost to the broker and the worker is
# per request: docs/decisions.md has what sharing a slot saves.
_TOGETHER = 4


def choose_slot(loads: Sequence[int], path: CopyPath, *, spread: bool) -> int:
    """Return the index of the slot for a partition.

    Args:
        loads: number of partitions of each slot.
        path: partitions on the verbatim path fill a slot with up to four before the next slot is
            used; the record path decodes records and needs all cores.
        spread: always spread over all slots, as expected when their number is configured.
    """
    if path is CopyPath.VERBATIM and not spread:
        for index, load in enumerate(loads):
            if 0 < load < _TOGETHER:
                return index
    return min(range(len(loads)), key=lambda index: loads[index])
