"""Positions given on the command line."""

from __future__ import annotations

from collections.abc import Iterable

from k2ktui.engine.state import SourcePartition
from k2ktui.errors import ConfigError
from k2ktui.text import safe_text


def parse_positions(texts: Iterable[str]) -> dict[SourcePartition, int]:
    """Return offsets by source partition, of ``TOPIC:PARTITION:OFFSET`` each.

    Raises:
        ConfigError: all those that cannot be used, at once.
    """
    found: dict[SourcePartition, int] = {}
    wrong = []
    for text in texts:
        topic, _, rest = text.partition(":")  # no topic's name has a colon
        partition, _, offset = rest.partition(":")
        usable = topic and partition.isascii() and partition.isdigit()
        if not (usable and offset.isascii() and offset.isdigit()):
            wrong.append(f"{safe_text(text)} is not TOPIC:PARTITION:OFFSET")
            continue
        source = SourcePartition(topic, int(partition))
        if found.get(source, int(offset)) != int(offset):
            wrong.append(f"{safe_text(str(source))} is given twice, with different offsets")
        found[source] = int(offset)
    if wrong:
        raise ConfigError("\n".join(wrong), unchanged="Nothing was translated.")
    return found
