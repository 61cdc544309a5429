"""Writes what a lap copies, one transaction after another, with its mapping and its positions.

Order within a transaction: records → acknowledgments → mapping ranges and positions →
acknowledgments → commit. A slot never bumps its own epoch and never retries a commit whose response
was lost; its lap ends, and the driver reads the outcome from the target.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from time import monotonic

from k2ktui.engine.pickled import UnpickledOnUse
from k2ktui.engine.records.state import Position, SourcePartition
from k2ktui.kafka.wire.cluster import Signal, Wire
from k2ktui.kafka.wire.transactions import add_partitions, end_transaction
from k2ktui.replication.copying import partition_faults
from k2ktui.replication.copying.batch_sender import GONE_AFTER_S, UNAVAILABLE_AFTER_S, BatchSender
from k2ktui.replication.copying.failpoints import failpoint
from k2ktui.replication.copying.landed_spans import LandedSpans
from k2ktui.replication.copying.lap_failures import FailedLap, JoinRefused
from k2ktui.replication.copying.outgoing_batch import OutgoingBatch, TargetPartition
from k2ktui.replication.copying.partition_reader import PartitionReader
from k2ktui.replication.copying.size_limits import split_refused
from k2ktui.replication.copying.slot_task import (
    LapOutcome,
    SkippedRecords,
    SlotResult,
    SlotStats,
    SlotTask,
    SourceLogBounds,
    UnknownSchemas,
)
from k2ktui.replication.copying.state_records import StateRecords

log = logging.getLogger(__name__)

LEADER_RETRY_S = 0.2
_QUEUE_LIMIT = 3
_FIRST_TRANSACTION_S = 0.05
_LOGGED_PARTITIONS = 20


class TransactionWriter:
    """Writes, acknowledges, maps and commits the records of one lap of a slot.

    What ``add`` was given is sent by ``send``, which adds its target partitions to the transaction
    before. Without a transactional id the steps are the same, and nothing is added or committed.

    Args:
        task: the slot's task.
        target: connection to the target cluster.
        signal: set after every response or failure.
        readers: the partitions of the lap.
        landed: what they have written to their target partitions.
        targets: where the records of each partition may go; its transaction needs a leader of each.
    """

    def __init__(
        self,
        task: SlotTask,
        target: Wire,
        signal: Signal,
        readers: Sequence[PartitionReader],
        landed: LandedSpans,
        targets: Mapping[PartitionReader, Sequence[TargetPartition]],
    ) -> None:
        self._task, self._target, self._readers = task, target, readers
        self._landed, self._targets = landed, targets
        topic_ids = {
            name: id_
            for assignment in task.assignments
            for name, id_ in assignment.position.target_topics.items()
            if id_
        }
        self._sender = BatchSender(
            target,
            task.producer,
            signal,
            task.produce,
            self._split,
            topic_ids,
            landed.ends,
        )
        self._state = StateRecords(task)
        self._in_transaction: set[TargetPartition] = set()
        self._to_join: set[TargetPartition] = set()
        self._routed = 0  # what the open transaction has got
        self._with_leader: set[PartitionReader] = set()
        self._waiting_for_leader: dict[PartitionReader, float] = {}
        self._records = self._batches = self._rebuilt = 0  # with those of the open transaction
        self._committed = SlotStats()
        self._cpu_s, self._began_at = time.process_time(), time.time()
        self._first_commit_at = 0.0
        self._transaction_began, self._last_commit = 0.0, monotonic()

    @property
    def idle(self) -> bool:
        """Whether the target has acknowledged everything that was added."""
        return self._sender.idle

    @property
    def waits_for_leaders(self) -> bool:
        """Whether partitions are held back until their target has a leader."""
        return bool(self._waiting_for_leader)

    def waits_for_leader(self, reader: PartitionReader) -> bool:
        """Return whether a partition is held back until its target has a leader."""
        return reader in self._waiting_for_leader

    async def find_writable(
        self, readers: Sequence[PartitionReader]
    ) -> tuple[list[PartitionReader], list[PartitionReader]]:
        """Return the partitions whose targets have leaders, and those that stop for lack of one.

        The others wait. A transaction cannot complete until each of its partitions has its marker,
        so a partition without a leader must not join.
        """
        sender, targets = self._sender, self._targets
        new = [reader for reader in readers if reader not in self._with_leader]
        if not new and not sender.leaderless:
            self._waiting_for_leader.clear()
            return list(readers), []
        await sender.locate({t for reader in new for t in targets[reader]} | sender.leaderless)
        now, longest = monotonic(), min(GONE_AFTER_S, self._task.policy.lap_s / 2)
        writable, stopped = [], []
        for reader in readers:
            missing = [target for target in targets[reader] if not sender.has_leader(target)]
            if not missing:
                self._waiting_for_leader.pop(reader, None)
                self._with_leader.add(reader)
                writable.append(reader)
            elif (
                now - self._waiting_for_leader.setdefault(reader, now) > longest
                and sender.has_recent_metadata
            ):
                del self._waiting_for_leader[reader]
                self._stop(reader, missing[0])
                stopped.append(reader)
        return writable, stopped

    def _stop(self, reader: PartitionReader, target: TargetPartition) -> None:
        source, offset = reader.source, reader.handed
        if self._sender.exists(target):
            reader.stop(
                partition_faults.UNAVAILABLE.at(
                    source, offset, target=target, reason="it has no leader"
                )
            )
        else:
            reader.stop(partition_faults.TARGET_MISSING.at(source, offset, target=target))

    def has_room(self, reader: PartitionReader) -> bool:
        """Return whether more of a partition may be added: the transaction and queues are short."""
        if self._routed >= self._task.policy.batch_size:
            return False
        return self._sender.backlog(self._targets[reader]) < _QUEUE_LIMIT

    def add(self, reader: PartitionReader, routed: Iterable[OutgoingBatch]) -> None:
        """Queue what was routed together of a partition; all of it is in the same transaction."""
        self._routed += 1
        # What commits it joins with it: one request less.
        self._to_join |= self._state.targets(reader)
        for outgoing in routed:
            self._to_join.add(outgoing.target)
            self._sender.offer(outgoing)
            if outgoing.owner is reader:  # a dead letter is no copy
                self._records += outgoing.count
                self._batches += 1
                self._rebuilt += outgoing.rebuilt

    async def send(self) -> float:
        """Send what may be sent of what was added, after its target partitions have joined.

        Returns:
            Seconds until more may be sent if no response arrives before.

        Raises:
            JoinRefused: the coordinator refuses a target partition.
            Fenced, SlotFailed, BatchRefused, PartitionsUnavailable: as ``BatchSender.pump``.
        """
        if self._to_join:
            await self._join()
        return await self._sender.pump()

    async def _join(self) -> None:
        """Add target partitions to the transaction, which begins with the first of them."""
        new, self._to_join = self._to_join - self._in_transaction, set()
        if not new:
            return
        if not self._in_transaction:
            self._transaction_began = monotonic()
            log.debug("slot %d: transaction begun", self._task.slot)
        if self._task.transactional:
            refused = await add_partitions(
                self._target, self._task.producer, new, UNAVAILABLE_AFTER_S
            )
            if refused:
                raise JoinRefused(refused)
        self._in_transaction |= new
        failpoint("joined")

    def _split(self, outgoing: OutgoingBatch) -> list[OutgoingBatch]:
        """Return the parts of a batch that was too large, and keep the limit of later ones."""
        owner, limits = outgoing.owner, self._state.size_limits
        if isinstance(owner, PartitionReader):
            parts, owner.size_limit = split_refused(outgoing, owner.size_limit)
            return parts
        parts, limit = split_refused(outgoing, limits.get(outgoing.target))
        if owner is None:
            limits[outgoing.target] = limit
        return parts

    def is_due(self, now: float) -> bool:
        """Return whether the transaction is large or old enough to commit."""
        policy = self._task.policy
        if self._routed >= policy.batch_size:
            return True
        # The first transaction is short, so that operators see progress soon after a start.
        longest = policy.batch_timeout_s if self._committed.transactions else _FIRST_TRANSACTION_S
        age = now - self._transaction_began
        return bool(self._in_transaction) and age >= min(longest, policy.batch_timeout_s)

    def rest_s(self, now: float) -> float:
        """Return the seconds until a commit is due if nothing more is to be added.

        Commits cost work for each active partition, so they have a minimum distance.
        """
        least = min(0.1, self._task.policy.idle_commit_s + 0.0005 * len(self._in_transaction))
        return self._last_commit + least - now

    async def commit(self, dirty: Collection[PartitionReader]) -> None:
        """Wait for acknowledgments, write mapping ranges and positions after them, and commit.

        I1: each committed source record is on the target once, in source order per partition. The
        position is in the transaction of the records that it covers, and its producer's epoch was
        raised by ``Ownership``: without the one a crash repeats records, without the other
        a second run does.

        Args:
            dirty: the partitions that have something to commit.

        Raises:
            OutcomeUnknown: no one may commit it again; the position on the target says what became
                of it.
            CoordinatorError, JoinRefused, Fenced, SlotFailed, BatchRefused: as ``send``.
        """
        await self._drain()
        failpoint("before-state")
        began = monotonic()
        readers = sorted(dirty, key=lambda reader: reader.source)
        handed = [reader.handed for reader in readers]
        for outgoing in self._state.build(readers):
            self._to_join.add(outgoing.target)
            self._sender.offer(outgoing)
        await self._drain()
        failpoint("before-commit")
        if self._task.transactional:
            await end_transaction(self._target, self._task.producer, commit=True)
        failpoint("after-commit")
        if log.isEnabledFor(logging.DEBUG):
            offsets = _describe_offsets(readers)
            log.debug("slot %d: transaction committed: %s", self._task.slot, offsets)
        for reader, offset in zip(readers, handed, strict=True):
            reader.mark_committed(offset)
        self._landed.mark_committed()
        self._in_transaction.clear()
        self._routed = 0
        self._last_commit = now = monotonic()
        self._first_commit_at = self._first_commit_at or time.time()
        self._committed = SlotStats(
            records=self._records,
            batches=self._batches,
            rebuilt=self._rebuilt,
            written_bytes=self._sender.acknowledged_bytes,
            transactions=self._committed.transactions + 1,
            commit_s=self._committed.commit_s + now - began,
        )

    async def _drain(self) -> None:
        """Send everything that was added, and wait for the acknowledgments; raises as ``send``."""
        await self._join()
        await self._sender.drain()

    def end_lap(
        self,
        failure: Exception | None,
        *,
        bounds: Mapping[SourcePartition, SourceLogBounds],
        unread: Mapping[SourcePartition, str],
        skipped: Iterable[SkippedRecords | UnknownSchemas],
    ) -> SlotResult:
        """Return the result of the lap; after a failure nobody commits the open transaction.

        Args:
            failure: one of ``LAP_FAILURES``; None if the lap has ended as it should.
            bounds: of the source logs.
            unread: why partitions were not read.
            skipped: records that were not copied as they are.
        """
        task, outcome, error = self._task, LapOutcome.DONE, ""
        faults = [reader.fault for reader in self._readers if reader.fault is not None]
        if failure is not None:
            waiting = list(self._sender.unacknowledged)
            lap = FailedLap(task, self._readers, self._state, waiting)
            outcome, error, of_failure = lap.explain(failure, self._target)
            faults = [*of_failure, *faults]
            # The driver's next epoch aborts it.
            log.info(
                "slot %d: lap %s: %s; open transaction in %d partitions, of offsets %s",
                task.slot,
                outcome,
                error,
                len(self._in_transaction),
                _describe_offsets([reader for reader in self._readers if reader.active]),
            )
        failpoint("lap-over")
        done = outcome is LapOutcome.DONE
        request_bytes = self._sender.request_bytes
        return SlotResult(
            slot=task.slot,
            outcome=outcome,
            positions=self._positions() if done else {},
            faults=tuple(faults),
            stats=replace(self._committed, cpu_s=time.process_time() - self._cpu_s),
            error=error,
            began_at=self._began_at,
            ended_at=time.time(),
            first_commit_at=self._first_commit_at,
            log_bounds=UnpickledOnUse(bounds),
            skipped=tuple(skipped),
            unread=unread if done else {},
            size_limits={
                reader.source: reader.size_limit
                for reader in self._readers
                if reader.size_limit is not None
                and reader.size_limit != reader.assignment.size_limit
            },
            request_bytes=request_bytes if request_bytes < task.produce.request_bytes else 0,
        )

    def _positions(self) -> dict[SourcePartition, Position]:
        term, slot = self._task.state_topics.term, self._task.slot
        return {
            reader.source: position
            for reader in self._readers
            if (position := reader.committed_position(term, slot)) is not None
        }


def _describe_offsets(readers: Collection[PartitionReader]) -> str:
    """Return how far partitions are, for the log: from the committed offset to the next one."""
    named = [f"{r.source} {r.committed}..{r.handed}" for r in islice(readers, _LOGGED_PARTITIONS)]
    more = len(readers) - len(named)
    return ", ".join(named) + (f" and {more} more" if more else "")
