"""The names in what commands print with ``--json``: the rules of docs/python.md, held everywhere.

Every test that runs a command with ``--json`` passes here, whatever it is about.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

# These have the names of a file or of a record that earlier releases have written.
_STORED = {("parity", "plan"), ("config", "show"), ("jobs", "log"), ("drill", "show"), ("watch",)}
# Objects whose keys are names from Kafka, from a file, or of what is counted.
_MAPS = {
    *("actions", "bases", "changes", "config", "counts", "ignored", "moved_topics", "positions"),
    *("ranges", "records", "rereads", "states", "unread"),
}
_INSTEAD = {
    "why": "reason",
    "what": "operation",
    "since": "a name with its unit",
    "seconds": "a name that ends in _s",
    "lag": "lag_records",
    "remarks": "notes",
    "began_at": "started_at",
}
_MOMENTS = (1_000_000_000, 10_000_000_000)


def check_names(value: object, arguments: tuple[str, ...] = ()) -> None:
    """Fail if what a command printed does not follow the rules."""
    if any(arguments[: len(words)] == words for words in _STORED):
        return
    broken = list(find_broken(value))
    assert not broken, f"k2ktui {' '.join(arguments)} --json: {'; '.join(broken)}"


def find_broken(value: object) -> Iterator[str]:
    """Yield what does not follow the rules."""
    if not isinstance(value, dict):
        yield f"a bare {type(value).__name__}: a list has a name, so that fields can be added"
        return
    if "pipeline" in value and not isinstance(value["pipeline"], str | None):
        yield "pipeline is not a name"
    yield from _broken(value, "")


def _broken(value: object, path: str) -> Iterator[str]:
    if isinstance(value, list):
        for one in value:
            yield from _broken(one, path)
    elif isinstance(value, dict):
        is_map = path.rpartition(".")[2] in _MAPS
        for name, below in value.items():
            at = f"{path}.{name}".lstrip(".")
            yield from () if is_map else _broken_name(name, at, below, value)
            yield from _broken(below, at)


def _broken_name(name: str, at: str, value: object, parent: Mapping[str, Any]) -> Iterator[str]:
    if not re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", name):
        yield f"{at} is not in snake_case"
    if name in _INSTEAD:
        yield f"{at} is {_INSTEAD[name]}"
    if name.endswith("_seconds"):
        yield f"{at} ends in _s"
    if re.search(r"_(at|s|ms)$", name) and not _is_number(value):
        yield f"{at} is no number: {value!r:.40}"
    elif name.endswith("_at") and value and not _MOMENTS[0] <= float(value) <= _MOMENTS[1]:  # type: ignore[arg-type]
        yield f"{at} is not in seconds since 1970: {value!r:.40}"
    if name == "notes" and not isinstance(value, list):
        yield f"{at} is no list"
    if name == "partition" and "topic" not in parent:
        yield f"{at} has no topic beside it"


def _is_number(value: object) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))
