"""The request for one offset of a source partition, at the isolation level of all copying."""

from __future__ import annotations

from typing import Any

from kafka.protocol.consumer import ListOffsetsRequest

from k2ktui.engine.state import SourcePartition

READ_COMMITTED = 1
EARLIEST, LATEST = -2, -1


def list_offset_request(source: SourcePartition, which: int) -> Any:
    """Return the request for the log start (``EARLIEST``) or last stable offset (``LATEST``)."""
    topic = ListOffsetsRequest.ListOffsetsTopic
    partition = topic.ListOffsetsPartition(
        partition_index=source.partition, current_leader_epoch=-1, timestamp=which
    )
    return ListOffsetsRequest(
        replica_id=-1,
        isolation_level=READ_COMMITTED,
        topics=[topic(name=source.topic, partitions=[partition])],
        max_version=6,
    )
