"""Preflight of rights: compares what each client role may do with what it needs.

The source needs only Read (which implies Describe) on the topics. The target needs Write and
Describe on its topics and on the transactional ids, and Read and (to validate their settings)
DescribeConfigs on the control topics. The rights to create and grow topics are checked with the
plans of target topics. ``docs/security.md`` has the table, which a test enforces.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from functools import partial

from k2ktui.config.clusters import Role
from k2ktui.config.model import PipelineConfig
from k2ktui.engine.records.cluster_pair import Side
from k2ktui.errors import K2kError
from k2ktui.kafka.admin.broker_settings import broker_values
from k2ktui.kafka.admin.coordinators import (
    TRANSACTIONS,
    describe_missing,
    how_to_allow,
    why_impossible,
)
from k2ktui.kafka.admin.probe import NotDisclosed, Operation
from k2ktui.kafka.control.specs import control_specs, is_optional
from k2ktui.kafka.wire.cluster import NotSent, OutcomeUnknown
from k2ktui.replication.fencing_errors import MOST_TIMEOUT, TIMEOUT, timeout_fix
from k2ktui.replication.ownership.epochs import DRIVER, STATE, transactional_id
from k2ktui.replication.ownership.pipeline import transaction_timeout_ms
from k2ktui.replication.preflight.checks import Check
from k2ktui.replication.preflight.clusters import ClusterReadings
from k2ktui.replication.spark.settings import local_cores
from k2ktui.replication.topics.naming import dead_letter_name, target_names
from k2ktui.text import NAMED, counted, first_names, safe_text

_FIRST_SLOT = 0
# Each id is a request; a rule for each of more slots is nobody's.
_SLOTS_ASKED = 64


def check_rights(readings: ClusterReadings) -> Iterator[Check]:
    """Check the rights of every client role; none is needed on topics that a drill has moved."""
    config, moved = readings.config, readings.committed().moved
    try:
        selected = selected_topics(config, readings.topic_names("source"))
        topics = {topic for topic in selected if topic not in moved}
        specs = control_specs(config).items()
        control = [spec.name for role, spec in specs if not is_optional(config, role)]
    except K2kError as error:
        yield Check.error("rights", error)
        return
    targets = target_topics(config, topics) | set(control)
    allow = partial(_topics_allow, readings)
    if topics or not moved:
        yield allow("source", "consumer", Operation.READ, topics)
        yield allow("source", "admin", Operation.DESCRIBE, topics)
    yield allow("target", "producer", Operation.WRITE, targets, control)
    if config.features.exactly_once:
        yield _transactions(readings)
        yield _transaction_timeout(readings)
    yield allow("target", "consumer", Operation.READ, control, control)
    yield allow("target", "admin", Operation.DESCRIBE, targets)
    if config.features.validate_control_topic_settings:
        check = allow("target", "admin", Operation.DESCRIBE_CONFIGS, control, control)
        yield _for_later_starts(check)


def selected_topics(
    config: PipelineConfig, names: Iterable[str], replicated: Collection[str] = ()
) -> set[str]:
    """Return the selected source topics: those that match, and all that are listed by name.

    Args:
        config: the pipeline.
        names: all topics of the source.
        replicated: topics that have a position.
    """
    matching = {name for name in names if config.topics.matches(name, replicated)}
    return matching | set(config.topics.names)


def left_out_topics(
    config: PipelineConfig, names: frozenset[str], replicated: Collection[str] = ()
) -> dict[str, str]:
    """Return the topics of other programs that the pattern matches and leaves out, with theirs."""
    new = sorted(names - set(replicated))
    return {name: program for name in new if (program := config.topics.left_out(name))}


def target_topics(config: PipelineConfig, topics: Collection[str]) -> set[str]:
    """Return the target topics of these source topics, and their dead-letter topics."""
    targets: set[str] = set()
    for topic in topics:
        try:
            targets.update(target_names(config, topic))
            targets |= {dead_letter_name(config, topic)} - {""}
        except K2kError:
            continue  # reported with the target topics
    return targets


def _for_later_starts(check: Check) -> Check:
    """Name the right that later starts need, even if this start creates the control topics."""
    hint = check.hint and (
        f"{check.hint} (or, if their cleanup.policy is known to be right, set "
        "features.validateControlTopicSettings: disabled)"
    )
    return replace(check, name="control topic settings", hint=hint)


def _topics_allow(
    readings: ClusterReadings,
    side: Side,
    role: Role,
    wanted: Operation,
    topics: Collection[str],
    vital: Collection[str] = (),
) -> Check:
    """Check a right on topics; lacking it on a ``vital`` topic is fatal."""
    right = "".join(word.capitalize() for word in wanted.name.split("_"))
    name = f"{side} {role} rights"
    if not topics:
        return Check.unknown(name, "no topic is selected yet")
    try:
        rights_by_topic = readings.probe(side, role).rights(topics)
    except (NotSent, OutcomeUnknown) as error:
        return Check.unknown(name, str(error))
    lacking = [topic for topic, rights in rights_by_topic.items() if rights.lacks(wanted)]
    if lacking:
        return Check.fails(
            name,
            f"no {right} on {counted(len(lacking), 'topic')}: {first_names(lacking)}",
            _grant(readings, side, right, "topic", sorted(lacking)[:NAMED]),
            fatal=not set(vital).isdisjoint(lacking),
        )
    if any(rights.operations is None for rights in rights_by_topic.values()):
        return Check.unknown(name, "its brokers do not report a principal's permissions (KIP-430)")
    return Check.passes(name, f"{right} on {counted(len(rights_by_topic), 'topic')}")


def transactional_ids(config: PipelineConfig) -> list[str]:
    """Return the transactional ids of a run, by its mode.

    A run that owns the whole pipeline has one for each slot. One that shares it has those of the
    pipeline for its layout, and the same for each slot, whose driver has one slot of its own.
    Where the number of slots is only known once Spark runs, these are the ids of the first.
    """
    group = config.coordination.commit.group
    slots = min(_slots(config), _SLOTS_ASKED)
    if config.coordination.mode != "shared":
        return [transactional_id(group, slot) for slot in (DRIVER, STATE, *range(slots))]
    owners = [group, *(_slot_group(group, slot) for slot in range(slots))]
    return [
        transactional_id(owner, slot) for owner in owners for slot in (DRIVER, STATE, _FIRST_SLOT)
    ]


def spare_id(config: PipelineConfig) -> str:
    """Return the id that a slot continues with while its last transaction cannot end.

    It is one of many where runs share the pipeline: each slot has its own.
    """
    group = config.coordination.commit.group
    if config.coordination.mode == "shared":
        return transactional_id(_slot_group(group, _FIRST_SLOT), _FIRST_SLOT + 1)
    return transactional_id(group, _slots(config))


def _slots(config: PipelineConfig) -> int:
    slots = config.slots or local_cores(config.spark.master) or 1
    return min(slots, config.coordination.most_slots)


def _slot_group(group: str, slot: int) -> str:
    return f"{group}.slot-{slot}"


def _transactions(readings: ClusterReadings) -> Check:
    name, config = "target transactional ids", readings.config
    probe = readings.probe("target", "producer")
    ids, spare = transactional_ids(config), spare_id(config)
    off = "features.exactlyOnce: disabled"
    try:
        if reason := why_impossible(readings.cluster("target"), TRANSACTIONS):
            hint = f"{how_to_allow(TRANSACTIONS)} (or set {off})."
            return Check.fails(name, f"{reason}: no transaction can begin", hint, fatal=True)
        refused = [i for i in ids if probe.may_use_transactional_id(i)]
        has_no_spare = not refused and bool(probe.may_use_transactional_id(spare))
    except K2kError as error:
        return Check.unknown(name, error.message)
    except NotDisclosed as undisclosed:
        missing = probe.run(lambda wire: describe_missing(wire, TRANSACTIONS))
        return Check.unknown(name, "; ".join(filter(None, (str(undisclosed), missing))))
    prefix = f"{config.coordination.commit.group}."
    grant = _grant(readings, "target", "Write", "transactional-id", [prefix])
    hint = f"{grant} --resource-pattern-type prefixed"
    if has_no_spare:
        return Check.warns(
            name,
            f"the producer may not use {safe_text(spare)}, a spare: while a transaction cannot "
            "end, all partitions of its slot wait",
            f"{hint} (or name the spare of each slot).",
        )
    if not refused:
        some = f" (of {_slots(config)} slots, the first {_SLOTS_ASKED})"
        more = some if _slots(config) > _SLOTS_ASKED else ""
        return Check.passes(name, f"Write on {first_names(ids)}{more}")
    return Check.fails(
        name,
        f"the producer may not use {first_names(refused)}",
        f"{hint} (or set {off})",
        fatal=True,
    )


def _transaction_timeout(readings: ClusterReadings) -> Check:
    """Compare the timeout of the pipeline's transactions with what the target's brokers allow."""
    name, wanted = "transaction timeout", transaction_timeout_ms(readings.config)
    try:
        values = broker_values(readings.cluster("target"), MOST_TIMEOUT)
    except K2kError as error:
        return Check.unknown(name, error.message)
    limits = [int(value) for value in (values or {}).values() if value.isdecimal()]
    if not limits:
        return Check.unknown(
            name,
            f"{MOST_TIMEOUT} of the target's brokers cannot be read (requires DescribeConfigs on "
            f"the cluster); {TIMEOUT} is {wanted:,}",
        )
    if wanted <= min(limits):
        return Check.passes(name, f"{wanted:,} ms; the target allows {min(limits):,} ms")
    return Check.fails(
        name,
        f"{TIMEOUT} is {wanted:,} ms, and the target's {MOST_TIMEOUT} is {min(limits):,} ms: it "
        "refuses every transaction",
        timeout_fix(min(limits)),
        fatal=True,
    )


def _grant(
    readings: ClusterReadings, side: Side, right: str, kind: str, names: Iterable[str]
) -> str:
    # Read and Write imply Describe.
    where = shlex.quote(safe_text(readings.cluster(side).config.bootstrap_servers))
    resources = " ".join(f"--{kind} {shlex.quote(safe_text(name))}" for name in names)
    return (
        f"Run: kafka-acls.sh --bootstrap-server {where} --add --allow-principal User:… "
        f"--operation {right} {resources}"
    )
