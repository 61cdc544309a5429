"""The version of a mapping: an older mapping never overwrites a newer one.

Which commits on the target are ours, and from which mapping they were made, is recorded on the
state topic (:mod:`k2ktui.engine.moves.written`). Earlier releases, and Lenses, wrote it into the
commit's metadata instead, before the application's own: a mark of ``groups.offsetGuardPrefix`` and
the version. It is only read now: applications that parse their metadata break with it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from k2ktui.engine.bounded import Count
from k2ktui.engine.records.run_record import LARGEST_TERM
from k2ktui.engine.strict_json import LARGEST

_MARK = re.compile(r"([0-9]{1,13})\.([0-9]{1,19});")


@dataclass(frozen=True, slots=True, order=True)
class MappingVersion:
    """Version of a mapping: the pipeline's term, then the replicated position.

    Where several source partitions feed one target partition, ``position`` is the sum of their
    replicated positions; it only grows within a term.
    """

    term: Count
    position: Count


def split_guard(prefix: str, metadata: str | None) -> tuple[MappingVersion | None, str]:
    """Split commit metadata into an earlier release's mark (None if absent) and the rest."""
    text = metadata or ""
    if text.startswith(prefix):
        mark = _MARK.match(text, len(prefix))
        if mark is not None and int(mark[1]) <= LARGEST_TERM and int(mark[2]) <= LARGEST:
            return MappingVersion(int(mark[1]), int(mark[2])), text[mark.end() :]
    return None, text


def is_stale(version: MappingVersion, present: MappingVersion | None) -> bool:
    """Whether a commit made from ``version`` would overwrite one made from a newer mapping."""
    return present is not None and version < present
