"""Find strange records in a pipeline's copies: see ``k2ktui.engine.mapping.strange_records``.

While the target's logs end where the pipeline says, nothing is read for it. Where they do not, the
positions are read once more: most often, records were copied meanwhile. What is left then is read:
batches up to a limit, of which only the headers count.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from time import monotonic

from confluent_kafka import IsolationLevel
from confluent_kafka.admin import OffsetSpec

from k2ktui.config.model import PipelineConfig
from k2ktui.engine.mapping.intervals import Span
from k2ktui.engine.mapping.replica import Replica, TargetPartition
from k2ktui.engine.mapping.strange_records import (
    NOT_MAPPED,
    NOTHING_COPIED,
    PARTLY_MAPPED,
    CopyLog,
    OtherWriters,
    StrangeRecords,
    WrittenBatch,
    find_unnamed,
)
from k2ktui.engine.records.state import Position, SourcePartition
from k2ktui.errors import K2kError
from k2ktui.kafka.clients import Cluster, TopicDescription
from k2ktui.kafka.properties.translation import wire
from k2ktui.kafka.wire.cluster import WireClient
from k2ktui.log.batch import Batch
from k2ktui.log.fetcher import Fetcher, late_reason
from k2ktui.replication.copying.registration_reader import (
    RegistrationReader,
    RegistrationsUnavailable,
)
from k2ktui.sync.mapping.pipeline_mappings import PipelineMappings
from k2ktui.sync.mapping.source import CopierState

log = logging.getLogger(__name__)

# A view waits for it: what was not read by then is read with the next one.
_READ_S = 1.5
_REGISTRATIONS_S = 2.0
# Where nothing waits.
_ONCE_S = 30.0
# Of one partition with each reading.
_MOST_BYTES = 1 << 20

_SEVERAL = "several source partitions are copied into it"
_CREATED_AGAIN = "its topic was created again since the pipeline wrote to it"
_NO_END = "its last stable offset is not known"
_NO_MAPPING = "its mapping cannot be used for what was written before the newest copies"
_MORE_TO_READ = "not all of what was written there is read yet"


@dataclass(frozen=True, slots=True)
class TargetEnds:
    """The ids of target topics, and the last stable offsets of their partitions."""

    ids: Mapping[str, str]
    ends: Mapping[TargetPartition, int]


class StrangeReader:
    """Looks for strange records with every reading; not thread-safe.

    Args:
        config: the pipeline.
        target: its target cluster.
    """

    def __init__(self, config: PipelineConfig, target: Cluster) -> None:
        self._config, self._target = config, target
        self._fetcher = Fetcher(target)
        self._registrations = RegistrationReader(config.coordination.commit.topic)
        self._logs: dict[tuple[TargetPartition, str], CopyLog] = {}
        # A producer id is registered before its first use, so this is decided once.
        self._strangers: set[int] = set()

    def read(
        self,
        copier: CopierState,
        target: TargetEnds,
        read_copier: Callable[[], CopierState],
        replicas: Mapping[SourcePartition, Replica] | None = None,
    ) -> OtherWriters:
        """Return what strange records there are; those that are known, if no more can be read.

        Args:
            copier: the positions.
            target: the ends of the target partitions, read after the positions.
            read_copier: reads the positions again.
            replicas: the mappings; None if they were not read.
        """
        try:
            return self._read(copier, target, read_copier, replicas)
        except K2kError as error:
            log.info("strange records not read: %s", error.message)
            keys = [(at, target.ids[at[0]]) for at in target.ends]
            logs = {key[0]: self._logs[key] for key in keys if key in self._logs}
            unread = {error.message: len(target.ends)}
            expected = expected_writers(self._config)
            return OtherWriters(_describe(logs), unread=unread, expected=expected)

    def _read(
        self,
        copier: CopierState,
        target: TargetEnds,
        read_copier: Callable[[], CopierState],
        replicas: Mapping[SourcePartition, Replica] | None,
    ) -> OtherWriters:
        if why := self._why_untold(copier):
            return OtherWriters(why=why)
        untold, unread = Counter[str](), Counter[str]()
        ends, fed = target.ends, self._choose(copier, target, untold)
        landed = {at: fed[at][1].landed_on(at) for at in fed}
        logs = {at: self._logs.setdefault((at, target.ids[at[0]]), CopyLog()) for at in fed}
        self._logs = {key: self._logs[key] for key in self._logs if _exists(key, target)}
        expected = expected_writers(self._config)
        late = [
            at
            for at, one in logs.items()
            if not (expected and one.is_strange) and one.unexplained(landed[at], ends[at])
        ]
        if late:
            positions = read_copier().positions
            for at in late:
                position = positions.get(fed[at][0])
                landed[at] = None if position is None else position.landed_on(at)
        for at, one in logs.items():
            one.see(landed[at], ends[at])
        self._look_back(fed, logs, replicas, untold)
        self._forget_deleted(logs)
        if expected:
            for one in logs.values():
                if one.is_strange:
                    one.give_up()
        self._read_gaps(logs, copier.registered or frozenset(), untold, unread)
        return OtherWriters(_describe(logs), "", dict(untold), dict(unread), expected)

    def close(self) -> None:
        """Disconnect; what was read is kept."""
        self._fetcher.close()

    def _why_untold(self, copier: CopierState) -> str:
        config = self._config
        if not config.features.exactly_once:
            return "features.exactlyOnce is disabled, so no producer id is registered"
        if config.replication.sink.scatters:
            return (
                "the records of one source partition go to several target partitions "
                "(replication.sink)"
            )
        if copier.registered is None:
            return "not all producer ids that the pipeline has written with are registered"
        return ""

    def _choose(
        self, copier: CopierState, target: TargetEnds, untold: Counter[str]
    ) -> dict[TargetPartition, tuple[SourcePartition, Position]]:
        """Return the target partitions that can be judged, each with its source partition."""
        moved = copier.find_moved()
        fed: dict[TargetPartition, list[tuple[SourcePartition, Position]]] = {}
        for source, position in copier.positions.items():
            if position.target_partition is not None and moved.get(source.topic) is None:
                into = position.target_topic, position.target_partition
                fed.setdefault(into, []).append((source, position))
        chosen = {}
        for at, feeding in fed.items():
            if at[0] not in target.ids:
                continue  # the topic does not exist any more
            known, now = feeding[0][1].target_topics.get(at[0], ""), target.ids[at[0]]
            if len(feeding) > 1:
                untold[_SEVERAL] += 1
            elif known and now and known != now:
                untold[_CREATED_AGAIN] += 1
            elif at not in target.ends:
                untold[_NO_END] += 1
            else:
                chosen[at] = feeding[0]
        return chosen

    def _look_back(
        self,
        fed: Mapping[TargetPartition, tuple[SourcePartition, Position]],
        logs: Mapping[TargetPartition, CopyLog],
        replicas: Mapping[SourcePartition, Replica] | None,
        untold: Counter[str],
    ) -> None:
        """Compare what was written before the first reading with the mapping, once."""
        for at, one in logs.items():
            source, position = fed[at]
            if not one.known_from:
                continue
            first = position.first_landed_on(at)
            start = -1 if first is None else first.target
            replica = None if replicas is None else replicas.get(source)
            if not one.has_looked_back and one.known_from > start:
                if position.landed_on(at) is None:
                    untold[NOTHING_COPIED] += 1
                    continue
                if replicas is None:
                    untold[NOT_MAPPED] += 1
                    continue
                if replica is None or replica.unusable_reason or replica.behind:
                    untold[_NO_MAPPING] += 1
                    continue
                if unnamed := find_unnamed(replica, at, one.known_from):
                    one.look_back(*unnamed)
            one.has_looked_back = True
            if one.known_from > start:
                untold[PARTLY_MAPPED] += 1

    def _read_gaps(
        self,
        logs: Mapping[TargetPartition, CopyLog],
        own: Collection[int],
        untold: Counter[str],
        unread: Counter[str],
    ) -> None:
        """Read the headers of what is unexplained."""
        with_gaps = {at: one for at, one in logs.items() if one.gaps}
        scans = {at: _Scan(one.gaps) for at, one in with_gaps.items()}
        try:
            self._fetcher.run(scans, _READ_S)
            ids = {batch.producer for scan in scans.values() for batch in scan.batches}
            registered = self._find_registered(ids - {-1}, own)
        except RegistrationsUnavailable as error:
            log.debug("strange records: registrations not read: %s", error)
            if error.is_lasting or error.__cause__ is not None:
                unread[str(error)] += len(with_gaps)
            else:
                untold[_MORE_TO_READ] += len(with_gaps)
            return
        except K2kError as error:
            log.debug("strange records: the cause", exc_info=error)
            unread[error.message] += len(with_gaps)
            return
        for at, one in with_gaps.items():
            scan = scans[at]
            one.learn(scan.batches, registered, scan.left)
            if one.gaps and one.is_strange:
                one.give_up()
            elif one.gaps and scan.refused not in ("", late_reason(_READ_S)):
                unread[scan.refused] += 1
            elif one.gaps:
                untold[_MORE_TO_READ] += 1

    def _find_registered(self, ids: Collection[int], own: Collection[int]) -> Collection[int]:
        """Return the producer ids of pipelines; registrations are read if one is not known yet.

        Raises:
            ConnectionFailed: the target does not answer.
            RegistrationsUnavailable: they cannot be read.
        """
        reader = self._registrations
        if not set(ids).difference(own, reader.registrations, self._strangers):
            return {*own, *reader.registrations}
        options = wire(self._target.config, "consumer")
        with closing(WireClient(options, self._target.label)) as client:
            client.open(_REGISTRATIONS_S)
            client.run(lambda connection: reader.read(connection, _REGISTRATIONS_S))
            reader.check_known(ids)
        registered = {*own, *reader.registrations}
        self._strangers.update(set(ids) - registered)
        return registered

    def _forget_deleted(self, logs: Mapping[TargetPartition, CopyLog]) -> None:
        """Forget strange records that retention has deleted."""
        strange = [at for at, one in logs.items() if one.is_strange]
        for at, start in self._target.offsets(strange, OffsetSpec.earliest()).items():
            logs[at].forget_before(start)


def expected_writers(config: PipelineConfig) -> str:
    """Return the setting by which the target topics have other writers; "" without one."""
    if config.features.bidirectional_replication:
        return "features.bidirectionalReplication"
    return "target.writers: shared" if config.target.writers == "shared" else ""


def read_strange(
    config: PipelineConfig,
    target: Cluster,
    replicas: Mapping[SourcePartition, Replica],
    *,
    some_topics: bool,
) -> OtherWriters:
    """Look for strange records once.

    Args:
        config: the pipeline.
        target: its target cluster.
        replicas: the mappings.
        some_topics: as for PipelineMappings.

    Raises:
        ConnectionFailed, TimedOut: the target does not answer.
        NothingCopied: nothing has been replicated yet.
    """
    with (
        closing(PipelineMappings(config, target, some_topics=some_topics)) as mappings,
        closing(StrangeReader(config, target)) as reader,
    ):
        until = monotonic() + _ONCE_S
        while True:
            copier = mappings.read_copier()
            ends = read_target_ends(target, copier)
            writers = reader.read(copier, ends, mappings.read_copier, replicas)
            if _MORE_TO_READ not in writers.untold or monotonic() > until:
                return writers


def read_target_ends(target: Cluster, copier: CopierState) -> TargetEnds:
    """Return the ends of the target partitions that positions name.

    Raises:
        ConnectionFailed, TimedOut: the target does not answer.
    """
    wanted = {
        (p.target_topic, p.target_partition)
        for p in copier.positions.values()
        if p.target_partition is not None
    }
    topics = target.describe(sorted({topic for topic, _ in wanted}))
    ids = {name: one.topic_id for name, one in topics.items() if isinstance(one, TopicDescription)}
    where = [at for at in wanted if at[0] in ids]
    ends = target.offsets(where, OffsetSpec.latest(), IsolationLevel.READ_COMMITTED)
    return TargetEnds(ids, ends)


def _exists(key: tuple[TargetPartition, str], target: TargetEnds) -> bool:
    (topic, _), topic_id = key
    return target.ids.get(topic) == topic_id


def _describe(logs: Mapping[TargetPartition, CopyLog]) -> tuple[StrangeRecords, ...]:
    described = (logs[at].describe(at) for at in sorted(logs))
    return tuple(one for one in described if one is not None)


class _Scan:
    """Reads the headers of batches in some stretches of a partition, up to a limit.

    Attributes:
        batches: the committed batches of records in them.
        left: what is not read yet.
        refused: why not; "" if it only takes longer.
    """

    def __init__(self, gaps: Sequence[Span]) -> None:
        self.left, self.batches, self.refused = sorted(gaps), list[WrittenBatch](), ""
        self._bytes, self._stable, self._is_over = 0, 0, False

    def next_offset(self) -> int | None:
        return self.left[0][0] if self.left and not self._is_over else None

    def set_bounds(self, start: int, stable: int, high: int) -> None:
        self._stable = stable
        self.advance(start)

    def add_batch(self, batch: Batch) -> None:
        self._bytes += len(batch.view)
        first, last = batch.base_offset, batch.last_offset
        for low, high in self.left:
            if low > last:
                break  # they are in order, and may be many
            if first < high:
                begin, end = max(low, first), min(high, last + 1)
                records = min(batch.count, end - begin) if batch.magic > 1 else 1
                self.batches.append(WrittenBatch(begin, end, batch.producer_id, records))

    def add_aborted_batch(self, batch: Batch) -> None:
        self._bytes += len(batch.view)  # no reader sees its records

    def advance(self, offset: int) -> None:
        self.left = [(max(low, offset), high) for low, high in self.left if high > offset]
        # Only between responses: the batches of one are all delivered.
        self._is_over = self._bytes >= _MOST_BYTES

    def finish(self) -> None:
        self.advance(self._stable)
        self._is_over = True

    def refuse(self, reason: str) -> None:
        self.refused = reason
