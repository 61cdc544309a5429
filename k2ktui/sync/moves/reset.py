"""Reset the offsets of a group of one cluster, or copy those of another group there.

On the target only groups that exist there alone: a mapping says what the others have read.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace

from k2ktui.config.inputs import absolute_files
from k2ktui.config.model import PipelineConfig
from k2ktui.engine.mapping.replica import TargetPartition
from k2ktui.engine.moves.choice import RowValue, ValueKind
from k2ktui.engine.moves.groups import ABSENT, GroupView
from k2ktui.engine.moves.plan import Plan
from k2ktui.engine.moves.reset import ClusterState, Reset, Side, plan_reset
from k2ktui.engine.records.moved_topic import MovedTopic
from k2ktui.errors import ConfigError, ConnectionFailed, Refused, TimedOut
from k2ktui.sync.cluster_readers import ConsumerGroupReader, TargetClusterReader
from k2ktui.sync.drill.pair import refuse_open_drills
from k2ktui.sync.moves.choices import look_up_times
from k2ktui.sync.moves.moved_topics import WAY_BACK, left_out_note, read_moved_targets
from k2ktui.sync.moves.plan_files import digest_files
from k2ktui.sync.moves.plans import whoami
from k2ktui.text import safe_text

_UNCHANGED = "Nothing was changed."
_VALID_S = 900.0


@dataclass(frozen=True, slots=True)
class ResetRequest:
    """What an operator asks for.

    Attributes:
        group: the consumer group to write.
        value: what all its partitions are set to; None to copy.
        copy_from: the group whose offsets are copied; "" to set a value.
        topic: selects topics of that cluster.
        side: the cluster, ``source`` or ``target``.
    """

    group: str
    value: RowValue | None
    copy_from: str
    topic: Callable[[str], bool]
    side: Side = "target"


def plan_group_reset(
    config: PipelineConfig, request: ResetRequest, files: Sequence[str]
) -> tuple[Plan, list[str]]:
    """Plan what is asked for, without changing anything; return the plan and notes.

    Raises:
        Refused: on the target, the group has committed offsets on the source; on the source, a
            drill is open.
        ConfigError: a group or a partition does not exist, or a value leads to no offset.
        ConnectionFailed, TimedOut: a cluster does not answer.
    """
    side, notes = request.side, list[str]()
    if side == "source":
        refuse_open_drills(config)
    else:
        notes = _refuse_on_source(config, request.group)
    with closing(TargetClusterReader(config, side=side)) as cluster:
        names = {request.group, request.copy_from} - {""}
        taken_at = time.time()
        views = cluster.views(sorted(names))
        reset = _reset(request, views)
        if side == "target":
            moved = read_moved_targets(config, cluster.cluster)
            reset, left_out = _leave_moved_out(reset, moved)
            notes += left_out
        reset = replace(reset, values=_look_up(reset, config, side))
        ids = cluster.topic_ids({topic for topic, _ in reset.values})
        state = ClusterState(
            config.name,
            cluster.cluster.cluster_id(),
            taken_at,
            views.get(request.group, ABSENT),
            cluster.logs([at for at in reset.values if at[0] in ids]),
            ids,
            side,
        )
    paths = absolute_files(files)
    plan = plan_reset(reset, state, whoami(), _VALID_S)
    return replace(plan, files=paths, files_digest=digest_files(paths) if paths else ""), notes


def _look_up(reset: Reset, config: PipelineConfig, side: str) -> dict[TargetPartition, RowValue]:
    choices = {(reset.group, *at): value for at, value in reset.values.items()}
    resolved = look_up_times(choices, config, side)
    return {(topic, partition): value for (_, topic, partition), value in resolved.items()}


def _refuse_on_source(config: PipelineConfig, group: str) -> list[str]:
    """Refuse a group of the source: there, the mapping says what it has read."""
    with closing(ConsumerGroupReader(config, "source")) as reader:
        try:
            view = reader.views([group]).get(group, ABSENT)
        except (ConnectionFailed, TimedOut) as error:
            return [f"{error.message}: whether the source has this group is not known"]
    if view.error:
        name = safe_text(group)
        return [f"group {name} on the source: {view.error}: what it has committed is not known"]
    topics = {topic for topic, _ in view.offsets if config.topics.matches(topic)}
    if topics:
        raise Refused(
            f"group {safe_text(group)} has committed offsets on the source",
            unchanged=_UNCHANGED,
            hint="Set its rows with k2ktui plan --set, which counts from the mapping what it "
            "re-reads and skips.",
        )
    return []


def _reset(request: ResetRequest, views: dict[str, GroupView]) -> Reset:
    origin = request.copy_from or request.group
    view = views.get(origin, ABSENT)
    if view.error:
        raise Refused(
            f"group {safe_text(origin)} on the {request.side}: {view.error}", unchanged=_UNCHANGED
        )
    chosen = {
        at: commit
        for at, commit in view.offsets.items()
        if commit.offset >= 0 and request.topic(at[0])
    }
    if not chosen:
        raise ConfigError(
            f"group {safe_text(origin)} has no committed offset on the {request.side} on these "
            "topics",
            unchanged=_UNCHANGED,
            hint=_hint(views.keys(), request.side),
        )
    if request.value is not None:
        why = f"set to {request.value.text}"
        return Reset(request.group, dict.fromkeys(chosen, request.value), why, {})
    values = {
        at: RowValue(ValueKind.OFFSET, f"{commit.offset} of {origin}", commit.offset)
        for at, commit in chosen.items()
    }
    metadata = {at: commit.metadata for at, commit in chosen.items()}
    return Reset(request.group, values, f"copied from {origin}", metadata)


def _leave_moved_out(reset: Reset, moved: Mapping[str, MovedTopic]) -> tuple[Reset, list[str]]:
    """Return the reset without topics that drills moved to the target, and a note about them.

    Raises:
        Refused: nothing else is left.
    """
    moves = [move for topic, _ in reset.values if (move := moved.get(topic)) is not None]
    notes = left_out_note(moves)
    if moves and len(moves) == len(reset.values):
        raise Refused(
            f"group {safe_text(reset.group)} is not set: {notes[0]}",
            unchanged=_UNCHANGED,
            hint=WAY_BACK,
        )
    return replace(
        reset, values={at: v for at, v in reset.values.items() if at[0] not in moved}
    ), notes


def _hint(names: Collection[str], side: str) -> str:
    if names:
        return "Copy the offsets of another group to it: --copy-from GROUP."
    return f"Compare its name with those of kafka-consumer-groups --list on the {side}."
