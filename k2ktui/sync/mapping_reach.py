"""Read a stretch of the mapping topic again, for ranges that are not in memory any more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from time import monotonic

from k2ktui.engine.state import SourcePartition
from k2ktui.errors import TimedOut
from k2ktui.kafka.clients import Cluster
from k2ktui.sync.mapping_index import Entry
from k2ktui.sync.mapping_partition import Keys, MappingPartition
from k2ktui.sync.mapping_reader import TopicReader
from k2ktui.sync.mapping_track import Track
from k2ktui.text import safe_text

Wanted = tuple[MappingPartition, Mapping[SourcePartition, int]]
_BEGINNING = Entry(0, 0)


def reread(
    cluster: Cluster, topic: str, keys: Keys, wanted: Sequence[Wanted], timeout: float
) -> bool:
    """Let tracks hold their ranges from the wanted source offsets on.

    Every stretch is read up to what has been read before, so that what is held afterwards is what
    reading everything would have given, cut at a source offset.

    Returns:
        False if the broker has deleted what was to be read; nothing is changed then.

    Raises:
        TimedOut: reading took more than ``timeout`` seconds.
    """
    until = monotonic() + timeout
    stretches = [_Stretch(part, sources, keys) for part, sources in wanted]
    reader = TopicReader(cluster, topic)
    ends = {each.part.number: each.part.next for each in stretches}
    copies = {each.part.number: each.copy for each in stretches}
    try:
        reader.seek({each.part.number: each.begin for each in stretches})
        for found in reader.read(ends, until):
            for number, messages in found.items():
                kept = [m for m in messages if (m.offset() or 0) < ends[number]]
                if kept:
                    copies[number].take(kept)
    finally:
        reader.close()
    if any(reader.next[number] < end for number, end in ends.items()):
        if monotonic() < until:
            return False
        raise TimedOut(
            f"reading old mappings again from {safe_text(topic)} on the {cluster.label} cluster "
            f"took more than {timeout:g} s",
            mend="Raise offsetMapping.retention.count, so that more mappings are held in memory.",
        )
    for each in stretches:
        each.hand_over()
    return True


class _Stretch:
    """What is to be read again of one partition."""

    def __init__(
        self, part: MappingPartition, sources: Mapping[SourcePartition, int], keys: Keys
    ) -> None:
        self.part = part
        self._entries = {
            source: part.tracks[source].index.entry_for(offset) or _BEGINNING
            for source, offset in sources.items()
        }
        lowest = min(entry.offset for entry in self._entries.values())
        self.begin = max(part.log_start, lowest)
        # One transaction is as good as another here: what is damaged is known already.
        self.copy = MappingPartition(part.number, keys, scattered=False, only=sources)
        for source, entry in self._entries.items():
            since = part.since(source)
            self.copy.forget_before_term(source, since)
            self.copy.tracks[source] = Track(
                whole=True, scattered=False, since=since, end=entry.before
            )

    def hand_over(self) -> None:
        """Let the tracks hold what was read."""
        for source, entry in self._entries.items():
            track = self.part.tracks[source]
            deleted = entry.offset < self.part.log_start
            whole_from = max(entry.before, track.lost_before if deleted else 0)
            track.replace(self.copy.tracks[source].lanes, whole_from)
