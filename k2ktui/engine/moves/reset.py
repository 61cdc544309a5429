"""Plan the offsets of a group of one cluster: set by hand, or copied from another group there.

On the target this is for groups that exist there only. No mapping says what the group has read, so
what it re-reads and skips is counted in offsets of its cluster. This module does not access Kafka.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from k2ktui.engine.mapping.replica import TargetLog, TargetPartition
from k2ktui.engine.mapping.translate import Basis
from k2ktui.engine.moves.choice import Choice, RowValue, ValueKind, chosen_offset
from k2ktui.engine.moves.groups import GroupView
from k2ktui.engine.moves.pins import pin_logs
from k2ktui.engine.moves.plan import Action, Plan, PlanRow, Rewind, decide_action
from k2ktui.engine.records.mapping_version import MappingVersion
from k2ktui.errors import ConfigError
from k2ktui.text import safe_text

Side = Literal["source", "target"]

_NAMED = 10
# What no mapping was used for, and what no source commit belongs to.
_UNVERSIONED, _NO_SOURCE = MappingVersion(0, 0), ""


@dataclass(frozen=True, slots=True)
class Reset:
    """What a group is set to.

    Attributes:
        group: the consumer group.
        values: what each target partition is set to; no times.
        why: where the values are from, in words.
        metadata: metadata to commit, for partitions that have any.
    """

    group: str
    values: Mapping[TargetPartition, RowValue]
    why: str
    metadata: Mapping[TargetPartition, str]


@dataclass(frozen=True, slots=True)
class ClusterState:
    """What a reset depends on: the group on its cluster, and the logs; times are epoch seconds."""

    pipeline: str
    cluster: str
    taken_at: float
    view: GroupView
    logs: Mapping[TargetPartition, TargetLog]
    topic_ids: Mapping[str, str]
    side: Side = "target"


def plan_reset(reset: Reset, state: ClusterState, made_by: str, valid_s: float) -> Plan:
    """Return the plan that sets a group's offsets.

    Raises:
        ConfigError: a value leads to no offset.
    """
    rows, wrong = [], []
    for at, value in sorted(reset.values.items()):
        try:
            rows.append(_row(reset, state, at, value, made_by))
        except ValueError as error:
            wrong.append(f"{safe_text(at[0])}:{at[1]}={safe_text(value.text)}: {error}")
    if wrong:
        more = [f"… and {len(wrong) - _NAMED} more"] if len(wrong) > _NAMED else []
        raise ConfigError(
            f"group {safe_text(reset.group)} cannot be set so:\n    "
            + "\n    ".join(wrong[:_NAMED] + more),
            unchanged="Nothing was changed.",
        )
    return Plan(
        pipeline=state.pipeline,
        source_cluster="",
        target_cluster=state.cluster,
        created_at=state.taken_at,
        expires_at=state.taken_at + valid_s,
        made_by=made_by,
        rewind=Rewind.FOLLOW,
        rows=tuple(rows),
        logs=pin_logs(reset.values, state.logs, state.topic_ids),
        side=state.side,
    )


def _row(
    reset: Reset, state: ClusterState, at: TargetPartition, value: RowValue, made_by: str
) -> PlanRow:
    committed = state.view.committed(at)
    current = None if committed is None else committed.offset
    leaves_out = value.kind is ValueKind.LEAVE_OUT
    log = state.logs.get(at)
    offset = current if leaves_out else chosen_offset(value, current, log, state.side)
    by = 0 if current is None or offset is None else offset - current
    row = PlanRow(
        group=reset.group,
        topic=at[0],
        partition=at[1],
        source=_NO_SOURCE,
        state_source="",
        state_target=state.view.state,
        current=current,
        proposed=offset,
        basis=Basis.CHOSEN,
        reread=None if current is None else max(0, -by),
        skipped=None if current is None else max(0, by),
        action=Action.LEAVE_OUT,
        reason=f"{reset.why}, by {made_by}",
        version=_UNVERSIONED,
        metadata=reset.metadata.get(at, ""),
        choice=Choice(made_by, value.text, _NO_SOURCE, round(state.taken_at * 1000)),
    )
    return row if leaves_out else decide_action(row, Rewind.FOLLOW, None, side=state.side)
