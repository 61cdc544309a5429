"""Byte-exact encoding and decoding of MirrorMaker 2's records and Kafka Connect's source offsets.

Offset syncs, checkpoints and heartbeats are ``Struct``s of Kafka's protocol: a string is a two-byte
length and UTF-8, integers are big-endian. Only checkpoints and heartbeats have a version (0). All
are stored in partition 0 of their topic. Connect's offsets are JSON; Connect looks them up by the
key's bytes, so the order of its fields matters.

A tombstone decodes to None as the value.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from k2ktui.engine.records.state import SourcePartition
from k2ktui.engine.strict_json import (
    LARGEST_INT,
    MalformedRecord,
    dump,
    integer,
    mapping,
    parse,
)
from k2ktui.engine.strict_json import text as strict_text

Keyed = TypeVar("Keyed")
K = TypeVar("K")
R = TypeVar("R")

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


@dataclass(frozen=True, slots=True)
class _Kind(Generic[Keyed, K, R]):
    """One kind of record: the fields of the ``Struct``s of its key and value, by their types.

    Attributes:
        key_fields, value_fields: fields and their types, in the record's and the class's order; a
            version is no attribute.
        make_key: makes what a key says.
        make: makes the record of that and the fields of the value.
    """

    key_fields: Mapping[str, str]
    value_fields: Mapping[str, str]
    make_key: Callable[..., K]
    make: Callable[..., R]

    def key(self, of: Keyed) -> bytes:
        """Encode a key."""
        return _pack(of, self.key_fields)

    def value(self, record: R) -> bytes:
        """Encode a value."""
        return _pack(record, self.value_fields)

    def read(self, key: bytes | None, value: bytes | None) -> tuple[K, R | None]:
        """Decode a record.

        Raises:
            ForeignRecord: it is not of this kind, or its version is unknown.
        """
        at = self.make_key(*_unpack("the key", key, self.key_fields))
        if value is None:
            return at, None
        return at, self.make(at, *_unpack("the value", value, self.value_fields))


_LENGTH = ">h"
# Of a text, its length is in front. The names stand in messages, too.
_LAYOUTS = {"version": ">h", "text": _LENGTH, "partition": ">i", "offset": ">q", "time": ">q"}


def _pack(record: object, fields: Mapping[str, str]) -> bytes:
    raw = b""
    for name, kind in fields.items():
        value: Any = VERSION if kind == "version" else getattr(record, name)
        if kind == "text":
            value = value.encode()
            if len(value) > _LONGEST_STRING:
                raise ValueError("a string of more than 32767 bytes does not fit the format")
            raw += struct.pack(_LENGTH, len(value)) + value
        else:
            raw += struct.pack(_LAYOUTS[kind], value)
    return raw


def _unpack(what: str, raw: bytes | None, fields: Mapping[str, str]) -> list[Any]:
    if raw is None:
        raise ForeignRecord(f"{what} is missing")
    values: list[Any] = []
    at = 0
    try:
        for kind in fields.values():
            (value,) = struct.unpack_from(_LAYOUTS[kind], raw, at)
            at += struct.calcsize(_LAYOUTS[kind])
            if kind == "text":
                size = value
                value = struct.unpack_from(f"{size}s", raw, at)[0].decode()
                at += size
            elif kind == "version":
                if value != VERSION:
                    raise ForeignRecord(f"version {value}, this release reads version {VERSION}")
                continue
            elif value < 0:
                raise ForeignRecord(f"{what} has a negative {kind}")
            values.append(value)
    except struct.error as error:
        raise ForeignRecord(f"{what} ends too early") from error
    except UnicodeDecodeError as error:
        raise ForeignRecord(f"{what} has a string that is not UTF-8") from error
    if at != len(raw):
        raise ForeignRecord(f"{what} is longer than it should be")
    return values


_OFFSET_SYNC: _Kind[SourcePartition, SourcePartition, OffsetSync] = _Kind(
    {"topic": "text", "partition": "partition"},
    {"upstream": "offset", "downstream": "offset"},
    SourcePartition,
    OffsetSync,
)
_CHECKPOINT: _Kind[GroupPartition, GroupPartition, Checkpoint] = _Kind(
    {"group": "text", "topic": "text", "partition": "partition"},
    {"version": "version", "upstream": "offset", "downstream": "offset", "metadata": "text"},
    GroupPartition,
    Checkpoint,
)
_HEARTBEAT: _Kind[Heartbeat, tuple[str, str], Heartbeat] = _Kind(
    {"source": "text", "target": "text"},
    {"version": "version", "at_ms": "time"},
    lambda source, target: (source, target),
    lambda aliases, at_ms: Heartbeat(aliases[0], aliases[1], at_ms),
)
# Of a heartbeat, the key has the aliases of source and target.
offset_sync_key, offset_sync_value = _OFFSET_SYNC.key, _OFFSET_SYNC.value
checkpoint_key, checkpoint_value = _CHECKPOINT.key, _CHECKPOINT.value
heartbeat_key, heartbeat_value = _HEARTBEAT.key, _HEARTBEAT.value
read_offset_sync, read_checkpoint = _OFFSET_SYNC.read, _CHECKPOINT.read
read_heartbeat = _HEARTBEAT.read


def connect_offset_key(at: ConnectorPartition) -> bytes:
    """Encode the key of a source connector's position as Connect's JSON converter does."""
    partition = {
        "cluster": at.cluster,
        "partition": at.source.partition,
        "topic": at.source.topic,
    }
    return dump([at.connector, partition])


def connect_offset_value(last: int) -> bytes:
    """Encode the value of a source connector's position: the offset of the last copied record."""
    return dump({"offset": last})


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


def _parse(raw: bytes | None, what: str) -> Any:
    try:
        return parse(raw, what)
    except MalformedRecord as error:
        raise ForeignRecord(str(error)) from error
