"""Writes a micro-batch: transformed records, their mapping and positions, in one transaction."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from time import monotonic
from typing import TYPE_CHECKING, Any

import numpy as np

from k2ktui.engine.state import SourcePartition
from k2ktui.engine.transforms import Transform
from k2ktui.kafka.wire import Wire
from k2ktui.log.batch import CorruptBatch
from k2ktui.log.records import I64, Records
from k2ktui.replication.copying import partition_faults
from k2ktui.replication.copying.batch_routing import choose_partitions, spread
from k2ktui.replication.copying.dead_letters import spread_letters
from k2ktui.replication.copying.outgoing_batch import OutgoingBatch, TargetPartition
from k2ktui.replication.copying.partition_reader import PartitionReader
from k2ktui.replication.copying.record_headers import change_headers
from k2ktui.replication.copying.schema_lookups import KnownSchemas
from k2ktui.replication.copying.schema_routing import RoutableRecords
from k2ktui.replication.copying.slot import SlotCopier
from k2ktui.replication.copying.worker import known_schemas, open_connections, run_copier
from k2ktui.replication.copying.writer import GONE_AFTER_S
from k2ktui.replication.slot_task import (
    LapOutcome,
    Route,
    SkippedRecords,
    SlotResult,
    SlotTask,
    SourceLogBounds,
    UnknownSchemas,
)
from k2ktui.replication.stages.dead_letters import make_dead_letters
from k2ktui.replication.stages.headers import written_records
from k2ktui.replication.stages.read import ReadFacts
from k2ktui.replication.stages.routed import spread_routed
from k2ktui.replication.stages.schema_ids import TransformedIds
from k2ktui.replication.stages.steps import plan_steps
from k2ktui.replication.stages.transformed import Transformed, collect

if TYPE_CHECKING:
    import pyarrow as pa

_LEADER_RETRY_S = 0.2

#: Target partition, batch, and whether it was rebuilt.
Routed = tuple[TargetPartition, OutgoingBatch, bool]


def write_rows(
    task: SlotTask,
    batches: Iterable[pa.RecordBatch],
    source: Mapping[str, Any],
    target: Mapping[str, Any],
) -> SlotResult:
    """Write the transformed records of a micro-batch; the result is that of the slot's lap.

    Nothing is written before the last row has arrived, so that a failure of the SQL leaves no
    transaction open.
    """
    found, encoded = collect(batches)
    facts: ReadFacts = pickle.loads(encoded)  # noqa: S301 - the other task of this job wrote it
    if facts.error:
        return SlotResult(task.slot, LapOutcome.FAILED, {}, error=facts.error)
    copiers: list[TransformCopier] = []
    known = known_schemas(task)

    def make(source_wire: Wire, target_wire: Wire) -> SlotCopier:
        copiers.append(TransformCopier(task, source_wire, target_wire, found, facts, known))
        return copiers[-1]

    result = run_copier(task, source, target, make)
    skipped = copiers[-1].skipped if copiers and result.outcome is LapOutcome.DONE else ()
    stats = replace(result.stats, cpu_s=result.stats.cpu_s + facts.cpu_s)
    return replace(result, skipped=skipped, stats=stats, began_at=facts.began_at)


def warm_up_writing(
    batches: Iterable[pa.RecordBatch], source: Mapping[str, Any], target: Mapping[str, Any]
) -> None:
    """Connect to the clusters, and read the transformed records without writing them."""
    open_connections(source, target)
    for batch in batches:
        batch.validate()


class TransformCopier(SlotCopier):
    """Writes the records of one micro-batch.

    Args:
        task: the slot's task.
        source: connection to the source cluster, which is not used.
        target: connection to the target cluster.
        found: transformed records by partition index.
        facts: how far each partition was read.
        known: target ids of schemas; None if no ids are replaced.
    """

    def __init__(
        self,
        task: SlotTask,
        source: Wire,
        target: Wire,
        found: Mapping[int, Transformed],
        facts: ReadFacts,
        known: KnownSchemas | None = None,
    ) -> None:
        super().__init__(task, source, target)
        assert task.transform is not None
        self._transform: Transform = task.transform
        self._found = found
        self._facts = facts
        for number, reader in enumerate(self._readers):
            # A dead-letter partition without a leader holds back only what needs it.
            if number in found and found[number].failures:
                self._route_targets[reader] = reader.assignment.route.every_target
        self.skipped: tuple[SkippedRecords | UnknownSchemas, ...] = ()
        self._ids: TransformedIds | None = None
        if known is not None:
            self._ids = TransformedIds(target.loop, known, task.state_topics.pipeline)

    def _bounds(self) -> dict[SourcePartition, SourceLogBounds]:
        return dict(self._facts.bounds)

    def _check_source(self) -> None:
        """Do nothing: the stage before has read."""

    def _unread(self) -> Mapping[SourcePartition, str]:
        return self._facts.unread

    async def _copy(self) -> None:
        missing = await self._without_leader()
        routed: list[Routed] = []
        dead: list[Routed] = []
        for number, reader in enumerate(self._readers):
            if reader in missing:
                continue
            reader.restore(self._facts.states[number])
            found = self._found.get(number)
            refused = reader.assignment.refused
            if found is not None and refused is not None:
                found.cut(refused.offset)
                found.failures = [f for f in found.failures if f.offset < refused.offset]
            if found is not None:
                letters = self._handle_failures(reader, found)
                routed += await self._route(reader, found, self._facts.codecs[number])
                self._count_skipped(reader, found)
                dead += _spread_letters(reader, letters, self._facts.codecs[number])
            if reader.dirty:
                self._active.add(reader)
        for reader, target in missing.items():
            self._waiting_for_leader[reader] = 0.0
            self._stop_waiting(reader, target)
        if not self._dirty():
            return
        targets = {target for target, _, _ in (*routed, *dead)}
        for reader in self._active:
            targets |= self._state.targets(reader)
        for target, outgoing, _ in (*routed, *dead):
            self._targets_in_flight[outgoing] = target
            self._writer.offer(target, outgoing)
        await self._join(targets)
        self._count([(outgoing.count, rebuilt) for _, outgoing, rebuilt in routed])
        await self._writer.drain()  # the mapping follows from the acknowledgments
        await self._commit()

    async def _without_leader(self) -> dict[PartitionReader, TargetPartition]:
        """Return the partitions whose target has no leader, after waiting for it."""
        readers = [reader for n, reader in enumerate(self._readers) if n in self._found]
        targets = {target for reader in readers for target in self._route_targets[reader]}
        if not targets:
            return {}
        until = monotonic() + min(GONE_AFTER_S, self._task.policy.lap_s / 2)
        while True:
            await self._writer.locate(targets)
            missing = {
                reader: target
                for reader in readers
                for target in self._route_targets[reader]
                if not self._writer.has_leader(target)
            }
            if not missing or monotonic() > until:
                return missing
            await self._signal.wait(_LEADER_RETRY_S)

    def _handle_failures(self, reader: PartitionReader, found: Transformed) -> Records | None:
        """Stop the partition before the first record that failed, or return the dead letters."""
        if not found.failures or self._transform.on_error == "skip":
            return None
        first = found.failures[0]
        route = reader.assignment.route
        if self._transform.on_error == "deadLetter":
            try:
                return make_dead_letters(
                    found.failures,
                    self._transform,
                    reader.source,
                    self._task,
                    now=route.now_timestamps,
                )
            except CorruptBatch as error:
                self._stop_before(reader, found, first.offset)
                reader.corrupt(error, first.offset)
                return None
        self._stop_before(reader, found, first.offset)
        step = plan_steps(self._transform)[first.step]
        fault = partition_faults.transform_fault(reader.source, step, first.offset)
        reader.stop(fault.kind, fault.message, fault.hint, fault.offset)
        return None

    def _count_skipped(self, reader: PartitionReader, found: Transformed) -> None:
        """Count the records that failed and have no copy."""
        failures = [each for each in found.failures if each.offset < reader.handed]
        if not failures or self._transform.on_error == "fail":
            return
        dead, last = reader.assignment.route.dead_letters, failures[-1]
        topic = dead.topic if dead is not None else ""
        step = plan_steps(self._transform)[last.step]
        skipped = SkippedRecords(reader.source, len(failures), last.offset, step, topic)
        self.skipped = (*self.skipped, skipped)

    def _stop_before(self, reader: PartitionReader, found: Transformed, offset: int) -> None:
        found.cut(offset)
        # The epoch of the last record before it is not known here.
        reader.restore(replace(reader.state, handed=offset, epoch=-1, fault=None))

    async def _route(self, reader: PartitionReader, found: Transformed, codec: int) -> list[Routed]:
        task, rules = self._task, reader.assignment.route
        pipeline = task.state_topics.pipeline
        try:
            routable = await self._routable(reader, found)
            records = change_headers(
                routable.records, rules.headers, reader.source, pipeline, task.origin
            )
        except CorruptBatch as error:
            first = int(found.numbers("offset")[0])
            self._stop_before(reader, found, first)
            reader.corrupt(error, first)
            return []
        fault = routable.fault
        if fault is not None:
            self._stop_before(reader, found, fault.offset)
            reader.stop(fault.kind, fault.message, fault.hint, fault.offset)
        if routable.unknown is not None:
            self.skipped = (*self.skipped, routable.unknown)
        chosen = codec if rules.codec is None else rules.codec

        def by_key(route: Route) -> I64:
            return choose_partitions(
                routable.data, routable.key_starts, routable.key_lengths, route, reader.source
            )

        if rules.choices:
            return list(
                spread_routed(reader, records, found.topics, found.partitions, by_key, chosen)
            )
        return list(spread(reader, records, by_key(rules), chosen))

    async def _routable(self, reader: PartitionReader, found: Transformed) -> RoutableRecords:
        records = written_records(self._transform, found)
        rules = reader.assignment.route
        if rules.schemas is not None and self._ids is not None and len(records):
            return await self._ids.replace(reader, records, rules.schemas)
        if rules.partition is not None and not rules.choices:  # no key decides
            nothing = np.empty(0, dtype=np.int64)
            return RoutableRecords(
                records, nothing.astype(np.uint8), nothing, np.full(len(records), -1)
            )
        keys = found.keys
        lengths = np.array([-1 if k is None else len(k) for k in keys], dtype=np.int64)
        sizes = np.maximum(lengths, 0)
        data = np.frombuffer(b"".join(key or b"" for key in keys), dtype=np.uint8)
        return RoutableRecords(records, data, np.cumsum(sizes) - sizes, lengths)


def _spread_letters(
    reader: PartitionReader, letters: Records | None, codec: int
) -> Iterator[Routed]:
    """Route the dead letters of the records that were handed on."""
    route = reader.assignment.route
    dead = route.dead_letters
    if dead is None or letters is None:
        return
    letters = letters.take(np.nonzero(letters.offsets < reader.handed)[0])
    if not len(letters):
        return
    chosen = codec if route.codec is None else route.codec
    yield from spread_letters(reader.source, letters, dead, chosen)
