"""When the records at groups' committed offsets were written.

Recent ones follow from the log ends of earlier readings, between which time is interpolated. A
record before those is read once for its own timestamp, which is kept while a group stays there.
If more groups move on through an old backlog than records can be read for, time is interpolated
between two records that were read, too, if both were written at about the same time.
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left, bisect_right
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
# The next record that is read for the groups before it is about this share of the age younger:
# less than _SHARE, so that a wrong guess seldom misses it.
_AHEAD_SHARE = 0.08
# Log ends and read records kept of a partition, and those that are read for one reading of the
# groups.
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


def _is_close(width: float, age: float) -> bool:
    """Whether a time that may be wrong by ``width`` is known well enough for its age."""
    return width <= max(_SHORT_S, _SHARE * age)


class ReadRecords:
    """The timestamps of records of a partition that were read.

    A record between two of them was written between them, as in a log that is in order of time.
    One record that was not shows that the log is in another order: from then on only the records
    that were read themselves have a time.
    """

    def __init__(self) -> None:
        self._offsets: list[int] = []
        self._written: list[float] = []
        self._is_ordered = True

    def __len__(self) -> int:
        return len(self._offsets)

    def add(self, offset: int, written: float, now: float) -> None:
        """Add when the first record at or after an offset was written, in epoch seconds."""
        number = bisect_left(self._offsets, offset)
        if number < len(self._offsets) and self._offsets[number] == offset:
            del self._offsets[number], self._written[number]
        late = self._written[number - 1] - written if number else 0.0
        early = written - self._written[number] if number < len(self._offsets) else 0.0
        if not _is_close(max(late, early), now - written):
            self._is_ordered = False
        self._offsets.insert(number, offset)
        self._written.insert(number, written)
        if len(self._offsets) > _MOST_ENDS:
            self._thin(now)

    def count_to(self, offset: int) -> int:
        """Return the number of these records up to an offset."""
        return bisect_right(self._offsets, offset)

    def written_at(self, offset: int, now: float) -> float | None:
        """Return when the record at an offset was written; None if it is not known well enough."""
        number = bisect_right(self._offsets, offset)
        if not (self._is_ordered and 0 < number < len(self._offsets)):
            return None
        first, last = self._written[number - 1], self._written[number]
        if not _is_close(abs(last - first), now - max(first, last)):
            return None
        return self._between(number, offset)

    def to_read(self, offset: int, end: int, now: float) -> list[int]:
        """Return the one or two records that tell most of the time from an offset on.

        Args:
            offset: a position whose time is not known.
            end: the log's end.
            now: in epoch seconds.
        """
        if not self._is_ordered:
            return [offset]
        number = bisect_right(self._offsets, offset)
        is_last = number == len(self._offsets)
        last = (end if is_last else self._offsets[number]) - 1
        # Not the last one of all: markers of transactions may be where it was.
        ahead = last - (last - offset) // 100
        if number and not is_last:
            low = self._offsets[number - 1]
            per_s = (last + 1 - low) / max(
                _SHORT_S, self._written[number] - self._written[number - 1]
            )
            # As far from the record before it that both say when what is between was written.
            near = low + round(per_s * _AHEAD_SHARE * (now - self._written[number - 1]))
            if near > offset:
                return [min(near, last)]
            ahead = offset + round(per_s * _AHEAD_SHARE * (now - self._between(number, offset)))
        return sorted({offset, max(offset, min(ahead, last))})

    def forget_before(self, offset: int) -> None:
        """Forget the records that are of no use at and after an offset."""
        number = bisect_right(self._offsets, offset) - 1
        if number > 0:
            del self._offsets[:number], self._written[:number]

    def _between(self, number: int, offset: int) -> float:
        low, high = self._offsets[number - 1], self._offsets[number]
        first, last = self._written[number - 1], self._written[number]
        return first + (offset - low) / (high - low) * (last - first)

    def _thin(self, now: float) -> None:
        """Leave out records without which the time between their neighbours is known as well."""
        kept = [0]
        for number in range(1, len(self._offsets) - 1):
            last = self._written[number + 1]
            if not _is_close(abs(last - self._written[kept[-1]]), now - last):
                kept.append(number)
        kept = [*kept, len(self._offsets) - 1][-_MOST_ENDS * 3 // 4 :]
        self._offsets = [self._offsets[number] for number in kept]
        self._written = [self._written[number] for number in kept]


@dataclass(slots=True)
class _Commit:
    """An offset that groups have committed.

    Attributes:
        since: when it was first observed.
        record: timestamp of its record, as in ``WrittenTimes``; None if that was not read.
        stable: last stable offset when it was.
        estimate: when it was written by the log's ends, or by the records around it; None if that
            is not known well enough.
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
    records: ReadRecords = field(default_factory=ReadRecords)
    commits: dict[int, _Commit] = field(default_factory=dict)

    def estimate(self, now: float, *, between: bool) -> None:
        """Estimate what was not read; with ``between``, by the records around it first.

        These have times of their own, but a log may have others between them that are out of order.
        """
        for offset, commit in self.commits.items():
            if commit.record is None:
                by_records = self.records.written_at(offset, now) if between else None
                by_ends = self.ends.written_at(offset, now) if by_records is None else None
                commit.estimate = by_ends if by_records is None else by_records


class CommitTimes:
    """When the records at the committed offsets of all groups were written; not thread-safe."""

    def __init__(self) -> None:
        self._logs: dict[Partition, _Log] = {}
        self._offsets: Mapping[Partition, Collection[int]] = {}
        self._bounds: Mapping[Partition, LogSpan] = {}
        self._at = 0.0
        self._attempts: Counter[Where] = Counter()
        self._turn = 0
        # Whether the unknown positions are too many for each to have its own record read.
        self._are_many = False

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
        self._offsets, self._bounds, self._at = offsets, bounds, at
        self._logs = {
            where: self._logs.get(where) or _Log() for where in offsets if where in bounds
        }
        unknown: dict[Partition, list[int]] = {}
        known: list[Where] = []
        for where, log in self._logs.items():
            self._update(log, offsets[where], bounds[where])
            log.estimate(at, between=False)
        commits = [commit for log in self._logs.values() for commit in log.commits.values()]
        self._are_many = sum(commit.written is None for commit in commits) > MOST_READ
        for where, log in self._logs.items():
            log.estimate(at, between=self._are_many)
            for offset, commit in log.commits.items():
                if commit.written is None:
                    unknown.setdefault(where, []).append(offset)
                elif commit.record is None and at - commit.since >= _STAYS_S:
                    known.append((*where, offset))
        wanted = [*self._rank(unknown), *((2, place) for place in known)]
        # Those that could not be read last, and unknown ones first; all others have their turn.
        turn = self._turn % max(1, len(wanted))
        by_turn = [
            (self._attempts[place], rank, place) for rank, place in wanted[turn:] + wanted[:turn]
        ]
        chosen = sorted(by_turn, key=lambda one: one[:2])[:MOST_READ]
        self._turn += len(chosen)
        self._attempts = Counter({place: attempts for attempts, _, place in by_turn if attempts})
        self._attempts.update(place for _, _, place in chosen)
        return [place for _, _, place in chosen]

    def _update(self, log: _Log, offsets: Collection[int], bound: LogSpan) -> None:
        """Take over a log's bounds, and the offsets that groups have committed now."""
        if bound.high < log.ends.end:
            log.commits, log.records = {}, ReadRecords()  # other records have the same offsets
        log.ends.add(bound.high, self._at)
        places = {max(offset, bound.start) for offset in offsets}
        log.commits = {
            offset: log.commits.get(offset) or _Commit(self._at)
            for offset in places
            if offset < bound.stable
        }
        for commit in log.commits.values():
            if commit.record == math.inf and bound.stable > commit.stable:
                commit.record = None  # there may be a record now
        log.records.forget_before(min(places, default=0))

    def _rank(self, unknown: Mapping[Partition, list[int]]) -> list[tuple[int, Where]]:
        """Return the records that may be read for unknown positions, the most useful with rank 0.

        If they are too many, these are the first one between two known records, and one ahead of
        it, so that the time between both is known, through which the groups move on.
        """
        if sum(map(len, unknown.values())) <= MOST_READ:
            return [(0, (*where, offset)) for where, of in unknown.items() for offset in of]
        wanted: list[tuple[int, Where]] = []
        for where, of in unknown.items():
            records, end = self._logs[where].records, self._bounds[where].stable
            gap, ranks = -1, dict.fromkeys(of, 1)
            for offset in sorted(of):
                if records.count_to(offset) != gap:
                    gap = records.count_to(offset)
                    ranks |= dict.fromkeys(records.to_read(offset, end, self._at), 0)
            wanted += ((rank, (*where, offset)) for offset, rank in ranks.items())
        return wanted

    def learn(self, records: Mapping[Where, float]) -> None:
        """Take the timestamps of records that were read; values as in ``WrittenTimes``."""
        for (topic, number, offset), written in records.items():
            log = self._logs.get((topic, number))
            if log is None:
                continue
            if math.isfinite(written):
                log.records.add(offset, written, self._at)
            commit = log.commits.get(offset)
            if commit is not None:
                is_estimated = math.isnan(written) and commit.estimate is not None
                commit.record = commit.estimate if is_estimated else written
                commit.stable = self._bounds[topic, number].stable
        for where in {(topic, number) for topic, number, _ in records} & self._logs.keys():
            self._logs[where].estimate(self._at, between=self._are_many)

    def times(self) -> WrittenTimes:
        """Return when the records at the observed offsets were written, as far as known."""
        times: dict[Partition, dict[int, float]] = {}
        for where, log in self._logs.items():
            start = self._bounds[where].start
            commits = {o: log.commits.get(max(o, start)) for o in self._offsets[where]}
            known = {o: math.inf if one is None else one.written for o, one in commits.items()}
            times[where] = {o: written for o, written in known.items() if written is not None}
        return times
