"""Read a stretch of the mapping topic again, for ranges that are not in memory any more.

A source offset says by itself where to begin. Where a target offset lies is not indexed: the walk
goes back until a range begins before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from k2ktui.engine.mapping_log import MappingLog
from k2ktui.engine.replica import TargetPartition
from k2ktui.engine.state import SourcePartition
from k2ktui.kafka.clients import Cluster
from k2ktui.sync.mapping_reader import TopicReader
from k2ktui.sync.mapping_sort import MappingSorter

Tracks = Mapping[SourcePartition, MappingLog]


@dataclass(frozen=True, slots=True)
class Wanted:
    """A lane that must be in memory back to a range that begins before an offset.

    Attributes:
        source: the source partition.
        target: the target partition; None stands for all of its lanes.
        offset: a target offset; without a ``target`` a source offset, at which the range may begin.
    """

    source: SourcePartition
    target: TargetPartition | None
    offset: int

    def held_from(self, track: MappingLog) -> int | None:
        """Return the source offset from which on it needs what is in memory; None: more is needed.

        0 if there is nothing before what is in memory.
        """
        if self.target is None:
            begins = [lane.begins_at_or_before(self.offset) for lane in track.lanes.values()]
        else:
            lane = track.lanes.get(self.target)
            begins = [lane.begins_before(self.offset)] if lane else []
        known = [begin for begin in begins if begin is not None]
        if len(known) == len(begins):
            return min(known, default=track.hot_from)
        return None if track.hot_from > 0 else 0


def walk_back(
    tracks: Tracks, wanted: Iterable[Wanted], hold: Callable[[Mapping[SourcePartition, int]], bool]
) -> None:
    """Hold all that is wanted, in few passes over the topic: each goes twice as far as the last.

    Args:
        tracks: what is known of each source partition.
        wanted: lanes, of any of them.
        hold: holds the ranges from source offsets on; False if they cannot be read.
    """
    left, steps = list(wanted), 1
    while left:
        low: dict[SourcePartition, int] = {}
        missing = []
        for each in left:
            track = tracks[each.source]
            begin = each.held_from(track)
            if begin is None:
                missing.append(each)
                low[each.source] = track.back(steps)
            else:
                track.keep_from(begin)
        if missing and not hold(low):
            return
        left, steps = missing, 2 * steps


def reload_ranges(
    cluster: Cluster,
    topic: str,
    pipeline: str,
    tracks: Tracks,
    low: Mapping[SourcePartition, int],
    ends: Mapping[int, int],
    until: float,
) -> bool:
    """Let tracks hold their ranges from lower source offsets on.

    Args:
        cluster, topic: the mapping topic.
        pipeline: the commit group.
        tracks: what is known of each source partition.
        low: the source offsets from which on ranges are wanted.
        ends: for each partition of the topic the offset to which ``tracks`` have read it.
        until: when to give up (monotonic).

    Returns:
        False if not all could be read, for the time is over or records were deleted; nothing is
        changed then.
    """
    stretches = _stretches(tracks, low, ends)
    stops = {number: stop for number, (_, stop) in stretches.items()}
    older = {source: MappingLog(tracks[source].since, tracks[source].cuts) for source in low}
    sorter = MappingSorter(pipeline, low)
    reader = TopicReader(cluster, topic)
    try:
        reader.seek({number: begin for number, (begin, _) in stretches.items()})
        for found in reader.read(stops, until):
            for number, messages in found.items():
                # What comes behind has not been taken in yet, and may replace what is here.
                wanted = [m for m in messages if (m.offset() or 0) < stops[number]]
                for source, pieces in sorter.sort(wanted):
                    for piece in pieces:
                        older[source].take(piece)
    finally:
        reader.close()
    if any(reader.next[number] < stop for number, stop in stops.items()):
        return False
    for source, offset in low.items():
        tracks[source].refill(older[source], offset)
    return True


def _stretches(
    tracks: Tracks, low: Mapping[SourcePartition, int], ends: Mapping[int, int]
) -> dict[int, tuple[int, int]]:
    """Return where in the topic the ranges lie that are not in memory."""
    found: dict[int, tuple[int, int]] = {}
    for source, offset in low.items():
        track = tracks[source]
        for number, index in track.index.items():
            begin, stop = index.stretch(offset, track.hot_from)
            stop = ends[number] if stop is None else stop
            before = found.get(number, (begin, stop))
            found[number] = min(begin, before[0]), max(stop, before[1])
    return found
