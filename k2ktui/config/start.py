"""Where a source partition begins that has no replicated position yet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from k2ktui.config.clusters import Section
from k2ktui.config.scalars import Instant

RESET = "auto.offset.reset"


@dataclass(frozen=True)
class StartPosition:
    """Where to begin. ``timestamp_ms`` (since 1970) is set for ``timestamp`` only, and means the
    first record at or after it."""

    kind: Literal["earliest", "latest", "timestamp"] = "earliest"
    timestamp_ms: int | None = None


class StartSection(Section):
    """Ours: the ``start`` section, which overrides nothing: it must agree with the consumer's."""

    from_: Literal["earliest", "latest", "timestamp"] | None = None
    timestamp: Instant | None = None


def reset_of(consumer: Mapping[str, str]) -> str:
    """Return the ``auto.offset.reset`` of a consumer, "" for none.

    Raises:
        ValueError: it is neither earliest nor latest.
    """
    reset = consumer.get(RESET, "").strip().lower()
    if reset not in {"", "earliest", "latest"}:
        raise ValueError(
            f"earliest or latest as {RESET} of its consumer; "
            "for a point in time use start: {from: timestamp, timestamp: …}"
        )
    return reset


def start_position(section: StartSection, consumer: Mapping[str, str]) -> StartPosition:
    """Settle the start from ``start`` and the source consumer's ``auto.offset.reset``.

    Raises:
        ValueError: the two disagree, or one of them cannot be honoured.
    """
    wanted = section.from_ or ("timestamp" if section.timestamp is not None else None)
    if wanted == "timestamp" and section.timestamp is None:
        raise ValueError("start.timestamp, because start.from is timestamp")
    if wanted != "timestamp" and section.timestamp is not None:
        raise ValueError(f"no start.timestamp, because start.from is {wanted}")
    reset = reset_of(consumer)
    if wanted and reset and wanted != reset:
        raise ValueError(
            f"start.from ({wanted}) and the source consumer's {RESET} ({reset}) to agree; "
            "remove one of them"
        )
    kind = wanted or reset or "earliest"
    if kind == "timestamp":
        return StartPosition("timestamp", section.timestamp)
    return StartPosition("latest" if kind == "latest" else "earliest")
