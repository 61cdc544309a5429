"""Writes a micro-batch: transformed records, their mapping and positions, in one transaction."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Mapping
from dataclasses import replace
from time import monotonic
from typing import TYPE_CHECKING

from k2ktui.kafka.wire.cluster import Signal, Wire
from k2ktui.replication.copying.batch_sender import GONE_AFTER_S, SlotFailed
from k2ktui.replication.copying.known_schemas import KnownSchemas
from k2ktui.replication.copying.lap_failures import LAP_FAILURES
from k2ktui.replication.copying.outgoing_batch import OutgoingBatch, TargetPartition
from k2ktui.replication.copying.partition_reader import PartitionReader, make_readers
from k2ktui.replication.copying.slot_task import LapOutcome, SlotResult, SlotTask
from k2ktui.replication.copying.transaction_writer import LEADER_RETRY_S, TransactionWriter
from k2ktui.replication.copying.worker import BothOptions, known_schemas, open_connections, run_lap
from k2ktui.replication.transforms.read import ReadFacts
from k2ktui.replication.transforms.router import TransformRouter
from k2ktui.replication.transforms.transformed import Transformed, collect

if TYPE_CHECKING:
    import pyarrow as pa


def write_rows(
    task: SlotTask, batches: Iterable[pa.RecordBatch], options: BothOptions
) -> SlotResult:
    """Write the transformed records of a micro-batch; the result is that of the slot's lap.

    Nothing is written before the last row has arrived, so that a failure of the SQL leaves no
    transaction open.
    """
    transformed, encoded = collect(batches)
    facts: ReadFacts = pickle.loads(encoded)  # noqa: S301 - the other task of this job wrote it
    if facts.error:
        return SlotResult(task.slot, LapOutcome.FAILED, {}, error=facts.error)
    known = known_schemas(task)
    result = run_lap(
        task,
        options,
        lambda to: MicroBatchWriter(task, to.target, transformed, facts, known).run(),
    )
    stats = replace(result.stats, cpu_s=result.stats.cpu_s + facts.cpu_s)
    return replace(result, stats=stats, began_at=facts.began_at)


def warm_up_writing(batches: Iterable[pa.RecordBatch], options: BothOptions) -> None:
    """Connect to the clusters, and read the transformed records without writing them."""
    open_connections(options)
    for batch in batches:
        batch.validate()


class MicroBatchWriter:
    """Writes the records of one micro-batch.

    Args:
        task: the slot's task.
        target: connection to the target cluster.
        transformed: transformed records by partition index.
        facts: how far each partition was read.
        known: target ids of schemas; None if no ids are replaced.
    """

    def __init__(
        self,
        task: SlotTask,
        target: Wire,
        transformed: Mapping[int, Transformed],
        facts: ReadFacts,
        known: KnownSchemas | None = None,
    ) -> None:
        self._task, self._transformed, self._facts = task, transformed, facts
        self._signal = Signal(target.loop)
        self._readers, landed = make_readers(task)
        self._router = TransformRouter(task, target, known)
        self._writer = TransactionWriter(
            task, target, self._signal, self._readers, landed, self._targets()
        )

    def _targets(self) -> dict[PartitionReader, tuple[TargetPartition, ...]]:
        """Return where records may go; a partition of dead letters only if there are any."""
        failed = {number for number, part in self._transformed.items() if part.failures}
        return {
            reader: reader.assignment.route.every_target
            if number in failed
            else reader.assignment.route.targets
            for number, reader in enumerate(self._readers)
        }

    async def run(self) -> SlotResult:
        """Write all that was transformed and commit it, up to what cannot be copied."""
        failure: Exception | None = None
        try:
            await self._write()
        except LAP_FAILURES as error:
            failure = error
        return self._writer.end_lap(
            failure,
            bounds=self._facts.bounds,
            unread=self._facts.unread,
            skipped=() if failure is not None else self._router.skipped,
        )

    async def _write(self) -> None:
        await self._await_leaders()
        for number, reader in enumerate(self._readers):
            if reader.fault is not None:  # its target has no leader
                continue
            reader.restore(self._facts.states[number])
            transformed, routed = self._transformed.get(number), list[OutgoingBatch]()
            if transformed is not None:
                routed = await self._router.route(reader, transformed, self._facts.codecs[number])
            if reader.dirty:
                self._writer.add(reader, routed)
        dirty = [reader for reader in self._readers if reader.dirty]
        if dirty:
            await self._writer.commit(dirty)

    async def _await_leaders(self) -> None:
        """Wait until the targets of all records have leaders; stop the partitions without.

        Raises:
            SlotFailed: no broker of the target says what has a leader.
        """
        waiting = [
            reader for number, reader in enumerate(self._readers) if number in self._transformed
        ]
        until = monotonic() + max(GONE_AFTER_S, self._task.policy.lap_s)
        while waiting:
            writable, stopped = await self._writer.find_writable(waiting)
            settled = {*writable, *stopped}
            waiting = [reader for reader in waiting if reader not in settled]
            if waiting and monotonic() > until:
                raise SlotFailed("the leaders of the target's partitions cannot be looked up")
            if waiting:
                await self._signal.wait(LEADER_RETRY_S)
