"""Query a cluster's version, clock and the permissions of a client role, without writing.

- Topic permissions come from Metadata's authorized operations (KIP-430), also for missing topics.
- The permission for a transactional id is checked with an EndTxn request for a producer id that
  cannot exist: it always fails, and the error code shows whether permission is missing. (A cluster
  that never had a transaction creates Kafka's ``__transaction_state`` on a coordinator lookup.)
- Kafka has no request for the time. The active controller answers DescribeQuorum (KIP-595) and
  reports its own clock as its own last fetch time.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from kafka.protocol.admin.cluster import DescribeQuorumRequest
from kafka.protocol.consumer import FetchRequest, ListOffsetsRequest
from kafka.protocol.metadata import MetadataRequest
from kafka.protocol.producer import (
    AddPartitionsToTxnRequest,
    EndTxnRequest,
    InitProducerIdRequest,
    ProduceRequest,
)

from k2ktui.kafka.producer_id import Producer
from k2ktui.kafka.wire.cluster import (
    GROUP_KEY,
    CoordinatorError,
    NotSent,
    OutcomeUnknown,
    WireClient,
)
from k2ktui.kafka.wire.codes import Code, code_name
from k2ktui.kafka.wire.transactions import end_transaction

_METADATA_LOG = "__cluster_metadata"
# Out of reach: brokers allocate producer ids from 0 upward, in blocks of 1,000.
_NO_SUCH_PRODUCER = (1 << 62) + 1
_COORDINATOR_PATIENCE_S, _PAUSE_S = 10.0, 0.1

# The minimum version of each request that replication requires.
READING: Mapping[type, int] = {FetchRequest: 4, ListOffsetsRequest: 2, MetadataRequest: 1}
WRITING: Mapping[type, int] = {ProduceRequest: 3, MetadataRequest: 1}
TRANSACTIONS: Mapping[type, int] = {
    # Conditional epoch bumps (KIP-360) fence a superseded driver.
    InitProducerIdRequest: 3,
    AddPartitionsToTxnRequest: 0,
    EndTxnRequest: 0,
}


class Operation(IntEnum):
    """ACL operations with their protocol numbers."""

    READ = 3
    WRITE = 4
    CREATE = 5
    ALTER = 7
    DESCRIBE = 8
    DESCRIBE_CONFIGS = 10


@dataclass(frozen=True, slots=True)
class TopicPermissions:
    """The principal's permissions on a topic; ``operations`` is None if the broker omits them."""

    exists: bool
    operations: frozenset[int] | None

    def lacks(self, operation: Operation) -> bool:
        """Whether the broker reports that the operation is not allowed."""
        return self.operations is not None and operation not in self.operations


class Probe(WireClient):
    """Connections to one cluster with the credentials of one client role."""

    @property
    def version(self) -> str:
        """Kafka release inferred from the broker's API versions, such as ``4.1``; "" if unknown."""
        return self._wire.broker_version

    def too_old_for(self, floor: Mapping[type, int]) -> list[str]:
        """Return the requests whose minimum version in ``floor`` the broker does not support."""
        return [
            request.__name__
            for request, least in floor.items()
            if self._wire.version_of(request) < least
        ]

    def rights(self, topics: Collection[str]) -> dict[str, TopicPermissions]:
        """Return the principal's permissions on topics, whether they exist or not.

        Raises:
            NotSent, OutcomeUnknown: the connection was lost.
        """
        if not topics:
            return {}
        request = MetadataRequest(
            topics=[MetadataRequest.MetadataRequestTopic(name=name) for name in topics],
            allow_auto_topic_creation=False,
            include_cluster_authorized_operations=False,
            include_topic_authorized_operations=True,
            max_version=12,
        )
        response = self._loop.run(lambda: self._wire.send(request))
        return {topic.name: _rights(topic) for topic in response.topics}

    def clock_ahead(self) -> float:
        """Return how many seconds the active controller's clock is ahead of the local clock.

        The error is at most half the round-trip time.

        Raises:
            NotDisclosed: the broker does not report its time.
        """
        partition = DescribeQuorumRequest.TopicData.PartitionData(partition_index=0)
        topic = DescribeQuorumRequest.TopicData(topic_name=_METADATA_LOG, partitions=[partition])
        if self._wire.version_of(DescribeQuorumRequest) < 1:
            raise NotDisclosed("its brokers have no request that returns their time")
        asked = time.time()
        try:
            response = self._loop.run(
                lambda: self._wire.send(DescribeQuorumRequest(topics=[topic]))
            )
        except (NotSent, OutcomeUnknown) as error:
            raise NotDisclosed(str(error)) from error
        answered = time.time()
        if response.error_code == Code.CLUSTER_AUTHORIZATION_FAILED:
            raise NotDisclosed(
                "its brokers return their time only to principals with Describe on the cluster"
            )
        return _controller_time(response) - (asked + answered) / 2

    def may_use_transactional_id(self, transactional_id: str) -> str:
        """Return "" if the principal may use a transactional id, otherwise the error's name.

        Raises:
            NotDisclosed: the coordinator's answer does not show whether it may.
        """
        code = self._loop.run(lambda: self._end_nothing(transactional_id))
        if code == Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
            return code_name(code)
        if code in (Code.INVALID_PRODUCER_ID_MAPPING, Code.INVALID_TXN_STATE, Code.NONE):
            return ""
        raise NotDisclosed(f"the transaction coordinator responded with {code_name(code)}")

    def ask_group_coordinator(self, group: str) -> int:
        """Look a group's coordinator up, which creates the topic of coordinators if it is missing.

        Returns:
            The error code of the answer; 0 if there is a coordinator.
        """
        patience = _COORDINATOR_PATIENCE_S
        try:
            self.run(lambda wire: wire.find_coordinator(group, GROUP_KEY, patience))
        except CoordinatorError as error:
            return error.code
        return Code.NONE

    async def _end_nothing(self, transactional_id: str) -> int:
        producer = Producer(transactional_id, _NO_SUCH_PRODUCER, 0)
        until = time.monotonic() + _COORDINATOR_PATIENCE_S
        while time.monotonic() <= until:
            left = until - time.monotonic()
            try:
                await end_transaction(self._wire, producer, commit=False, deadline=left)
            except CoordinatorError as error:
                if error.code != Code.NETWORK_EXCEPTION:  # with which no broker responds
                    return error.code
            except OutcomeUnknown:  # at once, if the connection is refused
                self._wire.forget_coordinator(transactional_id)
                await self._wire.loop.sleep(_PAUSE_S)
            else:
                return Code.NONE
        return Code.COORDINATOR_NOT_AVAILABLE


class NotDisclosed(Exception):
    """The cluster does not disclose a value; the message is printed after "could not check: "."""


def _rights(topic: Any) -> TopicPermissions:
    exists = topic.error_code != Code.UNKNOWN_TOPIC_OR_PARTITION
    if topic.error_code == Code.TOPIC_AUTHORIZATION_FAILED:
        return TopicPermissions(exists, frozenset())
    told = topic.authorized_operations
    return TopicPermissions(exists, None if told is None else frozenset(told))


def _controller_time(response: Any) -> float:
    """Return the active controller's clock in seconds since the epoch.

    Raises:
        NotDisclosed: the response holds no timestamp of the leader.
    """
    for topic in response.topics:
        for partition in topic.partitions:
            for replica in partition.current_voters:
                stamp = replica.last_fetch_timestamp
                if replica.replica_id == partition.leader_id and stamp and stamp > 0:
                    return float(stamp) / 1000
    raise NotDisclosed("its controller does not report its time")
