"""The demo's topics, each an example of one reason why offsets differ between clusters.

Their records are cases that a copy could get wrong.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from k2ktui.engine.strict_json import dump

MIB = 1 << 20


Headers = tuple[tuple[str, bytes | None], ...]


@dataclass(frozen=True, slots=True)
class DemoRecord:
    """A record; a value of None is a tombstone, empty bytes are a zero-length value."""

    key: bytes | None
    value: bytes | None
    headers: Headers = ()


Maker = Callable[[random.Random, int], DemoRecord]

_CITIES = ("Athens", "Bogotá", "Kraków", "København", "Łódź", "Zürich", "東京", "Reykjavík")


def order(chance: random.Random, number: int) -> DemoRecord:
    """Return a keyed order; its headers hold a repeated key, in order, and a null value."""
    body = {
        "order": number,
        "city": chance.choice(_CITIES),
        "items": [chance.randrange(1000) for _ in range(chance.randrange(1, 6))],
        "cents": chance.randrange(99, 99_900),
    }
    headers: Headers = (
        ("trace", f"{chance.getrandbits(64):016x}".encode()),
        ("hop", b"shop"),
        ("hop", b"gateway"),
        ("hop", b""),
        ("note", None),
    )
    return DemoRecord(f"customer-{chance.randrange(500)}".encode(), dump(body), headers)


def payment(chance: random.Random, number: int) -> DemoRecord:
    """Return a payment, written in transactions."""
    body = {"payment": number, "cents": chance.randrange(99, 99_900), "card": "tokenised"}
    return DemoRecord(f"order-{number}".encode(), dump(body), (("attempt", b"1"),))


def click(chance: random.Random, number: int) -> DemoRecord:
    """Return a click without a key; some values are empty, some are null."""
    if number % 97 == 0:
        return DemoRecord(None, b"")
    if number % 101 == 0:
        return DemoRecord(None, None)
    return DemoRecord(None, b"/item/%d?from=%d" % (chance.randrange(10_000), number))


def customer(chance: random.Random, number: int) -> DemoRecord:
    """Return the latest state of one of a few customers; every tenth is a tombstone."""
    key = f"customer-{chance.randrange(200)}".encode()
    if number % 10 == 0:
        return DemoRecord(key, None)
    body = {"version": number, "city": chance.choice(_CITIES), "bio": "x" * 400}
    return DemoRecord(key, dump(body) if number % 53 else b"")


def session(chance: random.Random, number: int) -> DemoRecord:
    """Return a large record of a topic with a short retention."""
    return DemoRecord(f"session-{number}".encode(), chance.randbytes(1000))


def invoice(chance: random.Random, number: int) -> DemoRecord:
    """Return a document of a topic without live traffic."""
    return DemoRecord(f"invoice-{number}".encode(), dump({"invoice": number}))


def native(chance: random.Random, number: int) -> DemoRecord:
    """Return a record that an application on the target wrote before replication began."""
    body = {"written": "on the target", "number": number}
    return DemoRecord(f"native-{number}".encode(), dump(body), (("origin", b"target"),))


@dataclass(frozen=True, slots=True)
class DemoTopic:
    """A source topic.

    Attributes:
        why: what it shows, in a few words.
        make: creates its
        seeded: records written before the pipeline starts.
        rate: records per second while the demo runs.
        transactional: written in transactions, some of which abort.
        compression: codec of its producer.
        prior: for each partition, records that the target's topic of the same name already holds.
        config: topic configuration.
    """

    name: str
    partitions: int
    why: str
    make: Maker
    seeded: int
    rate: float
    transactional: bool = False
    compression: str = "lz4"
    prior: tuple[int, ...] = ()
    config: Mapping[str, str] = field(default_factory=dict)

    @property
    def places(self) -> list[tuple[str, int]]:
        """Its partitions, each with the topic's name."""
        return [(self.name, number) for number in range(self.partitions)]

    def partition_for(self, record: DemoRecord, number: int) -> int:
        """Return the partition of record ``number``; -1 leaves the choice to the key's hash."""
        # The client's sticky partitioner would send long runs of keyless records to one partition.
        return number % self.partitions if record.key is None else -1


#: The topic of Avro records, with two schema registries.
SCHEMA_TOPIC = "avro-orders"

# Bounds the disk space of a demo that runs for days.
BOUNDED = {"segment.bytes": str(16 * MIB), "retention.bytes": str(48 * MIB)}

TOPICS: tuple[DemoTopic, ...] = (
    DemoTopic(
        "orders",
        4,
        "the target topic has records of its own",
        order,
        seeded=8_000,
        rate=200,
        prior=(1_200, 37, 0, 5),
        config=BOUNDED,
    ),
    DemoTopic(
        "payments",
        3,
        "transactions, some aborted; their markers occupy offsets",
        payment,
        seeded=3_000,
        rate=80,
        transactional=True,
        compression="zstd",
        prior=(64, 0, 210),
        config=BOUNDED,
    ),
    DemoTopic(
        "clicks",
        4,
        "no keys, empty values and null values",
        click,
        seeded=12_000,
        rate=300,
        compression="snappy",
        config=BOUNDED,
    ),
    DemoTopic(
        "customers",
        2,
        "compacted, with tombstones: gaps between offsets",
        customer,
        # More than one segment of the smallest size that Kafka allows, so that the cleaner runs.
        seeded=8_000,
        rate=20,
        compression="none",
        config={
            "cleanup.policy": "compact",
            "segment.bytes": str(MIB),
            "segment.ms": "15000",
            "min.cleanable.dirty.ratio": "0.01",
            "delete.retention.ms": "60000",
        },
    ),
    DemoTopic(
        "sessions",
        2,
        "first records deleted by retention",
        session,
        seeded=6_000,
        rate=10,
        compression="none",
        # Its past is larger. As soon as its head is deleted, it gets the retention of the others.
        config={"segment.bytes": str(MIB), "retention.bytes": str(MIB)},
    ),
    DemoTopic(
        "invoices",
        2,
        "idle: no new records",
        invoice,
        seeded=500,
        rate=0,
        transactional=True,
        compression="gzip",
    ),
)


def by_name(name: str) -> DemoTopic:
    """Return the demo topic of that name."""
    return next(topic for topic in TOPICS if topic.name == name)
