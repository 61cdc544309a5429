"""Byte-exact encoding and decoding of MirrorMaker 2's records and Kafka Connect's source offsets.

Offset syncs, checkpoints and heartbeats are ``Struct``s of Kafka's protocol: a string is a two-byte
length and UTF-8, integers are big-endian. Only checkpoints and heartbeats have a version (0). All
are stored in partition 0 of their topic. Connect's offsets are JSON; Connect looks them up by the
key's bytes, so the order of its fields matters.

A tombstone decodes to None as the value.
"""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass
from typing import Any

from k2ktui.engine.records.state import SourcePartition
from k2ktui.engine.strict_json import (
    LARGEST_INT,
    MalformedRecord,
    integer,
    mapping,
    parse,
)
from k2ktui.engine.strict_json import text as strict_text

VERSION = 0
# MirrorMaker 2 writes to and reads from this partition only.
PARTITION = 0
SOURCE_CONNECTOR = "MirrorSourceConnector"
_LONGEST_STRING = 32767


class ForeignRecord(ValueError):
    """A record is not MirrorMaker 2's, is damaged, or has an unknown version."""


@dataclass(frozen=True, slots=True)
class OffsetSync:
    """Source and target offset of one copied record, as in MirrorMaker 2's ``OffsetSync``.

    Attributes:
        source: source topic and partition.
        upstream: source offset of the record.
        downstream: offset of its copy in the same partition of the target topic.
    """

    source: SourcePartition
    upstream: int
    downstream: int


@dataclass(frozen=True, slots=True, order=True)
class GroupPartition:
    """A consumer group and a target topic partition."""

    group: str
    topic: str
    partition: int


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A group's committed offset on the source and its translation by MirrorMaker 2.

    Attributes:
        at: the group and the target partition.
        upstream: committed offset on the source when the checkpoint was written.
        downstream: the translated offset.
        metadata: the application's metadata of the commit.
    """

    at: GroupPartition
    upstream: int
    downstream: int
    metadata: str = ""


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """States that the flow between two aliases was alive at ``at_ms`` (epoch milliseconds)."""

    source: str
    target: str
    at_ms: int


@dataclass(frozen=True, slots=True, order=True)
class ConnectorPartition:
    """Key of a MirrorSourceConnector's position; ``cluster`` is the source's alias."""

    connector: str
    cluster: str
    source: SourcePartition


class _Reader:
    """Reads the fields of a struct in order."""

    def __init__(self, raw: bytes | None, what: str) -> None:
        if raw is None:
            raise ForeignRecord(f"{what} is missing")
        self._raw, self._at, self._what = raw, 0, what

    def _take(self, size: int) -> bytes:
        end = self._at + size
        if size < 0 or end > len(self._raw):
            raise ForeignRecord(f"{self._what} ends too early")
        taken, self._at = self._raw[self._at : end], end
        return taken

    def number(self, size: int) -> int:
        return int.from_bytes(self._take(size), "big", signed=True)

    def text(self) -> str:
        try:
            return self._take(self.number(2)).decode()
        except UnicodeDecodeError as error:
            raise ForeignRecord(f"{self._what} has a string that is not UTF-8") from error

    def version(self) -> None:
        version = self.number(2)
        if version != VERSION:
            raise ForeignRecord(f"version {version}, this release reads version {VERSION}")

    def partition(self) -> int:
        partition = self.number(4)
        if partition < 0:
            raise ForeignRecord(f"{self._what} has a negative partition")
        return partition

    def offset(self) -> int:
        offset = self.number(8)
        if offset < 0:
            raise ForeignRecord(f"{self._what} has a negative offset")
        return offset

    def end(self) -> None:
        if self._at != len(self._raw):
            raise ForeignRecord(f"{self._what} is longer than it should be")


def _text(value: str) -> bytes:
    raw = value.encode()
    if len(raw) > _LONGEST_STRING:
        raise ValueError("a string of more than 32767 bytes does not fit the format")
    return struct.pack(">h", len(raw)) + raw


def offset_sync_key(source: SourcePartition) -> bytes:
    """Encode the key of an offset sync."""
    return _text(source.topic) + struct.pack(">i", source.partition)


def offset_sync_value(sync: OffsetSync) -> bytes:
    """Encode the value of an offset sync."""
    return struct.pack(">qq", sync.upstream, sync.downstream)


def read_offset_sync(
    key: bytes | None, value: bytes | None
) -> tuple[SourcePartition, OffsetSync | None]:
    """Decode a record of the offset-syncs topic.

    Raises:
        ForeignRecord: it is not an offset sync.
    """
    head = _Reader(key, "the key")
    source = SourcePartition(head.text(), head.partition())
    head.end()
    if value is None:
        return source, None
    body = _Reader(value, "the value")
    sync = OffsetSync(source, body.offset(), body.offset())
    body.end()
    return source, sync


def checkpoint_key(at: GroupPartition) -> bytes:
    """Encode the key of a checkpoint."""
    return _text(at.group) + _text(at.topic) + struct.pack(">i", at.partition)


def checkpoint_value(checkpoint: Checkpoint) -> bytes:
    """Encode the value of a checkpoint."""
    offsets = struct.pack(">hqq", VERSION, checkpoint.upstream, checkpoint.downstream)
    return offsets + _text(checkpoint.metadata)


def read_checkpoint(
    key: bytes | None, value: bytes | None
) -> tuple[GroupPartition, Checkpoint | None]:
    """Decode a record of the checkpoints topic.

    Raises:
        ForeignRecord: it is not a checkpoint, or its version is unknown.
    """
    head = _Reader(key, "the key")
    at = GroupPartition(head.text(), head.text(), head.partition())
    head.end()
    if value is None:
        return at, None
    body = _Reader(value, "the value")
    body.version()
    checkpoint = Checkpoint(at, body.offset(), body.offset(), body.text())
    body.end()
    return at, checkpoint


def heartbeat_key(heartbeat: Heartbeat) -> bytes:
    """Encode the key of a heartbeat."""
    return _text(heartbeat.source) + _text(heartbeat.target)


def heartbeat_value(heartbeat: Heartbeat) -> bytes:
    """Encode the value of a heartbeat."""
    return struct.pack(">hq", VERSION, heartbeat.at_ms)


def read_heartbeat(
    key: bytes | None, value: bytes | None
) -> tuple[tuple[str, str], Heartbeat | None]:
    """Decode a record of a heartbeats topic; its key holds the aliases of source and target.

    Raises:
        ForeignRecord: it is not a heartbeat, or its version is unknown.
    """
    head = _Reader(key, "the key")
    source, target = head.text(), head.text()
    head.end()
    if value is None:
        return (source, target), None
    body = _Reader(value, "the value")
    body.version()
    heartbeat = Heartbeat(source, target, body.number(8))
    body.end()
    if heartbeat.at_ms < 0:
        raise ForeignRecord("the value has a negative time")
    return (source, target), heartbeat


def connect_offset_key(at: ConnectorPartition) -> bytes:
    """Encode the key of a source connector's position as Connect's JSON converter does."""
    partition = {
        "cluster": at.cluster,
        "partition": at.source.partition,
        "topic": at.source.topic,
    }
    return _json([at.connector, partition])


def connect_offset_value(last: int) -> bytes:
    """Encode the value of a source connector's position: the offset of the last copied record."""
    return _json({"offset": last})


def read_connect_offset(
    key: bytes | None, value: bytes | None
) -> tuple[ConnectorPartition, int | None] | None:
    """Decode a record of Connect's offset topic.

    Returns:
        The partition and the offset of the last copied record (None if the position was cleared);
        None for positions of other connectors, which share the topic.

    Raises:
        ForeignRecord: it is not a position, or Connect would not find it by its key.
    """
    at = _connector_partition(_parse(key, "the key"))
    if at is None:
        return None
    if connect_offset_key(at) != key:
        raise ForeignRecord("the key is not encoded as Connect encodes it, so Connect ignores it")
    if value is None:
        return at, None
    body = _parse(value, "the value")
    try:
        return at, integer(mapping(body).get("offset"))
    except MalformedRecord as error:
        raise ForeignRecord("the value has no offset") from error


def _connector_partition(head: Any) -> ConnectorPartition | None:
    if not isinstance(head, list) or len(head) != 2 or not isinstance(head[0], str):
        raise ForeignRecord("the key is not a connector and its partition")
    connector, partition = head
    if not isinstance(partition, dict) or partition.keys() != {"cluster", "partition", "topic"}:
        return None
    cluster, number, topic = partition["cluster"], partition["partition"], partition["topic"]
    try:
        source = SourcePartition(strict_text(topic), integer(number, high=LARGEST_INT))
        return ConnectorPartition(strict_text(connector), strict_text(cluster), source)
    except MalformedRecord as error:
        raise ForeignRecord("the key has a partition of another kind") from error


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def _parse(raw: bytes | None, what: str) -> Any:
    try:
        return parse(raw, what)
    except MalformedRecord as error:
        raise ForeignRecord(str(error)) from error
