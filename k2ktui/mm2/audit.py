"""Compares MirrorMaker 2's offset translation of every group with the correct one."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from k2ktui.config.model import PipelineConfig
from k2ktui.engine.moves.audit import SURE, Audit, AuditRow
from k2ktui.engine.moves.groups import GroupRow, make_group_rows
from k2ktui.errors import ConfigError
from k2ktui.kafka.clients import source_cluster, target_cluster
from k2ktui.mm2.flows.formats import GroupPartition
from k2ktui.mm2.flows.model import FlowProperties
from k2ktui.mm2.flows.topics import MirrorTopics, WrittenCheckpoint
from k2ktui.sync.flow import Flow
from k2ktui.sync.moves.snapshot import SnapshotReader


class CheckpointAuditor:
    """Compares a flow's checkpoints with translated groups; see ``GroupAuditor`` in sync/flow.py.

    Args:
        properties: the flow as MirrorMaker 2 is configured.
        config: its name and clusters.
    """

    def __init__(self, properties: FlowProperties, config: PipelineConfig) -> None:
        self._name = config.name
        self._properties = properties
        self._topics = MirrorTopics(properties, source_cluster(config), target_cluster(config))

    def read(self) -> None:
        """Read new checkpoints.

        A checkpoint written after the groups were read would appear too far ahead of them.
        """
        self._topics.read_checkpoints()

    def audit(self, rows: Sequence[GroupRow], taken_at: float, notes: Sequence[str]) -> Audit:
        """Compare the checkpoints with translated groups; ``taken_at`` is in epoch seconds."""
        rows_of_audit = compare_checkpoints(rows, self._topics.checkpoints, taken_at)
        waiting = () if self._topics.checkpoints else (explain_no_checkpoint(self._properties),)
        own = (*waiting, *self._topics.unseen_checkpoints(), *self._topics.unreadable())
        return Audit(self._name, taken_at, tuple(rows_of_audit), (*own, *notes))

    def close(self) -> None:
        """Close all connections."""
        self._topics.close()


class Auditor:
    """Audits one flow repeatedly; each audit reads only the records added since the last one.

    Args:
        flow: a flow of MirrorMaker 2.

    Raises:
        ConfigError: k2ktui copies the flow.
    """

    def __init__(self, flow: Flow) -> None:
        auditor = flow.open_auditor()
        if auditor is None:
            raise ConfigError(
                "mm2 audit needs a MirrorMaker 2 file, not a pipeline file",
                unchanged="Nothing was read.",
                hint="Give mm2.properties, a Strimzi resource or a connector's JSON with -f.",
            )
        self._auditor = auditor
        self._snapshots = SnapshotReader(flow, for_plans=False)

    def close(self) -> None:
        """Close all connections."""
        self._snapshots.close()
        self._auditor.close()

    def audit(self) -> Audit:
        """Read both clusters and compare; changes nothing.

        Raises:
            K2kError: a cluster or a topic cannot be read, or nothing has been copied yet.
        """
        self._auditor.read()
        snapshot = self._snapshots.take()
        return self._auditor.audit(make_group_rows(snapshot), time.time(), snapshot.notes)


def audit(flow: Flow) -> Audit:
    """Audit a flow once; raises the same errors as ``Auditor``."""
    auditor = Auditor(flow)
    try:
        return auditor.audit()
    finally:
        auditor.close()


def explain_no_checkpoint(properties: FlowProperties) -> str:
    """Return why a flow has no checkpoint yet, or never will."""
    if not properties.switch("emit.checkpoints.enabled", True):
        return "MirrorMaker 2 writes no checkpoints: emit.checkpoints.enabled is false"
    interval = properties.seconds("emit.checkpoints.interval.seconds", 60)
    return f"waiting for the first checkpoint of MirrorMaker 2 (about {interval} s)"


def compare_checkpoints(
    groups: Sequence[GroupRow],
    checkpoints: Mapping[GroupPartition, WrittenCheckpoint],
    now: float,
) -> list[AuditRow]:
    """Compare checkpoints with translated groups; pure. ``now`` is in epoch seconds."""
    audited = []
    for row in groups:
        if row.target_partition is None:
            continue
        at = GroupPartition(row.group, row.target_topic, row.target_partition)
        written = checkpoints.get(at)
        checkpoint = written.checkpoint if written else None
        downstream = checkpoint.downstream if checkpoint else None
        right = row.translated_offset if row.basis in SURE else None
        audited.append(
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
                synced_reread=_zero_if_equal(row, _before(row.target_offset, right)),
                synced_skipped=_zero_if_equal(row, _before(right, row.target_offset)),
                note=row.reason,
            )
        )
    return audited


def _zero_if_equal(row: GroupRow, count: int | None) -> int | None:
    """Return ``count``, or 0 if the divergence is 0: the group has only moved on meanwhile."""
    return 0 if count and row.divergence == 0 else count


def _before(low: int | None, high: int | None) -> int | None:
    return None if low is None or high is None else max(0, high - low)
