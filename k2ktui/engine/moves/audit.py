"""Offsets that MirrorMaker 2 gives consumer groups, compared with the exact ones."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from k2ktui.engine.mapping.translate import Basis
from k2ktui.engine.moves.groups import Finding, GroupRow

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
    def wrong(self) -> bool:
        """Whether records would be read again or skipped, or the effect is unknown."""
        counts = (
            self.checkpoint_reread,
            self.checkpoint_skipped,
            self.synced_reread,
            self.synced_skipped,
        )
        return any(counts) or self.checkpoint_offset is None or self.basis not in SURE


@dataclass(frozen=True, slots=True)
class Audit:
    """The audit of a flow; ``taken_at`` is epoch seconds."""

    flow: str
    taken_at: float
    rows: tuple[AuditRow, ...]
    notes: tuple[str, ...]

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


@dataclass(frozen=True, slots=True)
class RereadEstimate:
    """Records that a group would read again, or never, if it resumed on the target now.

    Attributes:
        records: records read again, in the partitions where that is known.
        skipped: records never read, in the same partitions.
        unknown: number of partitions where neither is known.
        without: number of partitions without a translated offset; ``auto.offset.reset`` decides.
    """

    records: int = 0
    skipped: int = 0
    unknown: int = 0
    without: int = 0

    def __add__(self, other: RereadEstimate) -> RereadEstimate:
        return RereadEstimate(
            self.records + other.records,
            self.skipped + other.skipped,
            self.unknown + other.unknown,
            self.without + other.without,
        )


NOTHING = RereadEstimate()


def estimate_by_translation(rows: Iterable[GroupRow]) -> RereadEstimate:
    """Return upper bounds for a move to k2ktui's translated offsets.

    Such a move skips no retained record; records deleted by retention are not counted.
    """
    total = NOTHING
    for row in rows:
        if row.finding in (Finding.MOVED, Finding.CHOSEN):
            continue
        total += RereadEstimate(unknown=1) if row.reread is None else RereadEstimate(row.reread)
    return total


def estimate_by_checkpoints(rows: Iterable[AuditRow], partitions: int) -> RereadEstimate:
    """Return the effect of resuming at MirrorMaker 2's checkpoints.

    Args:
        rows: rows of one group.
        partitions: number of the group's partitions; those without a row have no checkpoint.
    """
    total, seen = NOTHING, 0
    for row in rows:
        seen += 1
        if row.checkpoint_offset is None:
            total += RereadEstimate(without=1)
        elif row.checkpoint_reread is None:
            total += RereadEstimate(unknown=1)
        else:
            total += RereadEstimate(row.checkpoint_reread, row.checkpoint_skipped or 0)
    return total + RereadEstimate(without=max(0, partitions - seen))
