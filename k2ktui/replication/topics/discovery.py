"""Topic discovery on both clusters: which partitions to copy, where to, and from which offset."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from time import monotonic, thread_time

from confluent_kafka import IsolationLevel
from confluent_kafka.admin import OffsetSpec

from k2ktui.config.model import PipelineConfig
from k2ktui.engine.deleted_logs import DeletedLog
from k2ktui.engine.records.evidence import LostPosition
from k2ktui.engine.records.hold import NO_HOLDS, Holds
from k2ktui.engine.records.moved_topic import NO_MOVED_TOPICS, MovedTopics
from k2ktui.engine.records.state import Position, SourcePartition
from k2ktui.engine.status import HeldBack, count_lag
from k2ktui.errors import K2kError, TimedOut
from k2ktui.kafka.admin.topics import topic_settings
from k2ktui.kafka.clients import Cluster, Partition, TopicDescription
from k2ktui.replication.copying import partition_faults
from k2ktui.replication.copying.partition_reader import now_ms
from k2ktui.replication.copying.slot_task import Fault, FaultKind, Route, with_topics
from k2ktui.replication.ownership.commit_state import CommittedPositions
from k2ktui.replication.ownership.lost_positions import (
    LostPositions,
    lost_fault,
    positions_lost,
)
from k2ktui.replication.topics.held_back import HeldBackReader
from k2ktui.replication.topics.pair_topics import PairTopics, PairTopicsReader
from k2ktui.replication.topics.routing import routes_for
from k2ktui.replication.topics.target_settings import size_settings
from k2ktui.replication.topics.targets import TargetTopic
from k2ktui.text import counted, list_names

log = logging.getLogger(__name__)

# With more partitions than this, everything is read again only after so many times the CPU time
# that it takes, within bounds.
_MANY, _SPARSE, _LONGEST_S = 500, 400.0, 300.0
# While partitions are stopped or held back.
_LONGEST_UNWELL_S = 60.0
# Refresh offsets at least this often; they show records held back by open transactions.
_LONGEST_OFFSETS_S = 60.0
# How old a reading of another slot of this run may be, and with many partitions or when a slot
# starts. Each slot looks every 5 s, so that one reading of many partitions serves all of them.
_SHARED_S, _SHARED_MANY_S = 2.5, 6.0
_CHANGED = (FaultKind.RECREATED, FaultKind.TARGET_GONE)
# Number of partitions that a log line names.
_NAMED = 10
# Whether a discovery is of this partition.
IsWanted = Callable[[SourcePartition], bool]
# The topic id and the target topics of each partition.
_Topics = dict[SourcePartition, tuple[str, tuple[TargetTopic, ...]]]


@dataclass(frozen=True, slots=True)
class TopicSnapshot:
    """The topics of both clusters at one moment.

    Attributes:
        routes: the route of each partition that can be copied.
        begin: start positions of partitions that have no position yet; the driver sets the term.
        recreated: start positions of partitions whose topic was re-created on the source.
        ends: last stable offset of each source partition.
        high: high watermark of each source partition; open transactions lie between the last
            stable offset and the high watermark.
        held_back: what open transactions hold back, by source partition.
        faults: partitions that must not be copied, and why.
        sizes: ``size_settings`` of target topics.
        notes: notes for the operator on how target topics were created.
        lags: source offsets between the positions committed when ``ends`` were read and ``ends``;
            partitions of unknown lag are left out.
        starts: log start offset of each source partition that is held.
        deleted: partitions with a position whose topic does not exist any longer, where a pattern
            selects it; and what was recorded of them since the run began.
        lost: partitions without a position that were copied before; each has a fault, too.
    """

    routes: Mapping[SourcePartition, Route] = field(default_factory=dict)
    begin: Mapping[SourcePartition, Position] = field(default_factory=dict)
    recreated: Mapping[SourcePartition, Position] = field(default_factory=dict)
    ends: Mapping[SourcePartition, int] = field(default_factory=dict)
    high: Mapping[SourcePartition, int] = field(default_factory=dict)
    held_back: Mapping[SourcePartition, HeldBack] = field(default_factory=dict)
    faults: tuple[Fault, ...] = ()
    sizes: Mapping[str, tuple[int, str]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    lags: Mapping[SourcePartition, int] = field(default_factory=dict)
    starts: Mapping[SourcePartition, int] = field(default_factory=dict)
    deleted: Mapping[SourcePartition, DeletedLog | None] = field(default_factory=dict)
    lost: Mapping[SourcePartition, LostPosition] = field(default_factory=dict)

    def require_any(
        self, config: PipelineConfig, positions: Mapping[SourcePartition, Position]
    ) -> None:
        """Refuse to copy a pipeline of which every position is lost.

        Raises:
            Refused: no partition has a position or a start position, as all were copied before.
        """
        if self.lost and not (positions or self.begin):
            raise positions_lost(config, self.lost.values())

    def max_message_bytes(self, source: SourcePartition) -> int | None:
        """Return the smallest limit of the targets of a partition; None if none is known."""
        limits = [sizes[0] for sizes in self.sizes_of(source) if sizes is not None]
        return min(limits, default=None)

    def sizes_of(self, source: SourcePartition) -> tuple[tuple[int, str] | None, ...]:
        """Return the size settings of the targets of a partition, in the order of its route."""
        route = self.routes.get(source)
        if route is None:
            return ()
        names = [choice.name for choice in route.choices] or [route.topic]
        return tuple(self.sizes.get(name) for name in names)

    @property
    def has_changed_ids(self) -> bool:
        """Whether a topic is not the one that a position belongs to."""
        return any(fault.kind in _CHANGED for fault in self.faults)

    def is_settled(self, positions: Mapping[SourcePartition, Position]) -> bool:
        """Return whether nothing is missing, at fault, or without one of the known positions."""
        whole = not self.faults and self.routes.keys() <= self.ends.keys()
        return whole and self.routes.keys() <= positions.keys()

    def every_end(self) -> dict[SourcePartition, int]:
        """Return the high watermark of every partition that can be copied.

        The last stable offset is not used: a hanging transaction keeps it from advancing.

        Raises:
            TimedOut: the end offset of a partition is unavailable; without it the partition would
                count as caught up.
        """
        missing = sorted(self.routes.keys() - self.ends.keys())
        if missing:
            raise TimedOut(
                f"the end offset of {missing[0]} on the source cluster is unavailable: the "
                "partition has no leader",
                unchanged="Nothing was copied.",
                hint="Check the source cluster's health, then start again.",
            )
        return {source: max(end, self.high.get(source, end)) for source, end in self.ends.items()}

    def sum_lags(self, held: Collection[SourcePartition] = ()) -> int | None:
        """Return the lag of what is not held; None if that of no partition is known."""
        if not self.lags:
            return None
        return sum(lag for at, lag in self.lags.items() if at not in held)


class TopicDiscovery:
    """Discovers topics on both clusters; creates and grows target topics where allowed.

    Reading everything takes time in proportion to the number of partitions. With thousands, most
    discoveries only look for topics and partitions that are new or gone.

    Args:
        config: the pipeline.
        source: the source cluster.
        target: the target cluster.
        topics: reads the topics of both clusters.
        committed: reads the committed positions, from which lag is computed.
        is_wanted: selects the partitions, if runs share the pipeline: then every partition without
            a position has appeared after the pipeline's first start. None for all.
        holds: returns what operators hold now; never waits.
        losses: finds partitions that were copied before, if positions may be lost.
    """

    def __init__(
        self,
        config: PipelineConfig,
        source: Cluster,
        target: Cluster,
        topics: PairTopicsReader,
        committed: CommittedPositions,
        is_wanted: IsWanted | None = None,
        holds: Callable[[], Holds] = lambda: NO_HOLDS,
        losses: LostPositions | None = None,
    ) -> None:
        self._config = config
        self._source = source
        self._target = target
        self._committed, self._holds = committed, holds
        self._is_wanted = is_wanted or (lambda source: True)
        self._is_shared = self._has_discovered = is_wanted is not None
        self._topics = topics
        self._losses = losses or LostPositions(config, target)
        self._held_back = HeldBackReader(source)
        self._last: tuple[TopicSnapshot, Mapping[str, int]] | None = None
        self._next_full = self._next_full_unwell = self._next_offsets = 0.0
        self._logged = TopicSnapshot()
        self._moved = NO_MOVED_TOPICS
        self._settled = -1  # number of positions when the last snapshot was found to be settled

    def discover(
        self,
        positions: Mapping[SourcePartition, Position],
        is_well: bool = True,
        moved: MovedTopics = NO_MOVED_TOPICS,
        lost_term: int = 0,
    ) -> TopicSnapshot:
        """Take one snapshot, or return the last one if no topic has appeared, grown or gone.

        Args:
            positions: known positions; partitions without one get a start position.
            is_well: no partition is stopped, and the run does not end when it has caught up.
            moved: source topics that a drill has moved; the snapshot is without them.
            lost_term: positions of this term and earlier ones may be lost; 0 if none is. Such
                partitions get no start position, and a fault.

        Raises:
            ConnectionFailed, TimedOut: a cluster did not answer.
        """
        if moved != self._moved:
            self._moved, self._last = moved, None
        last, now, began = self._last, monotonic(), thread_time()
        counts = self._topics.counts(self._since(_SHARED_S if last else _SHARED_MANY_S))
        has_changed = last is None or last[1] != counts.by_topic
        if last is not None and not has_changed:
            is_well = is_well and not last[0].held_back
            if monotonic() < (self._next_full if is_well else self._next_full_unwell):
                # No position is ever forgotten, and all are compared whenever there are more.
                if self._settled != len(positions) and last[0].is_settled(positions):
                    self._settled = len(positions)
                if self._settled == len(positions):
                    if monotonic() >= self._next_offsets:
                        last = self._last = self._with_offsets(last[0], positions), last[1]
                    return last[0]
        self._last, self._settled = None, -1
        many = sum(counts.by_topic.values()) > _MANY
        since = self._since(_SHARED_MANY_S if many or last is None else _SHARED_S)
        if has_changed:
            # What has changed is in every reading that began after that of the numbers.
            since = max(since, counts.began)
        replicated = {source.topic for source in positions}
        pair = self._topics.read(replicated, since, moved)
        snapshot = self._snapshot(pair, positions, lost_term)
        if snapshot.has_changed_ids and pair.began < now:
            # Positions of a later topic than the one that was read then: read again.
            log.debug("topics were created again while they were read, reading them again")
            pair = self._topics.read(replicated, now, moved)
            snapshot = self._snapshot(pair, positions, lost_term)
        self._require_clusters()
        _log_changes(self._logged, snapshot)
        self._logged = snapshot
        self._last = snapshot, counts.by_topic
        pause_s = min(_SPARSE * max(thread_time() - began, pair.cpu_s), _LONGEST_S) if many else 0
        self._next_full = pair.began + pause_s
        self._next_full_unwell = pair.began + min(pause_s, _LONGEST_UNWELL_S)
        self._next_offsets = monotonic() + _LONGEST_OFFSETS_S
        return snapshot

    def is_wanted(self, source: SourcePartition) -> bool:
        """Return whether it looks at a partition, if its topic is selected."""
        return self._is_wanted(source)

    def start_positions(
        self,
        positions: Mapping[SourcePartition, Position],
        moved: MovedTopics = NO_MOVED_TOPICS,
        lost_term: int = 0,
    ) -> Mapping[SourcePartition, Position]:
        """Return the start positions of partitions without one; none while a leader is moving.

        Args:
            positions, moved, lost_term: as for :meth:`discover`.

        Raises:
            Refused: every partition was copied before, and none has a position.
            ConnectionFailed, TimedOut: a cluster did not answer.
        """
        # The numbers first, as in ``discover``: slots that start now share both readings.
        began = self._topics.counts(monotonic()).began
        replicated = {source.topic for source in positions}
        routes, ids = self._routes(self._topics.read(replicated, began, moved))
        lost, new = self._find_lost(positions, routes, lost_term)
        if lost and not (new or positions):
            raise positions_lost(self._config, lost.values())
        begin = self._begin(new, routes, ids, first_start=not (positions or lost))
        self._require_clusters()
        return begin

    def _find_lost(
        self,
        positions: Mapping[SourcePartition, Position],
        routes: Mapping[SourcePartition, Route],
        lost_term: int,
    ) -> tuple[Mapping[SourcePartition, LostPosition], list[SourcePartition]]:
        """Return the partitions whose position is lost, and those that are new."""
        missing = {
            source: route.targets for source, route in routes.items() if source not in positions
        }
        lost = self._losses.find(missing, lost_term)
        return lost, [source for source in missing if source not in lost]

    def _require_clusters(self) -> None:
        """Refuse what was read if another cluster answers now; raises OtherCluster."""
        self._source.require_expected()
        self._target.require_expected()

    def _with_offsets(
        self, last: TopicSnapshot, positions: Mapping[SourcePartition, Position]
    ) -> TopicSnapshot:
        """Return the snapshot with offsets that are read now; its topics are those of before."""
        committed = self._committed.read(positions, self._since(_SHARED_S))
        high, ends, held_back = self._ends(last.routes)
        self._next_offsets = monotonic() + _LONGEST_OFFSETS_S
        # Of a partition whose leader moves now, the offsets of before are kept.
        ends = {**last.ends, **ends}
        return replace(
            last,
            ends=ends,
            high={**last.high, **high},
            held_back=held_back,
            lags=_lags(committed, ends),
            starts=self._starts(last.routes),
        )

    def read_sizes(self, topics: Collection[str]) -> dict[str, tuple[int, str]]:
        """Return the present ``size_settings`` of target topics, of those that can be read."""
        with suppress(K2kError):
            return {
                name: size_settings(settings)
                for name, settings in topic_settings(self._target, topics).items()
                if not isinstance(settings, K2kError)
            }
        return {}

    def _since(self, age_s: float) -> float:
        """Return when a reading must have begun: what other slots have read may be older."""
        return monotonic() - (age_s if self._is_shared else 0.0)

    def _snapshot(
        self, pair: PairTopics, positions: Mapping[SourcePartition, Position], lost_term: int
    ) -> TopicSnapshot:
        topics, faults, refused, targets = pair.topics, [*pair.faults], pair.refused, pair.targets
        by_name = {topic.name: topic for topic in topics}
        for name, error in refused.items():
            if name in by_name:
                faults += [topic_fault(s, error) for s in _partitions(by_name[name])]
            else:  # it may not be described: of its partitions, those with a position are known
                faults += [
                    Fault(s, FaultKind.UNAUTHORIZED, error.message, error.hint, p.offset)
                    for s, p in positions.items()
                    if s.topic == name
                ]
        routes, ids = self._routes(pair)
        for topic in topics:
            topic_targets = () if topic.name in refused else targets[topic.name]
            short = next(
                (target.short for target in topic_targets if target.short is not None), None
            )
            if short is not None:
                faults += [topic_fault(s, short) for s in _partitions(topic) if s not in routes]
        # Read positions before ends, as external lag tools do: ends are never older than positions.
        committed = self._committed.read(positions, self._since(_SHARED_S))
        high, ends, held_back = self._ends(routes)
        lost, new = self._find_lost(positions, routes, lost_term)
        is_first = not (positions or lost or self._has_discovered)
        begin = self._begin(new, routes, ids, first_start=is_first)
        self._has_discovered = True
        changed = [
            fault
            for s in routes
            if s in positions
            and (fault := _incarnation_fault(s, positions[s], *ids[s])) is not None
        ]
        known = {fault.source for fault in changed}
        same = {s: p for s, p in positions.items() if s in routes and s not in known}
        changed += self._shorter(same, ids)
        again = [fault.source for fault in changed if fault.kind is FaultKind.RECREATED]
        recreated = self._begin(again, routes, ids, first_start=False)
        every = [target for of_topic in targets.values() for target in of_topic]
        sizes = {t.name: t.sizes for t in every}
        # Of slots that share a reading, one reports what was done to a topic.
        mine = [name for name in targets if self._is_wanted(SourcePartition(name, 0))]
        notes = tuple(f"{t.name}: {n}" for name in mine for t in targets[name] for n in t.notes)
        return TopicSnapshot(
            routes=routes,
            begin=begin,
            recreated=recreated,
            ends=ends,
            high=high,
            held_back=held_back,
            faults=(
                *(fault for fault in faults if self._is_wanted(fault.source)),
                *changed,
                *(lost_fault(one, self._config.coordination.commit.topic) for one in lost.values()),
            ),
            lost=lost,
            sizes=sizes,
            notes=notes,
            lags=_lags(committed, ends),
            starts=self._starts(routes),
            deleted={
                s: self._committed.deleted.get(s)
                for s in (positions if pair.deleted else ())
                if s.topic in pair.deleted and self._is_wanted(s)
            },
        )

    def _routes(self, pair: PairTopics) -> tuple[dict[SourcePartition, Route], _Topics]:
        """Return the route of each wanted partition, and its topic id and target topics."""
        routes: dict[SourcePartition, Route] = {}
        ids: _Topics = {}
        for topic in pair.topics:
            if topic.name in pair.refused:
                continue
            targets = tuple(pair.targets[topic.name])
            for number, route in enumerate(routes_for(self._config, topic, targets)):
                source = SourcePartition(topic.name, number)
                if self._is_wanted(source):
                    routes[source], ids[source] = route, (topic.topic_id, targets)
        return routes, ids

    def _shorter(
        self, positions: Mapping[SourcePartition, Position], ids: _Topics
    ) -> Iterator[Fault]:
        """Yield a fault for each partition whose target ends before what was written to it.

        Only topics without an id need this: with one, a topic that was created again is recognized
        by it, and a lap refuses to append below what was written.
        """
        with_id = {
            target.name for _, targets in ids.values() for target in targets if target.topic_id
        }
        written = [
            (at.topic, at.partition)
            for position in positions.values()
            for at in position.landed
            if at.topic not in with_id or not position.target_topics.get(at.topic)
        ]
        ends = self._target.offsets(set(written), OffsetSpec.latest()) if written else {}
        for source, position in positions.items() if ends else ():
            if (at := position.beyond(ends)) is not None:
                target = at.topic, at.partition
                yield partition_faults.TARGET_ENDS_BEFORE.at(
                    source, position.offset, target=target, end=ends[target], written=at.end
                )

    def _ends(
        self, routes: Mapping[SourcePartition, Route]
    ) -> tuple[
        dict[SourcePartition, int], dict[SourcePartition, int], dict[SourcePartition, HeldBack]
    ]:
        """Return high watermarks, last stable offsets, and what is held back between the two."""
        where = [(s.topic, s.partition) for s in routes]
        high = self._source.offsets(where, OffsetSpec.latest())
        ends = self._source.offsets(where, OffsetSpec.latest(), IsolationLevel.READ_COMMITTED)
        held = self._held_back.read(high, ends)
        return (
            {SourcePartition(*at): offset for at, offset in high.items()},
            {SourcePartition(*at): offset for at, offset in ends.items()},
            {SourcePartition(*at): count for at, count in held.items()},
        )

    def _starts(self, routes: Mapping[SourcePartition, Route]) -> dict[SourcePartition, int]:
        """Return the log start offsets of what is held: no lap reads them."""
        held = self._holds().held(routes)
        if not held:
            return {}
        starts = self._source.offsets([(s.topic, s.partition) for s in held], OffsetSpec.earliest())
        return {SourcePartition(*at): offset for at, offset in starts.items()}

    def _begin(
        self,
        new: list[SourcePartition],
        routes: Mapping[SourcePartition, Route],
        ids: _Topics,
        *,
        first_start: bool,
    ) -> dict[SourcePartition, Position]:
        offsets = self._start_offsets(new, first_start=first_start)
        begin: dict[SourcePartition, Position] = {}
        for source in new:
            offset = offsets.get((source.topic, source.partition))
            if offset is None:
                continue  # the leader is moving; the next snapshot will have the offset
            topic_id, (target, *_) = ids[source]
            route = routes[source]
            position = Position(
                offset=offset,
                start=offset,
                leader_epoch=-1,
                topic_id=topic_id,
                term=0,
                slot=-1,
                target_topic=route.topic,
                target_partition=route.partition,
                target_topic_id=target.topic_id,
                at_ms=now_ms(),
            )
            begin[source] = with_topics(position, route.choices, route.partition)
        return begin

    def _start_offsets(
        self, new: list[SourcePartition], *, first_start: bool
    ) -> dict[Partition, int]:
        """Return the start offsets of new partitions.

        ``start.from`` applies only to partitions that exist when the pipeline first starts.
        Partitions that appear later are copied from the beginning; otherwise records written
        between creation and discovery would be skipped. ``auto.offset.reset: latest`` skips them.
        """
        where = [(source.topic, source.partition) for source in new]
        start = self._config.start
        kind = start.kind if first_start else start.later
        if kind == "earliest":
            return self._source.offsets(where, OffsetSpec.earliest())
        latest = self._source.offsets(where, OffsetSpec.latest(), IsolationLevel.READ_COMMITTED)
        if kind == "latest":
            return latest
        stamped = self._source.offsets(where, OffsetSpec.for_timestamp(start.timestamp_ms or 0))
        # A negative offset: no record has this timestamp or a later one yet. Start at the end.
        return {at: latest[at] if o < 0 else o for at, o in stamped.items() if at in latest}


def _log_changes(before: TopicSnapshot, now: TopicSnapshot) -> None:
    """Log what a reading has changed: a run's first one has everything."""
    for text, sources in (
        ("to copy", now.routes.keys() - before.routes.keys()),
        ("can be copied no longer", before.routes.keys() - now.routes.keys()),
    ):
        if sources:
            names = list_names([str(source) for source in sorted(sources)], _NAMED)
            log.info("%s %s: %s", counted(len(sources), "partition"), text, names)
    for what, positions in (("start", now.begin), ("start again", now.recreated)):
        if positions:
            offsets = [f"{source} at {at.offset}" for source, at in sorted(positions.items())]
            log.info("%s: %s", what, list_names(offsets, _NAMED))


def _lags(
    positions: Mapping[SourcePartition, Position], ends: Mapping[SourcePartition, int]
) -> dict[SourcePartition, int]:
    lags = ((at, count_lag(p.offset, ends.get(at))) for at, p in positions.items())
    return {at: lag for at, lag in lags if lag is not None}


def _partitions(topic: TopicDescription) -> list[SourcePartition]:
    return [SourcePartition(topic.name, number) for number in range(topic.partitions)]


def topic_fault(source: SourcePartition, error: K2kError) -> Fault:
    """Return the fault of a partition whose topic cannot be copied; a time-out is no refusal."""
    kind = FaultKind.UNAVAILABLE if isinstance(error, TimedOut) else FaultKind.REFUSED
    return Fault(source, kind, error.message, error.hint)


def _incarnation_fault(
    source: SourcePartition, position: Position, topic_id: str, targets: Sequence[TargetTopic]
) -> Fault | None:
    """Return a fault if the position belongs to another incarnation of either topic."""
    if position.stopped:
        return partition_faults.RESTORED.at(source, position.offset, reason=position.stopped)
    if position.topic_id and topic_id and position.topic_id != topic_id:
        return partition_faults.RECREATED.at(source, position.offset)
    for target in targets:
        before = position.target_topics.get(target.name, "")
        if before and target.topic_id and before != target.topic_id:
            return partition_faults.TARGET_RECREATED.at(source, position.offset, target=target.name)
    return None
