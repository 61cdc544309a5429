"""Thin helpers over confluent-kafka for tests that run against real clusters."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

from confluent_kafka import (
    TIMESTAMP_LOG_APPEND_TIME,
    TIMESTAMP_NOT_AVAILABLE,
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from k2ktui.kafka.wire.codes import LEADER_MOVED

# Seconds; who waits as long as this waits for something that does not come, on a busy machine too.
TIMEOUT = 180.0
START_S = 180.0
# With the default of a minute, coordinators abort what a test on a busy machine holds open.
_OPEN_MS = 600_000
# Seconds between two looks at what is waited for, at least and at most.
_LOOK_S, _REST_S = 0.05, 0.5
# The library takes time in proportion to the square of their number.
_OFFSETS_AT_ONCE = 500
# Of several brokers, one that leads a new topic may not know that yet, or may be gone.
_NEW = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._TIMED_OUT)
_counter = itertools.count()

Headers = tuple[tuple[str, bytes | None], ...]
Bounds = tuple[dict[int, int], dict[int, int]]


class ServingCluster(Protocol):
    """What serves clients: a node, several of them, or one of another process."""

    @property
    def bootstrap(self) -> str:
        """Its addresses, ``host:port,…``."""


@dataclass(frozen=True, slots=True)
class Out:
    """A record to produce; ``partition`` None leaves the choice to the client."""

    value: bytes | None = b""
    key: bytes | None = None
    partition: int | None = 0
    headers: Headers = ()
    timestamp: int | None = None


@dataclass(frozen=True, slots=True)
class Got:
    """A record as a consumer sees it; ``timestamp`` in milliseconds since 1970."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: Headers = field(default=())
    timestamp: int = 0
    append_time: bool = False


def unique_name(stem: str = "topic") -> str:
    """Return a name that no other test uses, for topics, groups and transactional ids."""
    return f"{stem}-{os.getpid()}-{next(_counter)}"


def client(node: ServingCluster, **settings: object) -> dict[str, Any]:
    """Return librdkafka properties for ``node``; in keyword names ``_`` stands for ``.``."""
    base: dict[str, Any] = {"bootstrap.servers": node.bootstrap, "log_level": 3}
    return base | {name.replace("_", "."): value for name, value in settings.items()}


def admin(node: ServingCluster) -> AdminClient:
    """Return an admin client of ``node``; keep it until its futures are done."""
    return AdminClient(client(node))


def create_topic(
    node: ServingCluster,
    name: str | None = None,
    partitions: int = 1,
    config: Mapping[str, str] | None = None,
    *,
    replicas: Sequence[Sequence[int]] | None = None,
) -> str:
    """Create a topic, wait until it has leaders, and return its name.

    Args:
        node: where.
        name: None for one that no other test uses.
        partitions: how many, with one replica each.
        config: of the topic.
        replicas: the brokers of each partition, the preferred leader first, instead of the number.
    """
    name = name or unique_name()
    if replicas is None:
        topic = NewTopic(name, partitions, 1, config=dict(config or {}))
    else:
        partitions = len(replicas)
        placed = [list(replica) for replica in replicas]
        topic = NewTopic(name, partitions, replica_assignment=placed, config=dict(config or {}))
    with_admin = admin(node)
    is_repeated = False

    def created() -> bool:
        nonlocal is_repeated
        try:
            with_admin.create_topics([topic])[name].result(TIMEOUT)
        except KafkaException as error:
            code = error.args[0].code()
            if is_repeated and code == KafkaError.TOPIC_ALREADY_EXISTS:
                return True
            has_no_answer = code in (KafkaError._TIMED_OUT, KafkaError.REQUEST_TIMED_OUT)
            is_repeated |= has_no_answer
            # A machine that stood still for three seconds has fenced its brokers; where they stood
            # still for a minute, they have not answered.
            if not has_no_answer and "currently fenced" not in str(error):
                raise
            return False
        return True

    eventually(created, f"topic {name} is created")
    await_leaders(node, name, partitions)
    return name


def await_leaders(node: ServingCluster, name: str, partitions: int) -> None:
    """Wait until a topic has leaders, as far as the broker knows that ``node``'s client asks.

    A broker tells who leads before it has made the logs: until then, who asks the leader for a
    record or an offset, or sends one, is refused.
    """
    with_admin = admin(node)

    def ready() -> bool:
        described = with_admin.list_topics(name, timeout=TIMEOUT).topics[name].partitions
        return len(described) == partitions and all(p.leader >= 0 for p in described.values())

    eventually(ready, f"topic {name} has leaders")
    for first in range(0, partitions, _OFFSETS_AT_ONCE):
        numbers = range(first, min(partitions, first + _OFFSETS_AT_ONCE))
        asked = {TopicPartition(name, number): OffsetSpec.latest() for number in numbers}
        serve = partial(_listed, with_admin, asked, passing=_NEW)
        eventually(serve, f"the leaders of topic {name} serve it")


def eventually(
    condition: Callable[[], object], what: str | Callable[[], str], timeout: float = TIMEOUT
) -> Any:
    """Wait until ``condition`` returns something true, and return that.

    What asks for long, as a command does, is asked less often: it would take the time of what it
    waits for.

    Args:
        condition: what is waited for.
        what: its description; a function is called when the time is over.
        timeout: seconds.
    """
    deadline = time.monotonic() + timeout
    while True:
        began = time.monotonic()
        result = condition()
        if result:
            return result
        now = time.monotonic()
        if now > deadline:
            text = what if isinstance(what, str) else what()
            raise AssertionError(f"not within {timeout:g} s: {text}")
        time.sleep(min(max(_LOOK_S, now - began), _REST_S))


def produce(
    node: ServingCluster,
    topic: str,
    records: Iterable[Out | bytes],
    **settings: object,
) -> list[int]:
    """Produce in order and return the offsets, in the order of ``records``."""
    return [offset for _, offset in _send(Producer(client(node, **settings)), topic, records)]


def produce_transaction(
    node: ServingCluster,
    topic: str,
    records: Iterable[Out | bytes],
    *,
    commit: bool = True,
    transactional_id: str | None = None,
    **settings: object,
) -> list[int]:
    """Produce in one transaction and wait until it has ended; return as :func:`produce` does."""
    identity = {"transactional.id": transactional_id or unique_name("tx")}
    producer = Producer(client(node, **settings) | identity)
    producer.init_transactions(TIMEOUT)
    producer.begin_transaction()
    landed = _send(producer, topic, records)
    end = producer.commit_transaction if commit else producer.abort_transaction
    end(TIMEOUT)

    def has_markers() -> bool:
        ends = end_offsets(node, topic)
        return all(ends[partition] > offset + 1 for partition, offset in landed)

    eventually(has_markers, f"{topic} has the markers")
    return [offset for _, offset in landed]


def open_transaction(
    node: ServingCluster, topic: str, records: Iterable[Out | bytes], **settings: object
) -> Producer:
    """Produce in a transaction and leave it open; the caller ends it, or drops the producer.

    Its time-out is longer than any test takes with it, unless ``settings`` has another one.
    """
    own = {"transactional.id": unique_name("tx"), "transaction.timeout.ms": _OPEN_MS}
    producer = Producer(own | client(node, **settings))
    producer.init_transactions(TIMEOUT)
    producer.begin_transaction()
    _send(producer, topic, records)
    return producer


def _send(producer: Producer, topic: str, records: Iterable[Out | bytes]) -> list[tuple[int, int]]:
    places: dict[int, tuple[int, int]] = {}
    errors: list[KafkaError] = []

    def landed(index: int) -> Callable[[KafkaError | None, Message], None]:
        def report(error: KafkaError | None, message: Message) -> None:
            if error:
                errors.append(error)
            else:
                places[index] = message.partition() or 0, message.offset() or 0

        return report

    for index, record in enumerate(records):
        out = record if isinstance(record, Out) else Out(record)
        _send_one(producer, topic, out, landed(index))
    assert producer.flush(TIMEOUT) == 0, "records were not acknowledged in time"
    assert not errors, errors[0]
    return [places[index] for index in sorted(places)]


def _send_one(producer: Producer, topic: str, out: Out, report: Callable[..., None]) -> None:
    optional: dict[str, Any] = {}
    if out.partition is not None:
        optional["partition"] = out.partition
    if out.timestamp is not None:
        optional["timestamp"] = out.timestamp
    while True:
        try:
            producer.produce(
                topic,
                value=out.value,
                key=out.key,
                headers=list(out.headers),
                on_delivery=report,
                **optional,
            )
        except BufferError:
            producer.poll(0.1)
        else:
            producer.poll(0)
            return


def end_offsets(
    node: ServingCluster, topic: str, isolation: str = "read_uncommitted"
) -> dict[int, int]:
    """Return each partition's end: high watermark, or last stable offset (``read_committed``)."""
    return _bounds(admin(node), topic, isolation)[1]


def ends_of(
    node: ServingCluster, topics: Iterable[str], isolation: str = "read_uncommitted"
) -> dict[tuple[str, int], int]:
    """Return the same of several topics, by topic and partition."""
    with_admin = admin(node)
    return {
        (topic, number): end
        for topic in topics
        for number, end in _bounds(with_admin, topic, isolation)[1].items()
    }


def await_stable(node: ServingCluster, topic: str, timeout: float = TIMEOUT) -> None:
    """Wait until everything that a topic has now is visible to readers of committed records.

    A coordinator answers a commit once it has logged it, and writes the markers afterwards: if a
    broker has just restarted, seconds later. Transactions that stay open must not be there.
    """
    _stable_bounds(node, topic, timeout)


def start_offsets(node: ServingCluster, topic: str) -> dict[int, int]:
    """Return each partition's log start offset."""
    return _bounds(admin(node), topic, "read_uncommitted")[0]


def grow_topic(node: ServingCluster, name: str, partitions: int) -> None:
    """Add partitions to a topic, and wait until all have leaders."""
    with_admin = admin(node)
    with_admin.create_partitions([NewPartitions(name, partitions)])[name].result(TIMEOUT)
    await_leaders(node, name, partitions)


def delete_topic(node: ServingCluster, name: str) -> None:
    """Delete a topic, and wait until it is gone, as far as the broker knows that answers.

    The controller answers first; a broker that has not followed yet still describes the topic, with
    partitions that have no leader.
    """
    with_admin = admin(node)
    with_admin.delete_topics([name])[name].result(TIMEOUT)
    eventually(
        lambda: name not in with_admin.list_topics(timeout=TIMEOUT).topics, f"topic {name} is gone"
    )


def delete_before(node: ServingCluster, topic: str, offset: int, partition: int = 0) -> None:
    """Delete a partition's records before an offset.

    Brokers refuse that of a topic that is only compacted, so its policy is another one meanwhile.
    """
    with_admin = admin(node)
    at = TopicPartition(topic, partition, offset)
    resource = ConfigResource(ResourceType.TOPIC, topic)
    policy = with_admin.describe_configs([resource])[resource].result(TIMEOUT)["cleanup.policy"]
    compacted = policy.value == "compact"

    def is_deleted() -> bool:
        # The leader's log may not have the new policy yet.
        try:
            with_admin.delete_records([at])[at].result(TIMEOUT)
        except KafkaException as error:
            if not compacted or error.args[0].code() != KafkaError.POLICY_VIOLATION:
                raise
            return False
        return True

    if compacted:
        alter_topic(node, topic, cleanup_policy="delete")
    eventually(is_deleted, f"the records of {topic}-{partition} before {offset} are deleted")
    if compacted:
        alter_topic(node, topic, cleanup_policy="compact")


def alter_topic(node: ServingCluster, topic: str, **settings: str) -> None:
    """Change settings of a topic, and wait until they count as far as the broker knows.

    In keyword names ``_`` stands for ``.``. The controller answers first.
    """
    changed = {name.replace("_", "."): value for name, value in settings.items()}
    entries = [
        ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        for name, value in changed.items()
    ]
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
    with_admin = admin(node)
    with_admin.incremental_alter_configs([resource])[resource].result(TIMEOUT)

    def has_followed() -> bool:
        now = with_admin.describe_configs([resource])[resource].result(TIMEOUT)
        return all(now[name].value == value for name, value in changed.items())

    eventually(has_followed, f"{topic} has {changed}")


def _stable_bounds(node: ServingCluster, topic: str, timeout: float) -> Bounds:
    """Return what :func:`await_stable` waits for: where committed records begin and end then.

    Most often there is nothing to wait for, and to connect takes longer than all questions.
    """
    with_admin = admin(node)
    _, ends = _bounds(with_admin, topic, "read_uncommitted")
    asking = [with_admin]

    def stable() -> Bounds | None:
        # One that has just connected finds brokers that have restarted since.
        bounds = _bounds(asking.pop() if asking else admin(node), topic, "read_committed")
        return bounds if all(bounds[1][number] >= end for number, end in ends.items()) else None

    bounds: Bounds = eventually(stable, f"{topic} has the markers of all transactions", timeout)
    return bounds


def _bounds(with_admin: AdminClient, topic: str, isolation: str) -> Bounds:
    """Return the offsets at which each partition begins and ends."""
    level = {
        "read_committed": IsolationLevel.READ_COMMITTED,
        "read_uncommitted": IsolationLevel.READ_UNCOMMITTED,
    }[isolation]

    def known() -> Any:
        return with_admin.list_topics(topic, timeout=TIMEOUT).topics[topic].partitions

    # A broker of ZooKeeper's time serves before its controller has sent it the metadata.
    partitions = eventually(known, f"{topic} is known")
    bounds = []
    for spec in (OffsetSpec.earliest(), OffsetSpec.latest()):
        asked = {TopicPartition(topic, number): spec for number in partitions}
        bounds.append(
            eventually(partial(_listed, with_admin, asked, level), "its partitions have leaders")
        )
    return bounds[0], bounds[1]


def _listed(
    client: AdminClient,
    asked: dict[TopicPartition, Any],
    level: Any = IsolationLevel.READ_UNCOMMITTED,
    *,
    passing: Sequence[int] = (),
) -> dict[int, int]:
    """The offsets; nothing while a broker that just started does not lead its partitions yet.

    Nor after an error with one of the codes ``passing``.
    """
    futures = client.list_offsets(asked, isolation_level=level)
    try:
        offsets = {tp.partition: f.result(TIMEOUT).offset for tp, f in futures.items()}
    except KafkaException as error:
        if error.args[0].code() not in (*LEADER_MOVED, *passing, KafkaError._NOENT):
            raise
        offsets = {}
    if offsets and min(offsets.values()) >= 0:  # negative, without an error, if a leader is gone
        return offsets
    client.list_topics(timeout=TIMEOUT)  # else it keeps asking the leaders it remembers
    return {}


def read_all(
    node: ServingCluster,
    topic: str,
    isolation: str = "read_committed",
    *,
    timeout: float = TIMEOUT,
    stays_open: bool = False,
) -> list[Got]:
    """Read every partition from its start to the end that it has now.

    Args:
        stays_open: A transaction is open, and stays so: committed records are read to the last
            stable offset. Else those are waited for whose markers are not written yet.

    Returns:
        Records ordered by partition, then offset.
    """
    if isolation == "read_committed" and not stays_open:
        starts, ends = _stable_bounds(node, topic, timeout)
    else:
        starts, ends = _bounds(admin(node), topic, isolation)
    ends = {number: end for number, end in ends.items() if end > starts[number]}
    if not ends:
        return []
    settings = client(
        node,
        group_id=unique_name("reader"),
        isolation_level=isolation,
        enable_auto_commit=False,
        enable_partition_eof=True,
        # Retention may delete more in between.
        auto_offset_reset="earliest",
        fetch_wait_max_ms=50,
    )
    consumer = Consumer(settings)
    try:
        # OFFSET_BEGINNING would be looked up half a second later, when the leader is known.
        consumer.assign([TopicPartition(topic, number, starts[number]) for number in ends])
        return sorted(
            _read_to(consumer, ends, timeout), key=lambda got: (got.partition, got.offset)
        )
    finally:
        consumer.close()


def group_consumer(node: ServingCluster, group: str, reset: str) -> Consumer:
    """Return a consumer with a group's committed offsets, which commits nothing by itself."""
    settings = client(
        node,
        group_id=group,
        isolation_level="read_committed",
        enable_auto_commit=False,
        enable_partition_eof=True,
        auto_offset_reset=reset,
    )
    return Consumer(settings)


def read_unread(
    node: ServingCluster, group: str, topic: str, partitions: Iterable[int]
) -> list[Got]:
    """Read partitions as a member of a group would: from its committed offsets to the end now."""
    await_stable(node, topic)
    ends = end_offsets(node, topic, "read_committed")
    consumer = group_consumer(node, group, "error")
    try:
        chosen = sorted(partitions)
        consumer.assign([TopicPartition(topic, number) for number in chosen])
        records = _read_to(consumer, {number: ends[number] for number in chosen}, TIMEOUT)
        return sorted(records, key=lambda got: (got.partition, got.offset))
    finally:
        consumer.close()


def _read_to(consumer: Consumer, ends: dict[int, int], timeout: float) -> list[Got]:
    left = dict(ends)
    records: list[Got] = []
    deadline = time.monotonic() + timeout
    while left:
        assert time.monotonic() < deadline, f"not read within {timeout:g} s: partitions {left}"
        message = consumer.poll(0.5)
        if message is None:
            continue
        number, offset = message.partition() or 0, message.offset() or 0
        error = message.error()
        if error is None and offset < ends[number]:
            records.append(got_of(message))
        elif error is not None and error.code() != KafkaError._PARTITION_EOF:
            raise AssertionError(error)
        if offset + (error is None) >= ends[number]:
            left.pop(number, None)
    return records


def got_of(message: Message) -> Got:
    """Return what a consumer was given."""
    kind, timestamp = message.timestamp()
    return Got(
        partition=message.partition() or 0,
        offset=message.offset() or 0,
        key=message.key(),
        value=message.value(),
        headers=tuple(message.headers() or ()),
        # Records of before Kafka 0.10 have none; in a batch of today that is -1.
        timestamp=-1 if kind == TIMESTAMP_NOT_AVAILABLE else timestamp,
        append_time=kind == TIMESTAMP_LOG_APPEND_TIME,
    )
