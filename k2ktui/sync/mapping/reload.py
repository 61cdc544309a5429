"""Reload a stretch of the mapping topic, for ranges that are no longer in memory.

For a source offset, the start of the stretch is indexed. Target offsets are not indexed: the walk
goes back until a range begins before the offset.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from k2ktui.engine.mapping.log import MappingLog
from k2ktui.engine.mapping.replica import TargetPartition
from k2ktui.engine.records.state import SourcePartition
from k2ktui.kafka.clients import Cluster
from k2ktui.sync.mapping.reader import TopicReader
from k2ktui.sync.mapping.sort import MappingSorter

Tracks = Mapping[SourcePartition, MappingLog]


@dataclass(frozen=True, slots=True)
class Wanted:
    """A partition pair that must be in memory back to a range that begins before an offset.

    Attributes:
        source: the source partition.
        target: the target partition; None stands for all targets of the source.
        offset: a target offset; without a ``target``, a source offset at which the range may begin.
    """

    source: SourcePartition
    target: TargetPartition | None
    offset: int

    def held_from(self, track: MappingLog) -> int | None:
        """Return the source offset from which its ranges must stay in memory; None: load more.

        0 if nothing precedes what is in memory.
        """
        if self.target is None:
            begins = [
                ranges.begins_at_or_before(self.offset) for ranges in track.target_ranges.values()
            ]
        else:
            ranges = track.target_ranges.get(self.target)
            begins = [ranges.begins_before(self.offset)] if ranges else []
        known = [begin for begin in begins if begin is not None]
        if len(known) == len(begins):
            return min(known, default=track.hot_from)
        return None if track.hot_from > 0 else 0


def walk_back(
    tracks: Tracks, wanted: Iterable[Wanted], hold: Callable[[Mapping[SourcePartition, int]], bool]
) -> None:
    """Load everything wanted in few passes over the topic; each goes twice as far back.

    Args:
        tracks: the mapping log of each source partition.
        wanted: what must be in memory, for any of them.
        hold: loads the ranges from the given source offsets on; False if they cannot be read.
    """
    left, steps = list(wanted), 1
    while left:
        low: dict[SourcePartition, int] = {}
        missing = []
        for need in left:
            track = tracks[need.source]
            begin = need.held_from(track)
            if begin is None:
                missing.append(need)
                low[need.source] = track.back(steps)
            else:
                track.keep_from(begin)
        if missing and not hold(low):
            return
        left, steps = missing, 2 * steps


def reload_ranges(
    cluster: Cluster,
    topic: str,
    owners: Mapping[SourcePartition, str],
    tracks: Tracks,
    low: Mapping[SourcePartition, int],
    ends: Mapping[int, int],
    until: float,
) -> dict[SourcePartition, int]:
    """Extend mapping logs in memory down to lower source offsets.

    Args:
        cluster, topic: the mapping topic.
        owners: the commit group of each source partition.
        tracks: the mapping log of each source partition.
        low: the source offsets from which ranges are needed.
        ends: per partition of the topic, the offset to which ``tracks`` have read it.
        until: deadline (monotonic).

    Returns:
        What of ``low`` could not be read, since the deadline passed or records were deleted; the
        mapping logs of these source partitions are unchanged.
    """
    stretches = _stretches(tracks, low, ends)
    stops = {number: stop for number, (_, stop) in stretches.items()}
    older = {source: MappingLog(tracks[source].since, tracks[source].rewinds) for source in low}
    sorter = MappingSorter({owners[source] for source in low}, low, owners)
    reader = TopicReader(cluster, topic)
    try:
        reader.seek({number: begin for number, (begin, _) in stretches.items()})
        for received in reader.read(stops, until):
            for number, messages in received.items():
                # Later records have not been processed yet, and may replace these.
                wanted = [m for m in messages if (m.offset() or 0) < stops[number]]
                for source, pieces in sorter.sort(wanted):
                    for piece in pieces:
                        older[source].take(piece)
    finally:
        reader.close()
    short = {number for number, stop in stops.items() if reader.next[number] < stop}
    lost = {s: offset for s, offset in low.items() if not short.isdisjoint(tracks[s].index)}
    for source in low.keys() - lost.keys():
        tracks[source].refill(older[source], low[source])
    return lost


def _stretches(
    tracks: Tracks, low: Mapping[SourcePartition, int], ends: Mapping[int, int]
) -> dict[int, tuple[int, int]]:
    """Return the stretches of the topic that hold the missing ranges."""
    stretches: dict[int, tuple[int, int]] = {}
    for source, offset in low.items():
        track = tracks[source]
        for number, index in track.index.items():
            begin, stop = index.stretch(offset, track.hot_from)
            stop = ends[number] if stop is None else stop
            before = stretches.get(number, (begin, stop))
            stretches[number] = min(begin, before[0]), max(stop, before[1])
    return stretches
