"""The contents of the demo's records: cases that a copy could get wrong."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass

Headers = tuple[tuple[str, bytes | None], ...]


@dataclass(frozen=True, slots=True)
class DemoRecord:
    """A record; a value of None is a tombstone, empty bytes are a zero-length value."""

    key: bytes | None
    value: bytes | None
    headers: Headers = ()


Maker = Callable[[random.Random, int], DemoRecord]

_CITIES = ("Athens", "Bogotá", "Kraków", "København", "Łódź", "Zürich", "東京", "Reykjavík")


def order(chance: random.Random, number: int) -> DemoRecord:
    """Return a keyed order; its headers hold a repeated key, in order, and a null value."""
    body = {
        "order": number,
        "city": chance.choice(_CITIES),
        "items": [chance.randrange(1000) for _ in range(chance.randrange(1, 6))],
        "cents": chance.randrange(99, 99_900),
    }
    headers: Headers = (
        ("trace", f"{chance.getrandbits(64):016x}".encode()),
        ("hop", b"shop"),
        ("hop", b"gateway"),
        ("hop", b""),
        ("note", None),
    )
    return DemoRecord(f"customer-{chance.randrange(500)}".encode(), _json(body), headers)


def payment(chance: random.Random, number: int) -> DemoRecord:
    """Return a payment, written in transactions."""
    body = {"payment": number, "cents": chance.randrange(99, 99_900), "card": "tokenised"}
    return DemoRecord(f"order-{number}".encode(), _json(body), (("attempt", b"1"),))


def click(chance: random.Random, number: int) -> DemoRecord:
    """Return a click without a key; some values are empty, some are null."""
    if number % 97 == 0:
        return DemoRecord(None, b"")
    if number % 101 == 0:
        return DemoRecord(None, None)
    return DemoRecord(None, b"/item/%d?from=%d" % (chance.randrange(10_000), number))


def customer(chance: random.Random, number: int) -> DemoRecord:
    """Return the latest state of one of a few customers; every tenth is a tombstone."""
    key = f"customer-{chance.randrange(200)}".encode()
    if number % 10 == 0:
        return DemoRecord(key, None)
    body = {"version": number, "city": chance.choice(_CITIES), "bio": "x" * 400}
    return DemoRecord(key, _json(body) if number % 53 else b"")


def session(chance: random.Random, number: int) -> DemoRecord:
    """Return a large record of a topic with a short retention."""
    return DemoRecord(f"session-{number}".encode(), chance.randbytes(1000))


def invoice(chance: random.Random, number: int) -> DemoRecord:
    """Return a document of a topic without live traffic."""
    return DemoRecord(f"invoice-{number}".encode(), _json({"invoice": number}))


def native(chance: random.Random, number: int) -> DemoRecord:
    """Return a record that an application on the target wrote before replication began."""
    body = {"written": "on the target", "number": number}
    return DemoRecord(f"native-{number}".encode(), _json(body), (("origin", b"target"),))


def _json(body: object) -> bytes:
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
