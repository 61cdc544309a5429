"""When the records at groups' committed offsets were written.

Recent ones follow from the log ends of earlier readings, between which time is interpolated. A
record before those is read once for its own timestamp, which is kept while a group stays there.
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

Partition = tuple[str, int]
Where = tuple[str, int, int]
# Epoch seconds by partition and offset: infinity where no committed record follows, NaN where the
# record has no timestamp. An offset that is not known yet has no entry.
WrittenTimes = Mapping[Partition, Mapping[int, float]]

# Records between two readings may have been written at any time between: that must be a small
# part of their age, or short.
_SHARE, _SHORT_S = 0.1, 10.0
# A group that stays this long may be before records that nobody reads, such as the markers of
# transactions.
_STAYS_S = 30.0
# Log ends kept of a partition, and the records that are read for one reading of the groups.
_MOST_ENDS = 256
MOST_READ = 256


@dataclass(frozen=True, slots=True)
class LogSpan:
    """The log of a partition: its start, its last stable offset and its high watermark."""

    start: int
    stable: int
    high: int


class LogEnds:
    """The log ends of a partition over time.

    A record at an offset was written after the last reading whose end was at or before the offset,
    and not after the first one whose end was beyond it.
    """

    def __init__(self) -> None:
        self._clear()

    def _clear(self) -> None:
        # Each end with the first and the last time at which it was read.
        self._ends, self._first, self._last = array("q"), array("d"), array("d")

    def __len__(self) -> int:
        return len(self._ends)

    @property
    def end(self) -> int:
        """The latest end; -1 before the first reading."""
        return self._ends[-1] if self._ends else -1

    def add(self, end: int, at: float) -> None:
        """Add the end that was read at ``at``, in epoch seconds, increasing."""
        if self._ends and end < self._ends[-1]:  # truncated, or another topic of this name
            self._clear()
        if self._ends and end == self._ends[-1]:
            self._last[-1] = at
            return
        self._ends.append(end)
        self._first.append(at)
        self._last.append(at)
        if len(self._ends) > _MOST_ENDS:
            self._thin(at)

    def written_at(self, offset: int, now: float) -> float | None:
        """Return when the record at an offset was written; None if it is not known well enough."""
        number = bisect_right(self._ends, offset)
        if not 0 < number < len(self._ends):
            return None
        low, high = self._ends[number - 1], self._ends[number]
        after, by = self._last[number - 1], self._first[number]
        at = after + (offset - low + 0.5) / (high - low) * (by - after)
        return at if by - after <= max(_SHORT_S, _SHARE * (now - at)) else None

    def _thin(self, now: float) -> None:
        """Leave out ends between which too little time is for their age to matter."""
        kept = [0]
        for number in range(1, len(self._ends) - 1):
            by = self._first[number + 1]
            if by - self._last[kept[-1]] > _SHARE * (now - by):
                kept.append(number)
        # After a break everything may be needed: the oldest go then.
        kept = [*kept, len(self._ends) - 1][-_MOST_ENDS * 3 // 4 :]
        self._ends = array("q", [self._ends[number] for number in kept])
        self._first = array("d", [self._first[number] for number in kept])
        self._last = array("d", [self._last[number] for number in kept])


@dataclass(slots=True)
class _Commit:
    """An offset that groups have committed.

    Attributes:
        since: when it was first observed.
        record: timestamp of its record, as in ``WrittenTimes``; None if that was not read.
        stable: last stable offset when it was.
        estimate: when it was written by the log's ends; None if that is not known well enough.
    """

    since: float
    record: float | None = None
    stable: int = -1
    estimate: float | None = None

    @property
    def written(self) -> float | None:
        """When its record was written; None if that is not known."""
        return self.estimate if self.record is None else self.record


@dataclass(slots=True)
class _Log:
    ends: LogEnds = field(default_factory=LogEnds)
    commits: dict[int, _Commit] = field(default_factory=dict)


class CommitTimes:
    """When the records at the committed offsets of all groups were written; not thread-safe."""

    def __init__(self) -> None:
        self._logs: dict[Partition, _Log] = {}
        self._offsets: Mapping[Partition, Collection[int]] = {}
        self._bounds: Mapping[Partition, LogSpan] = {}
        self._attempts: Counter[Where] = Counter()
        self._turn = 0

    def observe(
        self,
        offsets: Mapping[Partition, Collection[int]],
        bounds: Mapping[Partition, LogSpan],
        at: float,
    ) -> list[Where]:
        """Add a reading of logs; return the records whose own timestamps should be read now.

        Args:
            offsets: what groups have committed.
            bounds: of the logs; partitions without are unknown.
            at: when the logs were read, in epoch seconds.
        """
        self._offsets, self._bounds = offsets, bounds
        self._logs = {
            where: self._logs.get(where) or _Log() for where in offsets if where in bounds
        }
        wanted: list[tuple[int, bool, Where]] = []
        for where, log in self._logs.items():
            bound = bounds[where]
            if bound.high < log.ends.end:
                log.commits = {}  # other records have the same offsets
            log.ends.add(bound.high, at)
            places = {max(offset, bound.start) for offset in offsets[where]}
            log.commits = {
                offset: log.commits.get(offset) or _Commit(at)
                for offset in places
                if offset < bound.stable
            }
            for offset, commit in log.commits.items():
                if commit.record == math.inf and bound.stable > commit.stable:
                    commit.record = None  # there may be a record now
                if commit.record is not None:
                    continue
                commit.estimate = log.ends.written_at(offset, at)
                is_known = commit.estimate is not None
                if not is_known or at - commit.since >= _STAYS_S:
                    place = (*where, offset)
                    wanted.append((self._attempts[place], is_known, place))
        # Those that could not be read last, and unknown ones first; all others have their turn.
        turn = self._turn % max(1, len(wanted))
        chosen = sorted(wanted[turn:] + wanted[:turn], key=lambda one: one[:2])[:MOST_READ]
        self._turn += len(chosen)
        self._attempts = Counter({place: attempts for attempts, _, place in wanted if attempts})
        self._attempts.update(place for _, _, place in chosen)
        return [place for _, _, place in chosen]

    def learn(self, records: Mapping[Where, float]) -> None:
        """Take the timestamps of records that were read; values as in ``WrittenTimes``."""
        for (topic, number, offset), written in records.items():
            log = self._logs.get((topic, number))
            commit = log.commits.get(offset) if log else None
            if commit is not None:
                is_estimated = math.isnan(written) and commit.estimate is not None
                commit.record = commit.estimate if is_estimated else written
                commit.stable = self._bounds[topic, number].stable

    def times(self) -> WrittenTimes:
        """Return when the records at the observed offsets were written, as far as known."""
        times: dict[Partition, dict[int, float]] = {}
        for where, log in self._logs.items():
            start = self._bounds[where].start
            commits = {o: log.commits.get(max(o, start)) for o in self._offsets[where]}
            known = {o: math.inf if one is None else one.written for o, one in commits.items()}
            times[where] = {o: written for o, written in known.items() if written is not None}
        return times
