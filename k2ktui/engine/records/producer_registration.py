"""Registered producer ids: which pipeline wrote a batch, without a header.

A driver registers the producer ids of its slots on the target, in its commit topic, before their
first use. A pipeline in the opposite direction recognizes by them the batches that it must not copy
back. Producer ids are unique within a cluster and survive compaction.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from k2ktui.engine.strict_json import UnknownVersion, dump_object, field, integer, parse_object
from k2ktui.engine.wire import MILLIS, TEXT, Wire, defaulted, required

PRODUCER = "producer"
_VERSION = 1
_LARGEST_BYTES = 1 << 20
REGISTRATION_MARK = b'"producer":'


@dataclass(frozen=True, slots=True)
class ProducerRegistration:
    """A producer id and the pair of clusters that its pipeline copies between.

    A producer id is never registered for a second pair: its earlier batches would be taken for
    records of another cluster.

    Attributes:
        producer_id: on the target cluster.
        source: id of the source cluster.
        target: id of the target cluster.
        at_ms: wall clock of the writer, epoch milliseconds.
    """

    producer_id: int
    source: str
    target: str
    at_ms: int = 0


_WIRE = Wire(
    ProducerRegistration,
    source=required("sourceCluster", TEXT),
    target=required("targetCluster", TEXT),
    at_ms=defaulted("at", MILLIS, 0),
)


def registration_key(group: str, producer_id: int) -> bytes:
    """Compaction key of a registration; ``group`` is ``coordination.commit.group``."""
    return dump_object({"group": group, PRODUCER: producer_id})


def registration_value(registration: ProducerRegistration) -> bytes:
    """Value of a registration."""
    return dump_object({"v": _VERSION, **_WIRE.write(registration)})


def parse_registration(producer: object, value: Mapping[str, Any]) -> ProducerRegistration:
    """Return the registration in a decoded key's ``producer`` and a decoded value.

    Raises:
        MalformedRecord: a field is missing or wrong.
    """
    return _WIRE.read(value, producer_id=integer(producer))


def read_registration(key: bytes | None, value: bytes | None) -> ProducerRegistration | None:
    """Decode a record of a commit topic if it is a registration; None for any other record.

    Positions are by far the most records of the topic; they are recognized without decoding.

    Raises:
        UnknownVersion: a registration of another release; ``of`` is its producer id.
        MalformedRecord: a registration that cannot be read.
    """
    if key is None or value is None or REGISTRATION_MARK not in key:
        return None
    head = parse_object(key, "the key", largest=_LARGEST_BYTES)
    if head.get(PRODUCER) is None:
        return None
    body = parse_object(value, "the value", largest=_LARGEST_BYTES)
    if integer(field(body, "v")) != _VERSION:
        raise UnknownVersion("a registration", integer(head[PRODUCER]))
    return parse_registration(head[PRODUCER], body)
