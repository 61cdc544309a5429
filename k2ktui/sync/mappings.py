"""The mapping store: where every record landed, as the mapping topic on the target tells it.

It reads what is new each time, holds the newest ranges in memory, and finds older ones by reading
again the stretch of the topic where they are. What it does not know, it says: offsets whose mapping
the topic has lost (``complete_from``), and those that a damaged record may have held (``holes``).
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from time import monotonic
from types import TracebackType
from typing import Self

import numpy as np
from confluent_kafka import IsolationLevel
from confluent_kafka.admin import OffsetSpec

from k2ktui.config.model import PipelineConfig
from k2ktui.engine.ranges import NOT_FOUND, Ranges
from k2ktui.engine.replica import TargetPartition
from k2ktui.engine.spans import Span, Spans
from k2ktui.engine.state import Position, SourcePartition
from k2ktui.errors import Refused
from k2ktui.kafka.clients import Cluster, TopicDescription
from k2ktui.sync.mapping_partition import Keys, MappingPartition, home_of
from k2ktui.sync.mapping_reach import reread
from k2ktui.sync.mapping_reader import TopicReader
from k2ktui.sync.mapping_repeat import Repeater
from k2ktui.sync.mapping_report import Malformed, MappingReport, PartitionBounds
from k2ktui.sync.mapping_track import Lanes, Track, stacked
from k2ktui.text import safe_text

__all__ = ["Malformed", "MappingReport", "MappingStore", "PartitionBounds"]

_KEPT_MALFORMED = 20
_REREAD_S = 60.0
_LATE_POLL_S = 0.02
_LATE_SLACK_S = 1.0


@dataclass(frozen=True, slots=True)
class _Bounds:
    start: Mapping[int, int]
    written: Mapping[int, int]
    stable: Mapping[int, int]


class MappingStore:
    """The mappings of one pipeline; keeps a connection until it is closed.

    Args:
        config: the pipeline.
        target: its target cluster.
    """

    def __init__(self, config: PipelineConfig, target: Cluster) -> None:
        self._config = config
        self._target = target
        self._topic = config.offset_mapping.topic
        self._topic_id = ""
        self._reader = TopicReader(target, self._topic)
        self._keys = Keys(config.coordination.commit.group)
        self._partitions: dict[int, MappingPartition] = {}
        self._positions: Mapping[SourcePartition, Position] = {}
        self._malformed: list[Malformed] = []
        self._malformed_count = 0
        self._next_trim = monotonic() + config.offset_mapping.retention.schedule_s
        self._feeds: dict[TargetPartition, set[SourcePartition]] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Disconnect; what was read stays."""
        self._reader.close()

    def refresh(
        self, timeout: float, positions: Mapping[SourcePartition, Position] | None = None
    ) -> MappingReport:
        """Read what is new, up to the last stable offset.

        Args:
            timeout: seconds; what could not be read by then is read the next time.
            positions: replicated positions, read before this call. They tell which terms are of
                another source log, and which mappings must be there already: if an open
                transaction holds those back, it is waited for.

        Raises:
            ConnectionFailed, TimedOut: the target does not answer.
            Refused: the principal may not read the mapping topic.
        """
        until = monotonic() + timeout
        if positions is not None:
            self._positions = dict(positions)
        if not self._find_topic():
            return MappingReport()
        bounds = self._bounds()
        self._adjust(bounds)
        records = sum(p.records for p in self._partitions.values())
        complete = self._read(bounds, until)
        patience = self._patience(until)
        while complete and self._late(bounds.written) and monotonic() < patience:
            time.sleep(_LATE_POLL_S)
            stable = self._offsets(OffsetSpec.latest(), IsolationLevel.READ_COMMITTED)
            bounds = _Bounds(bounds.start, bounds.written, stable)
            complete = self._read(bounds, until)
        self._tidy(bounds)
        records = sum(p.records for p in self._partitions.values()) - records
        return self._report(bounds, records, not complete or bool(self._late(bounds.written)))

    def lanes(self, source: SourcePartition) -> Mapping[TargetPartition, Ranges]:
        """Return the ranges in memory, per target partition; a later refresh adds to them."""
        tracks = self._tracks(source)
        if len(tracks) < 2:
            return tracks[0].lanes if tracks else {}
        return stacked(tracks)

    def lanes_for(self, source: SourcePartition, offset: int) -> Mapping[TargetPartition, Ranges]:
        """Return the ranges, all that map ``offset`` or higher ones among them.

        Ranges that are not in memory any more are read again from the topic, those of other source
        partitions too that landed among them. What the topic has lost stays unknown.

        Raises:
            TimedOut: reading took too long.
        """
        self.reach({source: offset})
        for target, ranges in list(self.lanes(source).items()):
            found = int(ranges.translate(np.array([offset], dtype=np.int64))[0])
            landed = ranges.target_end if found == NOT_FOUND else found
            for other in self._feeding(target) - {source}:
                self._reach_target(other, target, landed or 0)
        return self.lanes(source)

    def reach(self, needed: Mapping[SourcePartition, int], timeout: float = _REREAD_S) -> None:
        """Hold the ranges from these source offsets on; one pass over the topic for all of them.

        Raises:
            TimedOut: reading took more than ``timeout`` seconds.
        """
        missing: dict[int, dict[SourcePartition, int]] = {}
        for number, part in self._partitions.items():
            for source, offset in needed.items():
                track = part.tracks.get(source)
                if track is None:
                    continue
                track.asked = offset if track.asked is None else min(track.asked, offset)
                if max(offset, track.lost_before) < track.hot_from:
                    missing.setdefault(number, {})[source] = offset
        if missing:
            self._reread(missing, timeout)

    def _reread(self, missing: Mapping[int, Mapping[SourcePartition, int]], timeout: float) -> None:
        read = partial(reread, self._target, self._topic, self._keys)
        if not read([(self._partitions[n], wanted) for n, wanted in missing.items()], timeout):
            # The broker has deleted something meanwhile: then the topic's new bounds count.
            for number, start in self._offsets(OffsetSpec.earliest()).items():
                if number in self._partitions:
                    self._partitions[number].lost(start)
            read([(self._partitions[n], wanted) for n, wanted in missing.items()], timeout)

    def complete_from(self, source: SourcePartition) -> int | None:
        """Return the source offset from which on the mapping is whole, but for ``holes``.

        None: since the pipeline began. It depends on what the topic has lost, not on what is held
        in memory.
        """
        position = self._positions.get(source)
        at = position.offset if position else None
        start = position.start if position else 0
        tracks = self._tracks(source)
        if tracks:
            known = max(track.known_from(at) for track in tracks)
        else:
            home = self._home(source)
            # Nothing was ever mapped, unless it was lost.
            known = 0 if home is None or (home.whole and not home.damaged) else at or 0
        return known if known > start else None

    def holes(self, source: SourcePartition) -> tuple[Span, ...]:
        """Return source offsets ``[first, end)`` that damaged records may have mapped.

        An end of 2^63-1 stands for one that is not known.
        """
        position = self._positions.get(source)
        found = Spans()
        for track in self._tracks(source):
            for low, high in track.holes(position.offset if position else None):
                found.add(max(low, position.start if position else 0), high)
        return found.all()

    def behind(self, source: SourcePartition) -> bool:
        """Whether the mapping does not reach a replicated position, and may still come."""
        return source in self._late({n: p.written for n, p in self._partitions.items()})

    def republish_needed(
        self, needed: Mapping[SourcePartition, int], timeout: float = _REREAD_S
    ) -> dict[SourcePartition, int]:
        """Write again mappings that are needed and that the topic's retention comes near to.

        Args:
            needed: lowest committed offset of any live group, per source partition.
            timeout: seconds for reading and writing each.

        Returns:
            The number of ranges that were written again, per source partition.

        Raises:
            TimedOut: reading or writing took too long.
            Refused: the principal may not write to the mapping topic, or read its settings.
        """
        repeater = Repeater(self._target, self._topic, self._keys.pipeline)
        old = repeater.old_before(self._partitions)
        wanted = {}
        for source, offset in needed.items():
            home = self._home(source)
            track = home.tracks.get(source) if home else None
            if home is None or track is None or home.number not in old:
                continue
            low = max(offset, self.complete_from(source) or 0)
            high = track.index.whole_from(old[home.number])
            if low < high:
                wanted[source] = (low, high)
        self.reach({source: low for source, (low, _) in wanted.items()}, timeout)
        for source, (low, high) in wanted.items():
            home = self._home(source)
            if home is not None:
                repeater.add(source, home.tracks[source], low, high)
        return repeater.write(timeout)

    @property
    def _scattered(self) -> bool:
        return self._config.replication.sink.partition == "producer"

    def _find_topic(self) -> bool:
        if not self._config.features.offset_mapping:
            return False
        found = self._target.describe([self._topic])[self._topic]
        if not isinstance(found, TopicDescription):
            if found.code() == found.UNKNOWN_TOPIC_OR_PART:
                return False
            raise Refused(
                f"topic {safe_text(self._topic)} cannot be described on the target cluster: "
                f"{safe_text(found.str())}",
                mend="Grant the target principal Describe and Read on it.",
            )
        again = bool(self._topic_id) and found.topic_id != self._topic_id
        self._topic_id = found.topic_id
        for number in range(found.partitions):
            if again and number in self._partitions:
                self._partitions[number].created_anew()
            self._partitions.setdefault(number, self._partition(number))
        return True

    def _partition(self, number: int) -> MappingPartition:
        return MappingPartition(number, self._keys, scattered=self._scattered)

    def _offsets(
        self, spec: OffsetSpec, isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED
    ) -> dict[int, int]:
        where = [(self._topic, number) for number in self._partitions]
        return {n: at for (_, n), at in self._target.offsets(where, spec, isolation).items()}

    def _bounds(self) -> _Bounds:
        return _Bounds(
            self._offsets(OffsetSpec.earliest()),
            self._offsets(OffsetSpec.latest()),
            self._offsets(OffsetSpec.latest(), IsolationLevel.READ_COMMITTED),
        )

    def _adjust(self, bounds: _Bounds) -> None:
        """Let every partition go on where it can, and know of the terms that do not count."""
        for number, part in self._partitions.items():
            if number in bounds.start and number in bounds.written:
                part.begin(bounds.start[number], bounds.written[number])
                part.stable = bounds.stable.get(number, part.stable)
            for source, position in self._positions.items():
                part.forget_before_term(source, position.since)
        readable = [n for n, part in self._partitions.items() if part.begun]
        self._reader.seek({n: self._partitions[n].next for n in readable})

    def _read(self, bounds: _Bounds, until: float) -> bool:
        """Read to the last stable offsets; whether they were reached."""
        count = self._config.offset_mapping.retention.count
        for found in self._reader.read(bounds.stable, until):
            for number, messages in found.items():
                part = self._partitions[number]
                self._complain(part.take(messages))
                part.keep_within(count)
        self._feeds = None
        for number, part in self._partitions.items():
            part.next = max(part.next, self._reader.next.get(number, 0))
            part.stable = bounds.stable.get(number, part.stable)
            part.written = bounds.written.get(number, part.written)
        return all(
            number in bounds.stable and part.next >= bounds.stable[number]
            for number, part in self._partitions.items()
        )

    def _complain(self, malformed: list[Malformed]) -> None:
        self._malformed_count += len(malformed)
        self._malformed += malformed[: max(0, _KEPT_MALFORMED - len(self._malformed))]

    def _late(self, written: Mapping[int, int]) -> set[SourcePartition]:
        """Return sources whose mapping ends before the position, below what was written."""
        found = set()
        for source, position in self._positions.items():
            home = self._home(source)
            if home is None or home.next >= written.get(home.number, 0):
                continue
            track = home.tracks.get(source)
            if position.offset > (track.end if track else position.start):
                found.add(source)
        return found

    def _patience(self, until: float) -> float:
        """Transactions last no longer than this, unless something is wrong."""
        longest = self._config.coordination.commit.batch_timeout_s + _LATE_SLACK_S
        return min(until, monotonic() + longest)

    def _tidy(self, bounds: _Bounds) -> None:
        for number, part in self._partitions.items():
            part.settle()
            if number in bounds.start:
                part.lost(bounds.start[number])
        if monotonic() >= self._next_trim:
            retention = self._config.offset_mapping.retention
            self._next_trim = monotonic() + retention.schedule_s
            age = retention.time_s
            before = None if age is None else int((time.time() - age) * 1000)
            for part in self._partitions.values():
                part.trim(retention.count, before)

    def _report(self, bounds: _Bounds, records: int, behind: bool) -> MappingReport:
        rivals: dict[SourcePartition, set[str]] = {}
        for part in self._partitions.values():
            for source, names in part.rivals.items():
                if self._tracks(source):
                    rivals.setdefault(source, {self._keys.pipeline}).update(names)
        return MappingReport(
            records=records,
            malformed=tuple(self._malformed),
            malformed_count=self._malformed_count,
            partitions={
                number: PartitionBounds(part.log_start, part.stable, part.next)
                for number, part in sorted(self._partitions.items())
            },
            behind=behind,
            rivals={source: tuple(sorted(names)) for source, names in sorted(rivals.items())},
        )

    def _home(self, source: SourcePartition) -> MappingPartition | None:
        if not self._partitions:
            return None
        return self._partitions.get(home_of(self._keys.pipeline, source, len(self._partitions)))

    def _tracks(self, source: SourcePartition) -> list[Track]:
        """Return the tracks of a source partition, the newest last.

        There are several only when the mapping topic got more partitions.
        """
        found = [p.tracks[source] for p in self._partitions.values() if source in p.tracks]
        return sorted((track for track in found), key=lambda track: track.term)

    def _feeding(self, target: TargetPartition) -> set[SourcePartition]:
        if self._feeds is None:
            self._feeds = {}
            for part in self._partitions.values():
                for source, track in part.tracks.items():
                    for lane in track.lanes:
                        self._feeds.setdefault(lane, set()).add(source)
        return self._feeds.get(target, set())

    def _reach_target(self, source: SourcePartition, target: TargetPartition, offset: int) -> None:
        """Hold what landed at a target offset or behind it, and one record before it."""
        for track in self._tracks(source):
            step = 1
            while track.hot_from > track.lost_before:
                lanes: Lanes = track.lanes
                first = lanes[target].target_first if target in lanes else None
                if first is not None and first < offset:
                    break
                before, step = track.index.back(track.hot_from, step), 2 * step
                held = track.hot_from
                self.reach({source: before})
                if track.hot_from >= held:
                    break
