"""The real MirrorMaker 2 from Maven artifacts: dedicated, or as connectors on a Connect worker."""

from __future__ import annotations

import contextlib
import json
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from k2ktui.runtime import artifacts, child_process
from k2ktui.runtime.java import find_java
from k2ktui.runtime.node import KafkaNode
from k2ktui.runtime.ports import HeldPort
from tests.support.clusters.kafka import (
    TIMEOUT,
    Out,
    end_offsets,
    eventually,
    produce,
    produce_transaction,
    read_all,
    unique_name,
)

_JVM = ("-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Djava.awt.headless=true")
_START_S = 180.0
_STOP_S = 120.0  # one that is killed leaves positions unwritten
# Everything that it does at intervals of minutes is done every second.
_EAGER = {
    "replication.factor": "1",
    "checkpoints.topic.replication.factor": "1",
    "heartbeats.topic.replication.factor": "1",
    "offset-syncs.topic.replication.factor": "1",
    "refresh.topics.interval.seconds": "1",
    "refresh.groups.interval.seconds": "1",
    "emit.checkpoints.interval.seconds": "1",
    "emit.heartbeats.interval.seconds": "1",
    "sync.group.offsets.enabled": "true",
    "sync.group.offsets.interval.seconds": "1",
    "sync.topic.acls.enabled": "false",
}
_STORAGE = {
    "offset.storage.replication.factor": "1",
    "offset.storage.partitions": "1",
    "config.storage.replication.factor": "1",
    "status.storage.replication.factor": "1",
    "status.storage.partitions": "1",
}
_CONNECTORS = "org.apache.kafka.connect.mirror"
# Properties with which a dedicated one copies exactly once.
EXACTLY_ONCE = {
    "{target}.exactly.once.source.support": "enabled",
    "{source}.consumer.isolation.level": "read_committed",
    "dedicated.mode.enable.internal.rest": "true",
    "listeners": "http://127.0.0.1:0",
}


def _java(main: str, file: Path, log: Path) -> child_process.ChildProcess:
    jars = artifacts.classpath(
        artifacts.CONNECT_MIRROR, artifacts.CONNECT_RUNTIME, artifacts.LOGGING
    )
    command = (str(find_java().executable), *_JVM, "-cp", jars.argument, main, str(file))
    return child_process.spawn(command, log_path=log, grace=2.0, cwd=file.parent)


def _written(file: Path, properties: Mapping[str, str]) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(f"{name} = {value}\n" for name, value in properties.items()))
    return file


@dataclass
class MirrorMaker:
    """A dedicated MirrorMaker 2 that copies ``topics``; use with ``with``, or start and stop it.

    Aliases are of its own, so that several on the same clusters do not meet.

    Attributes:
        properties: laid over the ones below; ``{source}`` and ``{target}`` stand for the aliases.
        also: others whose flows this process runs, too, without heartbeats: they are not started.
            What they set for all flows is set for all.
        file: its ``mm2.properties``, written by :meth:`write`.
    """

    source_node: KafkaNode
    target_node: KafkaNode
    directory: Path
    topics: str
    groups: str = ".*"
    properties: Mapping[str, str] = field(default_factory=dict)
    source: str = field(default_factory=lambda: unique_name("src"))
    target: str = field(default_factory=lambda: unique_name("dst"))
    also: Sequence[MirrorMaker] = ()

    def __post_init__(self) -> None:
        self._process: child_process.ChildProcess | None = None
        self.file = self.directory / f"{self.source}.properties"
        self.write()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    @property
    def flow(self) -> str:
        """``A->B``."""
        return f"{self.source}->{self.target}"

    def write(self, **more: str) -> Path:
        """Write its properties file, ``more`` with ``_`` for ``.`` last."""
        later = {name.replace("_", "."): value for name, value in more.items()}
        return _written(self.file, {**self._settings(), **later})

    def _settings(self) -> dict[str, str]:
        both = self.flow
        base = {
            "clusters": f"{self.source}, {self.target}",
            f"{self.source}.bootstrap.servers": self.source_node.bootstrap,
            f"{self.target}.bootstrap.servers": self.target_node.bootstrap,
            f"{both}.enabled": "true",
            f"{both}.topics": self.topics,
            f"{both}.groups": self.groups,
            # Of the other direction only heartbeats are wanted; they show that this one lives.
            f"{self.target}.offset.flush.interval.ms": "1000",
            **_EAGER,
            **_STORAGE,
        }
        filled = {
            name.format(source=self.source, target=self.target): value.format(
                source=self.source, target=self.target
            )
            for name, value in self.properties.items()
        }
        return {**base, **filled}

    def start(self) -> Self:
        """Start it; it copies within some seconds."""
        log = self.directory / f"{self.source}.log"
        file = self._together() if self.also else self.file
        self._process = _java(f"{_CONNECTORS}.MirrorMaker", file, log)
        return self

    def _together(self) -> Path:
        makers = [self, *self.also]
        settings = {key: value for maker in makers for key, value in maker._settings().items()}  # noqa: SLF001
        aliases = [alias for maker in makers for alias in (maker.source, maker.target)]
        # Each pair of clusters with heartbeats is a flow, whether it copies or not.
        beating = (self.flow, f"{self.target}->{self.source}")
        settings |= {"clusters": ", ".join(aliases), "emit.heartbeats.enabled": "false"}
        settings |= {f"{flow}.emit.heartbeats.enabled": "true" for flow in beating}
        return _written(self.directory / f"{self.source}-together.properties", settings)

    def stop(self) -> None:
        """Stop it in order and wait for its end."""
        if self._process is not None:
            self._process.stop(_STOP_S)
            self._process = None

    def kill(self) -> None:
        """Kill it with signal 9 and wait for its end."""
        assert self._process is not None
        self._process.kill()
        self._process.wait(TIMEOUT)
        self._process = None

    def pause(self, *, resume: bool = False) -> None:
        """Suspend it in the middle of its work, or resume it."""
        assert self._process is not None
        if resume:
            self._process.resume()
        else:
            self._process.suspend()

    def log(self) -> str:
        """The end of its log, for messages."""
        return (self.directory / f"{self.source}.log").read_text(errors="replace")[-4000:]


class ConnectWorker:
    """A distributed Connect worker on the target with its REST interface; use with ``with``.

    Attributes:
        url: of the REST interface.
        group: the group of its workers.
        offsets_topic: where it keeps the positions of source connectors.
        status_topic: where it keeps the states of connectors.
    """

    def __init__(
        self, target: KafkaNode, directory: Path, properties: Mapping[str, str] | None = None
    ) -> None:
        self._port = HeldPort()
        self.url = f"http://{self._port.address}"
        name = unique_name("connect")
        self.group = name
        self.offsets_topic, self.status_topic = f"{name}-offsets", f"{name}-status"
        self._log = directory / f"{name}.log"
        converter = "org.apache.kafka.connect.converters.ByteArrayConverter"
        self._file = _written(
            directory / name / "worker.properties",
            {
                "bootstrap.servers": target.bootstrap,
                "group.id": name,
                "offset.storage.topic": self.offsets_topic,
                "config.storage.topic": f"{name}-configs",
                "status.storage.topic": self.status_topic,
                "key.converter": converter,
                "value.converter": converter,
                "header.converter": converter,
                "offset.flush.interval.ms": "1000",
                "listeners": self.url,
                **_STORAGE,
                **(properties or {}),
            },
        )

    def __enter__(self) -> Self:
        self._port.lend()
        main = "org.apache.kafka.connect.cli.ConnectDistributed"
        self._process = _java(main, self._file, self._log)
        try:
            eventually(self._answers, f"Connect answers, see {self._log}", _START_S)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.stop(_STOP_S)
        self._port.close()

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """Ask its REST interface and return the parsed answer; HTTPError as urllib raises it."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            f"{self.url}{path}", data, {"Content-Type": "application/json"}, method=method
        )
        with urllib.request.urlopen(request, timeout=TIMEOUT) as answer:
            raw = answer.read()
        return json.loads(raw) if raw else None

    def describe(self, *names: str) -> list[dict[str, Any]]:
        """Return connectors and their worker as files of connectors have them."""
        return [
            {
                "name": name,
                "config": self.ask("GET", f"/connectors/{name}/config"),
                "worker": {
                    "offset.storage.topic": self.offsets_topic,
                    "status.storage.topic": self.status_topic,
                    "group.id": self.group,
                },
            }
            for name in names
        ]

    def create(self, name: str, config: Mapping[str, str]) -> None:
        """Create a connector and wait until it and its tasks run; again while it rebalances."""

        def created() -> bool:
            with contextlib.suppress(urllib.error.HTTPError):
                self.ask("PUT", f"/connectors/{name}/config", config)
                return True
            return False

        eventually(created, f"connector {name} is created", _START_S)
        eventually(lambda: self.runs(name), f"connector {name} runs, see {self._log}", _START_S)

    def create_mirror(
        self,
        source: KafkaNode,
        target: KafkaNode,
        topics: str,
        more: Mapping[str, str] = {},
        checkpoint: Mapping[str, str] = {},
    ) -> MirrorConnectors:
        """Create the three connectors of a flow with aliases of its own.

        Args:
            more: settings of all three.
            checkpoint: settings of the MirrorCheckpointConnector alone.
        """
        made = MirrorConnectors(unique_name("src"), unique_name("dst"))
        common = {
            "source.cluster.alias": made.source,
            "target.cluster.alias": made.target,
            "source.cluster.bootstrap.servers": source.bootstrap,
            "target.cluster.bootstrap.servers": target.bootstrap,
            "topics": topics,
            "tasks.max": "1",
            **_EAGER,
            **more,
        }
        for kind in ("Source", "Checkpoint", "Heartbeat"):
            own = {"connector.class": f"{_CONNECTORS}.Mirror{kind}Connector"}
            alone = checkpoint if kind == "Checkpoint" else {}
            self.create(f"{made.source}-{kind}", {**common, **own, **alone})
        return made

    def runs(self, name: str) -> bool:
        """Whether a connector runs, and its tasks, if it has work for any."""
        try:
            status = self.ask("GET", f"/connectors/{name}/status")
        except urllib.error.HTTPError:
            return False
        states = [status["connector"]["state"], *(task["state"] for task in status["tasks"])]
        return set(states) == {"RUNNING"}

    def _answers(self) -> bool:
        if self._process.poll() is not None:
            raise AssertionError(self._log.read_text(errors="replace")[-4000:])
        try:
            self.ask("GET", "/connectors")
        except (OSError, ValueError):
            time.sleep(0.1)
            return False
        return True


@dataclass(frozen=True, slots=True)
class MirrorConnectors:
    """The aliases of a flow on a Connect worker, and the names of its connectors."""

    source: str
    target: str

    @property
    def source_connector(self) -> str:
        """Name of the MirrorSourceConnector."""
        return f"{self.source}-Source"

    @property
    def checkpoint_connector(self) -> str:
        """Name of the MirrorCheckpointConnector."""
        return f"{self.source}-Checkpoint"


def write_with_marker(node: KafkaNode, topic: str, number: int, count: int) -> None:
    """Write records to a partition, half of them in a transaction, whose marker is not copied."""
    before = end_offsets(node, topic)[number]
    records = [
        Out(f"{number}-{before + i}".encode(), key=b"k", partition=number) for i in range(count)
    ]
    produce(node, topic, records[: count // 2])
    produce_transaction(node, topic, records[count // 2 :])


def values_from(node: KafkaNode, topic: str, number: int, offset: int) -> list[bytes | None]:
    """Return the values of a partition from an offset on."""
    records = read_all(node, topic)
    return [got.value for got in records if got.partition == number and got.offset >= offset]
