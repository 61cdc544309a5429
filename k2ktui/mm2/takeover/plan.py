"""Plans a takeover from MirrorMaker 2, with positions proven by the records on the target.

MirrorMaker 2 stores its positions periodically, so after it stops the target may hold more records
than the stored positions cover. The actual position is found by searching the source for the last
records on the target. The same comparison rebuilds the mapping of the span that it covers.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from confluent_kafka.admin import OffsetSpec

from k2ktui.config.model import PipelineConfig
from k2ktui.engine.mapping.replica import TargetLog, TargetPartition
from k2ktui.engine.records.state import MappingRange, SourcePartition
from k2ktui.errors import Refused
from k2ktui.kafka.admin.topics import require_topic_settings
from k2ktui.kafka.clients import TopicDescription, source_cluster, target_cluster
from k2ktui.log.content import ContentReader, RecordPart, content_digest
from k2ktui.mm2.flows.connect import NOTHING
from k2ktui.mm2.flows.mirror_mappings import no_copies
from k2ktui.mm2.flows.model import FlowProperties
from k2ktui.mm2.flows.policy import HEARTBEATS
from k2ktui.mm2.flows.topics import Syncs, read_syncs
from k2ktui.replication.copying.slot_task import CopyPath
from k2ktui.replication.topics.naming import target_names
from k2ktui.replication.topics.routing import APPEND_TIME, choose_path
from k2ktui.replication.topics.target_settings import TIMESTAMP_TYPE
from k2ktui.sync.log_bounds import available_bounds
from k2ktui.sync.matching.records import Fingerprint, MatchResult, match_records
from k2ktui.text import safe_text

log = logging.getLogger(__name__)

_CHUNK = 5_000
_READ_S = 60.0
# Minimum number of source offsets to read beyond the stored position.
_READ_AHEAD = 20_000


@dataclass(frozen=True, slots=True)
class TakeoverRow:
    """State from which the k2ktui pipeline continues one source partition.

    Attributes:
        source: the source partition.
        target: the target partition.
        ids: topic ids of the source and target topics.
        end: last stable offset of the target partition, which must not change before the write.
        stored: MirrorMaker 2's position, None if it stored none.
        position: next source offset to copy.
        start: source offset from which the rebuilt mapping is complete.
        ranges: the rebuilt mapping.
        from_syncs: records before ``start`` that are known from offset syncs.
        missing: number of source records of the span that are not on the target.
        twice: number of records of the span that are repeated on the target.
        strange: number of target records of the span that are not on the source.
        doubt: why the position is not proven; "" if it is.
    """

    source: SourcePartition
    target: TargetPartition
    ids: tuple[str, str]
    end: int
    stored: int | None
    position: int
    start: int
    ranges: tuple[MappingRange, ...] = ()
    from_syncs: tuple[MappingRange, ...] = ()
    missing: int = 0
    twice: int = 0
    strange: int = 0
    doubt: str = ""

    @property
    def past(self) -> int:
        """Number of source offsets copied beyond MirrorMaker 2's stored position."""
        return max(0, self.position - self.stored) if self.stored is not None else 0

    @property
    def mapped(self) -> int:
        """Number of records with a known target offset."""
        return sum(range_.count for range_ in self.ranges)


@dataclass(frozen=True, slots=True)
class TakeoverPlan:
    """Positions and mappings that a takeover writes; ``notes`` are for the operator."""

    pipeline: str
    flow: str
    rows: tuple[TakeoverRow, ...]
    notes: tuple[str, ...] = ()

    @property
    def doubtful(self) -> tuple[TakeoverRow, ...]:
        """Partitions whose position is not proven."""
        return tuple(row for row in self.rows if row.doubt)


class MirrorMakerSource(Protocol):
    """Interface to the MirrorMaker 2 that is taken over from."""

    @property
    def flow(self) -> FlowProperties:
        """The replication flow that it runs."""

    def positions(self) -> dict[SourcePartition, int]:
        """Return the next offset to copy of each partition with a stored position."""

    def require_stopped(self, unchanged: str) -> None:
        """Raise Refused while it runs; ``unchanged`` becomes part of the error."""


class TakeoverPlanner:
    """Plans the takeover from MirrorMaker 2 by a k2ktui pipeline; changes nothing.

    Args:
        config: the k2ktui pipeline.
        mirror: the MirrorMaker 2 to take over from.
        span: number of offsets, back from each target partition's end, whose mapping is rebuilt.
    """

    def __init__(self, config: PipelineConfig, mirror: MirrorMakerSource, span: int) -> None:
        self._config, self._mirror, self._span = config, mirror, span
        self._flow = mirror.flow
        self._source, self._target = source_cluster(config), target_cluster(config)

    def plan(self) -> TakeoverPlan:
        """Compare both clusters and return the plan.

        Raises:
            Refused: MirrorMaker 2 runs, or the pipeline would copy to other topics or partitions.
            ConnectionFailed, TimedOut: a cluster did not answer.
        """
        self._mirror.require_stopped(NOTHING)
        if self._config.replication.sink.partition != "source":
            raise Refused(
                "MirrorMaker 2 keeps partition numbers, and this pipeline does not "
                "(replication.sink.partition)",
                unchanged=NOTHING,
                hint="Set partition: source, or copy to other topics from the start.",
            )
        if self._config.topic_mapping.kind == "expression":
            raise Refused(
                "MirrorMaker 2 copies each topic to one topic, and this pipeline chooses one by an "
                "expression (replication.sink.topic)",
                unchanged=NOTHING,
                hint="Make a pipeline file for the same topics with k2ktui mm2 import.",
            )
        names, notes = self._topics()
        sources = self._source.describe(sorted(names))
        targets = self._target.describe(sorted(names.values()))
        stored = self._mirror.positions()
        syncs = read_syncs(self._flow, self._source, self._target)
        partitions = []
        copied = {at.topic: names[at.topic] for at in stored if at.topic in names}
        if copied and not any(isinstance(targets[n], TopicDescription) for n in copied.values()):
            raise no_copies(self._flow, sorted(copied.values()), NOTHING)
        for name, copy in sorted(names.items()):
            source, target = sources[name], targets[copy]
            if not isinstance(source, TopicDescription) or not isinstance(target, TopicDescription):
                if name in copied:
                    log.info("%s has a position, and its copy %s does not exist", name, copy)
                    notes.append(_begins_again(name, copy))
                continue  # nothing was copied: the pipeline starts it like any new topic
            for number in range(min(source.partitions, target.partitions)):
                at = SourcePartition(name, number)
                row = TakeoverRow(
                    at, (copy, number), (source.topic_id, target.topic_id), 0, stored.get(at), 0, 0
                )
                partitions.append(row)
        append_time = self._append_time_topics({row.target[0] for row in partitions})
        rows = self._compare_partitions(partitions, syncs, append_time)
        notes += _note_changes(self._config, (row.source.topic for row in rows), append_time)
        return TakeoverPlan(self._config.name, str(self._flow), tuple(rows), tuple(notes))

    def _topics(self) -> tuple[dict[str, str], list[str]]:
        """Return the target topic of each source topic that both copy, and notes on the others."""
        names, unselected, conflicts = {}, [], []
        for name in sorted(self._source.topic_names()):
            heartbeats = name == HEARTBEATS or self._flow.policy.is_heartbeats(name)
            if heartbeats or not self._flow.replicates(name):
                continue
            if not self._config.topics.matches(name):
                unselected.append(name)
                continue
            names[name] = self._flow.target_topic(name)
            (target,) = target_names(self._config, name)
            if target != names[name]:
                conflicts.append(f"{name} to {target}, not {names[name]}")
        if conflicts:
            raise Refused(
                "this pipeline would copy to other topics than MirrorMaker 2:  "
                + safe_text("; ".join(conflicts[:5])),
                unchanged=NOTHING,
                hint="Make a pipeline file for the same topics with k2ktui mm2 import.",
            )
        shown = ", ".join(safe_text(name) for name in unselected[:5])
        return names, [
            f"MirrorMaker 2 copies topics that this pipeline does not select: {shown}"
        ] if unselected else []

    def _compare_partitions(
        self, partitions: Collection[TakeoverRow], syncs: Syncs, append_time: Collection[str]
    ) -> list[TakeoverRow]:
        sources = [(row.source.topic, row.source.partition) for row in partitions]
        source_logs = available_bounds(self._source, sources)
        target_logs = available_bounds(self._target, [row.target for row in partitions])
        high_watermarks = self._target.offsets(
            [row.target for row in partitions], OffsetSpec.latest()
        )
        rows = []
        with (
            ContentReader(self._source) as source_reader,
            ContentReader(self._target) as target_reader,
        ):
            for row in partitions:
                at = (row.source.topic, row.source.partition)
                if at not in source_logs or row.target not in target_logs:
                    raise Refused(
                        f"{safe_text(row.source)} or its copy currently has no leader",
                        unchanged=NOTHING,
                    )
                original, copy = source_logs[at], target_logs[row.target]
                known = syncs.get(row.source, ())
                ignored = (
                    frozenset({RecordPart.TIMESTAMP})
                    if row.target[0] in append_time
                    else frozenset()
                )
                comparison = _PartitionComparison(
                    source_reader, target_reader, row, original, copy, known, ignored
                )
                resume = comparison.resume(self._span)
                if high_watermarks.get(row.target, copy.end) > copy.end:
                    begun = replace(
                        row, end=copy.end, position=original.start, start=original.start
                    )
                    resume = _add_transaction_doubt(resume or begun)
                if resume is not None:
                    log.debug(
                        "%s: continuing at %d, mapped from %d on%s",
                        resume.source,
                        resume.position,
                        resume.start,
                        f": {resume.doubt}" if resume.doubt else "",
                    )
                    rows.append(resume)
        return rows

    def _append_time_topics(self, topics: Collection[str]) -> set[str]:
        """Return the target topics with LogAppendTime, whose timestamps cannot be compared."""
        try:
            settings_by_topic = require_topic_settings(self._target, topics)
        except Refused:
            return set()  # without DescribeConfigs, replaced timestamps count as differences
        return {
            name
            for name, settings in settings_by_topic.items()
            if (entry := settings.get(TIMESTAMP_TYPE)) and entry.value == APPEND_TIME
        }


def _begins_again(name: str, copy: str) -> str:
    return (
        f"MirrorMaker 2 has a position in {safe_text(name)}, but there is no {safe_text(copy)} on "
        "the target: the pipeline will copy it from its beginning"
    )


def _add_transaction_doubt(row: TakeoverRow) -> TakeoverRow:
    """Add a doubt: an open transaction may still commit, and its records would be copied twice."""
    doubt = (
        f"a transaction is open on the target from offset {row.end} on, and its records may "
        "still be committed; a transaction of a killed MirrorMaker 2 ends after its "
        "transaction.timeout.ms (60 s by default): repeat the command then"
    )
    return replace(row, doubt="; ".join(filter(None, (doubt, row.doubt))))


@dataclass(frozen=True, slots=True)
class _PartitionComparison:
    """Compares one partition with its copy."""

    source_reader: ContentReader
    target_reader: ContentReader
    row: TakeoverRow
    log: TargetLog
    copy: TargetLog
    known: tuple[tuple[int, int], ...]
    ignored: frozenset[RecordPart]

    def resume(self, span: int) -> TakeoverRow | None:
        """Return the row to continue from; None if nothing was copied yet."""
        stored, copy = self.row.stored, self.copy
        row = replace(self.row, end=copy.end)
        begin = max(copy.start, copy.end - span)
        fingerprints = _read_fingerprints(
            self.target_reader, self.row.target, begin, copy.end, self.ignored
        )
        if not fingerprints:
            if stored is None:
                return None
            doubt = "the target has no record that shows the position"
            from_syncs = self._records_from_syncs(stored, copy.end)
            return replace(row, position=stored, start=stored, from_syncs=from_syncs, doubt=doubt)
        matched, read = self._match_records(fingerprints, begin)
        if not matched.copied:
            at = self.log.start if stored is None else stored
            doubt = f"none of the last {len(fingerprints)} records on the target is on the source"
            return replace(row, position=at, start=at, strange=len(fingerprints), doubt=doubt)
        position = max(max(matched.copied) + 1, stored or 0)
        first = matched.pairs[0][0]
        return replace(
            row,
            position=position,
            start=first,
            ranges=matched.ranges,
            from_syncs=self._records_from_syncs(first, matched.pairs[0][1]),
            missing=sum(first <= o < position and o not in matched.copied for o, _ in read),
            twice=matched.repeated,
            strange=len(matched.unmatched),
            doubt=_explain_tail(fingerprints, matched),
        )

    def _match_records(
        self, fingerprints: list[Fingerprint], begin: int
    ) -> tuple[MatchResult, list[Fingerprint]]:
        """Match records, reading the source as far as the copy may reach.

        Returns:
            The match, and the source records that were read.
        """
        at = (self.row.source.topic, self.row.source.partition)
        before = [source for source, target in self.known if target <= begin]
        guess = (self.row.stored or self.log.start) - 2 * len(fingerprints) - _CHUNK
        low = before[-1] if before else (0 if begin <= self.copy.start else guess)
        low = min(max(low, self.log.start), self.log.end)
        hints = {target: source for source, target in self.known}
        read: list[Fingerprint] = []
        read_to = low
        most = min(self.log.end, max(self.row.stored or low, low + len(fingerprints)) + _READ_AHEAD)
        while True:
            read += _read_fingerprints(self.source_reader, at, read_to, most, self.ignored)
            read_to = most
            matched = match_records(read, fingerprints, hints)
            last = max(matched.copied, default=None)
            if read_to >= self.log.end or last is None or last < read_to - _READ_AHEAD // 2:
                return matched, read
            most = min(self.log.end, read_to + _READ_AHEAD)

    def _records_from_syncs(self, start: int, target: int) -> tuple[MappingRange, ...]:
        return tuple(MappingRange(s, t, 1) for s, t in self.known if s < start and t < target)


def _explain_tail(fingerprints: list[Fingerprint], matched: MatchResult) -> str:
    """Return why the position is not proven if the last records on the target are unmatched."""
    tail = 0
    strange = set(matched.unmatched)
    while tail < len(fingerprints) and fingerprints[-1 - tail][0] in strange:
        tail += 1
    if tail:
        return (
            f"the last {tail} records on the target are not among the committed records "
            "of the source: copied from a transaction that is open or was aborted, or "
            "written by another application"
        )
    return ""


def _read_fingerprints(
    contents: ContentReader,
    at: TargetPartition,
    first: int,
    end: int,
    ignored: frozenset[RecordPart],
) -> list[Fingerprint]:
    """Return offset and digest of every committed record of an offset range."""
    fingerprints: list[Fingerprint] = []
    for begin in range(first, end, _CHUNK):
        (read,) = contents.stretches([((*at, begin), min(_CHUNK, end - begin))], _READ_S)
        if read.unread:
            raise Refused(
                f"{safe_text(f'{at[0]}-{at[1]}')} cannot be read from offset {read.unread_from} "
                f"on: {read.unread}",
                unchanged=NOTHING,
            )
        fingerprints += [
            (o, bytes.fromhex(content_digest(read.records[o], ignored)))
            for o in sorted(read.records)
        ]
    return fingerprints


def refuse_changed_target(plan: TakeoverPlan, ends: Mapping[TargetPartition, int]) -> None:
    """Check that the target has not changed since the plan was made.

    Raises:
        Refused: a target partition's end has changed; names the first one.
    """
    for row in plan.rows:
        if ends.get(row.target) != row.end:
            raise Refused(
                f"{safe_text(f'{row.target[0]}-{row.target[1]}')} ended at {row.end} during "
                f"the check, and now at {ends.get(row.target, 'an unknown offset')}",
                unchanged=NOTHING,
                hint="Stop the process that writes there, then repeat the command.",
            )


def _note_changes(
    config: PipelineConfig, topics: Iterable[str], append_time: Collection[str]
) -> list[str]:
    """Return a note for each source topic whose records the pipeline changes.

    Args:
        config: the pipeline that takes over.
        topics: source topics with copies on the target.
        append_time: target topics with LogAppendTime.
    """
    notes = []
    for topic in sorted(set(topics)):
        (target,) = target_names(config, topic)
        times = APPEND_TIME if target in append_time else ""
        choice = choose_path(config, times, topic=topic)
        if choice.path is CopyPath.RECORD:
            notes.append(
                f"{safe_text(topic)}: the target keeps the records before these positions as "
                "MirrorMaker 2 copied them, and this pipeline changes those that follow: "
                f"{choice.reason}"
            )
    return notes
