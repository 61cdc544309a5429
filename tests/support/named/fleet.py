"""Twenty clients of applications that know only a name: librdkafka and Java, all kinds beside.

Each logs every record that was acknowledged to it, and every one that it has read.
"""

from __future__ import annotations

import subprocess
import threading
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer

from k2ktui.runtime import artifacts, child_process
from k2ktui.runtime.java import find_java
from tests.support.clusters.kafka import TIMEOUT, eventually

Properties = Mapping[str, str]
_PAUSE_S, _TRANSACTION = 0.2, 3
_CLASSIC = {"session.timeout.ms": "6000", "heartbeat.interval.ms": "1000"}
_PROGRAM = Path(__file__).with_name("JavaClients.java")
_ARTIFACT = f"org.apache.kafka:kafka-clients:{artifacts.KAFKA_VERSION}"


@dataclass(frozen=True)
class NamedClient:
    """A client: what it does (``write``, ``transact``, ``read``), its name, its own properties."""

    role: str
    name: str
    own: Properties

    @property
    def group(self) -> str:
        """The group of a consumer."""
        return self.own["group.id"]


@dataclass(frozen=True)
class Read:
    """A record that a client was given."""

    client: str
    partition: int
    offset: int
    value: str


@dataclass
class Told:
    """What clients have told: ``(what, client, …)`` in order."""

    entries: list[tuple[str, ...]] = field(default_factory=list)

    def of(self, what: str) -> list[tuple[str, ...]]:
        """Return the entries of one kind, without it."""
        return [entry[1:] for entry in self.entries if entry[0] == what]

    @property
    def acknowledged(self) -> Counter[str]:
        """How often each value was acknowledged."""
        return Counter(value for _, value in self.of("acked"))

    @property
    def read(self) -> list[Read]:
        """What was read, in the order of each client."""
        return [Read(name, int(p), int(at), value) for name, p, at, value in self.of("read")]


def name_clients(stem: str) -> tuple[list[NamedClient], list[NamedClient]]:
    """Return ten clients of librdkafka, and ten of Java; names begin with ``stem``."""
    plain = {"enable.idempotence": "false"}
    idempotent = {"enable.idempotence": "true"}

    def reads(group: str, instance: str = "", **more: str) -> Properties:
        own = {"group.id": f"{stem}-{group}", "auto.offset.reset": "earliest"}
        own |= {"auto.commit.interval.ms": "500", "isolation.level": "read_committed"}
        if instance:
            own["group.instance.id"] = instance
        if group.startswith("new"):
            return {**own, "group.protocol": "consumer"}
        return {**own, **_CLASSIC}

    def clients(kind: str, roles: list[tuple[str, Properties]]) -> list[NamedClient]:
        return [
            NamedClient(role, f"{kind}-{role}-{number}", own)
            for number, (role, own) in enumerate(roles)
        ]

    rdkafka = clients(
        "librdkafka",
        [
            *(("write", own) for own in (plain, plain, idempotent, idempotent)),
            ("transact", {"transactional.id": f"{stem}-librdkafka"}),
            *(("read", reads("classic")) for _ in range(2)),
            ("read", reads("new")),
            ("read", reads("classic-static", "one")),
            ("read", reads("new-static", "one")),
        ],
    )
    java = clients(
        "java",
        [
            *(("write", own) for own in (plain, plain, idempotent, idempotent)),
            ("transact", {"transactional.id": f"{stem}-java"}),
            ("read", reads("classic")),
            *(("read", reads("new")) for _ in range(2)),
            ("read", reads("classic-static", "two")),
            ("read", reads("new-static", "two")),
        ],
    )
    return rdkafka, java


def require_compiler() -> None:
    """Skip the test where Java cannot run a source file."""
    command = [str(find_java().executable), "--list-modules"]
    if "jdk.compiler@" not in subprocess.run(command, capture_output=True, text=True).stdout:
        pytest.skip("this Java has no compiler")


class Fleet:
    """The running clients.

    Args:
        name: their ``bootstrap.servers``.
        topic: what they write and read.
        directory: of their files.
        stem: what their groups and transactional ids begin with.
        rdkafka, java: further properties of all clients of a library, as for TLS.
    """

    def __init__(
        self,
        name: str,
        topic: str,
        directory: Path,
        stem: str,
        *,
        rdkafka: Mapping[str, str] = {},
        java: Mapping[str, str] = {},
    ) -> None:
        directory.mkdir()
        self.topic, self._directory = topic, directory
        self.rdkafka, self.java = name_clients(stem)
        self._told = Told()
        self._lock, self._stopped = threading.Lock(), threading.Event()
        self._common: dict[str, Any] = {"bootstrap.servers": name, "log_level": 0, **rdkafka}
        self._threads = [
            threading.Thread(target=self._run, args=(client,), daemon=True)
            for client in self.rdkafka
        ]
        self._process = self._start_java({"bootstrap.servers": name, **java})
        self._tsv = directory / "java.tsv"
        for thread in self._threads:
            thread.start()

    @property
    def clients(self) -> list[NamedClient]:
        """All of them."""
        return self.rdkafka + self.java

    @property
    def _producers(self) -> list[str]:
        return [client.name for client in self.clients if client.role != "read"]

    @property
    def groups(self) -> dict[str, list[str]]:
        """The names of the members of each group."""
        groups: dict[str, list[str]] = defaultdict(list)
        for client in self.clients:
            if client.role == "read":
                groups[client.group].append(client.name)
        return dict(groups)

    @property
    def told(self) -> Told:
        """What they have told so far."""
        with self._lock:
            entries = list(self._told.entries)
        data = self._tsv.read_bytes() if self._tsv.exists() else b""
        lines = data[: data.rfind(b"\n") + 1].decode().splitlines()
        return Told(entries + [tuple(line.split("\t")) for line in lines])

    def write(self, *, on: bool = True) -> None:
        """Let the producers write new values, or only what is not acknowledged yet."""
        file = self._directory / "write"
        if on:
            file.touch()
        else:
            file.unlink(missing_ok=True)

    def await_idle(self) -> None:
        """Let the producers write no new values, and wait until all have nothing left to write."""
        self.write(on=False)
        kinds = ("acked", "failed", "aborted", "idle")

        def busy() -> list[str]:
            last = {entry[1]: entry[0] for entry in self.told.entries if entry[0] in kinds}
            return [name for name in self._producers if last.get(name) != "idle"]

        eventually(lambda: not busy(), lambda: f"{busy()} end\n{self.tail()}")

    def await_more(self, count: int = 3) -> None:
        """Wait until each producer has so many acknowledged values more."""
        before = Counter(name for name, _ in self.told.of("acked"))

        def left() -> list[str]:
            now = Counter(name for name, _ in self.told.of("acked"))
            return [name for name in self._producers if now[name] < before[name] + count]

        eventually(lambda: not left(), lambda: f"acknowledged values of {left()}\n{self.tail()}")

    def await_read(self) -> None:
        """Wait until each group has read all that was acknowledged."""

        def unread() -> dict[str, list[str]]:
            told = self.told
            wanted, read = set(told.acknowledged), told.read
            groups = {
                group: wanted - {one.value for one in read if one.client in members}
                for group, members in self.groups.items()
            }
            return {group: sorted(values)[:5] for group, values in groups.items() if values}

        eventually(lambda: not unread(), lambda: f"all is read: {unread()}\n{self.tail()}")

    def tail(self, *, log: bool = True) -> str:
        """Return what went wrong, for messages of tests; with the end of Java's log."""
        told = self.told
        bad = [
            entry
            for what in ("failed", "aborted", "restarted", "died", "repeated")
            for entry in told.of(what)
        ]
        text = "\n".join(map(str, bad[-20:]))
        file = self._directory / "java.log"
        return text + file.read_text()[-3000:] if log and file.exists() else text

    def end(self) -> None:
        """Let all end in order: producers once all is acknowledged."""
        self.write(on=False)
        (self._directory / "end").touch()
        for thread in self._threads:
            thread.join(TIMEOUT)
        assert not any(thread.is_alive() for thread in self._threads), self.tail()
        eventually(lambda: self.told.of("ended"), lambda: f"Java ends\n{self.tail()}")

    def close(self) -> None:
        """End what still runs, also where nothing can be acknowledged."""
        self._stopped.set()
        (self._directory / "end").touch()
        self._process.kill()
        self._process.wait(10.0)
        self._process.release()
        for thread in self._threads:
            thread.join(TIMEOUT)

    def _start_java(self, common: Properties) -> child_process.ChildProcess:
        properties = self._directory / "java.properties"
        properties.touch(mode=0o600)
        properties.write_text("".join(f"{key}={value}\n" for key, value in common.items()))
        clients = self._directory / "java-clients.tsv"
        clients.write_text(
            "".join(
                "\t".join((one.role, one.name, *(f"{k}={v}" for k, v in one.own.items()))) + "\n"
                for one in self.java
            )
        )
        jars = artifacts.classpath(_ARTIFACT, artifacts.LOGGING)
        command = [str(find_java().executable), "-Xmx256m", "-cp", jars.argument, str(_PROGRAM)]
        arguments = [str(self._directory), str(properties), str(clients), self.topic]
        return child_process.spawn([*command, *arguments], log_path=self._directory / "java.log")

    def _is(self, file: str) -> bool:
        return (self._directory / file).exists()

    def _say(self, *words: str) -> None:
        with self._lock:
            self._told.entries.append(words)

    def _run(self, client: NamedClient) -> None:
        settings = {**self._common, **client.own, "client.id": client.name}
        acts: dict[str, Callable[[str, dict[str, Any]], None]] = {
            "write": self._write,
            "transact": self._transact,
            "read": self._read,
        }
        try:
            acts[client.role](client.name, settings)
        except Exception as error:
            self._say("died", client.name, str(error))

    def _write(self, name: str, settings: dict[str, Any]) -> None:
        producer = Producer({**settings, "error_cb": self._note_fatal(name)})
        again = deque[str]()
        waiting, following, is_idle = 0, 0, False

        def delivered(value: str) -> Callable[[object, object], None]:
            def tell(error: object, _: object) -> None:
                nonlocal waiting
                waiting -= 1
                if error is None:
                    self._say("acked", name, value)
                else:
                    self._say("failed", name, value, str(error))
                    again.append(value)

            return tell

        while not self._stopped.is_set() and (not self._is("end") or again or waiting):
            value = again.popleft() if again else ""
            if not value and self._is("write"):
                value, following = f"{name} {following}", following + 1
                is_idle = False
            elif not value and not waiting and not is_idle:
                is_idle = True
                self._say("idle", name)
            if value:
                waiting += 1
                producer.produce(self.topic, value.encode(), callback=delivered(value))
            producer.poll(0)
            time.sleep(_PAUSE_S)

    def _note_fatal(self, name: str) -> Callable[[Any], None]:
        def tell(error: Any) -> None:
            if error.fatal():
                self._say("fatal", name, str(error))

        return tell

    def _transact(self, name: str, settings: dict[str, Any]) -> None:
        producer = self._begin(settings)
        following, values, is_idle = 0, list[str](), False
        while not self._stopped.is_set() and (not self._is("end") or values):
            if not values:
                if not self._is("write"):
                    if not is_idle:
                        is_idle = True
                        self._say("idle", name)
                    time.sleep(_PAUSE_S)
                    continue
                values = [f"{name} {following + at}" for at in range(_TRANSACTION)]
                following += _TRANSACTION
                is_idle = False
            try:
                producer.begin_transaction()
                for value in values:
                    producer.produce(self.topic, value.encode())
                    time.sleep(_PAUSE_S)
                self._repeat(name, producer.commit_transaction)
            except KafkaException as error:
                self._say("aborted", name, str(error))
                try:
                    self._repeat(name, producer.abort_transaction)
                except KafkaException as fatal:
                    self._say("restarted", name, str(fatal))
                    producer = self._begin(settings)
            else:
                for value in values:
                    self._say("acked", name, value)
                values = []

    def _begin(self, settings: dict[str, Any]) -> Producer:
        producer = Producer(settings)
        self._repeat(settings["client.id"], producer.init_transactions)
        return producer

    def _repeat(self, name: str, act: Callable[[], object]) -> None:
        while True:
            try:
                act()
                return
            except KafkaException as error:
                if not error.args[0].retriable() or self._stopped.is_set():
                    raise
                self._say("repeated", name, str(error))

    def _read(self, name: str, settings: dict[str, Any]) -> None:
        consumer = Consumer({**settings, "error_cb": self._note_fatal(name)})
        try:
            consumer.subscribe([self.topic])
            while not self._stopped.is_set() and not self._is("end"):
                message = consumer.poll(_PAUSE_S)
                if message is None:
                    continue
                if message.error() is not None:
                    self._say("error", name, str(message.error()))
                    continue
                value = (message.value() or b"").decode()
                where = str(message.partition()), str(message.offset())
                self._say("read", name, *where, value)
        finally:
            with suppress(KafkaException):
                consumer.close()
