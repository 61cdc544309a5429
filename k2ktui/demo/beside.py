"""What runs beside the demo's pipeline if its user asks for it: MirrorMaker 2, schema registries.

MirrorMaker 2 copies the same topics under its own source alias. The registries give the schema of a
topic of Avro records another id on each cluster.
"""

from __future__ import annotations

import contextlib
import json
import random
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from k2ktui.demo import clients
from k2ktui.demo.screen import Screen
from k2ktui.demo.topics import BOUNDED, SCHEMA_TOPIC, TOPICS, DemoRecord, DemoTopic
from k2ktui.demo.traffic import write_seed_data
from k2ktui.engine.schemas.model import AVRO, Schema
from k2ktui.progress import Progress
from k2ktui.registry.client import RegistryClient
from k2ktui.registry.settings import RegistrySettings
from k2ktui.runtime import artifacts, child_process
from k2ktui.runtime.java import find_java
from k2ktui.runtime.paths import write_atomically
from k2ktui.runtime.program_archive import unpack_program
from k2ktui.runtime.registry_node import APICURIO, MINIMUM_JAVA, RegistryNode

MIRROR_FILE = "mm2.properties"
SOURCE, TARGET = "mirror", "target"
_MAIN = "org.apache.kafka.connect.mirror.MirrorMaker"
_JVM = ("-Xmx384m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Djava.awt.headless=true")
_GRACE_SECONDS = 5.0
_STOP_SECONDS = 7.0

# MirrorMaker 2's defaults, except for one broker per cluster and shorter intervals.
_PROPERTIES = """\
# Written by `k2ktui demo --with-mirrormaker`. While the demo runs, for example:
# k2ktui mm2 audit -f {path}
clusters = {source_alias}, {target_alias}
{source_alias}.bootstrap.servers = {source}
{target_alias}.bootstrap.servers = {target}
{source_alias}->{target_alias}.enabled = true
{source_alias}->{target_alias}.topics = {topics}
sync.group.offsets.enabled = true
sync.group.offsets.interval.seconds = 10
emit.checkpoints.interval.seconds = 10
refresh.groups.interval.seconds = 10
replication.factor = 1
checkpoints.topic.replication.factor = 1
heartbeats.topic.replication.factor = 1
offset-syncs.topic.replication.factor = 1
offset.storage.replication.factor = 1
config.storage.replication.factor = 1
status.storage.replication.factor = 1
"""

_ONLY_ON_SOURCE = 3
_ITEMS = ("kettle", "lamp", "teapot", "chair")


def mirrormaker_jars(progress: Progress | None = None) -> artifacts.Classpath:
    """Return the jars of MirrorMaker 2, downloading missing ones.

    Raises:
        ConnectionFailed: a jar cannot be downloaded.
    """
    wanted = (artifacts.CONNECT_MIRROR, artifacts.CONNECT_RUNTIME, artifacts.LOGGING)
    return artifacts.classpath(*wanted, progress=progress)


def write_properties(path: Path, source: str, target: str) -> Path:
    """Write ``mm2.properties`` for a flow between two bootstrap addresses."""
    text = _PROPERTIES.format(
        path=path,
        source_alias=SOURCE,
        target_alias=TARGET,
        source=source,
        target=target,
        topics=",".join(topic.name for topic in TOPICS),
    )
    write_atomically(path, text.encode())
    return path


class MirrorMakerProcess:
    """A running MirrorMaker 2, a child process that cannot outlive this one.

    Args:
        file: its ``mm2.properties``; its output goes to ``mm2.log`` in the same directory.
    """

    def __init__(self, file: Path) -> None:
        self.log_path = file.with_suffix(".log")
        java = str(find_java().executable)
        command = [java, *_JVM, "-cp", mirrormaker_jars().argument, _MAIN, str(file)]
        self._child = child_process.spawn(command, log_path=self.log_path, grace=_GRACE_SECONDS)

    def fault(self) -> str:
        """Return why it ended on its own; empty while it runs."""
        code = self._child.poll()
        return "" if code is None else f"MirrorMaker 2 ended with {code}, see {self.log_path}"

    def stop(self, timeout: float) -> None:
        """Stop it within ``timeout`` seconds."""
        self._child.stop(timeout)


def start_peer(
    file: Path, addresses: tuple[str, str], screen: Screen, stack: contextlib.ExitStack
) -> MirrorMakerProcess:
    """Start MirrorMaker 2 beside the pipeline."""
    with screen.busy("Looking for MirrorMaker 2") as step:
        mirrormaker_jars(step)
    peer = MirrorMakerProcess(write_properties(file, *addresses))
    stack.callback(peer.stop, _STOP_SECONDS)
    screen.say(f"MirrorMaker 2 copies the same topics to {SOURCE}.*: {file}")
    screen.say(f"MirrorMaker 2 alone: k2ktui -f {file}, or k2ktui mm2 audit -f {file}.")
    return peer


def require_schema_packages() -> None:
    """Require what registries need, before anything is started.

    Raises:
        NotInstalled: Confluent's registry client is missing.
        Refused: there is no suitable Java.
    """
    RegistryClient(RegistrySettings("source", ("http://127.0.0.1",))).close()
    find_java(MINIMUM_JAVA)


class DemoRegistries:
    """A schema registry for each cluster.

    Args:
        data: the demo's directory; what an earlier demo kept there is continued.
    """

    def __init__(self, data: Path) -> None:
        self._nodes = [
            RegistryNode(name, data / f"{name}-registry") for name in ("source", "target")
        ]

    @property
    def urls(self) -> tuple[str, str]:
        """Their addresses."""
        return self._nodes[0].url, self._nodes[1].url

    def start(self, progress: Progress) -> None:
        """Start both; raises as :meth:`RegistryNode.start`."""
        unpack_program(APICURIO, progress)
        with ThreadPoolExecutor(len(self._nodes)) as pool:
            list(pool.map(RegistryNode.start, self._nodes))

    def close(self) -> None:
        """Stop both."""
        with ThreadPoolExecutor(len(self._nodes)) as pool:
            list(pool.map(RegistryNode.close, self._nodes))

    def register(self) -> int:
        """Register the schema on the source, after others, and return its id.

        The target's registry gets it from the pipeline, as its first one.
        """
        with RegistryClient(RegistrySettings("source", self.urls[:1])) as client:
            for number in range(_ONLY_ON_SOURCE):
                other = {"type": "fixed", "name": "Other", "size": number + 1}
                client.register(f"other-{number}", Schema(AVRO, json.dumps(other)))
            return client.register(f"{SCHEMA_TOPIC}-value", Schema(AVRO, json.dumps(_SCHEMA)))


_SCHEMA = {
    "type": "record",
    "name": "Order",
    "namespace": "demo",
    "fields": [{"name": "order", "type": "long"}, {"name": "item", "type": "string"}],
}


def schema_topic(schema_id: int) -> DemoTopic:
    """Return the topic of Avro records with the source's id of their schema."""
    return DemoTopic(
        SCHEMA_TOPIC,
        2,
        "Avro records: the schema has another id on the target",
        partial(_order, schema_id),
        seeded=2_000,
        rate=0,
        config=BOUNDED,
    )


def _order(schema_id: int, chance: random.Random, number: int) -> DemoRecord:
    item = chance.choice(_ITEMS).encode()
    data = b"\0" + schema_id.to_bytes(4, "big") + _long(number) + _long(len(item)) + item
    return DemoRecord(f"order-{number}".encode(), data)


def _long(value: int) -> bytes:
    """Return a number as Avro writes it: zigzag, in groups of seven bits."""
    value = value << 1 ^ value >> 63
    groups = []
    while value >= 0x80:
        groups.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*groups, value))


def note_missing_schemas(config: Path, screen: Screen) -> None:
    """Tell the user of a running demo that it has no registries, if so."""
    if SCHEMA_TOPIC not in config.read_text():
        screen.say(
            "The running demo has no schema registries. Start over with them: "
            "k2ktui demo --fresh --with-schemas."
        )


def start_registries(data: Path, screen: Screen, stack: contextlib.ExitStack) -> DemoRegistries:
    """Start both registries until the end of ``stack``; raises as :meth:`DemoRegistries.start`."""
    registries = DemoRegistries(data)
    with screen.busy("Looking for the schema registry") as step:
        stack.callback(registries.close)
        registries.start(step)
    return registries


def write_schema_topic(
    data: Path, addresses: tuple[str, str], registries: DemoRegistries, screen: Screen
) -> DemoTopic:
    """Register the schema, and write the topic's older records unless an earlier demo did."""
    schema_id = registries.register()
    topic = schema_topic(schema_id)
    done = data / "complete-schemas"
    if not done.exists():
        clients.create_topics(*addresses, [topic])
        write_seed_data(*addresses, topics=[topic])
        done.touch()
    screen.say(
        f"{topic.name}: its schema has the id {schema_id} on the source; the pipeline registers it "
        f"on the target, and rewrites the ids ({registries.urls[1]})"
    )
    return topic
