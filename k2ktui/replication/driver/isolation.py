"""Transactions that cannot end, and the partitions that wait for them.

A transaction ends when each of its partitions has its marker. While one of them accepts no writes,
the coordinator answers every request for the transactional id with CONCURRENT_TRANSACTIONS. The
slot's other partitions then continue with a spare transactional id, and only those that need the
blocked partition wait. docs/internals/exactly-once.md has the rules and why they are safe.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from time import monotonic

from k2ktui.engine.records.run_record import LARGEST_SLOTS
from k2ktui.engine.records.state import Position, SourcePartition
from k2ktui.errors import ClusterRefused, ConnectionFailed, TimedOut
from k2ktui.kafka.admin.transaction_state import TransactionState, describe_partitions
from k2ktui.replication.copying import partition_faults
from k2ktui.replication.copying.slot_task import Route
from k2ktui.replication.driver.laps import LapPlanner
from k2ktui.replication.fencing_errors import TransactionUnfinished
from k2ktui.replication.ownership.commit_state import adopt_positions
from k2ktui.replication.ownership.epochs import Contested, transactional_id
from k2ktui.replication.ownership.ownership import Ownership
from k2ktui.replication.reports.events import Note
from k2ktui.replication.reports.status import DriverStatus
from k2ktui.replication.slots import SlotState

log = logging.getLogger(__name__)

_ASK_AGAIN_S = 1.0
# A coordinator that is only slow may not have written markers for some seconds.
_BLOCKED_S = 5.0
# What was seen this long ago was another wait.
_FORGOTTEN_S = 60.0
_REASON = "a transaction cannot end until its marker is written there"


@dataclass(slots=True)
class _Unfinished:
    """The last transaction of a transactional id, which waits for markers."""

    state: TransactionState
    sources: list[SourcePartition] = field(default_factory=list)
    not_before: float = 0.0


@dataclass(frozen=True, slots=True)
class _Seen:
    """A slot's unfinished transaction: the partitions that it waits for, since when."""

    partitions: Collection[tuple[str, int]] = ()
    since: float = 0.0
    at: float = 0.0


class UnfinishedTransactions:
    """The transactional ids of a run: which slot has which, and which ones cannot be used.

    Args:
        ownership: bumps their epochs.
        laps: knows which target partitions a source partition needs.
        status: the driver's: partitions that wait are stopped there.
    """

    def __init__(self, ownership: Ownership, laps: LapPlanner, status: DriverStatus) -> None:
        self._ownership = ownership
        self._laps = laps
        self._stopped, self._report = status.stopped, status.report
        self._waiting: dict[int, _Unfinished] = {}
        self._seen: dict[int, _Seen] = {}
        self._free: list[int] = []

    @property
    def sources(self) -> set[SourcePartition]:
        """The source partitions that wait, which are in no slot."""
        return {source for transaction in self._waiting.values() for source in transaction.sources}

    def begin(self, slots: Sequence[SlotState]) -> None:
        """Give each slot a transactional id after a takeover; nothing waits yet."""
        self._stopped.release(self.sources)
        unfinished = self._ownership.unfinished
        self._waiting = {identity: _Unfinished(state) for identity, state in unfinished.items()}
        taken = unfinished.keys() | self._ownership.retired
        self._free = [number for number in range(self._ownership.run.slots) if number not in taken]
        for slot in slots:
            slot.identity, slot.lost = self._free.pop(0), False
        for identity in unfinished:
            self._report_unfinished(identity, "partitions that need it wait, the others are copied")

    def admit(
        self, slot: SlotState, source: SourcePartition, route: Route, position: Position | None
    ) -> bool:
        """Return whether a slot may copy a new source partition; otherwise it waits."""
        needs = self._laps.needs(slot, source, route)
        for transaction in self._waiting.values():
            if blocked := needs & transaction.state.partitions:
                transaction.sources.append(source)
                self._stop(source, blocked, position)
                return False
        return True

    def isolate(
        self,
        slot: SlotState,
        error: TransactionUnfinished,
        routes: Mapping[SourcePartition, Route],
        positions: Mapping[SourcePartition, Position],
    ) -> bool:
        """Let a slot continue with a spare transactional id, without those that have to wait.

        Its positions must be read before its next lap.

        Returns:
            Whether that is possible: no task can write with its present id, there is a spare, and
            the transaction has waited for the same partitions for some seconds. Before, markers
            may be on their way to them, for example to a new leader.

        Raises:
            Superseded: another driver has taken over.
        """
        state = error.state
        if error.identity != slot.identity or state is None:
            return False
        if not (error.fenced or (state.committing and not slot.lost)):
            return False
        before, now = self._seen.get(slot.identity, _Seen()), monotonic()
        is_same = before.partitions == state.partitions and now - before.at < _FORGOTTEN_S
        since = before.since if is_same else now
        self._seen[slot.identity] = _Seen(state.partitions, since, now)
        if now - since < _BLOCKED_S or not self._has_spare():
            return False
        waiting = self._waiting[slot.identity] = _Unfinished(state)
        sources, slot.sources = slot.sources, []
        for source in sources:
            needs = self._laps.needs(slot, source, routes[source]) if source in routes else set()
            if blocked := needs & state.partitions:
                waiting.sources.append(source)
                self._stop(source, blocked, positions.get(source))
            else:
                slot.sources.append(source)
        self._report_unfinished(slot.identity, f"{slot.name} continues without it")
        slot.identity, slot.lost = self._free.pop(0), False
        return True

    def _has_spare(self) -> bool:
        if not self._free and self._ownership.run.slots < LARGEST_SLOTS:
            try:
                self._free.append(self._ownership.add_id())
            except (ConnectionFailed, TimedOut, ClusterRefused) as error:
                log.info("no spare transactional id: %s", error.message)
        return bool(self._free)

    def resume(self, positions: dict[SourcePartition, Position]) -> None:
        """Release the partitions that no longer have to wait, and update their positions.

        Those are all of a transaction that has ended; when another of its partitions has its marker
        now, ``admit`` decides again which ones wait.

        Raises:
            Superseded: another driver has taken over.
        """
        for identity, transaction in list(self._waiting.items()):
            if monotonic() < transaction.not_before:
                continue
            try:
                self._resume(identity, transaction, positions)
            except (Contested, ConnectionFailed, TimedOut, ClusterRefused) as error:
                log.debug("transactional id %d still waits, asking again: %s", identity, error)
            transaction.not_before = monotonic() + _ASK_AGAIN_S

    def _resume(
        self, identity: int, transaction: _Unfinished, positions: dict[SourcePartition, Position]
    ) -> None:
        state = self._ownership.waiting_state(identity)
        if state is None:
            self._ownership.recover(identity)
            adopt_positions(positions, transaction.sources, self._ownership.read())
            self._release(identity)
        elif state.partitions < transaction.state.partitions:
            commit_topic = self._ownership.topic.name
            if all(topic != commit_topic for topic, _ in state.partitions):
                adopt_positions(positions, transaction.sources, self._ownership.read())
                self._stopped.release(transaction.sources)
                transaction.sources = []
                transaction.state = state

    def _release(self, identity: int) -> None:
        transaction = self._waiting.pop(identity)
        self._seen.pop(identity, None)
        if identity not in self._ownership.retired:
            self._free.append(identity)
        self._stopped.release(transaction.sources)
        name = transactional_id(self._ownership.topic.ids, identity)
        self._report(Note(f"transaction of {name}: ended"))

    def _stop(
        self,
        source: SourcePartition,
        blocked: Collection[tuple[str, int]],
        position: Position | None,
    ) -> None:
        offset = position.offset if position else -1
        self._stopped.stop(
            partition_faults.UNAVAILABLE.at(source, offset, target=min(blocked), reason=_REASON)
        )

    def _report_unfinished(self, identity: int, consequence: str) -> None:
        name = transactional_id(self._ownership.topic.ids, identity)
        blocked = describe_partitions(self._waiting[identity].state.partitions)
        self._report(Note(f"transaction of {name}: {blocked} accepts no marker; {consequence}"))
