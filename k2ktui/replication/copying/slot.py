"""One lap of a slot: a task that copies the slot's source partitions.

Order within a transaction: records → acknowledgments → mapping ranges and positions →
acknowledgments → commit. A slot never bumps its own epoch and never retries a commit whose
response was lost; it ends, and the driver reads the outcome from the target.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from time import monotonic

from k2ktui.engine.pickled import UnpickledOnUse
from k2ktui.engine.state import Position, SourcePartition
from k2ktui.errors import ConnectionFailed, K2kError, LoginFailed
from k2ktui.kafka.codes import FENCED, REFUSALS, code_name
from k2ktui.kafka.transactions import add_partitions, end_transaction
from k2ktui.kafka.wire import CoordinatorError, OutcomeUnknown, Signal, Wire
from k2ktui.replication.copying import partition_faults
from k2ktui.replication.copying.batch_origins import BatchOrigins
from k2ktui.replication.copying.batch_router import BatchRouter
from k2ktui.replication.copying.failpoints import failpoint
from k2ktui.replication.copying.kept_readings import KeptReadings
from k2ktui.replication.copying.landed_spans import LandedSpans
from k2ktui.replication.copying.origin_decisions import OriginDecisions
from k2ktui.replication.copying.outgoing_batch import OutgoingBatch, TargetPartition
from k2ktui.replication.copying.partition_reader import PartitionReader
from k2ktui.replication.copying.refusals import JoinRefused, batch_faults, join_faults
from k2ktui.replication.copying.schema_lookups import KnownSchemas, SchemaLookups
from k2ktui.replication.copying.size_limits import split_refused
from k2ktui.replication.copying.source_fetcher import SourceFetcher
from k2ktui.replication.copying.state_records import StateRecords
from k2ktui.replication.copying.writer import (
    GONE_AFTER_S,
    UNAVAILABLE_AFTER_S,
    BatchRefused,
    Fenced,
    PartitionsUnavailable,
    SlotFailed,
    Writer,
)
from k2ktui.replication.fencing_errors import coordinator_refused
from k2ktui.replication.slot_task import (
    Fault,
    LapOutcome,
    SlotResult,
    SlotStats,
    SlotTask,
    SourceLogBounds,
)
from k2ktui.text import safe_text

_QUEUE_LIMIT = 3
_FIRST_TRANSACTION_S = 0.05
_LEADER_RETRY_S = 0.2
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
        self._target = target
        self._signal = Signal(target.loop)
        positions = [each.position for each in task.assignments]
        self._landed = LandedSpans(positions, transactional=task.transactional)
        self._readers = [PartitionReader(each, origins, self._landed) for each in task.assignments]
        self._decisions = OriginDecisions(source, origins, self._signal)
        self._lookups = SchemaLookups(target.loop, schemas, self._signal)
        self._router = BatchRouter(task, schemas)
        self._fetcher = SourceFetcher(
            source,
            self._readers,
            self._signal,
            continue_on_loss=task.continue_on_loss,
            settings=task.fetch,
            before=None if readings is None else readings.take(task),
        )
        self._writer = Writer(
            target,
            task.producer,
            self._signal,
            self._record_acknowledgment,
            task.produce,
            self._split_refused,
        )
        self._writer.topic_ids = {
            name: id_ for at in positions for name, id_ in at.target_topics.items() if id_
        }
        self._writer.ends = self._landed.ends
        self._targets_in_flight: dict[OutgoingBatch, TargetPartition] = {}
        self._in_transaction: set[TargetPartition] = set()
        self._began = 0.0
        self._last_commit = 0.0
        self._batches = 0
        self._stats = SlotStats()
        self._first_commit_at = 0.0
        # Only partitions with pending work; a slot may have thousands of idle ones.
        self._active: set[PartitionReader] = set()
        self._state = StateRecords(task)
        routes = {reader: reader.assignment.route for reader in self._readers}
        self._route_targets = {
            # A transform's dead letters are known before its records are routed.
            reader: route.targets if route.transform is not None else route.every_target
            for reader, route in routes.items()
        }
        self._with_leader: set[PartitionReader] = set()
        self._waiting_for_leader: dict[PartitionReader, float] = {}
        self._endless = any(assignment.until is None for assignment in task.assignments)

    async def run(self) -> SlotResult:
        """Copy until the lap ends, every ``until`` is reached, or something fails."""
        cpu, began_at = time.process_time(), time.time()
        outcome, error, faults = LapOutcome.DONE, "", []
        unread: Mapping[SourcePartition, str] = {}
        try:
            await self._copy()
            self._check_source()
            unread = self._unread()
            self._leave_reading()
        except Fenced as fenced:
            outcome, error = LapOutcome.FENCED, str(fenced)
        except CoordinatorError as refused:
            outcome = LapOutcome.FENCED if refused.code in FENCED else LapOutcome.FAILED
            error = str(refused)
            if refused.code in REFUSALS:
                faults += self._refused(refused)
            elif outcome is LapOutcome.FAILED and (outage := self._target.outage()) is not None:
                error = f"{error}; {outage.message}"
                faults += self._slot_faults(outage) if isinstance(outage, LoginFailed) else []
        except PartitionsUnavailable as failed:
            outcome, error = LapOutcome.FAILED, str(failed)
            faults += partition_faults.unavailable_faults(
                failed, self._readers, self._targets_in_flight, self._state
            )
        except LoginFailed as refused:
            outcome, error = LapOutcome.FAILED, refused.message
            faults += self._slot_faults(refused)
        except (SlotFailed, OutcomeUnknown, ConnectionFailed) as failed:
            outcome, error = LapOutcome.FAILED, str(failed)
            if isinstance(failed, SlotFailed) and failed.code in REFUSALS:
                faults += self._refused(CoordinatorError(failed.code, "Produce"))
        except BatchRefused as refused:
            where = self._targets_in_flight[refused.outgoing]
            outcome, name = LapOutcome.FAILED, f"{safe_text(where[0])}-{where[1]}"
            error = f"{name} on the target rejected a batch: {code_name(refused.code)}"
            faults += batch_faults(refused, where, self._readers, self._state)
        except JoinRefused as refused:
            outcome, error = LapOutcome.FAILED, str(refused)
            faults += join_faults(refused, self._targets_in_flight, self._readers, self._state)
        finally:
            self._fetcher.close()
            self._decisions.close()
            self._lookups.close()
        faults += [reader.fault for reader in self._readers if reader.fault is not None]
        failpoint("lap-over")
        return SlotResult(
            slot=self._task.slot,
            outcome=outcome,
            positions=self._positions() if outcome is LapOutcome.DONE else {},
            faults=tuple(faults),
            stats=replace(
                self._stats,
                cpu_s=time.process_time() - cpu,
                written_bytes=self._writer.sent_bytes,
            ),
            error=error,
            began_at=began_at,
            ended_at=time.time(),
            first_commit_at=self._first_commit_at,
            log_bounds=UnpickledOnUse(self._bounds()),
            skipped=self._router.unknown,
            unread=unread,
            size_limits={
                reader.source: reader.size_limit
                for reader in self._readers
                if reader.size_limit is not None
                and reader.size_limit != reader.assignment.size_limit
            },
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

    def _unread(self) -> Mapping[SourcePartition, str]:
        """Return why partitions were not read."""
        return self._fetcher.unread()

    def _refused(self, error: CoordinatorError) -> list[Fault]:
        group = self._task.state_topics.group
        return self._slot_faults(coordinator_refused(error, group))

    def _slot_faults(self, error: K2kError) -> list[Fault]:
        """Return the faults of all partitions of the lap after a refusal that concerns them all."""
        positions = {each.source: each.position for each in self._task.assignments}
        return partition_faults.slot_faults(positions, error, positions)

    def _bounds(self) -> dict[SourcePartition, SourceLogBounds]:
        """Return the bounds of the source logs that were read."""
        return self._fetcher.bounds()

    async def _copy(self) -> None:
        started = monotonic()
        end = started + self._task.policy.lap_s
        self._last_commit = started
        while True:
            now = monotonic()
            self._active |= self._fetcher.take_updated()
            self._fetcher.release(self._decisions.settle(self._active))
            self._fetcher.release(self._lookups.settle(self._active))
            ending = now >= end or self._all_done()
            due = self._fetcher.pump(end)
            committing = self._commit_is_due(now, ending)
            if not committing and not ending:
                await self._dispatch()
            delay = await self._writer.pump()
            if committing and self._writer.idle:
                await self._commit()
                continue
            if ending and not self._dirty() and self._writer.idle:
                left = self._await_reading(end)
                if left <= 0:
                    return
                await self._signal.wait(left)
                continue
            await self._signal.wait(min(due, delay, self._next_timeout(now, end)))

    def _all_done(self) -> bool:
        """Return whether every partition has reached its end or stopped."""
        return not self._endless and all(reader.done for reader in self._readers)

    def _next_timeout(self, now: float, end: float) -> float:
        """Return the seconds until the next step that depends only on time."""
        wait = max(0.001, end - now)
        if self._dirty():
            wait = min(wait, max(0.001, self._last_commit + self._idle_commit() - now))
        return min(wait, _LEADER_RETRY_S) if self._waiting_for_leader else wait

    def _idle_commit(self) -> float:
        """Return the minimum seconds between commits, which cost work per active partition."""
        return min(0.1, self._task.policy.idle_commit_s + 0.0005 * len(self._in_transaction))

    def _dirty(self) -> bool:
        return any(reader.dirty for reader in self._active)

    def _commit_is_due(self, now: float, ending: bool) -> bool:
        """Return whether the writer gets no more batches, so that the transaction can commit."""
        if not self._dirty():
            return False
        policy = self._task.policy
        if ending or self._batches >= policy.batch_size:
            return True
        # The first transaction is short, so that operators see progress soon after a start.
        longest = policy.batch_timeout_s if self._stats.transactions else _FIRST_TRANSACTION_S
        if self._in_transaction and now - self._began >= min(longest, policy.batch_timeout_s):
            return True
        ready = any(
            reader.can_be_routed and reader not in self._waiting_for_leader
            for reader in self._active
        )
        caught_up = self._writer.idle and not ready
        return caught_up and now - self._last_commit >= self._idle_commit()

    async def _dispatch(self) -> None:
        """Hand fetched batches to the writer while its queues are short."""
        new: set[TargetPartition] = set()
        handed: list[tuple[int, bool]] = []
        for reader in await self._select_dispatchable():
            targets = self._route_targets[reader]
            while reader.can_be_routed and self._batches < self._task.policy.batch_size:
                if any(self._writer.backlog(target) >= _QUEUE_LIMIT for target in targets):
                    break
                held = reader.ready_bytes
                routed = self._router.route(reader)
                self._fetcher.release(held - reader.ready_bytes)
                if routed is None:
                    break
                self._batches += 1
                new |= self._state.targets(reader) - self._in_transaction
                for target, outgoing, rebuilt in routed:
                    if target not in self._in_transaction:
                        new.add(target)
                    self._targets_in_flight[outgoing] = target
                    self._writer.offer(target, outgoing)
                    if outgoing.reader is reader:
                        handed.append((outgoing.count, rebuilt))
        self._count(handed)
        if new:
            await self._join(new)

    async def _select_dispatchable(self) -> list[PartitionReader]:
        """Return the partitions with batches to write, without those whose target has no leader.

        A transaction cannot complete until each of its partitions has its marker, so a partition
        without a leader must not join.
        """
        readers = [reader for reader in self._active if reader.can_be_routed]
        writer, targets = self._writer, self._route_targets
        new = [reader for reader in readers if reader not in self._with_leader]
        if not new and not writer.leaderless:
            self._waiting_for_leader.clear()
            return readers
        await writer.locate({t for reader in new for t in targets[reader]} | writer.leaderless)
        now, longest = monotonic(), min(GONE_AFTER_S, self._task.policy.lap_s / 2)
        found = []
        for reader in readers:
            missing = [target for target in targets[reader] if not writer.has_leader(target)]
            if not missing:
                self._waiting_for_leader.pop(reader, None)
                self._with_leader.add(reader)
                found.append(reader)
            elif (
                now - self._waiting_for_leader.setdefault(reader, now) > longest
                and writer.has_recent_metadata
            ):
                self._stop_waiting(reader, missing[0])
        return found

    def _stop_waiting(self, reader: PartitionReader, target: TargetPartition) -> None:
        del self._waiting_for_leader[reader]
        if self._writer.exists(target):
            reason = "it has no leader"
            fault = partition_faults.unavailable_fault(reader.source, target, reason, reader.handed)
        else:
            fault = partition_faults.target_missing_fault(reader.source, target, reader.handed)
        reader.stop(fault.kind, fault.message, fault.hint, fault.offset)
        self._fetcher.release(reader.drop_from(reader.handed))

    def _count(self, handed: list[tuple[int, bool]]) -> None:
        stats = self._stats
        self._stats = replace(
            stats,
            records=stats.records + sum(count for count, _ in handed),
            batches=stats.batches + len(handed),
            rebuilt=stats.rebuilt + sum(rebuilt for _, rebuilt in handed),
        )

    async def _join(self, targets: set[TargetPartition]) -> None:
        """Add target partitions to the transaction, which begins with the first of them."""
        if not self._in_transaction:
            self._began = monotonic()
        if self._task.transactional:
            refused = await add_partitions(
                self._target, self._task.producer, targets, UNAVAILABLE_AFTER_S
            )
            if refused:
                raise JoinRefused(refused)
        self._in_transaction |= targets
        failpoint("joined")

    def _record_acknowledgment(self, outgoing: OutgoingBatch, base: int) -> None:
        target = self._targets_in_flight.pop(outgoing)
        if outgoing.reader is not None:
            outgoing.reader.acknowledge(outgoing, target, base)

    def _split_refused(
        self, outgoing: OutgoingBatch, target: TargetPartition
    ) -> list[OutgoingBatch]:
        """Return the parts of a batch that was too large, and keep the limit of later ones."""
        owner = outgoing.reader
        reader = owner if isinstance(owner, PartitionReader) else None
        known = self._state.size_limits.get(target) if reader is None else reader.size_limit
        parts, limit = split_refused(outgoing, known)
        if reader is not None:
            reader.size_limit = limit
        elif owner is None:
            self._state.size_limits[target] = limit
        del self._targets_in_flight[outgoing]
        self._targets_in_flight.update(dict.fromkeys(parts, target))
        return parts

    async def _commit(self) -> None:
        """Write mapping ranges and positions after the records, and commit."""
        failpoint("before-state")
        began = monotonic()
        dirty = sorted(
            (reader for reader in self._active if reader.dirty), key=lambda reader: reader.source
        )
        handed = [reader.handed for reader in dirty]
        state = self._state.build(dirty)
        await self._join({target for target, _ in state} - self._in_transaction)
        for target, outgoing in state:
            self._targets_in_flight[outgoing] = target
            self._writer.offer(target, outgoing)
        await self._writer.drain()
        failpoint("before-commit")
        if self._task.transactional:
            await end_transaction(self._target, self._task.producer, commit=True)
        failpoint("after-commit")
        for reader, offset in zip(dirty, handed, strict=True):
            reader.mark_committed(offset)
        self._landed.mark_committed()
        self._active = {reader for reader in self._active if reader.active}
        self._in_transaction.clear()
        self._batches = 0
        now = monotonic()
        self._last_commit = now
        self._first_commit_at = self._first_commit_at or time.time()
        self._stats = replace(
            self._stats,
            transactions=self._stats.transactions + 1,
            commit_s=self._stats.commit_s + now - began,
        )

    def _positions(self) -> dict[SourcePartition, Position]:
        term, slot = self._task.state_topics.term, self._task.slot
        return {
            reader.source: found
            for reader in self._readers
            if (found := reader.committed_position(term, slot)) is not None
        }
