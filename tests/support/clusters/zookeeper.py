"""ZooKeeper, for brokers of the time before KRaft."""

from __future__ import annotations

import socket
from pathlib import Path

from k2ktui.progress import Progress
from k2ktui.runtime import artifacts, child_process, storage
from k2ktui.runtime.artifacts import LOGGING, Classpath
from k2ktui.runtime.java import find_java
from k2ktui.runtime.ports import LOOPBACK, HeldPort
from tests.support.clusters.kafka import START_S, eventually

JVM = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto")


def kafka_jars(version: str, progress: Progress | None = None) -> Classpath:
    """Return the class path of a Kafka version, ZooKeeper included where it needs one."""
    return artifacts.classpath(f"org.apache.kafka:kafka_2.13:{version}", LOGGING, progress=progress)


class ZooKeeper:
    """One ZooKeeper server.

    Args:
        data_dir: for its data and its log.
        version: of Kafka, which brings its own ZooKeeper.
    """

    def __init__(self, data_dir: Path, version: str) -> None:
        self._data_dir = data_dir
        self._version = version
        self._port = HeldPort()
        self._process: child_process.ChildProcess | None = None

    @property
    def address(self) -> str:
        return self._port.address

    def start(self) -> None:
        if self._process is not None and self._process.poll() is None:
            return
        self._data_dir.mkdir(parents=True, exist_ok=True)
        config = self._data_dir / "zookeeper.properties"
        settings = {
            "dataDir": str(self._data_dir),
            "clientPort": str(self._port.number),
            "clientPortAddress": LOOPBACK,
            "tickTime": "500",
            "admin.enableServer": "false",
            "4lw.commands.whitelist": "ruok,dump",
        }
        config.write_text(storage.properties_text(settings))
        self._port.lend()
        main = "org.apache.zookeeper.server.ZooKeeperServerMain"
        jars = kafka_jars(self._version).argument
        log = self._data_dir / "zookeeper.log"
        self._process = child_process.spawn(
            [str(find_java().executable), *JVM, "-Xmx128m", "-cp", jars, main, str(config)],
            log_path=log,
        )
        eventually(lambda: self._ask("ruok") == "imok", f"ZooKeeper serves, see {log}", START_S)

    def knows_no_broker(self) -> bool:
        said = self._ask("dump")
        return bool(said) and "/brokers/ids/" not in said and "/controller" not in said

    def close(self) -> None:
        if self._process is not None:
            self._process.stop(5.0)
        self._port.close()

    def _ask(self, word: str) -> str:
        host, port = self.address.split(":")
        said = b""
        try:
            with socket.create_connection((host, int(port)), 2.0) as connection:
                connection.sendall(word.encode())
                while part := connection.recv(4096):
                    said += part
        except OSError:
            return ""
        return said.decode(errors="replace")
