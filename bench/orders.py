"""Avro records with schema ids, and two registries that give their schema different ids."""

from __future__ import annotations

import contextlib
import json
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from k2ktui.runtime.registry_node import RegistryNode

ID_BYTES = 5
_ONLY_ON_SOURCE = 7
_TIMEOUT = 30.0
_MEDIA_TYPE = "application/vnd.schemaregistry.v1+json"
SCHEMA = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "fields": [
            {"name": "number", "type": {"type": "fixed", "name": "Number", "size": 8}},
            {"name": "note", "type": "string"},
        ],
    }
)


@dataclass(frozen=True, slots=True)
class Registries:
    """The addresses of both registries."""

    source: str
    target: str

    def register(self, topic: str) -> int:
        """Register the schema of a source topic's values, and return its id."""
        return _schema_id(f"{self.source}/subjects/{topic}-value/versions", SCHEMA)

    def target_id(self, topic: str) -> int:
        """Return the id of the schema of a target topic's values."""
        return _schema_id(f"{self.target}/subjects/{topic}-value/versions/latest")


@contextlib.contextmanager
def running(directory: Path) -> Iterator[Registries]:
    """Start both registries; the schema gets another id on the source than on the target."""
    nodes = [RegistryNode(name, directory / f"registry-{name}") for name in ("source", "target")]
    try:
        with ThreadPoolExecutor(len(nodes)) as pool:
            list(pool.map(RegistryNode.start, nodes))
        registries = Registries(nodes[0].url, nodes[1].url)
        for number in range(_ONLY_ON_SOURCE):
            fixed = json.dumps({"type": "fixed", "name": "Only", "size": number + 1})
            _schema_id(f"{registries.source}/subjects/only-on-source-{number}/versions", fixed)
        yield registries
    finally:
        for node in nodes:
            node.close()


def prefix(schema_id: int) -> bytes:
    """Return the bytes before the data of a record with a schema id."""
    return b"\0" + schema_id.to_bytes(4, "big")


def order(number: bytes, text: bytes, size: int) -> bytes:
    """Return the data of an order of ``size`` bytes, which begins with its number."""
    length = size - len(number) - 1
    if length >= 64:  # the length of a text has two bytes then
        length -= 1
        return number + bytes((length << 1 & 0x7F | 0x80, length >> 6)) + text[:length]
    return number + bytes((length << 1,)) + text[:length]


def _schema_id(url: str, schema: str = "") -> int:
    """Register a schema, or ask for one without it, and return its id."""
    body = json.dumps({"schema": schema}).encode() if schema else None
    request = urllib.request.Request(url, body, {"Content-Type": _MEDIA_TYPE})
    with urllib.request.urlopen(request, timeout=_TIMEOUT) as answer:
        return int(json.load(answer)["id"])
