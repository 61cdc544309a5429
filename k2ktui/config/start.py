"""Start position of source partitions that have no replicated position yet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from k2ktui.config.clusters import Section
from k2ktui.config.scalars import Instant

RESET = "auto.offset.reset"


@dataclass(frozen=True)
class StartPosition:
    """A start position.

    Attributes:
        kind: where partitions start that exist when the pipeline first starts.
        timestamp_ms: epoch milliseconds, only for ``timestamp``: the first record at or after it.
        later: where partitions start that appear later.
    """

    kind: Literal["earliest", "latest", "timestamp"] = "earliest"
    timestamp_ms: int | None = None
    later: Literal["earliest", "latest"] = "earliest"


class StartSection(Section):
    """The ``start`` section, not a Lenses setting. It must agree with ``auto.offset.reset``."""

    from_: Literal["earliest", "latest", "timestamp"] | None = None
    timestamp: Instant | None = None


def reset_of(consumer: Mapping[str, str]) -> str:
    """Return the ``auto.offset.reset`` of a consumer, or "" if it is not set.

    Raises:
        ValueError: the value is neither earliest nor latest.
    """
    reset = consumer.get(RESET, "").strip().lower()
    if reset not in {"", "earliest", "latest"}:
        raise ValueError(
            f"earliest or latest as {RESET} of its consumer; "
            "for a point in time use start: {from: timestamp, timestamp: …}"
        )
    return reset


def start_position(section: StartSection, consumer: Mapping[str, str]) -> StartPosition:
    """Return the start position from ``start`` and the source consumer's ``auto.offset.reset``.

    ``start.from: latest`` copies partitions that appear later from their beginning. With
    ``auto.offset.reset: latest`` alone they start at their end too, as in Kafka's consumer and in
    MirrorMaker 2: what is written before they are found is not copied.

    Raises:
        ValueError: the two disagree, or one of them is invalid.
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
    if kind == "latest":
        return StartPosition("latest", later="earliest" if wanted else "latest")
    return StartPosition()
