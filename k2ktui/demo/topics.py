"""The demo's topics, each an example of one reason why offsets differ between clusters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from confluent_kafka import KafkaException
from confluent_kafka.admin import NewTopic

from k2ktui.demo import clients, records
from k2ktui.demo.records import DemoRecord, Maker
from k2ktui.errors import TimedOut

MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class DemoTopic:
    """A source topic.

    Attributes:
        why: what it shows, in a few words.
        make: creates its records.
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
        records.order,
        seeded=8_000,
        rate=200,
        prior=(1_200, 37, 0, 5),
        config=BOUNDED,
    ),
    DemoTopic(
        "payments",
        3,
        "transactions, some aborted; their markers occupy offsets",
        records.payment,
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
        records.click,
        seeded=12_000,
        rate=300,
        compression="snappy",
        config=BOUNDED,
    ),
    DemoTopic(
        "customers",
        2,
        "compacted, with tombstones: gaps between offsets",
        records.customer,
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
        records.session,
        seeded=6_000,
        rate=10,
        compression="none",
        config={"segment.bytes": str(MIB), "retention.bytes": str(MIB)},
    ),
    DemoTopic(
        "invoices",
        2,
        "idle: no new records",
        records.invoice,
        seeded=500,
        rate=0,
        transactional=True,
        compression="gzip",
    ),
)


@dataclass(frozen=True, slots=True)
class RegistryUrls:
    """The addresses of both schema registries."""

    source: str
    target: str


def by_name(name: str) -> DemoTopic:
    """Return the demo topic of that name."""
    return next(topic for topic in TOPICS if topic.name == name)


def create(source: str, target: str, topics: Sequence[DemoTopic] = TOPICS) -> None:
    """Create the demo's topics on both clusters (bootstrap addresses).

    On the target, create only those that hold prior data; the pipeline creates the others.

    Args:
        source: the source cluster.
        target: the target cluster.
        topics: which topics.

    Raises:
        ConnectionFailed: a cluster rejected a request.
        TimedOut: a topic was not created in time.
    """
    _create(source, topics)
    prior = [topic for topic in topics if topic.prior]
    if prior:
        _create(target, prior)


def _create(bootstrap: str, topics: Sequence[DemoTopic]) -> None:
    admin = clients.admin(bootstrap)
    wanted = [NewTopic(t.name, t.partitions, 1, config=dict(t.config)) for t in topics]
    for name, future in admin.create_topics(wanted).items():
        try:
            future.result(clients.TIMEOUT_SECONDS)
        except KafkaException as error:
            raise clients.client_error(error, f"create the topic {name}") from None
        except TimeoutError:
            raise TimedOut(
                f"The demo's topic {name} was not created within {clients.TIMEOUT_SECONDS:g} s.",
                hint="Try again later: this machine is overloaded.",
            ) from None
