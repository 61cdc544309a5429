"""A one-node Apache Kafka cluster (KRaft, combined roles) for the demo and for tests.

Example::

    with KafkaNode("source", Path("data/source")) as node:
        print(node.bootstrap, node.cluster_id)

The node keeps its loopback ports until it is closed, so :meth:`KafkaNode.restart` keeps addresses
and data. It cannot outlive this process (see :mod:`k2ktui.runtime.child_process`).
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from k2ktui.engine.strict_json import integer, parse_object
from k2ktui.errors import Refused, TimedOut
from k2ktui.runtime import artifacts, child_process, probe, storage
from k2ktui.runtime.class_archive import ClassArchive, make_in_background
from k2ktui.runtime.java import Java, find_java
from k2ktui.runtime.paths import write_atomically
from k2ktui.runtime.ports import HeldPort

CLIENT_LISTENER = "PLAINTEXT"
CONTROLLER_LISTENER = "CONTROLLER"
_NODE_ID = 1
ARCHIVE_MAKER = "k2ktui.runtime.broker_archive_maker"
_POLL_SECONDS = 0.05
_ATTEMPTS = 3
_TAIL_LINES = 15

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


class KafkaNode:
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
        self.name = name
        self.data_dir = data_dir.resolve()
        self.log_path = self.data_dir / "node.log"
        self._properties = dict(properties or {})
        self._protocols = {CLIENT_LISTENER: "PLAINTEXT", CONTROLLER_LISTENER: "PLAINTEXT"}
        self._protocols.update(listeners or {})
        self._heap = heap
        self._jvm = jvm
        self._ports: dict[str, HeldPort] = {}
        self._process: child_process.ChildProcess | None = None
        self._cluster_id: str | None = None
        self._served = False
        self._log_start = 0
        self._life = threading.RLock()

    @property
    def bootstrap(self) -> str:
        """``host:port`` of the PLAINTEXT listener; unchanged by restarts."""
        return self.address(CLIENT_LISTENER)

    def address(self, listener: str) -> str:
        """Return ``host:port`` of a listener.

        Raises:
            KeyError: there is no such listener.
        """
        with self._life:
            if not self._ports:
                self._take_ports()
            return self._ports[listener].address

    @property
    def cluster_id(self) -> str:
        """The cluster id; available after the first start."""
        if self._cluster_id is None:
            raise Refused(f"The {self.name} cluster has no id: it has never been started.")
        return self._cluster_id

    @property
    def pid(self) -> int:
        """Process id of the Java process; 0 if it is not running."""
        return self._process.pid if self._process and self.running else 0

    @property
    def running(self) -> bool:
        """Whether the Java process exists, even if suspended."""
        return self._process is not None and self._process.poll() is None

    def start(self, timeout: float = 60.0, *, progress: artifacts.Progress | None = None) -> Self:
        """Start the node and return when it serves clients.

        Args:
            timeout: seconds, excluding the download on a first start.
            progress: called during a download.

        Raises:
            ConnectionFailed: Apache Kafka's jars could not be downloaded.
            Refused: no usable Java, or the node exited; the error includes its last log lines.
            TimedOut: the node did not serve clients in time; it was stopped.
        """
        with self._life:
            if self.running:
                return self
            jars = self._jars(progress)
            for attempt in range(_ATTEMPTS):
                self._launch(jars)
                try:
                    self._await_service(timeout)
                except _PortTaken:
                    if attempt + 1 == _ATTEMPTS or self._served:
                        raise
                    self._give_ports_back()
                    continue
                self._served = True
                if jars.coordinates == (artifacts.SERVER, artifacts.LOGGING):
                    make_in_background(broker_archive(find_java(), jars), ARCHIVE_MAKER)
                break
            return self

    def stop(self, timeout: float = 20.0) -> None:
        """Shut the node down (SIGTERM), with SIGKILL after ``timeout`` seconds."""
        with self._life:
            if self._process:
                self._process.stop(timeout)

    def kill(self) -> None:
        """Kill the node (SIGKILL) and wait until it has exited."""
        with self._life:
            if self._process:
                self._process.kill()
                self._process.wait(10.0)

    def suspend(self) -> None:
        """Send SIGSTOP: connections stay open, but requests get no response."""
        if self._process:
            self._process.suspend()

    def resume(self) -> None:
        """Send SIGCONT after :meth:`suspend`."""
        if self._process:
            self._process.resume()

    def restart(self, timeout: float = 60.0) -> Self:
        """Stop the node if it runs, then start it with the same addresses and data."""
        with self._life:
            self.stop()
            return self.start(timeout)

    def close(self) -> None:
        """Stop the node and release its ports; keep its data."""
        with self._life:
            self.stop()
            self._give_ports_back()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    def tail(self, lines: int = _TAIL_LINES) -> str:
        """Return the last lines of the node's log."""
        return "\n".join(_last_lines(self.log_path, lines))

    def _take_ports(self) -> None:
        noted = self._noted_ports()
        self._ports = {name: HeldPort(noted.get(name, 0)) for name in self._protocols}

    def _noted_ports(self) -> dict[str, int]:
        try:
            noted = parse_object((self.data_dir / "ports.json").read_bytes())
            return {str(name): integer(number) for name, number in noted.items()}
        except (OSError, ValueError):
            return {}

    def _give_ports_back(self) -> None:
        for port in self._ports.values():
            port.close()
        self._ports = {}

    def _launch(self, jars: artifacts.Classpath) -> None:
        java = find_java()
        if not self._ports:
            self._take_ports()
        self._cluster_id = self._format(java, jars)
        config = self.data_dir / "server.properties"
        write_atomically(config, storage.properties_text(self._settings()).encode(), mode=0o600)
        numbers = {name: port.number for name, port in self._ports.items()}
        write_atomically(self.data_dir / "ports.json", json.dumps(numbers).encode())
        for port in self._ports.values():
            port.lend()
        archive = broker_archive(java, jars).options()
        heap = f"-Xmx{self._heap}"
        options = [*_JVM_OPTIONS, *archive, heap, *self._jvm, "-cp", jars.argument]
        self._log_start = self.log_path.stat().st_size if self.log_path.exists() else 0
        self._process = child_process.spawn(
            [str(java.executable), *options, "kafka.Kafka", str(config)],
            log_path=self.log_path,
            cwd=self.data_dir,
        )

    def _jars(self, progress: artifacts.Progress | None) -> artifacts.Classpath:
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

    def _await_service(self, timeout: float) -> None:
        assert self._process is not None
        deadline = time.monotonic() + timeout
        while not probe.is_serving(self.bootstrap):
            code = self._process.poll()
            if code is not None:
                raise self._start_error(code)
            if time.monotonic() >= deadline:
                self._process.stop(5.0)
                raise TimedOut(
                    f"The {self.name} cluster did not accept clients within {timeout:g} s.",
                    unchanged=f"It was stopped. Its log {self.log_path} ends with:\n{self.tail()}",
                    hint="On an overloaded machine, try again; otherwise see the log for the "
                    "cause.",
                )
            time.sleep(_POLL_SECONDS)

    def _start_error(self, code: int) -> Refused:
        # The log also has the lines of earlier starts, which may have failed for another reason.
        tail = "\n".join(_last_lines(self.log_path, _TAIL_LINES, self._log_start))
        kind = _PortTaken if "Address already in use" in tail else Refused
        return kind(
            f"The {self.name} cluster ended while starting (exit {code}).",
            unchanged=f"Its log {self.log_path} ends with:\n{tail}",
            hint="If the log names damaged data, start over with --fresh.",
        )


def broker_archive(java: Java, jars: artifacts.Classpath) -> ClassArchive:
    """Return the archive of classes with which brokers of this class path start faster."""
    return ClassArchive("kafka-broker", java, jars.jars)


class _PortTaken(Refused):
    """Another program took a port between its selection and the node's start."""


def _last_lines(path: Path, lines: int, start: int = 0) -> list[str]:
    """Return a file's last lines, without those before byte ``start``."""
    try:
        with path.open("rb") as file:
            file.seek(max(start, path.stat().st_size - 16384))
            return file.read().decode(errors="replace").splitlines()[-lines:]
    except OSError:
        return []
