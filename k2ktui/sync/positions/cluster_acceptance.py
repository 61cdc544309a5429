"""Plan the acceptance of clusters that were restored under another id.

A restored cluster answers with another id, so that every start is refused. An operator accepts it
by its id. The plan decides for each partition whether it goes on, by what both clusters hold now
(``engine/moves/acceptance.py``); ``PositionWriter`` carries it out while the pipeline is stopped,
and records the former id as an alias of the new one.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import closing

from confluent_kafka.admin import OffsetSpec

from k2ktui.config.model import PipelineConfig
from k2ktui.engine.mapping.opposite_copy import find_lost_end
from k2ktui.engine.mapping.replica import Replica, TargetPartition
from k2ktui.engine.moves.acceptance import find_doubt, plan_acceptance
from k2ktui.engine.moves.positions import ACCEPT, PositionPlan, SourceLog
from k2ktui.engine.moves.recovery import Copy
from k2ktui.engine.records.cluster_pair import ClusterPair, Side
from k2ktui.engine.records.state import Position, SourcePartition
from k2ktui.errors import Refused, TimedOut
from k2ktui.kafka.clients import Cluster, source_cluster, target_cluster
from k2ktui.log.content import AbsenceReason, RecordPart, RecordRange
from k2ktui.replication.ownership.commit_state import CommitState
from k2ktui.replication.ownership.pipeline import read_commits, read_pair
from k2ktui.sync.log_bounds import existing_topics, read_source_logs, require_bounds
from k2ktui.sync.mapping.pipeline_mappings import PipelineMappings
from k2ktui.sync.positions.copies import read_copies
from k2ktui.sync.verify.changed_records import ignored_parts
from k2ktui.sync.verify.record_comparison import ComparisonOutcome, RecordComparison
from k2ktui.text import list_names, safe_text

_READ_S = 60.0
_UNCHANGED = "Nothing was changed."
_RESTORED = "Whether its partitions were restored"
_CHECK = "Compare with k2ktui check -f FILE, which names both ids."


def plan_to_accept(config: PipelineConfig, ids: Collection[str]) -> PositionPlan:
    """Plan to accept restored clusters; changes nothing.

    Args:
        config: the pipeline.
        ids: the ids that its restored clusters have now, as an operator typed them.

    Raises:
        Refused: an id is not that of a cluster which answers now, or it is the one on record, or
            another cluster would have to be accepted, too; or nothing was copied yet.
        ConnectionFailed, TimedOut: a cluster did not answer, or a partition has no leader: nothing
            can be decided.
    """
    source, target = source_cluster(config), target_cluster(config)
    # From here on, both must answer with these ids.
    now = read_pair(config, source, target)
    state = _read_state(config, target)
    recorded = state.run.pair
    sides = _require_acceptable(recorded, now, ids)
    positions = state.positions
    logs, target_ids, ends = _read_logs(source, target, positions)
    compared, unmapped = _compare_last(config, source, target, state, sides)
    moves = []
    for at in sorted(positions):
        doubt = find_doubt(
            positions[at],
            logs.get(at),
            target_ids.keys(),
            ends,
            compared.get(at),
            unmapped.get(at, ""),
        )
        moves.append(plan_acceptance(at, positions[at], doubt, logs.get(at), target_ids, sides))
    return PositionPlan(
        ACCEPT, config.name, tuple(moves), recorded=recorded, accepted=recorded.accept(now)
    )


def _read_state(config: PipelineConfig, target: Cluster) -> CommitState:
    state = read_commits(config, target, _READ_S)
    if not state.positions:
        raise Refused(
            f"pipeline {safe_text(config.name)} has no positions: there is nothing to accept a "
            "cluster for",
            unchanged=_UNCHANGED,
            hint="Start it without --accept-cluster.",
        )
    return state


def _require_acceptable(
    recorded: ClusterPair, now: ClusterPair, ids: Collection[str]
) -> tuple[Side, ...]:
    """Return the sides that were restored; refuse unless exactly their ids were typed."""
    if not recorded.is_known or not now.is_known:
        who = "the last run" if now.is_known else "a cluster"
        raise Refused(
            f"the cluster ids of {who} are not known: nothing shows which cluster was restored",
            unchanged=_UNCHANGED,
            hint="Clear the positions for a new start (k2ktui offsets clear), or set another "
            "coordination.commit.group.",
        )
    answering = {now.source: "source", now.target: "target"}
    unknown = sorted(set(ids) - answering.keys())
    if unknown:
        raise Refused(
            f"no cluster of this pipeline answers with id {list_names(unknown, 2)}: the source "
            f"answers with {safe_text(now.source)}, the target with {safe_text(now.target)}",
            unchanged=_UNCHANGED,
            hint=_CHECK,
        )
    changed = recorded.find_changed(now)
    restored = {answering_id: side for side, _, answering_id in changed}
    same = sorted(set(ids) - restored.keys())
    if same:
        raise Refused(
            f"the {answering[same[0]]} cluster has id {safe_text(same[0])} on record, too: there "
            "is nothing to accept",
            unchanged=_UNCHANGED,
            hint="Start the pipeline without it.",
        )
    missing = sorted(restored.keys() - set(ids))
    if missing:
        raise Refused(
            f"the {restored[missing[0]]} cluster is another one than that on record, too: it "
            f"answers with id {safe_text(missing[0])}",
            unchanged=_UNCHANGED,
            hint="If both were restored, repeat the option with the other id, too. If not, check "
            "where bootstrap.servers lead to.",
        )
    return tuple(side for side, _, _ in changed)


def _read_logs(
    source: Cluster, target: Cluster, positions: Mapping[SourcePartition, Position]
) -> tuple[dict[SourcePartition, SourceLog], dict[str, str], dict[TargetPartition, int]]:
    """Read the source's logs, and ids and ends on the target.

    A partition that exists and has no bounds decides nothing.
    """
    topics = existing_topics(source, {at.topic for at in positions}, _RESTORED)
    logs = read_source_logs(source, topics, positions, required=True)
    names = {name for position in positions.values() for name in position.target_topics}
    targets = existing_topics(target, names, _RESTORED)
    written = {(at.topic, at.partition) for p in positions.values() for at in p.landed}
    # A target partition that does not exist any more holds nothing.
    absent = {at for at in written if at[0] not in targets or at[1] >= targets[at[0]].partitions}
    known = target.offsets(written - absent, OffsetSpec.latest())
    require_bounds(target, written - absent, known)
    ids = {name: topic.topic_id for name, topic in targets.items()}
    return logs, ids, {**known, **dict.fromkeys(absent, 0)}


def _compare_last(
    config: PipelineConfig,
    source: Cluster,
    target: Cluster,
    state: CommitState,
    sides: Collection[Side],
) -> tuple[dict[SourcePartition, str], dict[SourcePartition, str]]:
    """Compare the last copied records on both clusters; return doubts, and why some are unknown."""
    if not config.features.offset_mapping:
        return {}, dict.fromkeys(state.positions, "features.offsetMapping is disabled")
    mappings = PipelineMappings(config, target)
    try:
        read = mappings.read(mappings.read_copier(), {}, timeout=_READ_S)
        if read.behind:
            raise TimedOut(
                f"{safe_text(config.offset_mapping.topic)} could not be read to its end",
                unchanged=_UNCHANGED,
                hint="Repeat the command.",
            )
        copies = {}
        unmapped = {}
        for at, replica in read.replicas.items():
            last = _find_last(replica)
            if last is not None:
                copies[at] = last
            if why := _find_hole(replica, last):
                unmapped[at] = why
    finally:
        mappings.close()
    writers = _own_producers(state) if "target" in sides else frozenset()
    with closing(read_copies(source, target, sorted(copies.items()))) as read_pairs:
        compared = {
            at: _compare(config, at, one, other, writers) for at, _, one, other in read_pairs
        }
    return compared, unmapped


def _find_last(replica: Replica) -> Copy | None:
    last: Copy | None = None
    for target, ranges in replica.target_ranges.items():
        end, landed = ranges.end, ranges.last_landed
        if end is not None and landed is not None and (last is None or last.offset < end - 1):
            last = Copy(end - 1, target, landed)
    return last


def _find_hole(replica: Replica, last: Copy | None) -> str:
    """Return why a record after the last one that is mapped may have been copied; "" if none."""
    assert replica.position is not None
    end = last.offset + 1 if last is not None else replica.position.start
    lost = find_lost_end(replica)
    if lost <= end:
        return ""
    return f"the mapping of its offsets up to {lost} has expired, or was not restored"


def _own_producers(state: CommitState) -> frozenset[int]:
    """Return the producer ids of the pipeline on the target; none if it registers none."""
    pair = state.run.pair
    if not state.run.registers:
        return frozenset()
    return frozenset(
        number
        for number, registration in state.registrations.items()
        if registration.source in pair.sources and registration.target in pair.targets
    )


def _compare(
    config: PipelineConfig,
    at: SourcePartition,
    source: RecordRange,
    target: RecordRange,
    writers: Collection[int],
) -> str:
    """Return why the last copied record is not shown to be the same on both clusters."""
    absent = {
        "source": "" if source.records else source.absence(source.first),
        "target": "" if target.records else target.absence(target.first),
    }
    unread = [
        f"{side}: {side_range.unread or why}"
        for side, side_range, why in (
            ("source", source, absent["source"]),
            ("target", target, absent["target"]),
        )
        if why in (AbsenceReason.UNREAD, AbsenceReason.UNSTABLE)
    ]
    if unread:
        raise TimedOut(
            f"the last record of {safe_text(at)} that was copied cannot be read: "
            f"{safe_text('; '.join(unread))}",
            unchanged=_UNCHANGED,
            hint="Repeat the command when both clusters are healthy.",
        )
    where = f"its last copied record (offset {source.first}, on the target {target.first})"
    gone = [side for side, why in absent.items() if why is AbsenceReason.DELETED]
    if len(gone) == 2:
        return f"{where} has expired on both clusters, so that it cannot be shown to be the same"
    if gone:
        return f"{where} has expired on the {gone[0]}, so that it cannot be shown to be the same"
    for side, why in absent.items():
        if why:
            return f"{where} is not on the {side}: {why}"
    ignored = ignored_parts(config, at.topic)
    if {RecordPart.VALUE, RecordPart.TIMESTAMP} <= ignored:
        return f"{where} cannot be compared: the pipeline changes its value and its time"
    comparison = RecordComparison(lambda _: ignored).compare(
        at.topic, source.records[source.first], target.records[target.first]
    )
    if comparison.outcome is not ComparisonOutcome.SAME:
        return f"{where} is not the same on both clusters: {comparison.why}"
    producer = target.producers.get(target.first, -1)
    if writers and producer not in writers:
        return (
            f"{where} was not written by this pipeline on the target: the cluster was filled by "
            "another program, and what was copied before would come back in the other direction"
        )
    return ""
