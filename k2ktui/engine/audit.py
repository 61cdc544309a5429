"""What another program would make of consumer groups, beside what is right."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from k2ktui.engine.groups import GroupRow
from k2ktui.engine.translate import Basis

SURE = frozenset({Basis.EXACT, Basis.END})


@dataclass(frozen=True, slots=True)
class AuditRow:
    """One group-partition; offsets are next offsets, counts are in target offsets.

    Attributes:
        source_offset: what the group has committed on the source.
        checkpoint_offset: translated offset of MirrorMaker 2's newest checkpoint, None if there is
            none: whoever goes by it begins where ``auto.offset.reset`` says.
        checkpoint_upstream: committed offset that the checkpoint was made of.
        checkpoint_age_s: how old the checkpoint is.
        synced_offset: what is committed on the target now, None if nothing is.
        right_offset: where the first record lies that the group has not read.
        basis: why that can be trusted; counts below are known only where it is exact.
        checkpoint_reread, checkpoint_skipped: what going on at the checkpoint would do.
        synced_reread, synced_skipped: what going on at the commit on the target would do.
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
        """Whether anything would be read again or skipped, or nobody knows."""
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
        """Return sums over all rows; what is not known is counted as ``unknown``."""
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
    """Records that a group would read again, or never, if it went on at the target now.

    Attributes:
        records: read again, in the partitions where that is known.
        skipped: never read, likewise.
        unknown: partitions where neither is known.
        without: partitions without a translated offset: there ``auto.offset.reset`` decides.
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
    """Return what moving by our translation would do, at most.

    Nothing is skipped that is still there; what retention has deleted is nobody's translation.
    """
    found = NOTHING
    for row in rows:
        found += RereadEstimate(unknown=1) if row.reread is None else RereadEstimate(row.reread)
    return found


def estimate_by_checkpoints(rows: Iterable[AuditRow], partitions: int) -> RereadEstimate:
    """Return what going on at checkpoints would do.

    Args:
        rows: of one group.
        partitions: how many the group has; those that no row is of have no checkpoint either.
    """
    found, seen = NOTHING, 0
    for row in rows:
        seen += 1
        if row.checkpoint_offset is None:
            found += RereadEstimate(without=1)
        elif row.checkpoint_reread is None:
            found += RereadEstimate(unknown=1)
        else:
            found += RereadEstimate(row.checkpoint_reread, row.checkpoint_skipped or 0)
    return found + RereadEstimate(without=max(0, partitions - seen))
