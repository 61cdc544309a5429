"""What MirrorMaker 2 would make of every group now, beside what is right."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from k2ktui.engine.groups import GroupRow, rows
from k2ktui.engine.translate import Basis
from k2ktui.kafka.clients import source_cluster, target_cluster
from k2ktui.mm2.formats import GroupPartition
from k2ktui.mm2.pipeline import MirrorPipeline
from k2ktui.mm2.topics import MirrorTopics, WrittenCheckpoint
from k2ktui.sync.snapshot import Snapshots

_SURE = frozenset({Basis.EXACT, Basis.END})


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
        return any(counts) or self.checkpoint_offset is None or self.basis not in _SURE


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
            "unknown": sum(row.basis not in _SURE for row in self.rows),
        }


def audit(config: MirrorPipeline) -> Audit:
    """Read both clusters once; nothing is changed.

    Raises:
        K2kError: a cluster or a topic cannot be read, or nothing was copied yet.
    """
    topics = MirrorTopics(config.flow, source_cluster(config), target_cluster(config))
    snapshots = Snapshots(config)
    try:
        # Checkpoints first: what is written after the groups were read would look too far.
        topics.read_checkpoints()
        snapshot = snapshots.take()
    finally:
        snapshots.close()
        topics.close()
    now = time.time()
    found = audited(rows(snapshot), topics.checkpoints, now)
    return Audit(config.name, now, tuple(found), (*topics.foreign(), *snapshot.notes))


def audited(
    groups: Sequence[GroupRow],
    checkpoints: Mapping[GroupPartition, WrittenCheckpoint],
    now: float,
) -> list[AuditRow]:
    """Set the checkpoints beside the translated groups, ``now`` in epoch seconds; pure."""
    found = []
    for row in groups:
        if row.target_partition is None:
            continue
        at = GroupPartition(row.group, row.target_topic, row.target_partition)
        written = checkpoints.get(at)
        checkpoint = written.checkpoint if written else None
        downstream = checkpoint.downstream if checkpoint else None
        right = row.translated_offset if row.basis in _SURE else None
        found.append(
            AuditRow(
                group=row.group,
                topic=row.topic,
                partition=row.partition,
                target_topic=row.target_topic,
                state_target=row.state_target,
                source_offset=row.source_offset,
                checkpoint_offset=downstream,
                checkpoint_upstream=checkpoint.upstream if checkpoint else None,
                checkpoint_age_s=max(0.0, now - written.at_ms / 1000) if written else None,
                synced_offset=row.target_offset,
                right_offset=row.translated_offset,
                basis=str(row.basis),
                checkpoint_reread=_before(downstream, right),
                checkpoint_skipped=_before(right, downstream),
                synced_reread=_before(row.target_offset, right),
                synced_skipped=_before(right, row.target_offset),
                note=row.reason,
            )
        )
    return found


def _before(low: int | None, high: int | None) -> int | None:
    return None if low is None or high is None else max(0, high - low)
