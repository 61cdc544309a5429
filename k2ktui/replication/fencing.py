"""The driver's side of exactly-once: fencing tokens, the run record and the positions.

Protocol (docs/exactly-once.md): the driver alone raises producer epochs. A starting driver raises
the driver's own transactional id first, so that the previous driver can no longer change the run
record, then reads how many slots that driver could use, and raises those. Each unconditional raise
is done twice, because a coordinator accepts the previous epoch as a repeat of the last raise
(KIP-360).
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from zlib import crc32

from k2ktui.engine.state import (
    MalformedRecord,
    Position,
    Run,
    SourcePartition,
    position_key,
    position_value,
    read_commit_record,
    run_key,
    run_value,
)
from k2ktui.errors import K2kError, Refused, TimedOut
from k2ktui.kafka.clients import Cluster
from k2ktui.kafka.codes import COORDINATOR_RETRIABLE, FENCED, Code
from k2ktui.kafka.logread import await_stable, read_committed, read_written
from k2ktui.kafka.transactions import Producer, add_partitions, end_transaction, init_producer
from k2ktui.kafka.wire import CoordinatorError, Loop, OutcomeUnknown, Signal, Wire
from k2ktui.replication.books import Books, Ledger
from k2ktui.replication.copying.crashpoints import crash_point
from k2ktui.replication.copying.feed import now_ms
from k2ktui.replication.copying.outgoing import Outgoing
from k2ktui.replication.copying.rebuild import build
from k2ktui.replication.copying.records import of
from k2ktui.replication.copying.writer import BatchRefused, Fenced, SlotFailed, Writer

_STATE_LIMIT = 512 << 10
# The driver does nothing else while it waits for one slot's token, and tries again anyway.
_RENEW_S = 10.0


_DRIVER = -1


def transactional_id(group: str, slot: int) -> str:
    """Return the transactional id of a slot, or of the driver itself (slot -1)."""
    return f"{group}.driver" if slot == _DRIVER else f"{group}.{slot}"


class Superseded(Refused):
    """Another driver of the same pipeline has started; this one must end."""


@dataclass(frozen=True, slots=True)
class CommitTopic:
    """The commit topic, and how this pipeline uses it.

    Attributes:
        name: its name.
        partitions: how many it has.
        group: ``coordination.commit.group``: tells pipelines apart that share the topic.
        shared: keep all positions of the pipeline in one partition, else one a slot.
    """

    name: str
    partitions: int
    group: str
    shared: bool = True

    def partition(self, slot: int) -> int:
        """Return the partition that a slot writes its positions to."""
        first = crc32(self.group.encode()) % self.partitions
        return first if self.shared else (first + max(0, slot)) % self.partitions


def read_books(target: Cluster, topic: CommitTopic, timeout: float) -> Books:
    """Read a pipeline's state from the target; needs no running job and changes nothing.

    Raises:
        ConnectionFailed, TimedOut: the topic could not be read within ``timeout`` seconds.
    """
    ledger = Ledger(topic.group)
    for entry in read_committed(target, topic.name, topic.partitions, timeout):
        ledger.take(entry)
    return ledger.books()


class Warden:
    """Issues fencing tokens and writes the driver's own records.

    Args:
        target: the target cluster.
        options: wire options of the target.
        name: the pipeline's name, for messages and the run record.
        topic: the commit topic.
        transactional: whether exactly-once is on; without it nothing is fenced.
        timeout_ms: transaction time-out of the slots.
        sync_timeout: seconds to wait for open transactions and for reading the topic.
    """

    def __init__(
        self,
        target: Cluster,
        options: Mapping[str, Any],
        *,
        name: str,
        topic: CommitTopic,
        transactional: bool,
        timeout_ms: int,
        sync_timeout: float,
    ) -> None:
        self._target = target
        self._name = name
        self.topic = topic
        self._transactional = transactional
        self._timeout_ms = timeout_ms
        self._sync_timeout = sync_timeout
        self._loop = Loop()
        self._wire = Wire(self._loop, options, "target")
        self._producers: dict[int, Producer] = {}
        self.run = Run(0, 0)

    def take_over(self, slots: int) -> Books:
        """Fence every earlier driver of this pipeline, begin a new term, return the positions.

        Raises:
            ConnectionFailed, TimedOut, Refused: nothing was changed but epochs.
        """
        self._loop.run(lambda: self._wire.open(self._sync_timeout, patient=True))
        self._fence(_DRIVER)
        for slot in range(max(self._slots_ever(), slots)):
            self._fence(slot)
        books = self.read()
        self.run = books.run
        crash_point("fenced")
        self.begin_term(slots)
        crash_point("begun")
        return books

    def _slots_ever(self) -> int:
        """Return how many slots any earlier driver may have used.

        A run record counts whether its transaction was committed or not: to fence a slot too many
        does no harm, but a slot's open transaction hides what is behind it until we fence it.
        """
        topic = self.topic
        slots = 0
        for entry in read_written(self._target, topic.name, topic.partitions, self._sync_timeout):
            with contextlib.suppress(MalformedRecord):
                group, _, state = read_commit_record(entry.key, entry.value, topic.group)
                if group == topic.group and isinstance(state, Run):
                    slots = max(slots, state.slots)
        return slots

    def read(self) -> Books:
        """Read the state once every transaction on the commit topic is decided."""
        topic = self.topic
        if self._transactional:
            await_stable(self._target, topic.name, topic.partitions, self._sync_timeout)
        return read_books(self._target, topic, self._sync_timeout)

    def begin_term(self, slots: int) -> None:
        """Start a new term: positions of it win over all earlier ones, even where they go back."""
        self.run = Run(
            self.run.term + 1,
            max(slots, self.run.slots),
            self._name,
            socket.gethostname(),
            now_ms(),
        )
        self._write([(run_key(self.topic.group), run_value(self.run))])

    def renew(self, slot: int) -> Producer:
        """Raise a slot's epoch on the condition that nobody else did, and return the token.

        Only slots that ``take_over`` fenced have one: fencing a slot later, unconditionally, could
        take it from a driver that took over from us.

        Raises:
            Superseded: somebody else did.
            TimedOut: the coordinator did not answer; the same again is safe.
        """
        timeout = min(self._sync_timeout, _RENEW_S)
        if not self._transactional:
            return self._init(Producer(None), timeout)
        self._producers[slot] = self._init(self._producers[slot], timeout)
        return self._producers[slot]

    def renew_own(self) -> None:
        """Raise the driver's own epoch: what it left open is aborted; errors as for ``renew``."""
        self.renew(_DRIVER)

    def write_positions(self, changed: Mapping[SourcePartition, Position]) -> None:
        """Write positions outside a lap, as of partitions that begin.

        Raises:
            Superseded: another driver has taken over; nothing was written.
            TimedOut: the outcome is unknown.
        """
        group = self.topic.group
        self._write([(position_key(group, s), position_value(p)) for s, p in changed.items()])

    def remove_positions(self, sources: Collection[SourcePartition]) -> None:
        """Remove positions, wherever on the commit topic they are; errors as above."""
        keys = [position_key(self.topic.group, source) for source in sources]
        self._write([(key, None) for key in keys], range(self.topic.partitions))

    def _write(
        self, entries: Sequence[tuple[bytes, bytes | None]], partitions: Sequence[int] = ()
    ) -> None:
        if not entries:
            return
        at = now_ms()
        records = of([(i, at, key, value) for i, (key, value) in enumerate(entries)])
        producer = self.renew(_DRIVER)
        where = [(self.topic.name, p) for p in partitions or (self.topic.partition(_DRIVER),)]

        async def transaction() -> None:
            signal = Signal(self._loop)
            writer = Writer(self._wire, producer, signal, lambda *_: None)
            if self._transactional:
                await add_partitions(self._wire, producer, where)
            for at_partition in where:
                for built in build(records, 0, _STATE_LIMIT):
                    writer.offer(at_partition, Outgoing(memoryview(built.data), built.count))
            await writer.drain()
            crash_point("recorded")
            if self._transactional:
                await end_transaction(self._wire, producer, commit=True)

        try:
            self._loop.run(transaction)
        except (Fenced, CoordinatorError) as error:
            refused = self._refused(error)
            if isinstance(refused, Superseded):
                # The coordinator fences a transaction that took too long, too; then nobody else
                # has our id, and this does not raise.
                self.renew_own()
                refused = self._unknown("the transaction took too long")
            raise refused from None
        except (OutcomeUnknown, SlotFailed, BatchRefused) as error:
            raise self._unknown(str(error)) from None

    def _unknown(self, reason: str) -> TimedOut:
        return TimedOut(
            f"writing to {self.topic.name} on the target: {reason}",
            unchanged="Whether it was written is unknown.",
            mend="Start again: the state is read from the target.",
        )

    def close(self, *, fence: bool = True) -> None:
        """Raise every slot's epoch, so that no task can write any more, and disconnect."""
        if fence and self._transactional:
            for slot in list(self._producers):
                try:
                    self.renew(slot)
                except K2kError:
                    break  # somebody else already has
        self._wire.close()
        self._loop.close()

    def _fence(self, slot: int) -> None:
        if not self._transactional:
            return
        unknown = Producer(transactional_id(self.topic.group, slot))
        self._init(unknown, self._sync_timeout)
        self._producers[slot] = self._init(unknown, self._sync_timeout)

    def _init(self, producer: Producer, timeout: float) -> Producer:
        try:
            raised: Producer = self._loop.run(
                lambda: init_producer(self._wire, producer, self._timeout_ms, timeout)
            )
        except CoordinatorError as error:
            raise self._refused(error) from None
        return raised

    def _refused(self, error: Exception) -> K2kError:
        code = error.code if isinstance(error, CoordinatorError) else 0
        if isinstance(error, Fenced) or code in FENCED:
            return Superseded(
                f"another k2ktui has started pipeline {self._name} and fenced this one",
                unchanged="This one stopped writing at once; the other goes on from its positions.",
                mend="Run a pipeline in one place only.",
            )
        if code == Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
            return Refused(
                f"the target principal may not use transactional id {self.topic.group}.*",
                unchanged="Nothing was written.",
                mend="Grant it Describe and Write on transactional ids prefixed "
                f"{self.topic.group}.",
            )
        waited = code in COORDINATOR_RETRIABLE
        return TimedOut(
            "the target's transaction coordinator "
            + (f"is not available: {error}" if waited else f"refused: {error}"),
            mend="Check the target cluster's health, then start again.",
        )
