"""Two schema registries, and a topic of Avro records whose schema has another id on each."""

from __future__ import annotations

import contextlib
import json
import random
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from k2ktui.demo import seed, topics
from k2ktui.demo.records import DemoRecord
from k2ktui.demo.screen import Screen
from k2ktui.demo.topics import BOUNDED, SCHEMA_TOPIC, DemoTopic, RegistryUrls
from k2ktui.engine.schemas import AVRO, Schema
from k2ktui.progress import Progress
from k2ktui.registry.client import RegistryClient
from k2ktui.registry.settings import RegistrySettings
from k2ktui.runtime.java import find_java
from k2ktui.runtime.program_archive import unpack_program
from k2ktui.runtime.registry_node import APICURIO, MINIMUM_JAVA, RegistryNode

_ONLY_ON_SOURCE = 3
_ITEMS = ("kettle", "lamp", "teapot", "chair")


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
    def urls(self) -> RegistryUrls:
        """Their addresses."""
        return RegistryUrls(self._nodes[0].url, self._nodes[1].url)

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
        with RegistryClient(RegistrySettings("source", (self.urls.source,))) as client:
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
        topics.create(*addresses, [topic])
        seed.write_seed_data(*addresses, topics=[topic])
        done.touch()
    screen.say(
        f"{topic.name}: its schema has the id {schema_id} on the source; the pipeline registers it "
        f"on the target, and rewrites the ids ({registries.urls.target})"
    )
    return topic
