"""What groups have read on the target after their move: the records that their commits passed."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing

from k2ktui.drill.facts import GroupReads
from k2ktui.drill.phases.moves import planned_sources
from k2ktui.drill.session import Session
from k2ktui.engine.mapping.replica import TargetPartition
from k2ktui.engine.moves.plan import Plan, PlanRow
from k2ktui.engine.records.state import SourcePartition
from k2ktui.log.content import ContentReader, KafkaRecord, content_digest
from k2ktui.sync.cluster_readers import TargetClusterReader
from k2ktui.sync.verify.changed_records import ignored_parts

_READ_S = 30.0
# Offsets to read for each record: some hold none.
_SPAN = 4


def find_reads(session: Session, plan: Plan) -> tuple[GroupReads, ...]:
    """Return the first copied records between each group's planned and its committed offset.

    Partitions with records of both directions are left out: some of their records are not on the
    source. Of many groups, those that would be tried as shadow groups are read.

    Raises:
        ConnectionFailed, TimedOut: the target does not answer.
    """
    names = sorted({row.group for row in plan.rows})[: session.drill.options.shadow_groups]
    rows = [planned for planned in planned_sources(plan.rows) if planned[0].group in names]
    with closing(TargetClusterReader(session.config)) as reader:
        views = reader.views(names)
    moved: list[tuple[PlanRow, SourcePartition, int]] = []
    asked: list[tuple[tuple[str, int, int], int]] = []
    wanted = session.drill.options.shadow_records
    for row, source, offset in rows:
        at = (row.topic, row.partition)
        view = views.get(row.group)
        now = view.offsets.get(at) if view is not None else None
        end = _copied_end(session, source, at)
        if row.proposed is None or now is None or now.offset <= row.proposed or end is None:
            continue
        count = min(now.offset, end) - row.proposed
        moved.append((row, source, offset))
        asked.append(((*at, row.proposed), max(0, min(count, wanted * _SPAN))))
    with ContentReader(session.target) as content:
        stretches = content.stretches(asked, _READ_S)
    return tuple(
        make_reads(
            session, *moved_row, [record for _, record in sorted(part.records.items())[:wanted]]
        )
        for moved_row, part in zip(moved, stretches, strict=True)
    )


def _copied_end(session: Session, source: SourcePartition, at: TargetPartition) -> int | None:
    """Return the offset after the last copied record; None if the partition has others, too."""
    snapshot = session.snapshot
    replica = snapshot.replicas.get(source) if snapshot is not None else None
    if snapshot is None or replica is None or at in snapshot.opposite:
        return None
    ranges = replica.target_ranges.get(at)
    return ranges.target_end if ranges is not None else None


def make_reads(
    session: Session,
    row: PlanRow,
    source: SourcePartition,
    offset: int,
    records: Sequence[KafkaRecord],
) -> GroupReads:
    """Return the records that a group has read on the target, for the checks.

    Args:
        session: the drill.
        row: the planned row.
        source, offset: the source partition and the group's committed offset there.
        records: what it has read first, in order.
    """
    ignore = ignored_parts(session.config, source.topic)
    return GroupReads(
        row.group,
        source,
        offset,
        (row.topic, row.partition),
        tuple(content_digest(record, ignore) for record in records),
        tuple(record.offset for record in records),
    )
