"""The identity with which a producer writes; imports no client library."""

from __future__ import annotations

from dataclasses import dataclass

NO_PRODUCER = -1


@dataclass(frozen=True, slots=True)
class Producer:
    """A producer id and epoch of a transactional id (None: not transactional)."""

    transactional_id: str | None
    producer_id: int = NO_PRODUCER
    epoch: int = -1
