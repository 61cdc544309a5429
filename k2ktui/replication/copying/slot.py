"""One lap of a slot: a task that copies the slot's source partitions.

Order within a transaction: records → acknowledgments → mapping ranges and positions →
acknowledgments → commit. A slot never bumps its own epoch and never retries a commit whose
response was lost; it ends, and the driver reads the outcome from the target.
"""

from __future__ import annotations

import time
from collections import defaultdict
from dataclasses import replace
from time import monotonic

from k2ktui.engine.state import (
    Position,
    SourcePartition,
    mapping_key,
    mapping_value,
    position_key,
    position_value,
)
from k2ktui.kafka.codes import FENCED, code_name
from k2ktui.kafka.transactions import add_partitions, end_transaction
from k2ktui.kafka.wire import CoordinatorError, OutcomeUnknown, Signal, Wire
from k2ktui.log.batch import CorruptBatch
from k2ktui.log.rebuild import build_batches
from k2ktui.log.records import make_records
from k2ktui.replication.copying import partition_faults
from k2ktui.replication.copying.batch_routing import route_next
from k2ktui.replication.copying.failpoints import failpoint
from k2ktui.replication.copying.outgoing_batch import OutgoingBatch, TargetPartition
from k2ktui.replication.copying.partition_reader import PartitionReader, now_ms
from k2ktui.replication.copying.source_fetcher import SourceFetcher
from k2ktui.replication.copying.writer import (
    GONE_AFTER_S,
    UNAVAILABLE_AFTER_S,
    BatchRefused,
    Fenced,
    PartitionsUnavailable,
    SlotFailed,
    Writer,
)
from k2ktui.replication.slot_task import Fault, LapOutcome, SlotResult, SlotStats, SlotTask

_LANE_BACKLOG = 3
_STATE_LIMIT = 512 << 10
_FIRST_TRANSACTION_S = 0.2
_HELD_S = 0.2

_StateRecord = tuple[int, int, bytes | None, bytes | None]


class SlotCopier:
    """Copies one lap of one slot, on connections that outlive the lap."""

    def __init__(self, token: SlotTask, source: Wire, target: Wire) -> None:
        self._token = token
        self._target = target
        self._signal = Signal(target.loop)
        self._feeds = [PartitionReader(assignment) for assignment in token.assignments]
        self._reader = SourceFetcher(
            source, self._feeds, self._signal, continue_on_loss=token.continue_on_loss
        )
        self._writer = Writer(target, token.producer, self._signal, self._record_acknowledgment)
        self._where: dict[OutgoingBatch, TargetPartition] = {}
        self._in_transaction: set[TargetPartition] = set()
        self._began = 0.0
        self._last_commit = 0.0
        self._batches = 0
        self._tally = SlotStats()
        self._first_commit_at = 0.0
        # Only partitions with pending work; a slot may have thousands of idle ones.
        self._active: set[PartitionReader] = set()
        self._homes: dict[PartitionReader, set[TargetPartition]] = {}
        self._lanes = {feed: feed.assignment.route.targets for feed in self._feeds}
        self._located: set[PartitionReader] = set()
        self._held: dict[PartitionReader, float] = {}
        self._endless = any(assignment.until is None for assignment in token.assignments)

    async def run(self) -> SlotResult:
        """Copy until the lap ends, every ``until`` is reached, or something fails."""
        cpu, began_at = time.process_time(), time.time()
        outcome, error, faults = LapOutcome.DONE, "", []
        try:
            await self._copy()
        except Fenced as fenced:
            outcome, error = LapOutcome.FENCED, str(fenced)
        except CoordinatorError as refused:
            outcome = LapOutcome.FENCED if refused.code in FENCED else LapOutcome.FAILED
            error = str(refused)
        except PartitionsUnavailable as failed:
            outcome, error = LapOutcome.FAILED, str(failed)
            faults += self._unavailable(failed)
        except (SlotFailed, OutcomeUnknown) as failed:
            outcome, error = LapOutcome.FAILED, str(failed)
        except BatchRefused as refused:
            outcome, error = (
                LapOutcome.FAILED,
                (f"the target rejected a batch: {code_name(refused.code)}"),
            )
            if refused.outgoing.feed is not None:
                source, where = refused.outgoing.feed.source, self._where[refused.outgoing]
                faults.append(partition_faults.refused(refused, source, where))
        finally:
            self._reader.close()
        faults += [feed.fault for feed in self._feeds if feed.fault is not None]
        failpoint("lap-over")
        return SlotResult(
            slot=self._token.slot,
            outcome=outcome,
            positions=self._positions() if outcome is LapOutcome.DONE else {},
            faults=tuple(faults),
            tally=replace(
                self._tally,
                cpu_s=time.process_time() - cpu,
                written_bytes=self._writer.sent_bytes,
            ),
            error=error,
            began_at=began_at,
            ended_at=time.time(),
            first_commit_at=self._first_commit_at,
            seen=self._reader.bounds(),
        )

    def _unavailable(self, failed: PartitionsUnavailable) -> list[Fault]:
        """Return the faults of all partitions that wait for an unavailable target partition."""
        waiting = {
            (outgoing.feed.source, where)
            for outgoing, where in self._where.items()
            if outgoing.feed is not None
        }
        return [
            partition_faults.unavailable(
                feed.source, target, failed.found[target], feed.assignment.position.offset
            )
            for feed in self._feeds
            for target in self._lanes[feed]
            if target in failed.found
            and (feed.assignment.route.partition is not None or (feed.source, target) in waiting)
        ]

    async def _copy(self) -> None:
        started = monotonic()
        end = started + self._token.pace.lap_s
        self._last_commit = started
        while True:
            now = monotonic()
            self._active |= self._reader.touched()
            ending = now >= end or self._all_done()
            due = self._reader.pump(end)
            cutting = self._cutting(now, ending)
            if not cutting and not ending:
                await self._hand_on()
            delay = await self._writer.pump()
            if cutting and self._writer.idle:
                await self._commit()
                continue
            if ending and not self._dirty() and self._writer.idle:
                return
            await self._signal.wait(min(due, delay, self._patience(now, end)))

    def _all_done(self) -> bool:
        """Return whether every partition has reached its end or stopped."""
        return not self._endless and all(feed.done for feed in self._feeds)

    def _patience(self, now: float, end: float) -> float:
        """Return the seconds until the next step that depends only on time."""
        wait = max(0.001, end - now)
        if self._dirty():
            wait = min(wait, max(0.001, self._last_commit + self._idle_commit() - now))
        return min(wait, _HELD_S) if self._held else wait

    def _idle_commit(self) -> float:
        """Return the minimum seconds between commits, which cost work per active partition."""
        return min(0.1, self._token.pace.idle_commit_s + 0.0005 * len(self._in_transaction))

    def _dirty(self) -> bool:
        return any(feed.dirty for feed in self._active)

    def _cutting(self, now: float, ending: bool) -> bool:
        """Return whether to stop handing on batches, so that the transaction can commit."""
        if not self._dirty():
            return False
        pace = self._token.pace
        if ending or self._batches >= pace.batch_size:
            return True
        # The first transaction is short, so that operators see progress soon after a start.
        longest = pace.batch_timeout_s if self._tally.transactions else _FIRST_TRANSACTION_S
        if self._in_transaction and now - self._began >= min(longest, pace.batch_timeout_s):
            return True
        ready = any(feed.ready and feed not in self._held for feed in self._active)
        caught_up = self._writer.idle and not ready
        return caught_up and now - self._last_commit >= self._idle_commit()

    async def _hand_on(self) -> None:
        """Hand fetched batches to the writer as long as its queues are short."""
        new: set[TargetPartition] = set()
        handed: list[tuple[int, bool]] = []
        for feed in await self._with_leaders():
            lanes = self._lanes[feed]
            while feed.ready and self._batches < self._token.pace.batch_size:
                if any(self._writer.backlog(target) >= _LANE_BACKLOG for target in lanes):
                    break
                held = feed.ready_bytes
                try:
                    routed = list(route_next(feed, self._token.ledger.pipeline))
                except CorruptBatch as error:
                    feed.corrupt(error, feed.handed)
                    self._reader.handed_on(feed.drop_from(feed.handed))
                    break
                self._reader.handed_on(held - feed.ready_bytes)
                self._batches += 1
                new |= self._state_targets(feed) - self._in_transaction
                for target, outgoing, rebuilt in routed:
                    if target not in self._in_transaction:
                        new.add(target)
                    self._where[outgoing] = target
                    self._writer.offer(target, outgoing)
                    handed.append((outgoing.count, rebuilt))
        self._count(handed)
        if new:
            await self._join(new)

    async def _with_leaders(self) -> list[PartitionReader]:
        """Return the partitions to hand on; hold back those whose target has no leader.

        A transaction cannot complete until each of its partitions has its marker, so a partition
        without a leader must not join.
        """
        feeds = [feed for feed in self._active if feed.ready]
        writer, lanes = self._writer, self._lanes
        new = [feed for feed in feeds if feed not in self._located]
        if not new and not writer.leaderless:
            self._held.clear()
            return feeds
        await writer.locate({t for feed in new for t in lanes[feed]} | writer.leaderless)
        now, longest = monotonic(), min(GONE_AFTER_S, self._token.pace.lap_s / 2)
        found = []
        for feed in feeds:
            missing = [target for target in lanes[feed] if not writer.has_leader(target)]
            if not missing:
                self._held.pop(feed, None)
                self._located.add(feed)
                found.append(feed)
            elif now - self._held.setdefault(feed, now) > longest and writer.located:
                self._stop_held(feed, missing[0])
        return found

    def _stop_held(self, feed: PartitionReader, target: TargetPartition) -> None:
        del self._held[feed]
        if self._writer.exists(target):
            reason = "it has no leader"
            fault = partition_faults.unavailable(feed.source, target, reason, feed.handed)
        else:
            fault = partition_faults.target_missing(feed.source, target, feed.handed)
        feed.stop(fault.kind, fault.message, fault.hint, fault.offset)
        self._reader.handed_on(feed.drop_from(feed.handed))

    def _count(self, handed: list[tuple[int, bool]]) -> None:
        tally = self._tally
        self._tally = replace(
            tally,
            records=tally.records + sum(count for count, _ in handed),
            batches=tally.batches + len(handed),
            rebuilt=tally.rebuilt + sum(rebuilt for _, rebuilt in handed),
        )

    async def _join(self, targets: set[TargetPartition]) -> None:
        """Add target partitions to the transaction, which begins with the first of them."""
        if not self._in_transaction:
            self._began = monotonic()
        if self._token.transactional:
            refused = await add_partitions(
                self._target, self._token.producer, targets, UNAVAILABLE_AFTER_S
            )
            for target, code in refused.items():
                raise self._not_joined(target, code)
        self._in_transaction |= targets
        failpoint("joined")

    def _not_joined(self, target: TargetPartition, code: int) -> Exception:
        for outgoing, where in self._where.items():
            if where == target and outgoing.feed is not None:
                return BatchRefused(outgoing, code, "")
        return SlotFailed(f"{target[0]}-{target[1]}: {code_name(code)}")

    def _record_acknowledgment(self, outgoing: OutgoingBatch, base: int) -> None:
        target = self._where.pop(outgoing)
        if outgoing.feed is not None:
            outgoing.feed.landed(outgoing, target, base)

    async def _commit(self) -> None:
        """Write mapping ranges and positions after the records, and commit."""
        failpoint("before-state")
        began = monotonic()
        dirty = sorted((feed for feed in self._active if feed.dirty), key=lambda feed: feed.source)
        handed = [feed.handed for feed in dirty]
        state = self._state_records(dirty)
        await self._join(set(state) - self._in_transaction)
        for target, found in state.items():
            for built in build_batches(make_records(found), 0, _STATE_LIMIT):
                outgoing = OutgoingBatch(memoryview(built.data), built.count)
                self._where[outgoing] = target
                self._writer.offer(target, outgoing)
        await self._writer.drain()
        failpoint("before-commit")
        if self._token.transactional:
            await end_transaction(self._target, self._token.producer, commit=True)
        failpoint("after-commit")
        for feed, offset in zip(dirty, handed, strict=True):
            feed.mark_committed(offset)
        self._active = {feed for feed in self._active if feed.active}
        self._in_transaction.clear()
        self._batches = 0
        now = monotonic()
        self._last_commit = now
        self._first_commit_at = self._first_commit_at or time.time()
        self._tally = replace(
            self._tally,
            transactions=self._tally.transactions + 1,
            commit_s=self._tally.commit_s + now - began,
        )

    def _state_records(
        self, dirty: list[PartitionReader]
    ) -> dict[TargetPartition, list[_StateRecord]]:
        ledger, at = self._token.ledger, now_ms()
        state: dict[TargetPartition, list[_StateRecord]] = defaultdict(list)

        def put(target: TargetPartition, key: bytes, value: bytes) -> None:
            state[target].append((len(state[target]), at, key, value))

        for feed in dirty:
            if ledger.mapping_topic:
                for mapping in feed.mappings(ledger.group, ledger.term):
                    key = mapping_key(mapping)
                    put(ledger.mapping_target(key), key, mapping_value(mapping))
            position = feed.position(ledger.term, self._token.slot, at)
            put(
                (ledger.commit_topic, ledger.commit_partition),
                position_key(ledger.group, feed.source),
                position_value(position),
            )
        return state

    def _state_targets(self, feed: PartitionReader) -> set[TargetPartition]:
        """Return where a partition's state goes, to add it with its data and save a round trip."""
        found = self._homes.get(feed)
        if found is None:
            found = self._homes[feed] = self._token.ledger.targets(feed.source)
        return found

    def _positions(self) -> dict[SourcePartition, Position]:
        return {
            feed.source: feed.committed_position(self._token.ledger.term, self._token.slot)
            for feed in self._feeds
        }
