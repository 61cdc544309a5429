"""The mapping store: where every record landed, read from the mapping topic on the target.

Each refresh reads what is new. The store holds the newest ranges in memory and reloads older ones
from the topic. Its answers are a function of the topic's content: what the topic lacks is unknown
(``replica``), and if the topic has lost records, the store reads it again from the beginning.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from time import monotonic
from zlib import crc32

from confluent_kafka import IsolationLevel, Message
from confluent_kafka.admin import OffsetSpec

from k2ktui.config.model import PipelineConfig
from k2ktui.engine.mapping.copy_extent import Overlap
from k2ktui.engine.mapping.intervals import FOREVER, OffsetIntervals, Span
from k2ktui.engine.mapping.log import MappingLog
from k2ktui.engine.mapping.ranges import MappingRanges, find_one
from k2ktui.engine.mapping.replica import Replica, TargetPartition, make_replica
from k2ktui.engine.records.state import MappingRecord as OffsetMapping
from k2ktui.engine.records.state import Position, SourcePartition, mapping_key
from k2ktui.errors import Refused, TimedOut
from k2ktui.kafka.clients import Cluster
from k2ktui.progress import long_step
from k2ktui.sync.mapping import republish as mapping_republish
from k2ktui.sync.mapping.reader import TopicReader
from k2ktui.sync.mapping.reload import Wanted, reload_ranges, walk_back
from k2ktui.sync.mapping.republish import MappingExpiry
from k2ktui.sync.mapping.sort import MalformedMapping, MappingReport, MappingSorter
from k2ktui.text import list_names, safe_text

log = logging.getLogger(__name__)

_REREAD_S = 60.0
# Retention of the topic is read again after so many seconds.
_EXPIRY_S = 300.0
_LATE_POLL_S = 0.02
_LATE_SLACK_S = 1.0
# Trimming costs a copy, so it waits until enough ranges can be dropped.
_SLACK, _SLACK_RANGES = 2, 1_000
_SLOW_S = 1.0
_NO_MAPPINGS = MappingLog()
# Number of partitions that a log line names.
_NAMED = 10


@lru_cache(maxsize=1 << 16)
def _home(owner: str, source: SourcePartition) -> int:
    """Return the hash that chooses the mapping partition; there is one per source partition."""
    return crc32(mapping_key(OffsetMapping(owner, source, "", 0)))


class MappingStore:
    """The mappings of a pipeline, or of several; stays connected until it is closed.

    Args:
        config: the pipeline.
        target: its target cluster.
    """

    def __init__(self, config: PipelineConfig, target: Cluster) -> None:
        self._config = config
        self._target = target
        self._topic = config.offset_mapping.topic
        self._pipelines: tuple[str, ...] = (config.coordination.commit.group,)
        self._owners: Mapping[SourcePartition, str] = {}
        self._others: Collection[str] = ()
        self._reader = TopicReader(target, self._topic)
        self._positions: Mapping[SourcePartition, Position] = {}
        self._next_trim = monotonic() + config.offset_mapping.retention.schedule_s
        self._topic_id = ""
        # What was logged before.
        self._logged_malformed, self._logged_behind = 0, False
        self._logged_conflicts: set[SourcePartition] = set()
        self._logged_lost: list[str] = []
        self._expiry: MappingExpiry | None = None
        self._next_expiry = 0.0
        self._start_over()

    def _start_over(self) -> None:
        self._sorter = MappingSorter(self._pipelines, None, self._owners, self._others)
        self._tracks: dict[SourcePartition, MappingLog] = {}
        # What the copies were made from, and the copies: a refresh needs them several times.
        self._replicas: dict[SourcePartition, tuple[object, Replica]] = {}
        # Per partition of the mapping topic: log start offset, offset to read next, high watermark.
        self._starts: dict[int, int] = {}
        self._next: dict[int, int] = {}
        self._written: dict[int, int] = {}
        self._stale = False

    def choose(
        self,
        pipelines: Sequence[str],
        owners: Mapping[SourcePartition, str],
        others: Collection[str],
    ) -> None:
        """Choose whose mappings are used; the default is the pipeline's own.

        Args:
            pipelines: the commit groups, at least one.
            owners: the one whose mappings count, per source partition; it has a position there.
            others: commit groups that copy between other clusters: they conflict with none.
        """
        used = self._sorter.owners
        changed = any(used.get(source, owner) != owner for source, owner in owners.items())
        # Records that the sorter has passed over may be needed now.
        changed = changed or self._sorter.has_passed_over(owners, others)
        self._stale = self._stale or changed or set(pipelines) != set(self._pipelines)
        self._pipelines, self._owners, self._others = tuple(pipelines), dict(owners), others
        used.update(owners)

    def close(self) -> None:
        """Disconnect; the loaded mappings remain usable."""
        self._reader.close()

    def refresh(
        self, timeout: float, positions: Mapping[SourcePartition, Position]
    ) -> MappingReport:
        """Read what is new, up to the last stable offset.

        Args:
            timeout: seconds; what could not be read in time is read by the next refresh.
            positions: replicated positions, read before this call. They determine which terms
                belong to another source log, and which mappings must exist already: if those are
                behind an open transaction, the refresh waits for it.

        Raises:
            ConnectionFailed, TimedOut: the target does not answer.
            Refused: the principal may not read the mapping topic.
        """
        until = monotonic() + timeout
        self._positions = dict(positions)
        partitions = self._find_topic()
        if not partitions:
            self._start_over()
            return MappingReport()
        self._adjust(partitions)
        before, began = self._sorter.records, monotonic()
        complete = self._read(until)
        patience = min(until, monotonic() + self._longest_transaction())
        while complete and self._late() and monotonic() < patience:
            time.sleep(_LATE_POLL_S)
            complete = self._read(until)
        self._tidy()
        report = self._report(before, complete=complete)
        self._log_report(report, monotonic() - began)
        return report

    def _report(self, before: int, *, complete: bool) -> MappingReport:
        return MappingReport(
            self._sorter.records - before,
            (*self._sorter.malformed, *self._contradictions()),
            self._sorter.malformed_count
            + sum(track.damaged_count for track in self._tracks.values()),
            not complete or self._late(),
            self._others_in(Overlap.CONFLICT),
            self._others_in(Overlap.EARLIER),
        )

    def _log_report(self, report: MappingReport, seconds: float) -> None:
        """Log what is new in a report: a console makes one every few seconds."""
        if seconds > _SLOW_S:
            log.info("%s: %d records read in %.1f s", self._topic, report.records, seconds)
        malformed = report.malformed_count
        if malformed > self._logged_malformed:
            self._logged_malformed = malformed
            examples = [
                f"{record.partition} at {record.offset}: {record.why}"
                for record in report.malformed
            ]
            shown = list_names(examples, _NAMED)
            log.warning("%d damaged records in %s: %s", malformed, self._topic, shown)
        if report.behind != self._logged_behind:
            self._logged_behind = report.behind
            log.info(
                "mappings in %s are %s",
                self._topic,
                "behind: an open transaction, or no time" if report.behind else "complete again",
            )
        if conflicts := report.conflicting_pipelines.keys() - self._logged_conflicts:
            self._logged_conflicts |= conflicts
            names = list_names([str(source) for source in sorted(conflicts)], _NAMED)
            log.warning("several pipelines map the records of %s", names)

    def _contradictions(self) -> Iterator[MalformedMapping]:
        """Yield the records that are sound alone, and not together with others."""
        for track in self._tracks.values():
            for partition, offset in track.damaged:
                yield MalformedMapping(partition, offset, "ranges of its parts overlap")

    def _others_in(self, overlap: Overlap) -> dict[SourcePartition, tuple[str, ...]]:
        """Return the names of all pipelines that map a partition, where others relate so to it."""
        overlaps = self._sorter.find_overlaps(overlap, self._others)
        return {s: tuple(sorted({self.owner(s), *overlaps[s]})) for s in sorted(overlaps)}

    def pipelines(self) -> list[str]:
        """Return the commit groups that have mappings in the topic, as far as it was read."""
        return sorted(self._sorter.seen)

    def replica(self, source: SourcePartition) -> Replica:
        """Return the copy of a source partition as its mappings tell it.

        The ranges are those in memory; later refreshes extend them.
        """
        position, track = self._positions.get(source), self._tracks.get(source, _NO_MAPPINGS)
        unread = position is not None and self._unread(source)
        mapped = (track, track.known.revision, track.mapped, track.hot_from, track.left_out_end)
        known = self._replicas.get(source)
        if known is None or known[0] != (position, unread, mapped):
            replica = Replica(None)
            if position is not None:
                replica = make_replica(position, track.known.all(), unread=unread)
            replica = replace(
                replica,
                target_ranges=track.target_ranges,
                mapped=track.mapped,
                held_from=track.hot_from,
                left_out_end=max(track.left_out_end, replica.left_out_end),
                inserted=track.inserted,
            )
            known = self._replicas[source] = (position, unread, mapped), replica
        return known[1]

    def reach(
        self,
        needed: Mapping[SourcePartition, int],
        count_from: Mapping[TargetPartition, int] | None = None,
        timeout: float = _REREAD_S,
    ) -> None:
        """Load all ranges that translations of these offsets, or higher ones, depend on.

        Ranges that are no longer in memory are reloaded from the topic, in few passes for all.

        Args:
            needed: source offsets to translate.
            count_from: target offsets from which records are counted. For every source partition
                with records there, the ranges from that offset on are held, plus one before it, so
                that it is known whether any record precedes. Where several source partitions share
                a target partition, ranges are held from the lowest translated offset on as well.
            timeout: seconds.

        Raises:
            TimedOut: reading took more than ``timeout`` seconds.
        """
        until = monotonic() + timeout
        self._hold(needed, until)
        walk_back(
            self._tracks,
            self._find_wanted(needed, count_from or {}),
            partial(self._hold, until=until),
        )

    def _find_wanted(
        self, needed: Mapping[SourcePartition, int], count_from: Mapping[TargetPartition, int]
    ) -> list[Wanted]:
        feeds: dict[TargetPartition, set[SourcePartition]] = {}
        for source, track in self._tracks.items():
            for target in track.target_ranges:
                feeds.setdefault(target, set()).add(source)
        low = {at: offset for at, offset in count_from.items() if at in feeds}
        needs = []
        for source, offset in needed.items():
            if self._before_start(source, offset):
                # Another program copied this part: the record before it determines the position.
                needs.append(Wanted(source, None, offset))
            for target, ranges in self._tracks.get(source, _NO_MAPPINGS).target_ranges.items():
                if len(feeds[target]) > 1:
                    first = self._first_landed(source, offset, ranges)
                    low[target] = min(first, low.get(target, first))
        return needs + [Wanted(s, target, at) for target, at in low.items() for s in feeds[target]]

    def _before_start(self, source: SourcePartition, offset: int) -> bool:
        position = self._positions.get(source)
        return position is not None and source in self._tracks and offset < position.start

    def _first_landed(self, source: SourcePartition, offset: int, ranges: MappingRanges) -> int:
        """Return the lowest target offset that a source offset can translate to."""
        position = self._positions.get(source)
        if position is not None and offset < (self.replica(source).complete_from or position.start):
            return 0  # stands for the start of the target's log
        landed = find_one(ranges.translate, offset)
        return ranges.target_end or 0 if landed is None else landed

    def republish(
        self, needed: Mapping[SourcePartition, int], timeout: float = _REREAD_S
    ) -> list[SourcePartition]:
        """Republish mappings that are needed and that the topic's retention will soon delete.

        Each is written in its own term, so that what a later run has mapped still replaces it. What
        the target has lost is left out: once the later mappings that show the loss had expired, a
        repeat would send groups to other records.

        Args:
            needed: lowest committed offset of any live group, per source partition.
            timeout: seconds, for reading and for writing each.

        Returns:
            The source partitions whose mappings were republished; not those of which the broker
            deleted records before they could be read again.

        Raises:
            TimedOut, ConnectionFailed: reading or writing took too long.
            Refused: the principal may not write to the mapping topic, or read its configuration.
        """
        if not self._next:
            return []
        expiry = self._read_expiry()
        old = mapping_republish.old_before(self._target, self._topic, self._next, expiry)
        wanted = {
            source: spans
            for source, low in self._find_needed(needed).items()
            if (spans := self._tracks[source].only_before(old, low))
        }
        self._hold({source: spans[0][0] for source, spans in wanted.items()}, monotonic() + timeout)
        # Where the broker deleted the records before they were read again, a repeat would claim
        # that nothing was copied below the ranges in memory.
        held = {s: spans for s, spans in wanted.items() if self._tracks[s].hot_from <= spans[0][0]}
        present = self._leave_out_lost(held)
        entries = [
            entry
            for source, spans in present.items()
            for span in spans
            for entry in mapping_republish.make_repeats(
                self.owner(source), source, self._tracks[source], span
            )
        ]
        if entries:
            count = len(self._next)
            mapping_republish.write_repeats(self._target, self._topic, count, entries, timeout)
            names = list_names([str(source) for source in sorted(present)], _NAMED)
            log.info("mappings that retention would delete written again: %s", names)
        return sorted(present)

    def _find_needed(self, needed: Mapping[SourcePartition, int]) -> dict[SourcePartition, int]:
        """Return from which source offset on the translations of these offsets need mappings.

        Where several source partitions share a target partition, that of one needs those of all.
        """
        low = {
            source: self._tracks[source].needed_from(offset)
            for source, offset in needed.items()
            if source in self._tracks
        }
        for want in self._find_wanted({source: needed[source] for source in low}, {}):
            begin = want.held_from(self._tracks[want.source])
            if begin is not None:
                low[want.source] = min(begin, low.get(want.source, begin))
        return low

    def _leave_out_lost(
        self, spans: Mapping[SourcePartition, Sequence[Span]]
    ) -> dict[SourcePartition, list[Span]]:
        """Return the spans of source offsets without those whose records the target has lost."""
        if not spans:
            return {}
        positions = {s: self._positions[s] for s in spans if s in self._positions}
        targets = {target for source in spans for target in self._tracks[source].target_ranges}
        ends = mapping_republish.read_target_ends(self._target, positions, targets)
        present: dict[SourcePartition, list[Span]] = {}
        lost: list[str] = []
        for source, wanted in spans.items():
            track = self._tracks[source]
            if source not in ends or not track.target_ranges.keys() <= ends[source].keys():
                lost.append(f"{source}: its target is not the one that was written to, or is down")
                continue
            gone = OffsetIntervals(track.find_lost(ends[source], wanted[0][0]))
            left = [part for span in wanted for part in gone.missing(*span)]
            lost += [f"{source}: the target has lost records from {a} on" for a, _ in gone.all()]
            if left:
                present[source] = left
        if lost and lost != self._logged_lost:
            log.warning("mappings not written again: %s", list_names(lost, _NAMED))
        self._logged_lost = lost
        return present

    @property
    def expiry(self) -> MappingExpiry | None:
        """Retention of the topic as it was last read, None if it could not be."""
        return self._expiry

    def repeat_interval_s(self, longest: float) -> float:
        """Return the seconds until the next ``republish`` is due."""
        return longest if self._expiry is None else self._expiry.interval_s(longest)

    def expires_at(self, needed: Mapping[SourcePartition, int]) -> float | None:
        """Return when retention may delete the first mapping that is needed and in the topic.

        Epoch seconds, rather too early than too late. None if nothing is needed or expires, or if
        it is not known: with ``retention.bytes``, or where the topic's settings may not be read.

        Args:
            needed: as for ``republish``.

        Raises:
            ConnectionFailed, TimedOut: the target does not answer.
        """
        if not self._next:
            return None
        try:
            if self._expiry is None or monotonic() >= self._next_expiry:
                self._read_expiry()
        except Refused as error:
            log.debug("retention of %s is unknown: %s", self._topic, error.message)
            self._expiry = None
        written = [
            at
            for source, low in self._find_needed(needed).items()
            if (at := self._tracks[source].written_ms(low)) is not None
        ]
        if self._expiry is None or not written:
            return None
        return self._expiry.expires_at(min(written))

    def _read_expiry(self) -> MappingExpiry:
        self._next_expiry = monotonic() + _EXPIRY_S
        self._expiry = mapping_republish.read_expiry(self._target, self._topic)
        return self._expiry

    def _find_topic(self) -> int:
        """Return the number of partitions, 0 if there is no mapping topic."""
        if not self._config.features.offset_mapping:
            return 0
        topic = self._reader.describe()
        if topic is None:
            return 0
        if topic.topic_id != self._topic_id:
            if self._topic_id:
                log.info("%s was created again, reading it from its start", self._topic)
            self._topic_id = topic.topic_id
            self._start_over()
        return topic.partitions

    def _adjust(self, partitions: int) -> None:
        """Determine where to continue; start over if what was read is no longer valid."""
        numbers = range(partitions)
        starts = self._reader.offsets(numbers, OffsetSpec.earliest())
        written = self._reader.offsets(numbers, OffsetSpec.latest())
        lost = any(starts.get(n, at) > at for n, at in self._starts.items())
        shorter = any(written.get(n, at) < at for n, at in self._next.items())
        other_log = self._other_log()
        if self._stale or lost or shorter or other_log:
            log.info(
                "reading %s from its start: %s",
                self._topic,
                "its oldest records were deleted"
                if lost
                else "it is shorter than before"
                if shorter
                else "mappings of an earlier source log were loaded"
                if other_log
                else "other pipelines count, or records were deleted while they were read",
            )
            self._start_over()
        self._starts, self._written = starts, written
        self._next = {n: self._next.get(n, start) for n, start in starts.items()}
        self._reader.seek(self._next)

    def _other_log(self) -> bool:
        """Whether mappings of a previous source log have been loaded."""
        for source, position in self._positions.items():
            track = self._tracks.get(source)
            if track is not None and track.oldest < position.since:
                return True
            if track is not None:
                track.since = position.since
        return False

    def _read(self, until: float) -> bool:
        """Read to the last stable offsets; return whether they were reached."""
        stable = self._reader.offsets(
            self._next, OffsetSpec.latest(), IsolationLevel.READ_COMMITTED
        )
        began = sum(self._next.values())
        total = sum(max(0, stable.get(number, at) - at) for number, at in self._next.items())
        with long_step("mapping records read", total) as advance:
            for received in self._reader.read(stable, until):
                self._take(received)
                advance(sum(self._reader.next.values()) - began)
        self._next.update(self._reader.next)
        return all(at >= stable.get(number, FOREVER) for number, at in self._next.items())

    def _take(self, received: Mapping[int, list[Message]]) -> None:
        count = self._config.offset_mapping.retention.count
        for messages in received.values():
            for source, pieces in self._sorter.sort(messages):
                track = self._track(source)
                for piece in pieces:
                    track.take(piece)
                if track.rows > _SLACK * count + _SLACK_RANGES:
                    track.trim(count)

    def _track(self, source: SourcePartition) -> MappingLog:
        if source not in self._tracks:
            position = self._positions.get(source)
            self._tracks[source] = MappingLog(position.since if position else 0)
        return self._tracks[source]

    def owner(self, source: SourcePartition) -> str:
        """Return the commit group whose mappings of a source partition are used."""
        return self._sorter.owners.get(source, self._pipelines[0])

    def _longest_transaction(self) -> float:
        """Maximum duration of a healthy transaction in seconds."""
        return self._config.coordination.commit.batch_timeout_s + _LATE_SLACK_S

    def _late(self) -> bool:
        return any(self.replica(source).behind for source in self._positions)

    def _unread(self, source: SourcePartition) -> bool:
        """Whether unread records remain where the source partition's mappings are written."""
        home, track = _home(self.owner(source), source), self._tracks.get(source)
        numbers = {home % len(self._next)} if self._next else set()
        numbers |= set(track.index) if track else set()
        return any(self._next.get(n, 0) < self._written.get(n, 0) for n in numbers)

    def _tidy(self) -> None:
        incomplete = [source for source, track in self._tracks.items() if track.needs_refill]
        self._hold(dict.fromkeys(incomplete, 0), monotonic() + _REREAD_S)
        if monotonic() >= self._next_trim:
            retention = self._config.offset_mapping.retention
            self._next_trim = monotonic() + retention.schedule_s
            age = retention.time_s
            before = None if age is None else int((time.time() - age) * 1000)
            for track in self._tracks.values():
                track.trim(retention.count, before)
                track.asked = None

    def _hold(self, needed: Mapping[SourcePartition, int], until: float) -> bool:
        """Load the ranges from these source offsets on; return whether all could be read."""
        low: dict[SourcePartition, int] = {}
        for source, offset in needed.items():
            track = self._tracks.get(source)
            if track is None:
                continue
            track.keep_from(offset)
            if offset < track.hot_from:
                low[source] = max(0, offset)
        owners = {source: self.owner(source) for source in low}
        read = (self._target, self._topic, owners, self._tracks, low, self._next, until)
        if low:
            log.debug("reading older mappings of %d partitions again", len(low))
        lost = reload_ranges(*read) if low else {}
        if lost:
            names = list_names([f"{at} from {offset}" for at, offset in lost.items()], _NAMED)
            log.info("older mappings could not be read: %s", names)
            self._not_read(lost, until)
        return not self._stale

    def _not_read(self, lost: Mapping[SourcePartition, int], until: float) -> None:
        if monotonic() >= until:
            raise TimedOut(
                f"re-reading old mappings from {safe_text(self._topic)} on the "
                f"{self._target.label} cluster took too long",
                hint="Raise offsetMapping.retention.count, so that more are held in memory.",
            )
        # The broker deleted records meanwhile: unknown for now, start over at the next refresh.
        self._stale = True
        for source, offset in lost.items():
            track = self._tracks[source]
            track.known.forget(offset, track.hot_from)
