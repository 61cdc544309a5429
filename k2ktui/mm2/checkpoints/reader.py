"""Reads the input of a checkpoint plan: checkpoints, groups, end offsets and next records."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace

from confluent_kafka.admin import OffsetSpec

from k2ktui.engine.records.state import SourcePartition
from k2ktui.errors import K2kError, Refused
from k2ktui.kafka.clients import Cluster, TopicDescription, list_partitions, source_cluster
from k2ktui.kafka.control.reader import read_committed, require_offsets
from k2ktui.log.content import ContentReader, KafkaRecord, UnreadableReason, content_digest
from k2ktui.mm2.checkpoints.plan import (
    REPLICATED,
    ClusterObservation,
    ComparedRecords,
    NextRecordRelation,
    groups_in_use,
)
from k2ktui.mm2.flows.connect import NOTHING
from k2ktui.mm2.flows.formats import (
    PARTITION,
    Checkpoint,
    ForeignRecord,
    GroupPartition,
    read_checkpoint,
)
from k2ktui.mm2.flows.model import FlowProperties
from k2ktui.mm2.mirror_flow import MirrorFlow
from k2ktui.mm2.offsets.positions_topic import TopicPositions
from k2ktui.sync.cluster_readers import ConsumerGroupReader, TargetClusterReader
from k2ktui.text import safe_text

log = logging.getLogger(__name__)

_READ_S = 60.0
_POLL_S = 0.25
# If the next records differ, search for the group's record this many offsets around the checkpoint.
_WINDOW = 1000
_SEARCHED = 200

Chosen = Callable[[str], bool]


def read_checkpoints(properties: FlowProperties, target: Cluster) -> tuple[list[Checkpoint], int]:
    """Read the whole checkpoints topic once.

    Returns:
        The newest checkpoint of each group-partition, and the number of unreadable records.

    Raises:
        Refused: the topic does not exist, or reading it is not authorized.
        ConnectionFailed, TimedOut: the target did not answer.
    """
    topic = properties.checkpoints_topic
    described = target.describe([topic])[topic]
    if not isinstance(described, TopicDescription):
        raise Refused(
            f"{safe_text(topic)} cannot be read on the target cluster: "
            f"{safe_text(described.str())}",
            unchanged=NOTHING,
            hint="Check the aliases and the replication policy, which make its name, and "
            "emit.checkpoints.enabled: MirrorMaker 2 creates it unless that is false.",
        )
    newest: dict[GroupPartition, Checkpoint] = {}
    unreadable = 0
    for record in read_committed(target, topic, PARTITION + 1, _READ_S):
        try:
            at, checkpoint = read_checkpoint(record.key, record.value)
        except ForeignRecord:
            unreadable += 1
            continue
        if checkpoint is None:
            newest.pop(at, None)
        else:
            newest[at] = checkpoint
    return [newest[at] for at in sorted(newest)], unreadable


class CheckpointReader:
    """Reads both clusters of a flow; ``close`` closes the connections.

    Args:
        flow: a flow of MirrorMaker 2.
    """

    def __init__(self, flow: MirrorFlow) -> None:
        config = flow.config
        self._name, self._properties = config.name, flow.properties
        self.target = TargetClusterReader(config)
        self._source = source_cluster(config)
        self._source_groups = ConsumerGroupReader(config, "source")

    def close(self) -> None:
        """Close all connections."""
        self.target.close()
        self._source_groups.close()

    def observe(
        self,
        checkpoints: Iterable[Checkpoint],
        group: Chosen,
        topic: Chosen,
        watch_s: float,
    ) -> ClusterObservation:
        """Observe both clusters.

        Args:
            checkpoints: those to choose from.
            group, topic: filters for groups and source topics.
            watch_s: how long to watch the end offsets of source partitions, in seconds.

        Raises:
            ConnectionFailed, TimedOut, Refused: a cluster did not answer or denied access.
        """
        kept, sources = self._chosen(checkpoints, group, topic)
        began, ends = time.monotonic(), self._source_ends(set(sources.values()))
        names = sorted({checkpoint.at.group for checkpoint in kept})
        target_ids = self.target.topic_ids(sources)
        seen = ClusterObservation(
            pipeline=self._name,
            source_cluster=self._source.cluster_id(),
            target_cluster=self.target.cluster.cluster_id(),
            at=time.time(),
            checkpoints=tuple(kept),
            sources=sources,
            source=self._source_groups.views(names),
            target=self.target.views(names),
            logs=self.target.logs(
                {
                    (a.topic, a.partition)
                    for checkpoint in kept
                    if (a := checkpoint.at).topic in target_ids
                }
            ),
            target_ids=target_ids,
            own_topics=bool(self._properties.policy.prefix),
            source_ends=ends,
            watched_s=watch_s,
        )
        seen = replace(seen, nexts=self._nexts(seen))
        try:
            seen = replace(seen, behind=self._find_behind(ends))
        except K2kError as error:
            log.info("what is not copied yet is unknown: %s", error.message)
            seen = replace(seen, unread={REPLICATED: error.message})
        while time.monotonic() < began + watch_s:
            time.sleep(_POLL_S)
        moving = frozenset(self._source_groups.read_moved(seen.source))
        return replace(seen, growing=self.find_grown(seen), moving=moving)

    def _chosen(
        self, checkpoints: Iterable[Checkpoint], group: Chosen, topic: Chosen
    ) -> tuple[list[Checkpoint], dict[str, str]]:
        """Return the selected checkpoints, and the source topic of each target topic."""
        sources: dict[str, str] = {}
        kept = []
        policy = self._properties.checkpoint_policy or self._properties.policy
        for checkpoint in checkpoints:
            upstream = policy.source_topic(checkpoint.at.topic)
            if upstream is not None and group(checkpoint.at.group) and topic(upstream):
                sources[checkpoint.at.topic] = upstream
                kept.append(checkpoint)
        return kept, sources

    def find_consuming(self, seen: ClusterObservation) -> set[str]:
        """Return the groups that have members on the source now, or have committed since."""
        now = self._source_groups.views(sorted(seen.source))
        return groups_in_use(now) | self._source_groups.read_moved(seen.source).keys()

    def find_grown(self, seen: ClusterObservation) -> frozenset[SourcePartition]:
        """Return the source partitions whose end offsets have changed since ``seen``."""
        now, then = self._source_ends({s.topic for s in seen.source_ends}), seen.source_ends
        return frozenset(s for s in now.keys() | then.keys() if now.get(s) != then.get(s))

    def _source_ends(self, topics: Collection[str]) -> dict[SourcePartition, int]:
        where = list_partitions(self._source, sorted(topics))
        ends = require_offsets(self._source, where, OffsetSpec.latest())
        return {SourcePartition(*at): end for at, end in ends.items()}

    def _find_behind(self, ends: Mapping[SourcePartition, int]) -> dict[SourcePartition, int]:
        """Return the source partitions with records that MirrorMaker 2 has not copied."""
        positions = TopicPositions(self._properties).positions()
        starts = self._source.offsets([(s.topic, s.partition) for s in ends], OffsetSpec.earliest())
        left = {}
        for source, end in ends.items():
            start = starts.get((source.topic, source.partition), 0)
            position = max(positions.get(source, 0), start)
            if position < end:
                left[source.topic, source.partition, position] = source
        with ContentReader(self._source) as contents:
            answers = contents.next_records(list(left), _READ_S)
        behind = {}
        for (topic, number, offset), answer in answers.items():
            source = left[topic, number, offset]
            # Without a next record, only transaction markers follow the position.
            if answer is not None:
                first = answer.offset if isinstance(answer, KafkaRecord) else offset
                behind[source] = ends[source] - first
        return behind

    def _nexts(self, seen: ClusterObservation) -> dict[GroupPartition, ComparedRecords]:
        """Compare the next record of every group-partition on both clusters."""
        on_source = {}
        for checkpoint in seen.checkpoints:
            source = seen.source_partition(checkpoint.at)
            on_source[checkpoint.at] = (
                source.topic,
                source.partition,
                seen.source_offset(checkpoint),
            )
        on_target = {e.at: (e.at.topic, e.at.partition, e.downstream) for e in seen.checkpoints}
        with (
            ContentReader(self._source) as source_contents,
            ContentReader(self.target.cluster) as target_contents,
        ):
            left = source_contents.next_records(set(on_source.values()), _READ_S)
            right = target_contents.next_records(set(on_target.values()), _READ_S)
            nexts = {}
            differing: dict[GroupPartition, KafkaRecord] = {}
            for at in on_source:
                there_next, copied = left[on_source[at]], right[on_target[at]]
                nexts[at] = _relation_of(there_next, copied)
                if nexts[at].next is NextRecordRelation.UNKNOWN and isinstance(
                    there_next, KafkaRecord
                ):
                    differing[at] = there_next
            searched = dict(list(differing.items())[:_SEARCHED])
            return nexts | _search_target(
                target_contents, searched, {at: on_target[at][2] for at in searched}
            )


def _relation_of(source: object, copied: object) -> ComparedRecords:
    if isinstance(source, UnreadableReason) or isinstance(copied, UnreadableReason):
        return ComparedRecords(NextRecordRelation.UNKNOWN)
    if source is None:
        return ComparedRecords(
            NextRecordRelation.NEITHER if copied is None else NextRecordRelation.ONLY_TARGET
        )
    same = isinstance(source, KafkaRecord) and isinstance(copied, KafkaRecord)
    if same and content_digest(source) == content_digest(copied):  # type: ignore[arg-type]
        return ComparedRecords(NextRecordRelation.SAME, 0)
    return ComparedRecords(NextRecordRelation.UNKNOWN)


def _search_target(
    contents: ContentReader,
    wanted: Mapping[GroupPartition, KafkaRecord],
    offsets: Mapping[GroupPartition, int],
) -> dict[GroupPartition, ComparedRecords]:
    """Search for source records around the checkpoints' offsets on the target."""
    spans = [
        ((at.topic, at.partition, max(0, offsets[at] - _WINDOW)), 2 * _WINDOW) for at in wanted
    ]
    matched = {}
    for at, stretch in zip(wanted, contents.stretches(spans, _READ_S), strict=True):
        like = content_digest(wanted[at])
        matches = [
            offset for offset, record in stretch.records.items() if content_digest(record) == like
        ]
        if len(matches) != 1:
            continue  # no match, or several: the group's record is ambiguous
        between = sum(offsets[at] <= offset < matches[0] for offset in stretch.records)
        later = matches[0] >= offsets[at]
        matched[at] = ComparedRecords(
            NextRecordRelation.LATER if later else NextRecordRelation.EARLIER, between
        )
    return matched
