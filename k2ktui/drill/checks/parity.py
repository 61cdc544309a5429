"""Topics of the target are like those of the source."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import partial

import numpy as np

from k2ktui.drill.checks.context import CheckContext
from k2ktui.drill.checks.evidence import decide
from k2ktui.drill.checks.findings import find_short_retention
from k2ktui.drill.checks.registration import ALL, MOVES, SWITCHOVERS, WITH_SOURCE, check
from k2ktui.drill.checks.topic_pairs import newest_records, read_names, read_pairs
from k2ktui.engine.drill.checks import CheckFinding, DrillPhase, could_not_check, fails, passes
from k2ktui.engine.parity.topic_configs import find_drift
from k2ktui.engine.transforms.partitioner import partitions_for_keys
from k2ktui.kafka.admin.topics import alter_command, grow_command
from k2ktui.kafka.clients import describe_readable
from k2ktui.text import counted, duration, first_names, join_first, safe_text

_KEYS = 100
# New target topics do not get these from the source; see replication/topics/target_settings.py.
_NO_SOURCE = "the source's topics are unknown"


@check("D25", "partition of each key", {DrillPhase.PREFLIGHT: ALL})
def check_key_partitions(context: CheckContext) -> CheckFinding:
    """Pass if records keep their partition, and new producers choose the same one for a key."""
    replicas = context.snapshot().replicas
    positions = {at: r.position for at, r in replicas.items() if r.position}
    sink = context.config.replication.sink
    if sink.partition not in ("source", "producer"):
        return could_not_check(
            f"{counted(len(positions), 'partition')}; an expression chooses each record's "
            "partition, and producers on the target choose theirs (sink partition)",
            "Compare the expression with what the producers do.",
        )
    if sink.partition == "producer":
        return passes(
            f"{counted(len(positions), 'partition')}; the pipeline chooses each record's "
            "partition by its key, as the Java producer does (sink partition: producer)"
        )
    moved = [
        at
        for at, p in positions.items()
        if p.target_partition != at.partition and not (p.further_targets and sink.keeps_partitions)
    ]
    if moved:
        return fails(
            f"{len(moved):,} of {counted(len(positions), 'partition')} have another number on the "
            f"target: {first_names(moved)}",
            "Set replication.sink.partition: source, and copy those topics again.",
        )
    pairs = read_pairs(context)
    other = {
        pair.target_name: (pair.source.partitions, pair.target.partitions)
        for pair in pairs
        if pair.source and pair.target and pair.source.partitions != pair.target.partitions
    }
    text = f"{counted(len(positions), 'partition')} with the same number on both clusters"
    if other:
        sampled, elsewhere = _keys_elsewhere(context, {t: n for t, (_, n) in other.items()})
        shown = "; ".join(f"{safe_text(t)}: {a:,} and {b:,}" for t, (a, b) in other.items())
        detail = (
            f"{counted(len(other), 'topic')} with other partition counts ({shown}); of "
            f"{counted(sampled, 'sampled key')} {elsewhere:,} would get another partition"
        )
        if elsewhere or not sampled:
            return fails(
                detail,
                "Add partitions to the smaller topic before producers move, or expect the order "
                "of keys to break once.",
            )
        text = detail
    if context.down("source") is not None:
        return could_not_check(f"{text}; {_NO_SOURCE}")
    return passes(text)


def _keys_elsewhere(context: CheckContext, counts: Mapping[str, int]) -> tuple[int, int]:
    """Return the number of sampled keys, and of those that new producers would place elsewhere."""
    keyed = [
        (partition, record.key, counts[topic])
        for topic, partition, record in newest_records(context, _KEYS)
        if topic in counts and record.key is not None
    ]
    elsewhere = 0
    for partition, key, partitions in keyed:
        data = np.frombuffer(key or b"", dtype=np.uint8)
        where = np.array([0], dtype=np.int64), np.array([len(data)], dtype=np.int64)
        (chosen,) = partitions_for_keys(data, *where, partitions, 0)
        elsewhere += int(chosen) != partition
    return len(keyed), elsewhere


@check("D26", "partition counts", {DrillPhase.PREFLIGHT: WITH_SOURCE}, blocks=SWITCHOVERS)
def check_partition_counts(context: CheckContext) -> CheckFinding:
    """Pass if every topic has as many partitions on the target as on the source."""
    pairs = read_pairs(context)
    context.cluster("source")
    absent = [pair for pair in pairs if pair.target is None]
    different = [
        (pair.target_name, pair.source.partitions, pair.target.partitions)
        for pair in pairs
        if pair.source and pair.target and pair.source.partitions != pair.target.partitions
    ]
    total = sum(pair.source.partitions for pair in pairs if pair.source)
    text = f"{counted(len(pairs), 'topic')}, {counted(total, 'partition')} on the source"
    if not context.config.replication.sink.keeps_partitions:
        different = []
        text += "; counts may differ (sink partition)"
    if not absent and not different:
        return passes(f"{text}, 0 topics with another count")
    parts = [text]
    hint = "Start the pipeline, which creates and extends topics."
    if absent:
        parts.append(
            f"{counted(len(absent), 'topic')} not on the target: "
            + first_names(pair.target_name for pair in absent)
        )
    if different:
        shown = [f"{name}: {on_source} and {on_target}" for name, on_source, on_target in different]
        parts.append(f"{counted(len(different), 'topic')} with another count: {first_names(shown)}")
        short = [
            (name, on_source) for name, on_source, on_target in different if on_target < on_source
        ]
        if short:
            hint = f"Run: {grow_command(context.config.target, *short[0])}"
        else:
            hint = "Add partitions on the source; a topic's partitions cannot be removed."
    return fails("; ".join(parts), hint)


@check("D27", "topic settings", {DrillPhase.PREFLIGHT: WITH_SOURCE})
def check_settings(context: CheckContext) -> CheckFinding:
    """Pass if settings that change what is kept or accepted are equal on both clusters."""
    pairs = [pair for pair in read_pairs(context) if pair.source and pair.target]
    context.cluster("source")
    config = context.config
    drift, unread = [], []
    for pair in pairs:
        if pair.unread:
            unread.append(pair.unread)
            continue
        intended = {
            *config.topic_creation.replication.settings_for(pair.target_name).config,
            *config.target.kafka.topic_props_exclusion_list,
        }
        drift += find_drift(pair.target_name, *pair.settings, intended)
    text = f"{counted(len(pairs), 'topic')}: {counted(len(drift), 'setting')} not equal"
    if drift:
        first = drift[0]
        shown = [
            f"{setting.item} {safe_text(setting.target)} on the target, "
            f"{safe_text(setting.source)} on the source"
            for setting in drift
        ]
        command = alter_command(config.target, first.item.name, first.item.key, first.source)
        return fails(
            f"{text}; {join_first(shown, 3)}",
            f"Run: {command} - or, if it is intended, set it in topicCreation.replication.",
        )
    if unread:
        return could_not_check(f"{text}; {counted(len(unread), 'topic')} unreadable: {unread[0]}")
    if not pairs:
        return could_not_check("no topic is on both clusters")
    return passes(text)


@check("D28", "retention on the target", {DrillPhase.PREFLIGHT: ALL})
def check_retention(context: CheckContext) -> CheckFinding:
    """Pass if the target keeps records for the replay window and has deleted none that a group
    needs.
    """
    pairs = [pair for pair in read_pairs(context) if pair.target]
    needed = context.limits.replay_s
    short = {}
    for pair in pairs:
        kept = find_short_retention(*pair.settings, needed) if pair.settings[1] else None
        if kept is not None:
            short[pair.target_name] = kept
    rows = context.rows()
    deleted = [row for row in rows if row.skipped]
    lost = sum(row.skipped or 0 for row in deleted)
    text = (
        f"{counted(len(pairs), 'topic')} kept for {duration(needed)} or as on the source: "
        f"{len(pairs) - len(short):,}; {counted(lost, 'unread record')} already deleted there"
    )
    if short:
        name, kept = min(short.items(), key=lambda entry: entry[1])
        return fails(
            f"{text}; shortest {safe_text(name)}: {duration(kept)}",
            "Run: "
            + alter_command(context.config.target, name, "retention.ms", str(int(needed * 1000))),
        )
    if deleted:
        named = first_names(f"{row.group} {row.topic}-{row.partition}" for row in deleted)
        return fails(
            f"{text}: {named}",
            f"Let {first_names(dict.fromkeys(row.group for row in deleted))} read the rest on the "
            "source first, or accept that those records are skipped.",
        )
    unread = [pair.unread for pair in pairs if not pair.settings[1]]
    return could_not_check(f"{text}; {unread[0]}") if unread else passes(text)


@check("D32", "replicas on the target", {DrillPhase.PREFLIGHT: ALL}, blocks=MOVES)
def check_replicas(context: CheckContext) -> CheckFinding:
    """Pass if every partition on the target has a leader and all replicas in sync."""
    cluster = context.cluster("target")
    copies = {name for names in read_names(context).values() for name in names}
    names = copies | context.config.control_topics
    described = partial(describe_readable, cluster, names)
    topics = context.read("the target's topics and their replicas", described).values()
    total = sum(topic.partitions for topic in topics)
    leaderless = sum(topic.leaderless for topic in topics)
    under = sum(topic.under_replicated for topic in topics)
    factors = Counter(topic.replication for topic in topics)
    replication = ", ".join(f"{factor} ({count:,})" for factor, count in sorted(factors.items()))
    text = (
        f"{counted(total, 'partition')}: {leaderless:,} without a leader, {under:,} "
        f"under-replicated; replication factor (topics): {replication or 'none'}"
    )
    if not topics:
        return could_not_check("no topic is on the target yet")
    broken = [topic.name for topic in topics if topic.leaderless or topic.under_replicated]
    hold = first_names(broken)
    fix = f"Repair the brokers of the target that hold {hold} before clients move there."
    return decide(text, broken, fix)


@check("D34", "topic names", {DrillPhase.PREFLIGHT: ALL}, blocks=SWITCHOVERS)
def check_names(context: CheckContext) -> CheckFinding:
    """Pass if every source topic has one target topic, and no other topic has the name clients
    expect.
    """
    pairs = read_pairs(context)
    if not pairs:
        return could_not_check("no topic is selected")
    existing = context.topic_names("target")
    targets = Counter(pair.target_name for pair in pairs)
    absent = [pair.target_name for pair in pairs if pair.target_name not in existing]
    joined = [name for name, count in targets.items() if count > 1]
    renamed = [pair for pair in pairs if pair.source_name != pair.target_name]
    decoys = [
        pair.source_name
        for pair in renamed
        if pair.source_name in existing and pair.source_name not in targets
    ]
    text = f"{counted(len(pairs), 'topic')}: {len(pairs) - len(renamed):,} keep their name, "
    text += f"{len(renamed):,} renamed"
    if renamed:
        first = renamed[0]
        text += f" (clients use {safe_text(first.target_name)} for {safe_text(first.source_name)})"
    if absent:
        return fails(
            f"{text}; not on the target: {first_names(absent)}",
            "Start the pipeline, which creates them: k2ktui start -f FILE.",
        )
    if decoys:
        return fails(
            f"{text}; {counted(len(decoys), 'topic')} on the target with the old name and other "
            f"records: {first_names(decoys)}",
            "Clients that keep the old name would read those. Delete or rename them, or change "
            "the subscriptions.",
        )
    if joined:
        return fails(
            f"{text}; several topics are copied into {first_names(joined)}",
            "Consumers read all of them there: check that they expect it.",
        )
    return passes(text)
