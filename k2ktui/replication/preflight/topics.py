"""Preflight of topics: control topics, source topics, target topics, and source retention."""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Set
from functools import partial

from confluent_kafka.admin import OffsetSpec

from k2ktui.config.model import PipelineConfig
from k2ktui.engine.records.evidence import LostPosition, find_lost_term
from k2ktui.engine.records.moved_topic import MovedTopics
from k2ktui.engine.records.run_record import Run
from k2ktui.engine.records.state import SourcePartition
from k2ktui.engine.topics import may_be_heartbeats
from k2ktui.errors import K2kError, Refused
from k2ktui.kafka.admin.broker_creation import creates_topics
from k2ktui.kafka.admin.topics import (
    OverQuota,
    Settings,
    TopicSpec,
    alter_command,
    create_command,
    create_topics,
    grow_topics,
    topic_settings,
    value_of,
)
from k2ktui.kafka.clients import Cluster, Partition, TopicDescription
from k2ktui.kafka.control.findings import (
    ControlFinding,
    inspect_topics,
    missing_control_topic,
)
from k2ktui.kafka.control.specs import HOLDS, control_specs, is_optional
from k2ktui.replication.ownership.lost_positions import LostPositions, describe_lost
from k2ktui.replication.preflight.checks import Check
from k2ktui.replication.preflight.clusters import SIDES, ClusterReadings
from k2ktui.replication.preflight.committed import CommittedTopics
from k2ktui.replication.preflight.headroom import check_headroom
from k2ktui.replication.preflight.rights import left_out_topics, selected_topics
from k2ktui.replication.topics.dead_letters import plan_dead_letters
from k2ktui.replication.topics.routing import APPEND_TIME
from k2ktui.replication.topics.target_settings import (
    FUTURE_LIMIT,
    MAX_MESSAGE_BYTES,
    NO_LIMIT,
    PAST_AND_FUTURE_LIMIT,
    TIMESTAMP_TYPE,
    future_limit,
    max_message_bytes,
)
from k2ktui.replication.topics.targets import (
    TargetPlan,
    create_reduced,
    plan_targets,
    targets_by_source,
    with_reduced,
)
from k2ktui.text import counted, first_names, safe_text

_POLICY = "cleanup.policy"
# Creations that are tried by a check: a quota of two partitions a second allows 22 at once.
_TRIED_TOPICS, _TRIED_PARTITIONS = 5, 12


def find_lost(
    config: PipelineConfig,
    source: Cluster,
    target: Cluster,
    committed: CommittedTopics,
    plans: Collection[TargetPlan],
) -> tuple[dict[SourcePartition, LostPosition], bool]:
    """Return the partitions that were copied before and have no position, as a start finds them.

    Args:
        config: the pipeline.
        source, target: its clusters.
        committed: what the commit topic says.
        plans: of the target topics.

    Returns:
        The partitions, and whether a start would copy nothing, or would create the commit topic
        although other control topics hold what runs of the pipeline have written.

    Raises:
        ConnectionFailed, TimedOut: a cluster did not answer.
    """
    missing: dict[SourcePartition, set[Partition]] = defaultdict(set)
    for plan in plans:
        exists = plan.existing.partitions if plan.existing else 0
        for topic in plan.sources:
            for at in (SourcePartition(topic.name, number) for number in range(topic.partitions)):
                if at not in committed.positions:
                    keeps = config.replication.sink.keeps_partitions
                    numbers = range(at.partition, at.partition + 1) if keeps else range(exists)
                    missing[at] |= {(plan.name, n) for n in numbers if n < exists}
    if not missing:
        return {}, False
    losses = LostPositions(config, target, lambda: {source.cluster_id()} - {""})
    evidence, sources = losses.evidence, {source.cluster_id()} - {""}
    lost_term = find_lost_term(committed.run, committed.starts, evidence, sources)
    lost = losses.find(missing, lost_term)
    has_others = committed.positions or (committed.exists and missing.keys() - lost.keys())
    return lost, bool(lost) and not has_others


def check_topics(readings: ClusterReadings) -> Iterator[Check]:
    """Check control topics, source topics, target topics and retention on the source."""
    config, committed = readings.config, readings.committed()
    source, target = map(readings.cluster, SIDES)
    positions, moved = committed.positions, committed.moved
    try:
        yield from _control(config, target, committed)
        if committed.error is not None:
            raise committed.error
    except K2kError as error:
        yield Check.error("control topics", error, fatal=True)
    if moved:
        shown = first_names(f"{move.topic} (drill {move.drill})" for move in moved.all)
        yield Check.passes("moved topics", f"on the target, not copied and not checked: {shown}")
    try:
        replicated = {at.topic for at in positions}
        names = readings.topic_names("source")
        selected = selected_topics(config, names, replicated)
        described = source.describe(sorted(topic for topic in selected if topic not in moved))
        topics = [topic for topic in described.values() if isinstance(topic, TopicDescription)]
        yield _judge_source(config, topics, described.keys(), moved)
        yield from _other_programs(config, names, selected, replicated)
        if not topics:
            return
        yield from _targets(config, source, target, topics, committed)
        yield check_headroom(config, source, topics, positions)
    except K2kError as error:
        yield Check.error("topics", error)


def _control(
    config: PipelineConfig, target: Cluster, committed: CommittedTopics
) -> Iterator[Check]:
    findings = inspect_topics(config, target, control_specs(config, os.environ))
    allowed = config.features.auto_create_control_topics
    missing = [finding.spec for finding in findings if not (finding.partitions or finding.problem)]
    errors = _try(partial(create_topics, target, missing)) if allowed else {}
    by_brokers = bool(missing) and not allowed and creates_topics(target) is True
    for finding in findings:
        name = f"control topic {safe_text(finding.spec.name)}"
        problem = finding.problem or errors.get(finding.spec.name)
        if problem is None and not finding.partitions and allowed:
            problem = _lost_topic(config, finding, committed.run)
        if problem is None and not finding.partitions and by_brokers:
            what = "missing; the brokers create it with their own settings"
            hint = "A start sets its cleanup.policy, which takes AlterConfigs. Or create it: "
            yield Check.warns(name, what, hint + create_command(config.target, finding.spec))
            continue
        if problem is None and not finding.partitions and not allowed:
            problem = missing_control_topic(config, finding)
        if problem is not None and is_optional(config, finding.role):
            what = f"{problem.message}; the pipeline copies without heartbeats"
            yield Check.warns(name, what, problem.hint)
        elif problem is not None:
            yield Check.error(name, problem, fatal=True)
        elif finding.note:
            hint = "Nothing, if that is intended: the topic keeps its partitions."
            yield Check.warns(name, finding.note, hint)
        elif finding.role == "state" and _is_cut(target, finding):
            yield Check.warns(
                name,
                "records were deleted at its start: holds, drills, the journal, kept commits and "
                "which commits are this pipeline's may be lost",
                "Compare k2ktui journal, drill list and offsets show with what you expect, and "
                "hold again what is to be held. The topic keeps its cleanup.policy.",
            )
        elif finding.partitions:
            yield Check.passes(name, counted(finding.partitions, "partition"))
        else:
            yield Check.passes(
                name, f"to be created with {counted(finding.spec.partitions or 1, 'partition')}"
            )


def _is_cut(target: Cluster, finding: ControlFinding) -> bool:
    """Return whether a compacted topic does not begin at offset 0, as it would for ever."""
    where = [(finding.spec.name, number) for number in range(finding.partitions)]
    return any(target.offsets(where, OffsetSpec.earliest()).values())


def _lost_topic(config: PipelineConfig, finding: ControlFinding, run: Run) -> K2kError | None:
    """Return why a missing control topic is not created: the last run has used it.

    What it held is lost, and a new one would hide that. The commit topic is decided by what is left
    elsewhere, see ``find_lost``.
    """
    losses = {
        "offset_mapping": "where the records of before landed: groups that are behind them cannot "
        "be moved",
        "state": "holds, drills, the journal, kept commits and which commits are this pipeline's",
    }
    # Without a layout, the run copied alone: it may have had no right to the state topic. Owners of
    # slots in the assignment topic are only advice.
    has_mappings = run.pair.mapping_topic == finding.spec.name
    was_used = {"offset_mapping": has_mappings, "state": run.layout is not None}
    if not was_used.get(finding.role, False):
        return None
    return Refused(
        f"topic {safe_text(finding.spec.name)} for {HOLDS[finding.role]} does not exist on the "
        f"target, and the run of term {run.term} used it; lost with it: {losses[finding.role]}",
        unchanged="It was not created.",
        hint=f"If it is gone for good, create it: {create_command(config.target, finding.spec)}",
    )


def _other_programs(
    config: PipelineConfig,
    names: frozenset[str],
    selected: Collection[str],
    replicated: Collection[str],
) -> Iterator[Check]:
    """Name the topics of other programs that are left out, and those that may be of one."""
    left_out = left_out_topics(config, names, replicated)
    if left_out:
        shown = first_names(f"{name} ({program})" for name, program in left_out.items())
        what = f"{counted(len(left_out), 'topic')} left out: {shown}"
        yield Check.passes("topics of other programs", what)
    ambiguous = sorted(
        name
        for name in selected
        if may_be_heartbeats(name) and name not in {*config.topics.names, *replicated}
    )
    for name in ambiguous:
        yield Check.warns(
            f"topic {safe_text(name)}",
            "it has the name of MirrorMaker 2's heartbeats, and is copied like any other topic",
            "If it is MirrorMaker 2's, leave it out of replication.source.topic.",
        )


def _judge_source(
    config: PipelineConfig,
    topics: Collection[TopicDescription],
    asked: Set[str],
    moved: MovedTopics,
) -> Check:
    name = "source topics"
    absent = sorted(asked - {topic.name for topic in topics})
    if absent:
        hint = "Create them, grant Read on them, or take them out of replication.source.topic."
        what = f"{counted(len(absent), 'topic')} cannot be described: {first_names(absent)}"
        return Check.fails(name, what, hint)
    if not topics and moved:
        return Check.passes(name, "every topic was moved to the target: nothing is copied")
    if not topics:
        selection = safe_text(config.topics)
        return Check.unknown(name, f"no topic matches {selection} yet; there is nothing to copy")
    partitions = sum(topic.partitions for topic in topics)
    counts = f"{counted(len(topics), 'topic')}, {counted(partitions, 'partition')}"
    return Check.passes(name, counts)


def _targets(
    config: PipelineConfig,
    source: Cluster,
    target: Cluster,
    topics: list[TopicDescription],
    committed: CommittedTopics,
) -> Iterator[Check]:
    replicated = {at.topic for at in committed.positions}
    plans, refused = plan_targets(config, source, target, topics, replicated, committed.moved)
    lost, is_fatal = dict[SourcePartition, LostPosition](), False
    if committed.error is None:
        lost, is_fatal = find_lost(config, source, target, committed, plans)
    if lost:
        yield Check.fails("positions", *describe_lost(config, lost.values()), fatal=is_fatal)
    yield from _foreign_records(config, target, plans, replicated | {at.topic for at in lost})
    specs = [plan.create for plan in plans if plan.create]
    grown = {plan.name: plan.grow_to for plan in plans if plan.grow_to}
    tried = _choose(specs)
    created, reduced = create_reduced(config, target, tried, validate_only=True, waits=False)
    plans, errors = with_reduced(plans, reduced), _said(created)
    if sum(count for count in grown.values()) <= _TRIED_PARTITIONS:
        errors |= _try(partial(grow_topics, target, grown))
    for topic, error in refused.items():
        yield Check.error(f"topic {safe_text(topic)}", error)
    present = topic_settings(target, [plan.name for plan in plans if plan.create is None])
    source_settings = topic_settings(
        source, [topic.name for plan in plans for topic in plan.sources]
    )
    blind = [name for name, settings in source_settings.items() if isinstance(settings, K2kError)]
    fine = 0
    for plan in plans:
        checks = list(_target(config, plan, errors.get(plan.name), present, source_settings))
        fine += not checks
        yield from checks
    if fine:
        news = f", {len(specs):,} of them to be created" if specs else ""
        if len(tried) < len(specs):
            news += f" ({len(tried)} of these tried, as the quota on creating topics counts each)"
        yield Check.passes("target topics", f"{counted(fine, 'topic')} as required{news}")
    if blind:
        yield _unread(blind, created=bool(specs))
    yield from _dead_letters(config, source, target, plans)


def _try(change: Callable[..., dict[str, K2kError | None]]) -> dict[str, K2kError | None]:
    """Return what a cluster says of a change without making it, as far as its quota allows."""
    return _said(change(validate_only=True, waits=False))


def _said(errors: Mapping[str, K2kError | None]) -> dict[str, K2kError | None]:
    """Return the outcomes without those of which the cluster's quota allowed no attempt."""
    return {name: error for name, error in errors.items() if not isinstance(error, OverQuota)}


def _choose(specs: Collection[TopicSpec]) -> list[TopicSpec]:
    """Return the topics whose creation is tried: all, or a few of each kind of settings.

    The cluster's quota counts the partitions of each attempt as if it created them.
    """
    chosen: list[TopicSpec] = []
    left, kinds = _TRIED_PARTITIONS, set[object]()
    for spec in sorted(specs, key=lambda spec: spec.partitions or 1):
        kind = spec.replication, frozenset(spec.config.items())
        if len(specs) <= _TRIED_TOPICS or kind not in kinds:
            if chosen and (spec.partitions or 1) > left:
                break
            chosen.append(spec)
            kinds.add(kind)
            left -= spec.partitions or 1
    return chosen


def _foreign_records(
    config: PipelineConfig,
    target: Cluster,
    plans: Collection[TargetPlan],
    replicated: Collection[str],
) -> Iterator[Check]:
    """Warn of target topics that hold records although this pipeline has copied none to them."""
    if config.features.bidirectional_replication:
        return  # the applications of the target write to the same topics
    new = {
        plan.name: plan.existing.partitions
        for plan in plans
        if plan.existing and not any(topic.name in replicated for topic in plan.sources)
    }
    where = [(name, number) for name, count in new.items() for number in range(count)]
    starts = target.offsets(where, OffsetSpec.earliest())
    ends = target.offsets(where, OffsetSpec.latest())
    held: Counter[str] = Counter()
    for at, end in ends.items():
        held[at[0]] += max(0, end - starts.get(at, end))
    for name, count in sorted(held.items()):
        if count:
            yield Check.warns(
                f"target topic {safe_text(name)}",
                f"it holds {counted(count, 'record')} that this pipeline has not copied; a start "
                "appends to them",
                "If they belong to another program or an earlier copy, leave the topic out of "
                "replication.source.topic, or map it to another name.",
            )


def _dead_letters(
    config: PipelineConfig, source: Cluster, target: Cluster, targets: Collection[TargetPlan]
) -> Iterator[Check]:
    """Check the dead-letter topics of transforms; nothing if there are none."""
    names = targets_by_source(targets)
    topics = {topic.name: topic for plan in targets for topic in plan.sources}.values()
    plans, refused = plan_dead_letters(config, source, target, names, topics)
    specs = [plan.create for plan in plans if plan.create]
    errors = _try(partial(create_topics, target, _choose(specs)))
    for topic, error in refused.items():
        yield Check.error(f"topic {safe_text(topic)}", error)
    present = topic_settings(target, [plan.name for plan in plans if plan.create is None])
    for plan in plans:
        name = f"dead-letter topic {safe_text(plan.name)}"
        failed, settings = errors.get(plan.name), present.get(plan.name)
        if failed is not None:
            yield Check.error(name, failed)
        elif plan.create is not None:
            yield Check.passes(
                name, f"to be created with {counted(plan.create.partitions or 1, 'partition')}"
            )
        elif isinstance(settings, Mapping) and "compact" in value_of(settings, _POLICY):
            yield Check.fails(
                name,
                f"{_POLICY} is {value_of(settings, _POLICY)}: records without a key are rejected, "
                "and of those with the same key only the last would remain",
                f"Run: {alter_command(config.target, plan.name, _POLICY, 'delete')}",
            )
        else:
            yield Check.passes(name, "present")


def _unread(topics: list[str], *, created: bool) -> Check:
    made = "; targets will be created with the target's defaults and topicCreation.replication"
    return Check.unknown(
        "target settings",
        f"the settings of {counted(len(topics), 'source topic')} cannot be read by this principal, "
        f"so max.message.bytes and cleanup.policy were not compared{made if created else ''}",
    )


def _target(
    config: PipelineConfig,
    plan: TargetPlan,
    error: K2kError | None,
    present: Mapping[str, Settings | K2kError],
    source_settings: Mapping[str, Settings | K2kError],
) -> Iterator[Check]:
    """Yield the problems of one target topic; nothing if there are none."""
    name = f"target topic {safe_text(plan.name)}"
    if error is not None:
        yield Check.error(name, error)
    for short in plan.short.values():
        yield Check.error(name, short)
    readable = [
        entries_on_source
        for t in plan.sources
        if not isinstance(entries_on_source := source_settings[t.name], K2kError)
    ]
    if len(readable) == len(plan.sources):
        for note in plan.notes:
            yield Check.unknown(name, note)
    settings = present.get(plan.name)
    if isinstance(settings, K2kError):
        hint = "Grant the target principal DescribeConfigs on it."
        yield Check.unknown(name, f"its settings cannot be read: {settings.message}", hint)
    elif settings is not None:
        yield from _timestamps(config, name, plan, settings)
        for entries in readable:
            yield from _compare_settings(config, name, plan, settings, entries)


def _timestamps(
    config: PipelineConfig, name: str, plan: TargetPlan, settings: Settings
) -> Iterator[Check]:
    kept = config.features.keep_record_creation_timestamp
    if kept and value_of(settings, TIMESTAMP_TYPE) == APPEND_TIME:
        yield Check.fails(
            name,
            f"{TIMESTAMP_TYPE} is {APPEND_TIME}: the records' timestamps would be replaced",
            f"Run: {alter_command(config.target, plan.name, TIMESTAMP_TYPE, 'CreateTime')} - or "
            "set features.keepRecordCreationTimestamp: disabled.",
        )


def _compare_settings(
    config: PipelineConfig,
    name: str,
    plan: TargetPlan,
    settings: Settings,
    source_settings: Settings,
) -> Iterator[Check]:
    target_limit, limit = map(max_message_bytes, (settings, source_settings))
    if target_limit is None or limit is None:
        cluster = "target" if target_limit is None else "source"
        yield Check.unknown(name, f"{MAX_MESSAGE_BYTES} cannot be read on the {cluster}")
    elif target_limit < limit:
        alter = alter_command(config.target, plan.name, MAX_MESSAGE_BYTES, str(limit))
        yield Check.fails(
            name,
            f"{MAX_MESSAGE_BYTES} is {target_limit:,}, and {limit:,} on the source: a record "
            "larger than that would stop its partition",
            f"Run: {alter}",
        )
    yield from _future(config, name, plan, settings, source_settings)
    if _POLICY in config.topic_creation.replication.settings_for(plan.name).config:
        return  # configured on purpose
    target_policy, source_policy = (
        set(value_of(s, _POLICY).split(",")) for s in (settings, source_settings)
    )
    loss = ""
    if "compact" in target_policy and "compact" not in source_policy:
        loss = "records with the same key would disappear there"
    elif "delete" in target_policy and "delete" not in source_policy:
        loss = "records that the source keeps would expire there"
    if loss:
        policy = ",".join(sorted(source_policy))
        yield Check.fails(
            name,
            f"{_POLICY} is {','.join(sorted(target_policy))}, and {policy} on the source: {loss}",
            f"Run: {alter_command(config.target, plan.name, _POLICY, policy)} - or, if it is "
            "intended, set it for this topic in topicCreation.replication.",
        )


def _future(
    config: PipelineConfig,
    name: str,
    plan: TargetPlan,
    settings: Settings,
    source_settings: Settings,
) -> Iterator[Check]:
    """Warn of a target that refuses timestamps in the future that the source takes."""
    wanted, limit = future_limit(source_settings), future_limit(settings)
    if wanted is None or limit is None or wanted <= limit:
        return
    key = FUTURE_LIMIT if FUTURE_LIMIT in settings else PAST_AND_FUTURE_LIMIT
    if key in config.topic_creation.replication.settings_for(plan.name).config:
        return  # configured on purpose
    more = "no limit" if wanted == NO_LIMIT else f"{wanted:,}"
    yield Check.warns(
        name,
        f"{key} is {limit:,}, and {more} on the source: a record whose timestamp is further in the "
        "future would stop its partition",
        f"Run: {alter_command(config.target, plan.name, key, str(wanted))}",
    )
