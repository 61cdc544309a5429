"""The requests of a Kafka transaction, one function each.

The older request versions are used on purpose (InitProducerId ≤ 4, AddPartitionsToTxn ≤ 3,
EndTxn ≤ 3, Produce ≤ 11): with them a producer epoch changes only when the driver changes it.
EndTxn 5 (KIP-890) raises the epoch at every commit, so a lost response would leave nobody who
knows the current one. Brokers 2.5 and later accept these, 4.x included.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby
from time import monotonic

from kafka.protocol.producer import (
    AddPartitionsToTxnRequest,
    EndTxnRequest,
    InitProducerIdRequest,
)

from k2ktui.kafka.codes import (
    COORDINATOR_MOVED,
    COORDINATOR_RETRIABLE,
    FENCED,
    PRODUCER_FAILED,
    Code,
)
from k2ktui.kafka.wire import CoordinatorError, NotSent, OutcomeUnknown, Wire

NO_PRODUCER = -1
# What a partition is refused for because of its transaction, and not of itself.
_OF_TRANSACTION = COORDINATOR_RETRIABLE | FENCED | PRODUCER_FAILED


@dataclass(frozen=True, slots=True)
class Producer:
    """A producer id and epoch, with the transactional id they belong to (None: no transactions)."""

    transactional_id: str | None
    producer_id: int = NO_PRODUCER
    epoch: int = -1


async def init_producer(
    wire: Wire,
    current: Producer,
    transaction_timeout_ms: int,
    deadline: float = 60.0,
    on_unknown: Callable[[], None] = lambda: None,
) -> Producer:
    """Raise the epoch of a transactional id; open transactions of it are aborted.

    With a known producer id and epoch in ``current`` the raise is conditional (KIP-360): it is
    refused if somebody else raised the epoch in between. Without, it is unconditional.

    Repeating it after a lost response is safe: a repeated conditional raise is answered with its
    first result, or refused if the coordinator has forgotten that; a second unconditional one only
    raises the epoch once more. ``on_unknown`` is called whenever a request may have been carried
    out, now or later, without a response.

    Raises:
        CoordinatorError: refused, or not done within ``deadline`` seconds (code 15).
    """
    until = monotonic() + deadline
    moved = False
    while True:
        code = Code.NETWORK_EXCEPTION
        try:
            node = await _node(wire, current, until)
            raised = await wire.send(
                _init_request(current, transaction_timeout_ms), node, _left(until)
            )
            code = raised.error_code
        except NotSent:
            pass
        except OutcomeUnknown:
            on_unknown()
        if code == Code.NONE:
            return Producer(current.transactional_id, raised.producer_id, raised.producer_epoch)
        if moved and code not in COORDINATOR_RETRIABLE:
            on_unknown()  # a coordinator that moved away may have written the raise all the same
        moved |= code in (Code.COORDINATOR_NOT_AVAILABLE, Code.NOT_COORDINATOR)
        await _retry_or_raise(wire, current, code, "InitProducerId", until)


def _init_request(current: Producer, transaction_timeout_ms: int) -> InitProducerIdRequest:
    return InitProducerIdRequest(
        transactional_id=current.transactional_id,
        transaction_timeout_ms=transaction_timeout_ms,
        producer_id=current.producer_id,
        producer_epoch=current.epoch,
        max_version=4,
        min_version=0 if current.producer_id == NO_PRODUCER else 3,
    )


def _left(until: float) -> float:
    """Return how many seconds to wait for a response; a deadline that has passed asks once."""
    return max(1.0, until - monotonic())


async def add_partitions(
    wire: Wire, producer: Producer, partitions: Iterable[tuple[str, int]], deadline: float = 60.0
) -> dict[tuple[str, int], int]:
    """Add target partitions to the open transaction, opening it with the first.

    Returns:
        The partitions that were refused, with their error codes. If any was, none was added.

    Raises:
        CoordinatorError: the transaction cannot go on (fenced among others).
    """
    topics = [
        AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(
            name=name, partitions=[partition for _, partition in group]
        )
        for name, group in groupby(sorted(partitions), key=lambda item: item[0])
    ]
    until = monotonic() + deadline
    while True:
        results: Mapping[tuple[str, int], int] = {}
        try:
            node = await _node(wire, producer, until)
            response = await wire.send(
                AddPartitionsToTxnRequest(
                    v3_and_below_transactional_id=producer.transactional_id,
                    v3_and_below_producer_id=producer.producer_id,
                    v3_and_below_producer_epoch=producer.epoch,
                    v3_and_below_topics=topics,
                    max_version=3,
                ),
                node,
            )
            results = {
                (topic.name, result.partition_index): result.partition_error_code
                for topic in response.results_by_topic_v3_and_below
                for result in topic.results_by_partition
            }
        except (NotSent, OutcomeUnknown):
            results = {("", -1): Code.NETWORK_EXCEPTION}  # adding twice is the same as once
        refused = {key: code for key, code in results.items() if code != Code.NONE}
        if not refused:
            return {}
        per_partition = {key: code for key, code in refused.items() if code not in _OF_TRANSACTION}
        if per_partition:
            return per_partition
        code = max(refused.values(), key=lambda c: c not in COORDINATOR_RETRIABLE)
        await _retry_or_raise(wire, producer, code, "AddPartitionsToTxn", until)


async def end_transaction(
    wire: Wire, producer: Producer, *, commit: bool, deadline: float = 60.0
) -> None:
    """Commit or abort the open transaction.

    Raises:
        OutcomeUnknown: the answer was lost; whether it was committed must be read from the target.
        CoordinatorError: refused (fenced among others).
    """
    until = monotonic() + deadline
    while True:
        try:
            node = await _node(wire, producer, until)
            response = await wire.send(
                EndTxnRequest(
                    transactional_id=producer.transactional_id,
                    producer_id=producer.producer_id,
                    producer_epoch=producer.epoch,
                    committed=commit,
                    max_version=3,
                ),
                node,
            )
        except NotSent:
            code: int = Code.NETWORK_EXCEPTION
        else:
            code = response.error_code
        if code == Code.NONE:
            return
        await _retry_or_raise(wire, producer, code, "EndTxn", until)


async def _node(wire: Wire, producer: Producer, until: float) -> int | None:
    if producer.transactional_id is None:
        return None
    return await wire.coordinator(producer.transactional_id, max(0.0, until - monotonic()))


async def _retry_or_raise(
    wire: Wire, producer: Producer, code: int, request: str, until: float
) -> None:
    if code not in COORDINATOR_RETRIABLE or monotonic() > until:
        raise CoordinatorError(code, request)
    if code in COORDINATOR_MOVED and producer.transactional_id is not None:
        wire.forget_coordinator(producer.transactional_id)
        await wire.loop.sleep(0.05)
        return
    await wire.loop.sleep(0.002 if code == Code.CONCURRENT_TRANSACTIONS else 0.05)
