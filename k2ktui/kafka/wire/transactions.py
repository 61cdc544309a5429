"""The requests of a Kafka transaction, one function each.

The older request versions are used on purpose (InitProducerId ≤ 4, AddPartitionsToTxn ≤ 3,
EndTxn ≤ 3, Produce ≤ 11): with them, only the driver changes a producer epoch. EndTxn 5 (KIP-890)
bumps the epoch at every commit, so after a lost response no client would know the current epoch.
Brokers 2.5 and later, including 4.x, accept these versions.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from itertools import groupby
from math import inf
from time import monotonic

from kafka.protocol.producer import (
    AddPartitionsToTxnRequest,
    EndTxnRequest,
    InitProducerIdRequest,
)

from k2ktui.kafka.producer_id import NO_PRODUCER, Producer
from k2ktui.kafka.wire.cluster import CoordinatorError, CoordinatorWire, NotSent, OutcomeUnknown
from k2ktui.kafka.wire.codes import (
    COORDINATOR_MOVED,
    COORDINATOR_RETRIABLE,
    FENCED,
    PRODUCER_FAILED,
    Code,
)

log = logging.getLogger(__name__)

# Maximum time for the response to a request of an open transaction.
_RESPONSE_S = 30.0
# A coordinator whose metadata is older than the client's does not know a new partition yet.
_UNKNOWN_S, _UNKNOWN_PAUSE_S = 5.0, 0.05
# Partition error codes caused by the transaction, not by the partition itself.
_OF_TRANSACTION = COORDINATOR_RETRIABLE | FENCED | PRODUCER_FAILED


async def init_producer(
    wire: CoordinatorWire,
    current: Producer,
    transaction_timeout_ms: int,
    deadline: float = 60.0,
    on_unknown: Callable[[], None] = lambda: None,
    *,
    patience: float = inf,
) -> Producer:
    """Bump the epoch of a transactional id, which aborts its open transaction.

    With a known producer id and epoch in ``current`` the bump is conditional (KIP-360): it is
    refused if another client has bumped the epoch since, unless a transaction is open, as the
    coordinator then compares the producer id only. Otherwise it is unconditional.

    A retry after a lost response is as safe: the coordinator answers a repeated conditional bump
    with the first result, or refuses it if it no longer has that result; a repeated unconditional
    bump only increments the epoch again. ``on_unknown`` is called whenever a request without a
    response may have taken effect or may still do so. ``patience`` is the number of seconds to wait
    for the end of the previous transaction, whose markers may wait for a partition.

    Raises:
        CoordinatorError: refused, or still failing after ``deadline`` seconds (with the last
            retriable code), or CONCURRENT_TRANSACTIONS for ``patience`` seconds.
    """
    until = monotonic() + deadline
    moved, busy_since = False, inf
    while True:
        code = Code.NETWORK_EXCEPTION
        try:
            node = await _node(wire, current, until)
            raised = await wire.send(
                _init_request(current, transaction_timeout_ms), node, _remaining_s(until)
            )
            code = raised.error_code
        except NotSent:
            pass
        except OutcomeUnknown:
            on_unknown()
        if code == Code.NONE:
            return Producer(current.transactional_id, raised.producer_id, raised.producer_epoch)
        if moved and code not in COORDINATOR_RETRIABLE:
            on_unknown()  # the previous coordinator may have written the bump before it moved
        moved |= code in (Code.COORDINATOR_NOT_AVAILABLE, Code.NOT_COORDINATOR)
        if code == Code.CONCURRENT_TRANSACTIONS:
            busy_since = min(busy_since, monotonic())
            if monotonic() - busy_since >= patience:
                raise CoordinatorError(code, "InitProducerId")
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


def _remaining_s(until: float) -> float:
    """Return the response timeout in seconds; at least 1 s, so that every request has a chance."""
    return max(1.0, until - monotonic())


async def add_partitions(
    wire: CoordinatorWire,
    producer: Producer,
    partitions: Iterable[tuple[str, int]],
    deadline: float = 60.0,
) -> dict[tuple[str, int], int]:
    """Add target partitions to the transaction; the first call starts it.

    Returns:
        Refused partitions with their error codes. If any was refused, none was added. One that does
        not exist is refused after 5 seconds: the coordinator may learn of it later than the client.

    Raises:
        CoordinatorError: the transaction cannot continue (for example, the producer is fenced), or
            the request still fails after ``deadline`` seconds.
    """
    asked = sorted(partitions)
    topics = [
        AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(
            name=name, partitions=[partition for _, partition in group]
        )
        for name, group in groupby(asked, key=lambda item: item[0])
    ]
    until = monotonic() + deadline
    unknown_until = monotonic() + min(_UNKNOWN_S, deadline)
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
                min(_RESPONSE_S, _remaining_s(until)),
            )
            # What the answer does not have is not known to be added.
            results = dict.fromkeys(asked, int(Code.NETWORK_EXCEPTION)) | {
                (topic.name, result.partition_index): result.partition_error_code
                for topic in response.results_by_topic_v3_and_below
                for result in topic.results_by_partition
            }
        except (NotSent, OutcomeUnknown):
            results = {("", -1): Code.NETWORK_EXCEPTION}  # retriable: the request is idempotent
        refused = {key: code for key, code in results.items() if code != Code.NONE}
        if not refused:
            return {}
        per_partition = {key: code for key, code in refused.items() if code not in _OF_TRANSACTION}
        if per_partition:
            missing = set(per_partition.values()) == {Code.UNKNOWN_TOPIC_OR_PARTITION}
            if not missing or monotonic() >= unknown_until:
                return per_partition
            await wire.loop.sleep(_UNKNOWN_PAUSE_S)
            continue
        code = max(refused.values(), key=lambda c: c not in COORDINATOR_RETRIABLE)
        await _retry_or_raise(wire, producer, code, "AddPartitionsToTxn", until)


async def end_transaction(
    wire: CoordinatorWire, producer: Producer, *, commit: bool, deadline: float = 60.0
) -> None:
    """Commit or abort the open transaction.

    Raises:
        OutcomeUnknown: the response was lost; read the outcome from the target.
        CoordinatorError: refused (for example, the producer is fenced), or still failing after
            ``deadline`` seconds.
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
                min(_RESPONSE_S, _remaining_s(until)),
            )
        except NotSent:
            code: int = Code.NETWORK_EXCEPTION
        else:
            code = response.error_code
        if code == Code.NONE:
            return
        await _retry_or_raise(wire, producer, code, "EndTxn", until)


async def _node(wire: CoordinatorWire, producer: Producer, until: float) -> int | None:
    if producer.transactional_id is None:
        return None
    return await wire.coordinator(producer.transactional_id, max(0.0, until - monotonic()))


async def _retry_or_raise(
    wire: CoordinatorWire, producer: Producer, code: int, request: str, until: float
) -> None:
    if code not in COORDINATOR_RETRIABLE or monotonic() > until:
        raise CoordinatorError(code, request)
    if code != Code.CONCURRENT_TRANSACTIONS:  # which is looked at every 2 ms
        log.info("%s of %s: error code %d, again", request, producer.transactional_id, code)
    if code in COORDINATOR_MOVED and producer.transactional_id is not None:
        wire.forget_coordinator(producer.transactional_id)
        await wire.loop.sleep(0.05)
        return
    await wire.loop.sleep(0.002 if code == Code.CONCURRENT_TRANSACTIONS else 0.05)
