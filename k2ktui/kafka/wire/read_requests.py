"""Requests that read partitions outside of any consumer and fetch session: records, and bounds."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from kafka.protocol.consumer import FetchRequest, ListOffsetsRequest

READ_UNCOMMITTED, READ_COMMITTED = 0, 1
EARLIEST, LATEST = -2, -1
_NO_SESSION = -1


def fetch_request(
    wanted: Mapping[tuple[str, int], tuple[int, int]],
    *,
    isolation: int,
    max_bytes: int,
    min_bytes: int = 0,
    max_wait_ms: int = 0,
) -> Any:
    """Return a fetch request.

    Args:
        wanted: per topic and partition, the offset to read from and the maximum number of bytes.
        isolation: ``READ_COMMITTED`` or ``READ_UNCOMMITTED``.
        max_bytes: maximum size of the response.
        min_bytes: bytes that the broker waits for, at most ``max_wait_ms``, before it responds.
        max_wait_ms: see ``min_bytes``.
    """
    topics: dict[str, list[Any]] = defaultdict(list)
    for (topic, partition), (offset, size) in wanted.items():
        topics[topic].append(
            FetchRequest.FetchTopic.FetchPartition(
                partition=partition,
                current_leader_epoch=-1,
                fetch_offset=offset,
                last_fetched_epoch=-1,
                log_start_offset=-1,
                partition_max_bytes=size,
            )
        )
    return FetchRequest(
        replica_id=-1,
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        isolation_level=isolation,
        session_id=0,
        session_epoch=_NO_SESSION,
        topics=[FetchRequest.FetchTopic(topic=n, partitions=p) for n, p in topics.items()],
        forgotten_topics_data=[],
        rack_id="",
        max_version=12,
    )


def list_offsets_request(where: Iterable[tuple[str, int]], which: int, isolation: int) -> Any:
    """Return the request for one bound of each of these logs.

    Args:
        where: topics and partitions.
        which: ``EARLIEST`` for the log start offset; ``LATEST`` for the last stable offset, or with
            ``READ_UNCOMMITTED`` the high watermark.
        isolation: ``READ_COMMITTED`` or ``READ_UNCOMMITTED``.
    """
    topics: dict[str, list[Any]] = defaultdict(list)
    for topic, partition in where:
        topics[topic].append(
            ListOffsetsRequest.ListOffsetsTopic.ListOffsetsPartition(
                partition_index=partition, current_leader_epoch=-1, timestamp=which
            )
        )
    return ListOffsetsRequest(
        replica_id=-1,
        isolation_level=isolation,
        topics=[
            ListOffsetsRequest.ListOffsetsTopic(name=n, partitions=p) for n, p in topics.items()
        ],
        max_version=6,
    )


def answered_partition(topics: Iterable[Any], partition: int) -> Any | None:
    """Return the answer for one partition of the only topic that was asked for.

    Args:
        topics: the topics of a response to one of the requests above.
        partition: its number.

    Returns:
        None if the response does not have it: a broker answers a fetch that exceeds a quota with no
        topic at all, and with the time for which the client must wait.
    """
    parts = (part for topic in topics for part in topic.partitions)
    return next((part for part in parts if part.partition_index == partition), None)
