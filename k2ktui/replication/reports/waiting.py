"""Records that wait although laps can read: for how long, and why.

A lap that reads nothing fails with a reason. This covers laps that read and copy nothing: one
partition's leader does not answer, a quota throttles them, a broker repeats an error. If records
wait for 30 s and none is copied, the run reports a problem. Stopped partitions do not count, and a
known reason is reported as such.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from time import monotonic

from k2ktui.engine.records.state import Position, SourcePartition
from k2ktui.replication.reports.notes import ThrottledNotifier
from k2ktui.text import counted

_WAITS_S = 30.0


@dataclass(slots=True)
class _Slot:
    """How far a slot has read and copied.

    Attributes:
        since: monotonic seconds since when records wait and none is copied; None if that is not so.
        offsets: of its partitions at the last look.
        unread: since when a partition is not read, by partition.
    """

    since: float | None = None
    offsets: dict[SourcePartition, int] = field(default_factory=dict)
    unread: dict[SourcePartition, float] = field(default_factory=dict)


class WaitingRecords:
    """Reports records that wait for 30 s although laps can read.

    Args:
        notifier: reports problems.
        clock: monotonic seconds.
    """

    def __init__(self, notifier: ThrottledNotifier, clock: Callable[[], float] = monotonic) -> None:
        self._notifier, self._clock = notifier, clock
        self._slots: dict[int, _Slot] = {}

    def lap_failed(self, slot: int) -> None:
        """Forget what waited: the reason of the failure is reported, and the time starts over."""
        self._slots.pop(slot, None)
        self._notifier.forget(_subject(slot))

    def lap_read(
        self,
        slot: int,
        copied: Collection[SourcePartition],
        positions: Mapping[SourcePartition, Position],
        ends: Mapping[SourcePartition, int],
        unread: Mapping[SourcePartition, str],
    ) -> None:
        """Look at a slot after a lap that could read.

        Args:
            slot: its number.
            copied: the partitions of the lap, without those that have stopped.
            positions: their positions after it.
            ends: last stable offsets: what an open transaction holds back does not wait here.
            unread: why partitions were not read.
        """
        now, known = self._clock(), self._slots.setdefault(slot, _Slot())
        offsets = {at: positions[at].offset for at in copied if at in positions}
        waiting = {at: ends[at] - o for at, o in offsets.items() if ends.get(at, o) > o}
        moved = {at for at, offset in offsets.items() if known.offsets.get(at, offset) != offset}
        known.offsets = offsets
        if moved or not waiting or known.since is None:
            known.since = now if waiting else None
        known.unread = {
            at: now if at in moved else known.unread.get(at, now)
            for at in unread
            if at in waiting or (at in offsets and at not in ends)  # or whose end is unknown
        }
        late = [at for at, since in known.unread.items() if now - since >= _WAITS_S]
        if late:
            first = min(late)
            others = f" and {counted(len(late) - 1, 'more partition')}" if late[1:] else ""
            # Without numbers that change: the same text is not repeated every lap.
            text = f"{first}{others}: not read for 30 s or longer: {unread[first]}"
        elif known.since is not None and now - known.since >= _WAITS_S:
            first = min(waiting)
            reason = unread.get(first, "") or "the source answers, and no record of them arrives"
            text = (
                f"records of {first} from offset {offsets[first]} on wait, and the slot has copied "
                f"none for 30 s or longer: {reason}"
            )
        else:
            self._notifier.over(_subject(slot))
            return
        self._notifier.report(_subject(slot), text, lasts=True)


def _subject(slot: int) -> str:
    return f"slot {slot}, waiting records"
