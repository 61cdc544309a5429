"""The coordinators' state of transactional ids, by DescribeTransactions and ListTransactions.

Both (KIP-664) require Kafka 3.0 or newer and Describe on the transactional id. Topics that the
principal may not describe are missing from the answer.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from time import monotonic

from kafka.protocol.admin.transactions import (
    DescribeTransactionsRequest,
    ListTransactionsRequest,
)

from k2ktui.kafka.wire.cluster import (
    CoordinatorError,
    CoordinatorWire,
    NotSent,
    OutcomeUnknown,
    Wire,
)
from k2ktui.kafka.wire.codes import COORDINATOR_RETRIABLE, Code

_ABORTING = "PrepareAbort"
_COMMITTING = "PrepareCommit"
_PAUSE_S = 0.05


@dataclass(frozen=True, slots=True)
class TransactionState:
    """State of a transactional id.

    Attributes:
        name: the coordinator's state, for example ``Ongoing`` or ``PrepareAbort``.
        producer_id: current producer id.
        epoch: current epoch; while an abort waits for its markers, that of the markers.
        partitions: the partitions of the transaction; once its outcome is decided, those that do
            not have their marker yet.
    """

    name: str
    producer_id: int
    epoch: int
    partitions: frozenset[tuple[str, int]]

    @property
    def aborting(self) -> bool:
        """Whether the transaction is aborted, and waits for markers."""
        return self.name == _ABORTING

    @property
    def committing(self) -> bool:
        """Whether the transaction is committed, and waits for markers."""
        return self.name == _COMMITTING


async def describe_transaction(
    wire: CoordinatorWire, transactional_id: str, deadline: float
) -> TransactionState | None:
    """Return the state of a transactional id; None if unknown, as with brokers before Kafka 3.0.

    Args:
        wire: connection to the cluster.
        transactional_id: the id.
        deadline: seconds.
    """
    if wire.version_of(DescribeTransactionsRequest) < 0:
        return None
    until = monotonic() + deadline
    while True:
        code: int = Code.NETWORK_EXCEPTION
        try:
            left = max(0.1, until - monotonic())
            node = await wire.coordinator(transactional_id, left)
            request = DescribeTransactionsRequest(transactional_ids=[transactional_id])
            response = await wire.send(request, node, left)
            for state in response.transaction_states:  # of the only id that was asked for
                code = state.error_code
        except (NotSent, OutcomeUnknown):
            pass
        except CoordinatorError as error:
            code = error.code
        if code == Code.NONE:
            return TransactionState(
                state.transaction_state,
                state.producer_id,
                state.producer_epoch,
                frozenset((t.topic, p) for t in state.topics for p in t.partitions),
            )
        if code not in COORDINATOR_RETRIABLE or monotonic() > until:
            return None
        wire.forget_coordinator(transactional_id)
        await wire.loop.sleep(_PAUSE_S)


async def list_transactional_ids(wire: Wire, deadline: float) -> frozenset[str] | None:
    """Return the transactional ids that the coordinators know; None with brokers before Kafka 3.0.

    A coordinator forgets an id a week after its last use, and the producer ids that it had.

    Args:
        wire: connection to the cluster, whose versions are known.
        deadline: seconds.

    Raises:
        CoordinatorError: a broker did not answer, or refused. The ids that it coordinates would be
            missing.
    """
    if wire.version_of(ListTransactionsRequest) < 0:
        return None
    ids: dict[str, int] = {}
    await _list_transactions(wire, (), deadline, ids)
    return frozenset(ids)


async def find_transactional_ids(
    wire: Wire, producer_ids: Collection[int], deadline: float
) -> tuple[dict[int, str], bool]:
    """Return the transactional ids that have these producer ids now, and whether all brokers told.

    Before Kafka 3.0 none has. Those that the principal may not describe are missing. Arguments as
    for :func:`list_transactional_ids`.
    """
    if not producer_ids or wire.version_of(ListTransactionsRequest) < 0:
        return {}, True
    ids: dict[str, int] = {}
    is_whole = True
    try:
        await _list_transactions(wire, producer_ids, deadline, ids)
    except CoordinatorError:
        is_whole = False
    return {producer_id: name for name, producer_id in ids.items()}, is_whole


async def _list_transactions(
    wire: Wire, producer_ids: Collection[int], deadline: float, ids: dict[str, int]
) -> None:
    """Add producer ids by transactional id, these producers' or all, as each broker tells them."""
    until = monotonic() + deadline
    asked: set[int] = set()
    code: int = Code.NETWORK_EXCEPTION
    while True:
        try:
            # Again after each round: a coordinator may have moved to a broker that has started.
            left = [node for node in await wire.brokers(_left(until)) if node not in asked]
            if asked and not left:
                return
        except (NotSent, OutcomeUnknown):
            left, code = [], Code.NETWORK_EXCEPTION
        for node in left:
            request = ListTransactionsRequest(
                state_filters=[], producer_id_filters=list(producer_ids), max_version=0
            )
            try:
                # A broker that hangs does not use up the time of the others.
                response = await wire.send(request, node, _left(until) / len(left))
            except (NotSent, OutcomeUnknown):
                code = Code.NETWORK_EXCEPTION
                continue
            code = response.error_code
            if code == Code.NONE:
                ids |= {s.transactional_id: s.producer_id for s in response.transaction_states}
                asked.add(node)
            elif code not in COORDINATOR_RETRIABLE:
                raise CoordinatorError(code, "ListTransactions")
        if monotonic() > until:
            raise CoordinatorError(code, "ListTransactions")
        await wire.loop.sleep(_PAUSE_S)


def _left(until: float) -> float:
    return max(0.1, until - monotonic())


def describe_partitions(partitions: Collection[tuple[str, int]]) -> str:
    """Return the names of partitions for a message; of many only the first."""
    first, *more = sorted(partitions) or [("", -1)]
    text = f"{first[0]}-{first[1]}" if first[0] else "a partition"
    return text + (f" and {len(more)} more" if more else "")
