"""Ids of the table columns whose values come from a stale reading."""

from __future__ import annotations

from k2ktui.present.comparisons import COMPARED
from k2ktui.watch.model import PartName, View

_OF_BOTH = frozenset({"state", "lag", "behind", "coverage", "unmapped", "why"})
_OF_SOURCE = _OF_BOTH | {"start", "end", "held-back"}
_OF_TARGET = _OF_BOTH | {"position", "target-end"}
_OF_COMMITS = frozenset(
    {"status", "source", "lag", "skips", "rereads", "moved-skips", "moved-rereads", "ours", "basis"}
    | {
        "divergence",
        "bar",
        "translated",
        "reread",
        "skipped",
        "reread-now",
        "skipped-now",
        "states",
        "why",
    }
)
_OF_GROUPS = _OF_COMMITS | {"target", "parts"}
_NONE: frozenset[str] = frozenset()


def stale_partition_columns(view: View) -> frozenset[str]:
    """Return the ids of the stale columns in a table of partitions."""
    source = _OF_SOURCE if view.stale(PartName.SOURCE) else _NONE
    target = _OF_TARGET if view.stale(PartName.TARGET) else _NONE
    groups = frozenset({"coverage", "unmapped", "mapped"}) if view.stale(PartName.GROUPS) else _NONE
    state = frozenset({COMPARED}) if view.stale(PartName.STATE) else _NONE
    return source | target | groups | state


def stale_group_columns(view: View) -> frozenset[str]:
    """Return the ids of the stale columns in a table of groups or group-partitions."""
    if view.stale(PartName.GROUPS):
        return _OF_GROUPS
    if view.source_down:
        return _OF_COMMITS
    return frozenset({"lag"}) if view.stale(PartName.SOURCE) else _NONE
