"""Groups can be moved, exactly, and nothing else uses them on the target."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Mapping
from contextlib import closing
from time import sleep

from confluent_kafka.admin import OffsetSpec

from k2ktui.drill.checks.context import CheckContext
from k2ktui.drill.checks.findings import OutOfRange, find_out_of_range, find_without_offset
from k2ktui.drill.checks.registration import ALL, MOVES, SWITCHOVERS, WITH_SOURCE, check
from k2ktui.engine.drill.checks import (
    CheckFinding,
    DrillKind,
    DrillPhase,
    could_not_check,
    fails,
    passes,
)
from k2ktui.engine.mapping.translate import Basis
from k2ktui.engine.members import name_groups
from k2ktui.engine.moves.groups import Finding, GroupRow, GroupView
from k2ktui.sync.cluster_readers import ConsumerGroupReader
from k2ktui.sync.operations import verify_content
from k2ktui.sync.verify.verification import Verification
from k2ktui.text import counted, duration, first_names, safe_message, safe_text

_NOT_MOVED = ("share", "streams")


@check(
    "D18",
    "groups on the source",
    {DrillPhase.PREFLIGHT: ALL, DrillPhase.STOP_CONSUMERS: SWITCHOVERS},
    blocks=SWITCHOVERS,
)
def check_source_groups(context: CheckContext) -> CheckFinding:
    """Pass if every group can be read; once consumers are to be stopped, none has members."""
    snapshot = context.snapshot()
    if not snapshot.source:
        return could_not_check("no group has committed an offset on a replicated topic")
    states = Counter(view.state or "without a state" for view in snapshot.source.values())
    text = f"{counted(len(snapshot.source), 'group')}: " + ", ".join(
        f"{count:,} {safe_text(state)}" for state, count in sorted(states.items())
    )
    if snapshot.source_down:
        age = duration(max(0.0, time.time() - snapshot.commits_at))
        return could_not_check(f"{text}; commits are {age} old: {snapshot.source_down}")
    unread = {
        name: view.error or next(iter(view.unsettled.values()))
        for name, view in snapshot.source.items()
        if view.error or view.unsettled
    }
    if unread:
        name, why = next(iter(unread.items()))
        return fails(
            f"{text}; {counted(len(unread), 'group')} cannot be read: {safe_text(name)}: {why}",
            f"Grant the admin principal of the source Describe on group {safe_text(name)}.",
        )
    active = {name: view.named for name, view in snapshot.source.items() if not view.empty}
    # Of some topics, members may go on with others: the phase has looked what they read.
    stopped = context.has_reached(DrillPhase.STOP_CONSUMERS) and not context.facts.topics
    if active and stopped:
        return fails(
            f"{text}; {counted(len(active), 'group')} with members: {name_groups(active)}",
            f"Stop the consumers of {first_names(active)} on the source, or leave these groups "
            "out: --groups.",
        )
    return passes(f"{text}; Kafka does not show when a group committed")


@check(
    "D19",
    "committed offsets in range",
    {DrillPhase.PREFLIGHT: WITH_SOURCE, DrillPhase.APPLY: SWITCHOVERS},
)
def check_commits_in_range(context: CheckContext) -> CheckFinding:
    """Pass if every committed offset is within its log on the source, and in no gap."""
    rows = context.rows()
    snapshot = context.snapshot()
    if snapshot.source_down:
        return could_not_check(f"the source's logs are unknown: {snapshot.source_down}")
    logs = {
        row.key: (row.status.source_start, row.status.source_end, row.status.held_back, row.gaps)
        for row in context.view().partitions
    }
    reasons = Counter[OutOfRange]()
    named: list[str] = []
    # The commits may be newer than the view's ends of the logs: groups continue meanwhile.
    ends = _source_ends(context, {(row.topic, row.partition) for row in rows} & logs.keys())
    for row in rows:
        if row.source_offset is None or (row.topic, row.partition) not in logs:
            continue
        start, end, held, gaps = logs[row.topic, row.partition]
        high = ends.get((row.topic, row.partition), None if end is None else end + (held or 0))
        reason = find_out_of_range(row.source_offset, start, high, gaps)
        if reason is not None:
            reasons[reason] += 1
            named.append(f"{row.group} {row.topic}-{row.partition} at {row.source_offset}")
    if reasons:
        kinds = ", ".join(f"{count:,} {reason}" for reason, count in reasons.items())
        return fails(
            f"of {counted(len(rows), 'committed offset')} {kinds}: {first_names(named)}",
            "auto.offset.reset decides where such a group continues, on either cluster: set the "
            "offset on the source first (kafka-consumer-groups.sh --reset-offsets).",
        )
    return passes(f"{counted(len(rows), 'committed offset')} within the logs of the source")


def _source_ends(
    context: CheckContext, partitions: Collection[tuple[str, int]]
) -> Mapping[tuple[str, int], int]:
    cluster = context.cluster("source")
    return context.read(
        "the ends of the source's logs", lambda: cluster.offsets(partitions, OffsetSpec.latest())
    )


@check(
    "D20",
    "groups inactive on the target",
    {DrillPhase.PREFLIGHT: ALL, DrillPhase.APPLY: MOVES},
    blocks=MOVES,
)
def check_target_groups(context: CheckContext) -> CheckFinding:
    """Pass if no group has members on the target or commits there without any."""
    snapshot = context.snapshot()
    names = sorted(snapshot.source)
    active = {name: view.named for name, view in snapshot.target.items() if view.is_active}
    unread = [name for name, view in snapshot.target.items() if view.error or view.unsettled]
    total = counted(len(names), "group")
    empty = "an offset is committed only for an empty group."
    if active:
        return fails(
            f"{len(active):,} of {total} active on the target: {name_groups(active)}",
            f"Stop the consumers of {first_names(active)} on the target; {empty}",
        )
    context.cluster("target")
    before = {name: snapshot.target[name] for name in names if name in snapshot.target}

    def read() -> dict[str, GroupView]:
        age, needed = time.time() - snapshot.taken_at, context.limits.sample_s
        sleep(min(needed, max(0.0, needed - age)))
        with closing(ConsumerGroupReader(context.config, "target")) as reader:
            return reader.read_moved(before)

    moved = context.read("the target's groups twice", read)
    if moved:
        return fails(
            f"{len(moved):,} of {total} without members committed on the target within "
            f"{context.limits.sample_s:g} s: {first_names(moved)}",
            f"Stop the consumers with assign() that use {first_names(moved)} on the target; "
            f"{empty}",
        )
    if unread:
        return could_not_check(f"{len(unread):,} of {total} unreadable: {first_names(unread)}")
    return passes(f"0 of {total} active on the target")


@check("D21", "commits on the target", {DrillPhase.PREFLIGHT: ALL, DrillPhase.APPLY: MOVES})
def check_target_commits(context: CheckContext) -> CheckFinding:
    """Pass if no group's commit on the target is ahead of its translated offset."""
    rows = [row for row in context.rows() if row.finding is not Finding.CHOSEN]
    known = [row for row in rows if row.target_offset is not None]
    settled = [row for row in known if row.finding is not Finding.MOVING]
    ahead = [row for row in settled if (row.divergence or 0) > 0]
    behind = [row for row in settled if (row.divergence or 0) < 0]
    text = (
        f"{len(known):,} of {counted(len(rows), 'offset')} committed on the target: "
        f"{len(ahead):,} ahead of the translation, {len(behind):,} behind it"
    )
    if ahead:
        worst = max(ahead, key=lambda row: row.divergence or 0)
        names = first_names(dict.fromkeys(row.group for row in ahead))
        return fails(
            f"{text}; {_place(worst)}: {worst.target_offset:,} now, {worst.translated_offset:,} "
            "translated",
            f"A consumer of {names} has committed on the target. Keep that, or go back to the "
            "translated offset: k2ktui plan --rewind follow.",
        )
    unclear = [row for row in settled if row.divergence is None]
    if unclear:
        return could_not_check(f"{text}; {_place(unclear[0])}: {unclear[0].reason or 'unknown'}")
    return passes(text)


@check(
    "D22",
    "re-reads, skips and next records",
    {
        DrillPhase.CONTENT: {DrillKind.REHEARSE},
        DrillPhase.APPLY: MOVES,
        DrillPhase.VERIFY: SWITCHOVERS,
    },
)
def check_next_records(context: CheckContext) -> CheckFinding:
    """Pass if no group would read again or skip a record, and the next record is the same on
    both sides.
    """
    rows = context.rows()
    if not rows:
        return could_not_check("no group has committed an offset on a replicated topic")
    decided = sum(row.finding is Finding.CHOSEN for row in rows)
    rows = [row for row in rows if row.finding is not Finding.CHOSEN]
    rereads = sum(row.reread or 0 for row in rows)
    skips = sum(row.skipped or 0 for row in rows)
    unknown = sum(row.reread is None or row.skipped is None for row in rows)
    text = f"at most {rereads:,} read again and {skips:,} skipped in {counted(len(rows), 'offset')}"
    text += f", unknown for {unknown:,}" if unknown else ""
    text += f"; {decided:,} chosen by operators" if decided else ""
    if context.down("source") is not None:
        text = f"{text}; next records not compared: {context.snapshot().source_down}"
        return fails(text, _EXPLAIN) if rereads or skips else could_not_check(text)

    def read() -> Verification:
        return verify_content(
            context.flow,
            group=lambda _: True,
            translated=context.facts.plan is None,
            plan=context.facts.plan,
            sample=0,
            timeout=context.limits.reading_s / 2,
        ).verification

    verification = context.facts.compared or context.read("next records of groups", read)
    totals = verification.positions
    text += (
        f"; next records: {totals.same:,} equal, {totals.different:,} different, "
        f"{totals.rereads:,} read again, {totals.could_not_check:,} could not be compared"
    )
    if rereads or skips or totals.different or totals.rereads:
        worst = [check for check in verification.checks if str(check.outcome) == "different"]
        detail = f"; {worst[0].what}: {safe_message(worst[0].why)}" if worst else ""
        return fails(text + detail, _EXPLAIN)
    if totals.could_not_check or unknown:
        why = next((safe_message(reason) for reason in verification.unchecked_positions), "")
        return could_not_check(f"{text}; {why}" if why else text)
    return passes(text)


_EXPLAIN = "See each position: k2ktui groups -f FILE, and k2ktui verify --translated -f FILE."


@check("D23", "types of groups", {DrillPhase.PREFLIGHT: WITH_SOURCE})
def check_group_types(context: CheckContext) -> CheckFinding:
    """Pass if no share or streams group reads replicated topics: their positions cannot be
    moved.
    """
    context.cluster("source")

    def read() -> dict[str, str]:
        with closing(ConsumerGroupReader(context.config, "source")) as reader:
            listed = reader.groups.list()
        chosen = context.config.consumer_groups
        return {
            name: group.kind or "unknown" for name, group in listed.items() if chosen.matches(name)
        }

    kinds = context.read("the types of the source's groups", read)
    counts = Counter(kinds.values())
    text = ", ".join(f"{count:,} {safe_text(kind)}" for kind, count in sorted(counts.items()))
    outside = (
        "positions outside Kafka (Spark, Flink, sink connectors that keep their own) cannot be "
        "seen here"
    )
    other = [name for name, kind in kinds.items() if kind in _NOT_MOVED]
    if other:
        return fails(
            f"{text}; not moved: {first_names(other)}; {outside}",
            "Decide where they start on the target, or leave them out of groups.consumerGroups.",
        )
    return passes(f"{text or '0 groups'}; {outside}: translate those with k2ktui translate")


@check("D24", "partitions without an offset", {DrillPhase.PREFLIGHT: ALL, DrillPhase.APPLY: MOVES})
def check_without_offset(context: CheckContext) -> CheckFinding:
    """Pass if every partition that a group would read on the target has an offset there after
    the move.
    """
    snapshot, rows = context.snapshot(), context.rows()
    reads = {(row.group, row.topic) for row in rows}
    placed = {
        (row.group, row.topic, row.partition): row.basis is not Basis.UNMAPPED for row in rows
    }
    sizes: dict[tuple[str, int], int | None] = {}
    for at, replica in snapshot.replicas.items():
        position = replica.position
        where = (position.target_topic, position.target_partition) if position else ("", None)
        log = None if where[1] is None else snapshot.logs.get((where[0], where[1]))
        sizes[at.topic, at.partition] = None if log is None else log.end - log.start
    missing = find_without_offset(reads, placed, sizes)
    partitions = Counter(topic for topic, _ in sizes)
    total = sum(partitions[topic] for _, topic in reads)
    if missing:
        named = first_names(f"{group} {topic}-{partition}" for group, topic, partition in missing)
        return fails(
            f"{len(missing):,} of {counted(total, 'partition')} that groups read would have no "
            f"offset on the target: {named}",
            "auto.offset.reset of each consumer decides there: set the offsets on the source "
            "before the move, or accept re-reads (earliest) or skips (latest).",
        )
    return passes(f"0 of {counted(total, 'partition')} that groups read would have no offset")


def _place(row: GroupRow) -> str:
    return safe_text(f"{row.group} {row.topic}-{row.partition}")
