"""Offsets that MirrorMaker 2 gives consumer groups, compared with the exact ones."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from k2ktui.engine.mapping.translate import Basis
from k2ktui.engine.severity import Severity

SURE = frozenset({Basis.EXACT, Basis.END})


@dataclass(frozen=True, slots=True)
class AuditRow:
    """One group-partition; offsets are next offsets, counts are in target offsets.

    Attributes:
        source_offset: committed offset on the source.
        checkpoint_offset: translated offset of MirrorMaker 2's newest checkpoint, None if there is
            none; ``auto.offset.reset`` then decides where a consumer begins.
        checkpoint_upstream: committed offset that the checkpoint was made from.
        checkpoint_age_s: age of the checkpoint in seconds.
        synced_offset: committed offset on the target now, None if there is none.
        right_offset: target offset of the first record that the group has not read.
        basis: why ``right_offset`` can be trusted; the counts are known only if it is exact.
        checkpoint_reread, checkpoint_skipped: effect of resuming at the checkpoint.
        synced_reread, synced_skipped: effect of resuming at the commit on the target.
        note: what else an operator should know.
    """

    group: str
    topic: str
    partition: int
    target_topic: str
    state_target: str
    source_offset: int | None
    checkpoint_offset: int | None
    checkpoint_upstream: int | None
    checkpoint_age_s: float | None
    synced_offset: int | None
    right_offset: int | None
    basis: str
    checkpoint_reread: int | None
    checkpoint_skipped: int | None
    synced_reread: int | None
    synced_skipped: int | None
    note: str = ""

    @property
    def severity(self) -> Severity:
        """Bad if records would be skipped; a warning if read again, or the effect is unknown."""
        if self.checkpoint_skipped or self.synced_skipped:
            return Severity.BAD
        is_unknown = self.checkpoint_offset is None or self.basis not in SURE
        is_right = not (self.checkpoint_reread or self.synced_reread or is_unknown)
        return Severity.OK if is_right else Severity.WARN

    @property
    def wrong(self) -> bool:
        """Whether records would be read again or skipped, or the effect is unknown."""
        return self.severity is not Severity.OK


@dataclass(frozen=True, slots=True)
class Audit:
    """The audit of a flow; ``taken_at`` is epoch seconds."""

    flow: str
    taken_at: float
    rows: tuple[AuditRow, ...]
    notes: tuple[str, ...]

    @property
    def is_wrong(self) -> bool:
        """Whether any group would not continue at the same record, or that is not known."""
        return any(row.wrong for row in self.rows)

    @property
    def has_checkpoints(self) -> bool:
        """Whether any group-partition has a checkpoint."""
        return any(row.checkpoint_offset is not None for row in self.rows)

    def as_json(self) -> dict[str, Any]:
        """Return what ``--json`` prints."""
        return {
            "flow": self.flow,
            "taken_at": self.taken_at,
            "rows": [asdict(row) for row in self.rows],
            "totals": self.totals(),
            "notes": list(self.notes),
        }

    def totals(self) -> dict[str, int]:
        """Return sums over all rows; rows without an exact basis are counted as ``unknown``."""
        return {
            "rows": len(self.rows),
            "wrong": sum(row.wrong for row in self.rows),
            "without_checkpoint": sum(row.checkpoint_offset is None for row in self.rows),
            "checkpoint_reread": sum(row.checkpoint_reread or 0 for row in self.rows),
            "checkpoint_skipped": sum(row.checkpoint_skipped or 0 for row in self.rows),
            "synced_reread": sum(row.synced_reread or 0 for row in self.rows),
            "synced_skipped": sum(row.synced_skipped or 0 for row in self.rows),
            "unknown": sum(row.basis not in SURE for row in self.rows),
        }
