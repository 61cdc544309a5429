"""One lap of a slot: a task that copies the slot's source partitions as they are."""

from __future__ import annotations

from collections.abc import Mapping
from time import monotonic

from k2ktui.engine.records.state import SourcePartition
from k2ktui.kafka.wire.cluster import Signal, Wire
from k2ktui.replication.copying.batch_origins import BatchOrigins
from k2ktui.replication.copying.batch_router import BatchRouter
from k2ktui.replication.copying.kept_readings import KeptReadings
from k2ktui.replication.copying.known_schemas import KnownSchemas
from k2ktui.replication.copying.lap_failures import LAP_FAILURES
from k2ktui.replication.copying.lookups import OriginDecisions, SchemaLookups
from k2ktui.replication.copying.partition_reader import PartitionReader, make_readers
from k2ktui.replication.copying.slot_task import SlotResult, SlotTask
from k2ktui.replication.copying.source_fetcher import SourceFetcher
from k2ktui.replication.copying.transaction_writer import LEADER_RETRY_S, TransactionWriter

# A fetch is answered when the lap ends, or a little later by a busy broker.
_LAST_ANSWER_S = 0.2


class SlotCopier:
    """Copies one lap of one slot, on connections that outlive the lap."""

    def __init__(
        self,
        task: SlotTask,
        source: Wire,
        target: Wire,
        origins: BatchOrigins | None = None,
        schemas: KnownSchemas | None = None,
        readings: KeptReadings | None = None,
    ) -> None:
        self._task = task
        self._readings = readings if readings is not None and readings.wants(task) else None
        self._signal = Signal(target.loop)
        self._readers, landed = make_readers(task, origins)
        self._decisions = OriginDecisions(source, origins, self._signal)
        self._lookups = SchemaLookups(target.loop, schemas, self._signal)
        self._router = BatchRouter(
            task.state_topics.pipeline, task.origin, schemas, task.produce.request_bytes
        )
        self._fetcher = SourceFetcher(
            source,
            self._readers,
            self._signal,
            continue_on_loss=task.continue_on_loss,
            settings=task.fetch,
            before=None if readings is None else readings.take(task),
        )
        targets = {reader: reader.assignment.route.every_target for reader in self._readers}
        self._writer = TransactionWriter(task, target, self._signal, self._readers, landed, targets)
        # Only partitions with pending work; a slot may have thousands of idle ones.
        self._active: set[PartitionReader] = set()
        self._endless = any(assignment.until is None for assignment in task.assignments)

    async def run(self) -> SlotResult:
        """Copy until the lap ends, every ``until`` is reached, or something fails."""
        failure: Exception | None = None
        unread: Mapping[SourcePartition, str] = {}
        try:
            await self._copy()
            self._check_source()
            unread = self._fetcher.unread()
            self._leave_reading()
        except LAP_FAILURES as error:
            failure = error
        finally:
            self._fetcher.close()
        return self._writer.end_lap(
            failure, bounds=self._fetcher.bounds(), unread=unread, skipped=self._router.unknown
        )

    def _await_reading(self, end: float) -> float:
        """Return the seconds to wait for responses, without which the next lap begins anew."""
        now = monotonic()
        if self._readings is None or now < end or self._fetcher.is_settled:
            return 0.0
        return end + _LAST_ANSWER_S - now

    def _leave_reading(self) -> None:
        """Leave the fetch sessions to the next lap; nothing else may fail in this one."""
        if self._readings is not None:
            self._readings.keep(self._task, self._fetcher.hand_on())

    def _check_source(self) -> None:
        """Raise if no leader has answered a fetch request in this lap."""
        outage = self._fetcher.outage()
        if outage is not None:
            raise outage

    async def _copy(self) -> None:
        """Fetch, route, write and commit in turn; nothing blocks but the end of each round."""
        writer = self._writer
        end = monotonic() + self._task.policy.lap_s
        while True:
            now = monotonic()
            self._active |= self._fetcher.take_updated()
            self._fetcher.release(self._decisions.settle(self._active))
            self._fetcher.release(self._lookups.settle(self._active))
            ending = now >= end or self._all_done()
            due = self._fetcher.pump(end)
            committing = self._commit_is_due(now, ending)
            if not committing and not ending:
                await self._route()
            delay = await writer.send()
            if committing and writer.idle:
                await writer.commit([reader for reader in self._active if reader.dirty])
                self._active = {reader for reader in self._active if reader.active}
                continue
            if ending and not self._dirty() and writer.idle:
                left = self._await_reading(end)
                if left <= 0:
                    return
                await self._signal.wait(left)
                continue
            await self._signal.wait(min(due, delay, self._next_timeout(now, end)))

    async def _route(self) -> None:
        """Route what was fetched, and give it to the writer while its queues are short."""
        readers = [reader for reader in self._active if reader.can_be_routed]
        writable, stopped = await self._writer.find_writable(readers)
        for reader in stopped:
            self._fetcher.release(reader.drop_from(reader.handed))
        for reader in writable:
            held = reader.ready_bytes
            while reader.can_be_routed and self._writer.has_room(reader):
                routed = self._router.route(reader)
                if routed is None:
                    break
                self._writer.add(reader, routed)
            self._fetcher.release(held - reader.ready_bytes)

    def _all_done(self) -> bool:
        """Return whether every partition has reached its end or stopped."""
        return not self._endless and all(reader.done for reader in self._readers)

    def _next_timeout(self, now: float, end: float) -> float:
        """Return the seconds until the next step that depends only on time."""
        wait = max(0.001, end - now)
        if self._dirty():
            wait = min(wait, max(0.001, self._writer.rest_s(now)))
        return min(wait, LEADER_RETRY_S) if self._writer.waits_for_leaders else wait

    def _dirty(self) -> bool:
        return any(reader.dirty for reader in self._active)

    def _commit_is_due(self, now: float, ending: bool) -> bool:
        """Return whether the writer gets no more batches, so that the transaction can commit."""
        if not self._dirty():
            return False
        if ending or self._writer.is_due(now):
            return True
        if not self._writer.idle or self._writer.rest_s(now) > 0:
            return False
        return not any(
            reader.can_be_routed and not self._writer.waits_for_leader(reader)
            for reader in self._active
        )
