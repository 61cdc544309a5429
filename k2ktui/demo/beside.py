"""What runs beside the demo's pipeline if its user asks for it: MirrorMaker 2, schema registries.

MirrorMaker 2 copies the same topics under its own source alias. The registries give the schema of a
topic of Avro records another id on each cluster.
"""

from __future__ import annotations

import contextlib
import json
import random
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TypeVar

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

T = TypeVar("T")

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


def start_peer(
    file: Path, addresses: tuple[str, str], screen: Screen, stack: contextlib.ExitStack
) -> Callable[[], str]:
    """Start MirrorMaker 2 beside the pipeline; it cannot outlive this process.

    Args:
        file: its ``mm2.properties``, which is written; its output goes to ``mm2.log`` beside it.
        addresses: of both clusters.
        screen: where it is announced.
        stack: stops it.

    Returns:
        What says why it ended on its own, "" while it runs.
    """
    with screen.busy("Looking for MirrorMaker 2") as step:
        jars = mirrormaker_jars(step)
    topics = ",".join(topic.name for topic in TOPICS)
    aliases = {"source_alias": SOURCE, "target_alias": TARGET}
    where = {"source": addresses[0], "target": addresses[1]}
    text = _PROPERTIES.format(path=file, topics=topics, **aliases, **where)
    write_atomically(file, text.encode())
    log = file.with_suffix(".log")
    command = [str(find_java().executable), *_JVM, "-cp", jars.argument, _MAIN, str(file)]
    child = child_process.spawn(command, log_path=log, grace=_GRACE_SECONDS)
    stack.callback(child.stop, _STOP_SECONDS)
    screen.say(f"MirrorMaker 2 copies the same topics to {SOURCE}.*: {file}")
    screen.say(f"MirrorMaker 2 alone: k2ktui -f {file}, or k2ktui mm2 audit -f {file}.")

    def fault() -> str:
        code = child.poll()
        return "" if code is None else f"MirrorMaker 2 ended with {code}, see {log}"

    return fault


def require_schema_packages() -> None:
    """Require what registries need, before anything is started.

    Raises:
        NotInstalled: Confluent's registry client is missing.
        Refused: there is no suitable Java.
    """
    RegistryClient(RegistrySettings("source", ("http://127.0.0.1",))).close()
    find_java(MINIMUM_JAVA)


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


def start_registries(data: Path, screen: Screen, stack: contextlib.ExitStack) -> tuple[str, str]:
    """Start a schema registry for each cluster until the end of ``stack``; return their addresses.

    What an earlier demo kept in ``data`` is continued.

    Raises:
        ConnectionFailed, Refused, TimedOut: as :meth:`RegistryNode.start`.
    """
    nodes = [RegistryNode(name, data / f"{name}-registry") for name in ("source", "target")]
    with screen.busy("Looking for the schema registry") as step:
        unpack_program(APICURIO, step)
        stack.callback(run_on_each, nodes, RegistryNode.close)
        run_on_each(nodes, RegistryNode.start)
    return nodes[0].url, nodes[1].url


def run_on_each(servers: Sequence[T], work: Callable[[T], object]) -> None:
    """Do the same with several servers at once."""
    with ThreadPoolExecutor(len(servers)) as pool:
        list(pool.map(work, servers))


def write_schema_topic(
    data: Path, addresses: tuple[str, str], registries: tuple[str, str], screen: Screen
) -> None:
    """Register the schema, and write the topic's older records unless an earlier demo did.

    It is registered on the source, after others; the target's registry gets it from the pipeline,
    as its first one.
    """
    with RegistryClient(RegistrySettings("source", registries[:1])) as client:
        for number in range(_ONLY_ON_SOURCE):
            other = {"type": "fixed", "name": "Other", "size": number + 1}
            client.register(f"other-{number}", Schema(AVRO, json.dumps(other)))
        schema_id = client.register(f"{SCHEMA_TOPIC}-value", Schema(AVRO, json.dumps(_SCHEMA)))
    topic = schema_topic(schema_id)
    done = data / "complete-schemas"
    if not done.exists():
        clients.create_topics(*addresses, [topic])
        write_seed_data(*addresses, topics=[topic])
        done.touch()
    screen.say(
        f"{topic.name}: its schema has the id {schema_id} on the source; the pipeline registers it "
        f"on the target, and rewrites the ids ({registries[1]})"
    )
