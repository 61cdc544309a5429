"""What a hold or a release changes, in words."""

from __future__ import annotations

from k2ktui.engine.records.hold import Hold
from k2ktui.sync.holds import HoldChange
from k2ktui.text import counted, safe_text


def change_text(hold: Hold, change: HoldChange) -> str:
    """Return what is held or released, with the number of its partitions if it is a topic."""
    by = "" if change.is_hold else f", {safe_text(hold.describe())}"
    if hold.partition is not None:
        return f"{safe_text(hold.key.name)}{by}"
    partitions = sum(hold.key.covers(at) for at, _ in change.positions)
    return f"{safe_text(hold.topic)}: {counted(partitions, 'partition')}{by}"
