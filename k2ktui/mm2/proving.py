"""Exact positions by comparing records around an estimate on both clusters.

MirrorMaker 2 tells of few records where they landed. From the nearest of them both logs are walked
record by record to the committed offset: key, value, headers and timestamp must be the same for
each, and then the position is proven. Where that is too far, a pattern of neighbours is looked for
around the estimate; it proves the position if it is there exactly once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from time import monotonic

from k2ktui.engine.cuts import Cut, Cuts
from k2ktui.engine.state import Position, SourcePartition
from k2ktui.errors import K2kError
from k2ktui.kafka.clients import Cluster
from k2ktui.sync.content import Contents, Record, Stretch, Where, same_content

# How far a walk may go, in source offsets; how many neighbours a pattern has on either side.
_WALK = 5000
_NEIGHBOURS = 32
_AROUND = 1000
# What is read at once, in offsets.
_PORTION = 50_000

Span = tuple[Where, int]


@dataclass(frozen=True, slots=True)
class _Job:
    """One committed offset: what to read on both sides, and from which cut it is walked.

    ``forward`` None stands for a pattern, True and False for a walk to it and back to it.
    """

    at: SourcePartition
    offset: int
    anchor: Cut
    forward: bool | None
    here: Span
    there: Span


class Prover:
    """Proves cuts; remembers what could not be proven, and does not try it again.

    Args:
        source: the source cluster; it is only read.
        target: the target cluster; it is only read.
    """

    def __init__(self, source: Cluster, target: Cluster) -> None:
        self._source, self._target = Contents(source), Contents(target)
        self._tried: dict[tuple[SourcePartition, int], tuple[Cut | None, Cut | None, int]] = {}
        self._whys: Counter[str] = Counter()
        self._trouble = ""

    def prove(
        self,
        cuts: Mapping[SourcePartition, Cuts],
        positions: Mapping[SourcePartition, Position],
        wanted: Mapping[SourcePartition, Collection[int]],
        timeout: float,
    ) -> list[tuple[SourcePartition, Cut]]:
        """Add a cut at every wanted offset where that is possible, and return those.

        Args:
            cuts: what is known; it is added to.
            positions: where each source partition is copied to.
            wanted: committed offsets.
            timeout: seconds; what is not compared by then is tried the next time.
        """
        until = monotonic() + timeout
        self._trouble, self._whys = "", Counter()
        # Of offsets that nobody is at any more nothing needs to be remembered.
        self._tried = {
            (at, offset): borders
            for (at, offset), borders in self._tried.items()
            if offset in wanted.get(at, ())
        }
        jobs = [
            job
            for at, offsets in sorted(wanted.items())
            for job in self._jobs(at, offsets, cuts.get(at), positions[at])
        ]
        proven: list[tuple[SourcePartition, Cut]] = []
        for portion in _portions(jobs):
            left = until - monotonic()
            if left <= 0:
                self._trouble = "time was over"
                break
            try:
                proven += self._run(portion, cuts, positions, left)
            except K2kError as error:
                self._trouble = error.what
                break
        return proven

    def notes(self) -> list[str]:
        """Say what could not be proven, and why."""
        notes = [f"{count} positions stay bounds: {why}" for why, count in self._whys.items()]
        if self._trouble:
            notes.append(f"records were not compared, so positions stay bounds: {self._trouble}")
        return notes

    def close(self) -> None:
        """Disconnect."""
        self._source.close()
        self._target.close()

    def _jobs(
        self, at: SourcePartition, offsets: Collection[int], cuts: Cuts | None, position: Position
    ) -> Iterator[_Job]:
        for offset in sorted(offsets):
            low, high = (cuts.before(offset), cuts.behind(offset)) if cuts else (None, None)
            if (low is None and high is None) or (low is not None and low.source == offset):
                continue
            # What is not copied yet may be the next time; a gap behind the last record is copied.
            reached = min(offset, position.offset)
            if self._tried.get((at, offset)) != (low, high, reached):
                yield _job(at, offset, low, high, position)

    def _run(
        self,
        jobs: Sequence[_Job],
        cuts: Mapping[SourcePartition, Cuts],
        positions: Mapping[SourcePartition, Position],
        timeout: float,
    ) -> list[tuple[SourcePartition, Cut]]:
        until = monotonic() + timeout
        there = self._target.stretches([job.there for job in jobs], timeout)
        here = self._source.stretches([job.here for job in jobs], max(0.0, until - monotonic()))
        proven = []
        for job, original, copy in zip(jobs, here, there, strict=True):
            known = cuts[job.at]
            reached = min(job.offset, positions[job.at].offset)
            borders = known.before(job.offset), known.behind(job.offset)
            self._tried[job.at, job.offset] = *borders, reached
            landed = _unread(original, copy) or _landed(job, original, copy)
            if isinstance(landed, str):
                self._whys[landed] += 1
            elif known.prove(Cut(job.offset, landed)):
                proven.append((job.at, Cut(job.offset, landed)))
            else:
                self._whys["what was found contradicts the offset-syncs"] += 1
        return proven


def _job(
    at: SourcePartition, offset: int, low: Cut | None, high: Cut | None, position: Position
) -> _Job:
    topic, partition = position.target_topic, at.partition
    before = offset - low.source if low else None
    behind = high.source - offset if high else None
    if low and before is not None and before <= min(_WALK, _WALK if behind is None else behind):
        here = (at.topic, partition, low.source), before + _NEIGHBOURS
        # With transactions there may be a marker behind every record.
        room = 2 * before + 2 * _NEIGHBOURS
        return _Job(at, offset, low, True, here, ((topic, partition, low.target), room))
    if high and behind is not None and behind <= _WALK:
        first = max(0, offset - _NEIGHBOURS)
        here = (at.topic, partition, first), high.source - first
        room = min(high.target, 2 * behind + 2 * _NEIGHBOURS)
        there = (topic, partition, high.target - room), room
        return _Job(at, offset, high, False, here, there)
    anchor = low or high
    assert anchor is not None
    first = max(0, offset - _NEIGHBOURS)
    guesses = [cut.target + offset - cut.source for cut in (low, high) if cut]
    begin = max(0, min(guesses) - _AROUND)
    count = min(max(guesses) + _AROUND - begin, _WALK)
    here = (at.topic, partition, first), offset + _NEIGHBOURS - first
    return _Job(at, offset, anchor, None, here, ((topic, partition, begin), count))


def _portions(jobs: Sequence[_Job]) -> Iterator[list[_Job]]:
    portion: list[_Job] = []
    size = 0
    for job in jobs:
        if portion and size + job.here[1] > _PORTION:
            yield portion
            portion, size = [], 0
        portion.append(job)
        size += job.here[1]
    if portion:
        yield portion


def _unread(here: Stretch, there: Stretch) -> str:
    for side, found in (("source", here), ("target", there)):
        if found.unread:
            return f"the {side} could not be read"
    return ""


def _landed(job: _Job, here: Stretch, there: Stretch) -> int | str:
    """Return the target offset of the cut at the job's offset, or why it is not proven."""
    original = [here.records[at] for at in sorted(here.records)]
    copy = [there.records[at] for at in sorted(there.records)]
    if job.forward is True:
        return _walked(job, original, copy)
    if job.forward is False:
        return _walked_back(job, original, copy)
    return _found(job, original, copy)


def _walked(job: _Job, original: Sequence[Record], copy: Sequence[Record]) -> int | str:
    read = sum(record.offset < job.offset for record in original)
    # One more than was read: the next record must be the next one there as well, if it is there.
    pairs = list(zip(original[: read + 1], copy, strict=False))
    if any(same_content(one, other) for one, other in pairs):
        return _differ()
    if len(pairs) < read:
        return "not all that the group has read is on the target (not copied yet, or deleted)"
    if len(pairs) > read:
        return pairs[read][1].offset
    return pairs[-1][1].offset + 1 if pairs else job.anchor.target


def _walked_back(job: _Job, original: Sequence[Record], copy: Sequence[Record]) -> int | str:
    unread = sum(record.offset >= job.offset for record in original)
    # The record before must be the one before there as well, unless either is deleted.
    pairs = list(zip(original[::-1], copy[::-1], strict=False))[: unread + 1]
    if len(pairs) < unread or any(same_content(one, other) for one, other in pairs):
        return _differ()
    return pairs[unread - 1][1].offset if unread else job.anchor.target


def _found(job: _Job, original: Sequence[Record], copy: Sequence[Record]) -> int | str:
    read = sum(record.offset < job.offset for record in original)
    if len(original) < _NEIGHBOURS:
        return "too few records around it to compare"
    places = [
        start
        for start in range(len(copy) - len(original) + 1)
        if not any(
            same_content(one, other)
            for one, other in zip(original, copy[start : start + len(original)], strict=True)
        )
    ]
    if not places:
        return _differ()
    if len(places) > 1:
        return "records around it are alike, so that comparing them proves nothing"
    at = places[0] + read
    return copy[at].offset if at < len(copy) else copy[-1].offset + 1


def _differ() -> str:
    return "records between it and the last known one differ, or were deleted, on either side"
