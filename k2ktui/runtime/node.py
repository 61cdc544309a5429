"""A one-node Apache Kafka cluster (KRaft, combined roles) for the demo and for tests.

Example::

    with KafkaNode("source", Path("data/source")) as node:
        print(node.bootstrap, node.cluster_id)

The node keeps its loopback ports until it is closed, so :meth:`KafkaNode.restart` keeps addresses
and data. It cannot outlive this process (see :mod:`k2ktui.runtime.child_process`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from k2ktui.errors import Refused
from k2ktui.progress import Progress
from k2ktui.runtime import artifacts, child_process, probe, storage
from k2ktui.runtime.class_archive import ClassArchive, make_in_background
from k2ktui.runtime.java import Java, find_java
from k2ktui.runtime.java_server import JavaServer
from k2ktui.runtime.paths import write_atomically

CLIENT_LISTENER = "PLAINTEXT"
CONTROLLER_LISTENER = "CONTROLLER"
_NODE_ID = 1
ARCHIVE_MAKER = "k2ktui.runtime.broker_archive_maker"

# Settings for a fast start of one small node; each can be overridden.
DEFAULTS: Mapping[str, str] = {
    "auto.create.topics.enable": "false",
    "default.replication.factor": "1",
    "min.insync.replicas": "1",
    "offsets.topic.num.partitions": "5",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "5",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    # After a kill -9, a restarted node waits until its previous registration expires.
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "num.network.threads": "2",
    "num.io.threads": "4",
    "background.threads": "2",
    "num.recovery.threads.per.data.dir": "1",
    "log.cleaner.dedupe.buffer.size": str(16 << 20),
}

# Makes retention and compaction take effect within about two seconds instead of minutes.
EAGER_CLEANING: Mapping[str, str] = {
    "log.initial.task.delay.ms": "500",
    "log.retention.check.interval.ms": "1000",
    "log.cleaner.backoff.ms": "500",
    "log.segment.delete.delay.ms": "1000",
}

_JVM_OPTIONS = (
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
    "-Xshare:auto",
    "-Djava.awt.headless=true",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
    "-Dorg.slf4j.simpleLogger.levelInBrackets=true",
)


class KafkaNode(JavaServer[artifacts.Classpath]):
    """One Apache Kafka node as a child process.

    Args:
        name: name of the cluster in messages.
        data_dir: directory of the node's files: ``logs/``, ``server.properties``, ``node.log``.
            An existing directory is reused, with its previous ports if they are still free.
        properties: broker properties that override :data:`DEFAULTS`, for example
            :data:`EAGER_CLEANING` or ``authorizer.class.name`` (``super.users`` defaults to the
            PLAINTEXT listener's user).
        listeners: additional listeners, name to security protocol, for example
            ``{"SECURE": "SASL_SSL"}``. Set their options in ``properties``
            (``listener.name.secure.…``); :meth:`address` returns their address.
        heap: maximum Java heap, as for ``-Xmx``.
        jvm: additional Java options.
    """

    KIND = "cluster"
    START_SECONDS = 60.0
    PORT_TAKEN = ("Address already in use",)

    def __init__(
        self,
        name: str,
        data_dir: Path,
        properties: Mapping[str, str] | None = None,
        *,
        listeners: Mapping[str, str] | None = None,
        heap: str = "512m",
        jvm: tuple[str, ...] = (),
    ) -> None:
        super().__init__(name, data_dir, "node.log")
        self._properties = dict(properties or {})
        self._protocols = {CLIENT_LISTENER: "PLAINTEXT", CONTROLLER_LISTENER: "PLAINTEXT"}
        self._protocols.update(listeners or {})
        self._heap = heap
        self._jvm = jvm
        self._cluster_id: str | None = None

    @property
    def bootstrap(self) -> str:
        """``host:port`` of the PLAINTEXT listener; unchanged by restarts."""
        return self.address(CLIENT_LISTENER)

    @property
    def cluster_id(self) -> str:
        """The cluster id; available after the first start."""
        if self._cluster_id is None:
            raise Refused(f"The {self.name} cluster has no id: it has never been started.")
        return self._cluster_id

    def is_serving(self) -> bool:
        """Whether the node answers clients."""
        return probe.is_serving(self.bootstrap)

    def _port_names(self) -> Iterable[str]:
        return self._protocols

    def _program(self, progress: Progress | None) -> artifacts.Classpath:
        return self._jars(progress)

    def _spawn(self, program: artifacts.Classpath) -> child_process.ChildProcess:
        java = find_java()
        self._cluster_id = self._format(java, program)
        config = self.data_dir / "server.properties"
        write_atomically(config, storage.properties_text(self._settings()).encode(), mode=0o600)
        self._lend_ports()
        archive = broker_archive(java, program).options()
        heap = f"-Xmx{self._heap}"
        options = [*_JVM_OPTIONS, *archive, heap, *self._jvm, "-cp", program.argument]
        return child_process.spawn(
            [str(java.executable), *options, "kafka.Kafka", str(config)],
            log_path=self.log_path,
            cwd=self.data_dir,
        )

    def _after_start(self, program: artifacts.Classpath) -> None:
        if program.coordinates == (artifacts.SERVER, artifacts.LOGGING):
            make_in_background(broker_archive(find_java(), program), ARCHIVE_MAKER)

    def _jars(self, progress: Progress | None) -> artifacts.Classpath:
        return artifacts.classpath(artifacts.SERVER, artifacts.LOGGING, progress=progress)

    def _format(self, java: Java, jars: artifacts.Classpath) -> str:
        """Format the storage if needed and return the cluster id."""
        return storage.format_storage(self.data_dir / "logs", _NODE_ID, java, jars)

    def _settings(self) -> dict[str, str]:
        urls = [f"{name}://{port.address}" for name, port in self._ports.items()]
        clients = [url for url in urls if not url.startswith(f"{CONTROLLER_LISTENER}:")]
        return {
            **DEFAULTS,
            "super.users": "User:ANONYMOUS",
            **self._properties,
            "inter.broker.listener.name": CLIENT_LISTENER,
            "listeners": ",".join(urls),
            "advertised.listeners": ",".join(clients),
            "listener.security.protocol.map": ",".join(
                f"{name}:{protocol}" for name, protocol in self._protocols.items()
            ),
            "log.dirs": str(self.data_dir / "logs"),
            **self._membership(),
        }

    def _membership(self) -> dict[str, str]:
        """Return the node's roles and id and the controller quorum settings."""
        return {
            "process.roles": "broker,controller",
            "node.id": str(_NODE_ID),
            "controller.quorum.voters": f"{_NODE_ID}@{self._ports[CONTROLLER_LISTENER].address}",
            "controller.listener.names": CONTROLLER_LISTENER,
        }


def broker_archive(java: Java, jars: artifacts.Classpath) -> ClassArchive:
    """Return the archive of classes with which brokers of this class path start faster."""
    return ClassArchive("kafka-broker", java, jars.jars)
