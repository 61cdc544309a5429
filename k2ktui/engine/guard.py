"""The mark that a translated commit carries: an older mapping never overwrites a newer one.

Kafka keeps one metadata string a committed offset (4,096 bytes by default). Ours begins with
``groups.offsetGuardPrefix`` and the version of the mapping that the offset was made from; the
application's own metadata stays behind it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_MARK = re.compile(r"(\d+)\.(\d+);")
METADATA_LIMIT = 4096


@dataclass(frozen=True, slots=True, order=True)
class MappingVersion:
    """How new a mapping is: the pipeline's term, then how far it was replicated.

    ``position`` is the replicated position, summed up where several source partitions feed one
    target partition; it only grows within a term.
    """

    term: int
    position: int


def add_guard(prefix: str, version: MappingVersion, metadata: str) -> str:
    """Return commit metadata with our mark before the application's own.

    Metadata that would exceed the broker's default limit is cut at its end.
    """
    whole = f"{prefix}{version.term}.{version.position};{metadata}"
    return whole.encode()[:METADATA_LIMIT].decode(errors="ignore")


def split_guard(prefix: str, metadata: str | None) -> tuple[MappingVersion | None, str]:
    """Split commit metadata into our mark, None if it has none, and the application's own."""
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
