"""The audit's counts, from rows and checkpoints."""

from __future__ import annotations

import pytest

from k2ktui.engine.mapping.translate import Basis
from k2ktui.engine.moves.audit import Audit
from k2ktui.engine.moves.groups import GroupRow
from k2ktui.engine.severity import Severity
from k2ktui.mm2.audit import compare_checkpoints, explain_no_checkpoint
from k2ktui.mm2.flows.formats import Checkpoint, GroupPartition
from k2ktui.mm2.flows.topics import WrittenCheckpoint
from tests.unit.mm2.test_settings import flow


def row(translated: int | None, basis: Basis, target: int | None = 90) -> GroupRow:
    return GroupRow(
        group="g",
        topic="t",
        partition=0,
        state_source="Empty",
        state_target="Empty",
        source_offset=120,
        target_topic="A.t",
        target_partition=0,
        target_offset=target,
        translated_offset=translated,
        basis=basis,
        reread=0,
        skipped=0,
        divergence=None,
        reason="",
    )


@pytest.mark.parametrize(
    ("right", "checkpoint", "synced", "counts", "severity"),
    [
        (100, 60, 90, (40, 0, 10, 0), Severity.WARN),
        (100, 100, 100, (0, 0, 0, 0), Severity.OK),
        (100, 110, 130, (0, 10, 0, 30), Severity.BAD),
        (100, 60, 130, (40, 0, 0, 30), Severity.BAD),
        (100, None, None, (None, None, None, None), Severity.WARN),
    ],
)
def test_counts(
    right: int,
    checkpoint: int | None,
    synced: int | None,
    counts: tuple[int | None, ...],
    severity: Severity,
) -> None:
    """What would be read again and skipped, at the checkpoint and as committed."""
    at = GroupPartition("g", "A.t", 0)
    written = {}
    if checkpoint is not None:
        written[at] = WrittenCheckpoint(Checkpoint(at, 118, checkpoint), 1_000)
    (audited,) = compare_checkpoints([row(right, Basis.EXACT, synced)], written, 31.0)
    assert counts == (
        audited.checkpoint_reread,
        audited.checkpoint_skipped,
        audited.synced_reread,
        audited.synced_skipped,
    )
    assert audited.checkpoint_age_s == (None if checkpoint is None else 30.0)
    assert audited.wrong == (counts != (0, 0, 0, 0))
    assert audited.severity is severity


def test_bounds_are_not_counted() -> None:
    """Where the right position is not known exactly, nothing is claimed."""
    (audited,) = compare_checkpoints([row(80, Basis.BOUNDED)], {}, 31.0)
    assert audited.synced_reread is None and audited.right_offset == 80 and audited.wrong
    totals = Audit("A->B", 0.0, (audited,), ()).totals()
    assert (totals["unknown"], totals["without_checkpoint"]) == (1, 1)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "waiting for the first checkpoint of MirrorMaker 2 (about 60 s)"),
        ("A->B.emit.checkpoints.interval.seconds = 5\n", "(about 5 s)"),
        ("A->B.emit.checkpoints.enabled = false\n", "emit.checkpoints.enabled is false"),
    ],
)
def test_a_flow_without_checkpoints_says_what_it_waits_for(text: str, reason: str) -> None:
    assert reason in explain_no_checkpoint(flow(text))
