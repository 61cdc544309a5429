"""Brokers of other versions than the session's two clusters, and a cluster of two brokers.

All of them run from Maven artifacts, on loopback ports of their own, and end with this process (see
:mod:`k2ktui.runtime.child_process`).
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from confluent_kafka import (
    ElectionType,
    KafkaError,
    KafkaException,
    Producer,
    TopicCollection,
    TopicPartition,
    TopicPartitionInfo,
)
from confluent_kafka.admin import AdminClient

from k2ktui.progress import Progress
from k2ktui.runtime import storage
from k2ktui.runtime.artifacts import KAFKA_VERSION, Classpath
from k2ktui.runtime.java import Java
from k2ktui.runtime.node import CONTROLLER_LISTENER, KafkaNode, broker_archive
from tests.support.clusters.kafka import START_S, TIMEOUT, admin, client, create_topic, eventually
from tests.support.clusters.zookeeper import JVM, ZooKeeper, kafka_jars

_METADATA_S = 10.0


@dataclass(frozen=True, slots=True)
class Kind:
    """A broker version that tests run against.

    Attributes:
        version: of Apache Kafka.
        zookeeper: whether it needs ZooKeeper; otherwise it runs in KRaft mode.
        features: feature levels that its storage is formatted with, for example
            ``{"transaction.version": 0}``; those not named have the version's default.
        properties: broker properties that this version needs.
        consumer_protocol: whether it has groups of KIP-848's protocol ``consumer``.
    """

    version: str
    zookeeper: bool = False
    features: Mapping[str, int] = field(default_factory=dict)
    properties: Mapping[str, str] = field(default_factory=dict)
    consumer_protocol: bool = False


KINDS: Mapping[str, Kind] = {
    "2.5": Kind("2.5.1", zookeeper=True),
    "2.8": Kind("2.8.2", zookeeper=True),
    "3.9": Kind("3.9.1"),
    "4.0.0": Kind("4.0.0", features={"transaction.version": 2}, consumer_protocol=True),
    "4-tv0": Kind(KAFKA_VERSION, features={"transaction.version": 0}, consumer_protocol=True),
    "4-tv1": Kind(KAFKA_VERSION, features={"transaction.version": 1}, consumer_protocol=True),
    "4-tv2": Kind(KAFKA_VERSION, features={"transaction.version": 2}, consumer_protocol=True),
}


def kind_of(name: str) -> Kind:
    """Return one of :data:`KINDS`, or that of a version in KRaft mode, from 3.3 on."""
    return KINDS.get(name) or Kind(name, consumer_protocol=int(name.partition(".")[0]) >= 4)


def make_node(
    kind: str, name: str, data_dir: Path, properties: Mapping[str, str] | None = None
) -> KafkaNode:
    """Return a node of a kind; it is not started yet."""
    chosen = kind_of(kind)
    make = ZooKeeperNode if chosen.zookeeper else KRaftNode
    return make(name, data_dir, {**chosen.properties, **(properties or {})}, kind=chosen)


class KRaftNode(KafkaNode):
    """A node in KRaft mode of any version and feature level, alone or in a cluster.

    Args:
        name: as for :class:`KafkaNode`.
        data_dir: as for :class:`KafkaNode`.
        properties: as for :class:`KafkaNode`.
        kind: its version and features.
        number: its node id.
        controller: the node that is the cluster's controller; None when this one is.
    """

    def __init__(
        self,
        name: str,
        data_dir: Path,
        properties: Mapping[str, str] | None = None,
        *,
        kind: Kind,
        number: int = 1,
        controller: KRaftNode | None = None,
    ) -> None:
        super().__init__(name, data_dir, properties)
        self.number = number
        self._kind = kind
        self._controller = controller
        self.new_cluster_id = storage.new_id()
        if controller is not None:
            del self._protocols[CONTROLLER_LISTENER]

    def restart_with(self, properties: Mapping[str, str]) -> None:
        """Restart it with these properties changed."""
        self.stop()
        self._properties.update(properties)
        self.start(START_S)

    def _jars(self, progress: Progress | None) -> Classpath:
        return kafka_jars(self._kind.version, progress)

    def _format(self, java: Java, jars: Classpath) -> str:
        log_dir = self.data_dir / "logs"
        known = storage.cluster_id(log_dir)
        if known:
            return known
        identity = self._cluster_id_to_format()
        self.data_dir.mkdir(parents=True, exist_ok=True)
        config = self.data_dir / "format.properties"
        config.write_text(storage.properties_text(self._settings()))
        features = [] if self._controller else self._kind.features.items()
        tool = ["kafka.tools.StorageTool", "format", "-t", identity, "-c", str(config)]
        options = [word for name, level in features for word in ("--feature", f"{name}={level}")]
        archive = broker_archive(java, jars).options()
        done = subprocess.run(
            [str(java.executable), *JVM, *archive, "-cp", jars.argument, *tool, *options],
            capture_output=True,
            text=True,
            timeout=START_S,
            check=False,
        )
        assert done.returncode == 0, done.stderr or done.stdout
        return identity

    def _cluster_id_to_format(self) -> str:
        return self._controller.new_cluster_id if self._controller else self.new_cluster_id

    def _membership(self) -> dict[str, str]:
        lead = self._controller or self
        protocols = {**self._protocols, CONTROLLER_LISTENER: "PLAINTEXT"}
        return {
            "process.roles": "broker" if self._controller else "broker,controller",
            "node.id": str(self.number),
            "controller.quorum.voters": f"{lead.number}@{lead.address(CONTROLLER_LISTENER)}",
            "controller.listener.names": CONTROLLER_LISTENER,
            "listener.security.protocol.map": ",".join(
                f"{name}:{protocol}" for name, protocol in protocols.items()
            ),
        }


class ZooKeeperNode(KafkaNode):
    """A node of the time before KRaft, with a ZooKeeper of its own."""

    def __init__(
        self,
        name: str,
        data_dir: Path,
        properties: Mapping[str, str] | None = None,
        *,
        kind: Kind,
    ) -> None:
        super().__init__(name, data_dir, properties)
        del self._protocols[CONTROLLER_LISTENER]
        self._kind = kind
        self._zookeeper = ZooKeeper(self.data_dir / "zookeeper", kind.version)

    def start(self, timeout: float | None = None, *, progress: Progress | None = None) -> Self:
        with self._life:
            if not self.running:
                self._zookeeper.start()
                # After kill -9 the broker's earlier registration is still there for a while.
                eventually(self._zookeeper.knows_no_broker, "ZooKeeper has forgotten the broker")
        super().start(START_S if timeout is None else timeout, progress=progress)
        self._cluster_id = storage.cluster_id(self.data_dir / "logs")
        return self

    def close(self) -> None:
        super().close()
        self._zookeeper.close()

    def _jars(self, progress: Progress | None) -> Classpath:
        return kafka_jars(self._kind.version, progress)

    def _format(self, java: Java, jars: Classpath) -> str:
        return ""  # the broker does it by itself, and chooses its cluster's id

    def _membership(self) -> dict[str, str]:
        return {
            "broker.id": "1",
            "zookeeper.connect": self._zookeeper.address,
            # The longest with the tick of ZooKeeper here: a broker may stand still for seconds.
            "zookeeper.session.timeout.ms": "10000",
            # A broker that stops must not wait for a controller that stops with it.
            "controlled.shutdown.enable": "false",
        }


class TwoBrokers:
    """A cluster of two brokers; the first is also its controller, so stop only the second.

    Where a test helper takes a node, it takes this too. Topics get two replicas unless
    ``create_topic(…, replicas=[[1], [2], …])`` places them; transactions and groups have two, and
    continue with one broker.

    Args:
        name: of the cluster.
        data_dir: for the data of both.
        properties: of both brokers, for example ``{"min.insync.replicas": "2"}``.
        kind: a KRaft one of :data:`KINDS`.
        racks: of the first and of the second broker.
    """

    def __init__(
        self,
        name: str,
        data_dir: Path,
        properties: Mapping[str, str] | None = None,
        *,
        kind: str = "4-tv2",
        racks: tuple[str, str] = ("", ""),
    ) -> None:
        replicated = {
            "default.replication.factor": "2",
            "offsets.topic.replication.factor": "2",
            "transaction.state.log.replication.factor": "2",
            "replica.lag.time.max.ms": "2000",
            # What one leads goes to the other before a pipeline gives up on it, after 20 s.
            "broker.session.timeout.ms": "5000",
            "replica.fetch.wait.max.ms": "50",
            "controlled.shutdown.enable": "false",
            **(properties or {}),
        }
        chosen = KINDS[kind]
        self._admin: AdminClient | None = None
        self._needs_both = ""
        self.name = name
        first, second = (
            {**replicated, **({"broker.rack": rack} if rack else {})} for rack in racks
        )
        self.first = KRaftNode(f"{name}-1", data_dir / "1", first, kind=chosen)
        self.second = KRaftNode(
            f"{name}-2", data_dir / "2", second, kind=chosen, number=2, controller=self.first
        )

    @property
    def nodes(self) -> Sequence[KRaftNode]:
        """Both brokers, whether they run or not."""
        return self.first, self.second

    @property
    def bootstrap(self) -> str:
        """The addresses of both."""
        return ",".join(node.bootstrap for node in self.nodes)

    @property
    def cluster_id(self) -> str:
        """The cluster's id."""
        return self.first.cluster_id

    def start(self, timeout: float = START_S) -> Self:
        """Start what does not run, and return when both brokers are in the metadata."""
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(lambda node: node.start(timeout), self.nodes))
        eventually(lambda: len(self.alive()) == 2, f"{self.name} has two brokers", timeout)
        return self

    def alive(self) -> set[int]:
        """Return the ids of the brokers that the controller holds for alive; empty if unknown.

        A request to the broker that has just been killed gets no answer: the next one asks another.
        """
        if self._admin is None:
            # One that has not gone away with the other broker, and does not print that it has.
            self._admin = AdminClient(client(self.first) | {"log_level": 0})
        try:
            return set(self._admin.list_topics(timeout=_METADATA_S).brokers)
        except KafkaException:
            return set()

    def coordinates_first(self, transactional_id: str) -> bool:
        """Whether the first broker coordinates transactions of an id, now and later."""
        return self.coordinates(transactional_id, 1)

    def coordinates(self, transactional_id: str, broker: int) -> bool:
        """Whether a broker is preferred as the coordinator of a transactional id; wait for it."""
        Producer(client(self, transactional_id="any")).init_transactions(TIMEOUT)  # makes the topic
        topic, asking = "__transaction_state", admin(self)

        def described() -> list[TopicPartitionInfo]:
            answers = asking.describe_topics(TopicCollection([topic]))
            try:
                return list(answers[topic].result(TIMEOUT).partitions)
            except KafkaException as error:
                if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                    raise
                return []

        def partitions() -> list[TopicPartitionInfo]:
            # The broker that answers may not be the one that knows the new topic.
            return list(eventually(described, f"{topic} is known"))

        signed = 0
        for letter in transactional_id:  # Java's String.hashCode
            signed = (31 * signed + ord(letter)) & 0xFFFFFFFF
        number = abs(signed - (1 << 32) if signed >> 31 else signed) % len(partitions())
        if partitions()[number].replicas[0].id != broker:
            return False

        def leads() -> bool:
            # When both were started, the one that came first leads, until it is asked to hand over.
            at = [TopicPartition(topic, number)]
            asking.elect_leaders(ElectionType.PREFERRED, at).result(TIMEOUT)
            leader = partitions()[number].leader
            return leader is not None and leader.id == broker

        eventually(leads, f"{self.name}-{broker} leads {topic}-{number}")
        return True

    def stop_second(self) -> None:
        """Stop the second broker, and wait until the first one acts alone.

        The first applies the new in-sync replicas a moment after the second has gone from the
        metadata. What it appends in between, transaction markers as well, waits up to 30 s for the
        second: the partitions of a transaction all wait for the one with too few replicas.
        """
        if not self._needs_both:
            config = {"min.insync.replicas": "2"}
            self._needs_both = create_topic(self, replicas=[[1, 2]], config=config)
        eventually(lambda: self._write_to_both() is None, f"{self.name} has both replicas in sync")
        self.second.kill()
        eventually(lambda: self.alive() == {1}, f"{self.name}-2 is gone")
        refused = KafkaError.NOT_ENOUGH_REPLICAS
        eventually(lambda: self._write_to_both() == refused, f"{self.name}-1 acts alone")

    def _write_to_both(self) -> int | None:
        """Write a record that both brokers must have, and return the error's code."""
        errors: list[KafkaError | None] = []
        settings = client(self.first, acks="all", retries=0, request_timeout_ms=1000)
        producer = Producer(settings | {"log_level": 0})
        producer.produce(self._needs_both, b"", on_delivery=lambda e, _: errors.append(e))
        producer.flush(TIMEOUT)
        (error,) = errors
        return error.code() if error else None

    def kill(self) -> None:
        """Stop both; ``start`` starts them again."""
        for node in reversed(self.nodes):
            node.kill()

    def close(self) -> None:
        """Stop both, and give their ports back."""
        self.kill()
        for node in self.nodes:
            node.close()


class Brokers:
    """The session's brokers of other kinds, each started when a test asks for it.

    Those of the last two requests run; all others are stopped and keep their data, because an idle
    broker takes some of a core.
    """

    def __init__(self, directory: Callable[[str], Path], properties: Mapping[str, str]) -> None:
        self._directory = directory
        self._properties = properties
        self._nodes: dict[str, KafkaNode] = {}
        self._pairs: dict[str, TwoBrokers] = {}
        self._last: tuple[str, ...] = ()

    def __call__(self, *kinds: str) -> list[KafkaNode]:
        """Return one node of each of the kinds, running."""
        self._stop_others(kinds)
        for kind in kinds:
            if kind not in self._nodes:
                path = self._directory(kind.replace(".", "-"))
                self._nodes[kind] = make_node(kind, kind, path, self._properties)
        wanted = [self._nodes[kind] for kind in kinds]
        with ThreadPoolExecutor(len(kinds)) as pool:
            return list(pool.map(lambda node: node.start(START_S), wanted))

    @property
    def two(self) -> TwoBrokers:
        """A cluster of two brokers, both running."""
        return self.two_of("4-tv2")

    def two_of(self, kind: str) -> TwoBrokers:
        """Return a cluster of two brokers of a KRaft kind, both running."""
        name = f"two-{kind}"
        self._stop_others((name,))
        if name not in self._pairs:
            path = self._directory(name.replace(".", "-"))
            self._pairs[name] = TwoBrokers(name, path, self._properties, kind=kind)
        return self._pairs[name].start()

    def _stop_others(self, names: tuple[str, ...]) -> None:
        for name, node in (self._nodes | self._pairs).items():
            if name not in names and name not in self._last:
                node.kill()
        self._last = names

    def close(self) -> None:
        """Stop all."""
        for node in self._nodes.values():
            node.kill()  # there is nothing that an orderly end would be good for
            node.close()
        for pair in self._pairs.values():
            pair.close()
