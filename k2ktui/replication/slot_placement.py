"""Which slot a new source partition goes to."""

from __future__ import annotations

from collections.abc import Sequence

from k2ktui.replication.slot_task import CopyPath

# A produce request holds one batch of each partition, and what it costs a broker and us is by the
# request: see docs/decisions.md for what sharing a slot saves.
_TOGETHER = 4


def choose_slot(loads: Sequence[int], path: CopyPath, *, spread: bool) -> int:
    """Return the index of the slot for a partition.

    Args:
        loads: how many partitions each slot has.
        path: a partition that is copied verbatim joins others, up to four in a slot, before another
            slot begins; records that are decoded need all cores.
        spread: over all slots always, as somebody who sets their number expects.
    """
    if path is CopyPath.VERBATIM and not spread:
        for index, load in enumerate(loads):
            if 0 < load < _TOGETHER:
                return index
    return min(range(len(loads)), key=lambda index: loads[index])
