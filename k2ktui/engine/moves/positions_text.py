"""Parse positions in operator input: ``TOPIC:PARTITION:OFFSET``."""

from __future__ import annotations

import re
from collections.abc import Iterable

from k2ktui.engine.records.state import SourcePartition
from k2ktui.errors import ConfigError
from k2ktui.text import safe_text

LARGEST_PARTITION = (1 << 31) - 1
LARGEST_OFFSET = (1 << 63) - 1

# The names that brokers accept (Topic.java). They contain no colon, so a colon ends the name.
_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_SHOWN = 100
_UNCHANGED = "Nothing was done."


def is_topic_name(name: str) -> bool:
    """Whether a topic can have this name."""
    return _TOPIC.fullmatch(name) is not None and name not in {".", ".."}


def parse_positions(
    words: Iterable[str], unchanged: str = _UNCHANGED
) -> dict[SourcePartition, int]:
    """Parse ``TOPIC:PARTITION:OFFSET`` words into offsets per source partition.

    Raises:
        ConfigError: lists every word that is invalid or contradicts another, with the reason.
    """
    positions: dict[SourcePartition, int] = {}
    wrong = []
    for word in words:
        try:
            source, offset = _position(word)
            if positions.setdefault(source, offset) != offset:
                raise ValueError(f"{source} is given twice, with different offsets")
        except ValueError as error:
            wrong.append(f"{_shown(word)}: {error}")
    hint = "Write each position as TOPIC:PARTITION:OFFSET, such as orders:0:1234."
    _refuse(wrong, hint, unchanged)
    return positions


def check_positions(places: Iterable[tuple[object, object, object]]) -> dict[SourcePartition, int]:
    """Return offsets per source partition; each place is a topic, a partition and an offset.

    Raises:
        ConfigError: as for :func:`parse_positions`.
    """
    return parse_positions(":".join(map(str, place)) for place in places)


def parse_partitions(words: Iterable[str]) -> set[tuple[str, int | None]]:
    """Parse ``TOPIC`` and ``TOPIC:PARTITION`` words; a topic alone has None as its partition.

    Raises:
        ConfigError: lists every invalid word with the reason.
    """
    partitions: set[tuple[str, int | None]] = set()
    wrong = []
    for word in words:
        topic, colon, partition = word.partition(":")
        try:
            number = _number("partition", partition, LARGEST_PARTITION) if colon else None
            partitions.add((_topic(topic), number))
        except ValueError as error:
            wrong.append(f"{_shown(word)}: {error}")
    _refuse(wrong, "Write each as TOPIC or TOPIC:PARTITION.")
    return partitions


def parse_place(word: str) -> tuple[SourcePartition, int]:
    """Parse ``TOPIC:PARTITION@OFFSET``, the place of a record, on either cluster.

    Raises:
        ConfigError: the word is invalid, with the reason.
    """
    partition, at, offset = word.rpartition("@")
    try:
        if not at:
            raise ValueError("expected an offset after @")
        return _position(f"{partition}:{offset}")
    except ValueError as error:
        _refuse(
            [f"{_shown(word)}: {error}"],
            "Write the place as TOPIC:PARTITION@OFFSET, such as orders:0@1234.",
        )
        raise


def _position(word: str) -> tuple[SourcePartition, int]:
    parts = word.split(":")
    if len(parts) != 3:
        raise ValueError(f"expected three parts between colons, found {len(parts)}")
    topic, partition, offset = parts
    source = SourcePartition(_topic(topic), _number("partition", partition, LARGEST_PARTITION))
    return source, _number("offset", offset, LARGEST_OFFSET)


def _topic(text: str) -> str:
    if not is_topic_name(text):
        raise ValueError("the topic name is not valid")
    return text


def _number(what: str, text: str, largest: int) -> int:
    if not (text.isascii() and text.isdigit()):
        raise ValueError(f"the {what} is not a whole number of 0 or more")
    digits = text.lstrip("0") or "0"
    # Compare lengths first: Python refuses to convert strings of thousands of digits.
    if len(digits) > len(str(largest)) or int(digits) > largest:
        raise ValueError(f"the {what} is too large for Kafka")
    return int(digits)


def _shown(word: str) -> str:
    return safe_text(word, _SHOWN) or "an empty argument"


def _refuse(wrong: list[str], hint: str, unchanged: str = _UNCHANGED) -> None:
    if wrong:
        raise ConfigError("\n".join(wrong), unchanged=unchanged, hint=hint)
