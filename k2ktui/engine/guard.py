"""The version mark in a translated commit: an older mapping never overwrites a newer one.

Kafka stores one metadata string per committed offset (4,096 bytes by default). k2ktui's begins
with ``groups.offsetGuardPrefix`` and the version of the mapping that the offset was made from,
followed by the application's own metadata.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from k2ktui.engine.bounded import Count

_MARK = re.compile(r"(\d+)\.(\d+);")
METADATA_LIMIT = 4096


@dataclass(frozen=True, slots=True, order=True)
class MappingVersion:
    """Version of a mapping: the pipeline's term, then the replicated position.

    Where several source partitions feed one target partition, ``position`` is the sum of their
    replicated positions; it only grows within a term.
    """

    term: Count
    position: Count


def add_guard(prefix: str, version: MappingVersion, metadata: str) -> str:
    """Return commit metadata with the version mark before the application's own.

    Metadata that would exceed the broker's default limit is truncated.
    """
    whole = f"{prefix}{version.term}.{version.position};{metadata}"
    return whole.encode()[:METADATA_LIMIT].decode(errors="ignore")


def split_guard(prefix: str, metadata: str | None) -> tuple[MappingVersion | None, str]:
    """Split commit metadata into the version mark (None if absent) and the application's own."""
    text = metadata or ""
    if text.startswith(prefix):
        found = _MARK.match(text, len(prefix))
        if found is not None:
            version = MappingVersion(int(found[1]), int(found[2]))
            return version, text[found.end() :]
    return None, text


def is_stale(version: MappingVersion, present: MappingVersion | None) -> bool:
    """Whether a commit made from ``version`` would overwrite one made from a newer mapping."""
    return present is not None and version < present
