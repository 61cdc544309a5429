"""D44 to D48: groups continue on the target with the right records; the way back is ready."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from time import sleep

import numpy as np
from confluent_kafka import IsolationLevel
from confluent_kafka.admin import OffsetSpec

from k2ktui.drill.checks.context import CheckContext
from k2ktui.drill.forward import ForwardPipeline
from k2ktui.drill.tail import read_bounds, read_tail
from k2ktui.engine.drill_checks import CheckFinding, DrillPhase, could_not_check, fails, passes
from k2ktui.engine.drill_facts import GroupReads
from k2ktui.engine.drill_findings import GroupLag, find_not_catching_up, find_unlisted
from k2ktui.engine.drill_tail import TailPartition, count_records
from k2ktui.engine.ranges import NOT_FOUND
from k2ktui.engine.state import Position, SourcePartition
from k2ktui.kafka.clients import Cluster
from k2ktui.log.content import ContentReader, RecordRange, content_digest
from k2ktui.replication.preflight.checks import first_names
from k2ktui.replication.preflight.topics import known_positions
from k2ktui.sync.changed_records import ignored_parts, leaves_records_out
from k2ktui.sync.cluster_readers import ConsumerGroupReader
from k2ktui.sync.record_comparison import Compaction
from k2ktui.text import counted, duration, safe_text

# Offsets read on the source for each record that a group read: logs have gaps.
_OFFSETS_PER_RECORD = 10
_LEAST_OFFSETS = 100
_PAUSE_S = 1.0


def check_reads(context: CheckContext) -> CheckFinding:
    """D44: the records that groups read are their next ones on the source."""
    reads = context.facts.reads
    if not reads:
        return could_not_check("no group has read a record on the target yet")
    total = sum(len(each.digests) for each in reads)
    groups = counted(len({each.group for each in reads}), "group")
    text = f"{counted(total, 'record')} read by {groups} in {counted(len(reads), 'partition')}"
    error = context.down("source")
    if error is not None:
        wrong = _compare_with_mapping(context, reads)
        if wrong:
            return fails(f"{text}; {first_names(wrong)}", _WRONG)
        return could_not_check(
            f"{text} from the mapped offset on; contents not compared: {error.message}"
        )
    # Where a transform leaves records out, the next records on the source are not what is read.
    mapped = [each for each in reads if leaves_records_out(context.config, each.source.topic)]
    wrong, short, unclear = _compare_with_mapping(context, mapped), 0, 0
    reads = tuple(each for each in reads if each not in mapped)
    compacted = Compaction(context.cluster("source")), Compaction(context.cluster("target"))
    for each, expected in zip(reads, _next_on_source(context, reads), strict=True):
        count = min(len(expected), len(each.digests))
        short += len(each.digests) - count
        pairs = zip(each.digests[:count], expected[:count], strict=True)
        first = next((n for n, (got, want) in enumerate(pairs, 1) if got != want), None)
        place = safe_text(f"{each.group} {each.target[0]}-{each.target[1]}")
        if first is not None and (
            compacted[0].may(each.source.topic) or compacted[1].may(each.target[0])
        ):
            unclear += 1
        elif first is not None:
            wrong.append(f"{place}: record {first} differs")
        elif expected and not each.digests:
            wrong.append(f"{place}: its next record on the source was not copied")
    if wrong:
        return fails(f"{text}; {len(wrong):,} partitions differ: {first_names(wrong)}", _WRONG)
    if unclear:
        return could_not_check(f"{text}; {unclear:,} compacted partitions differ")
    if short:
        return could_not_check(f"{text}; {short:,} of them not found on the source to compare")
    if not mapped:
        return passes(f"{text}, all equal to the next records on the source")
    where = f"{counted(len(mapped), 'partition')} with a transform read from the mapped offset on"
    if not reads:
        return passes(f"{text}; {where}, contents not compared")
    return passes(f"{text}; {where}, the others equal to the next records on the source")


_WRONG = "Stop these groups, and compare: k2ktui verify -f FILE; k2ktui undo restores offsets."


def _next_on_source(context: CheckContext, reads: Sequence[GroupReads]) -> list[list[str]]:
    source = context.cluster("source")
    where = [
        (
            (each.source.topic, each.source.partition, each.source_offset),
            max(_LEAST_OFFSETS, _OFFSETS_PER_RECORD * len(each.digests)),
        )
        for each in reads
    ]

    def read() -> list[RecordRange]:
        with ContentReader(source) as reader:
            return reader.stretches(where, context.limits.reading_s / 2)

    found = context.read("the next records of groups on the source", read)
    return [
        [
            content_digest(record, ignored_parts(context.config, each.source.topic))
            for _, record in sorted(read.records.items())
        ]
        for each, read in zip(reads, found, strict=True)
    ]


def _compare_with_mapping(context: CheckContext, reads: Sequence[GroupReads]) -> list[str]:
    """Return the groups whose first record is not where their first unread one landed."""
    replicas, wrong = context.snapshot().replicas, []
    for each in reads:
        replica = replicas.get(each.source)
        ranges = replica.target_ranges.get(each.target) if replica else None
        if ranges is None or not each.offsets:
            continue
        (landed,) = ranges.translate(np.array([each.source_offset], dtype=np.int64)).tolist()
        if landed not in (NOT_FOUND, each.offsets[0]):
            place = safe_text(f"{each.group} {each.target[0]}-{each.target[1]}")
            wrong.append(f"{place}: began at {each.offsets[0]}, not {landed}")
    return wrong


def check_target_lag(context: CheckContext) -> CheckFinding:
    """D45: lag of the groups on the target."""
    applied, active = context.facts.applied, context.facts.active
    groups = {group for group, _, _ in applied} if applied else context.snapshot().source.keys()
    names = sorted(groups if active is None else groups & active)
    if not names:
        return could_not_check("no group is known" if active is None else "no group was active")
    cluster = context.cluster("target")

    def read() -> tuple[dict[str, GroupLag], dict[str, GroupLag], float]:
        """Read twice; the second time as soon as all groups catch up, or when the time is over."""
        reader = ConsumerGroupReader(context.config, "target")
        most, waited = context.limits.sample_s, 0.0
        try:
            before = _read_lags(cluster, reader, names)
            while True:
                pause = min(_PAUSE_S, most - waited)
                sleep(pause)
                waited += pause
                after = _read_lags(cluster, reader, names)
                if waited >= most or not (
                    set(names) - after.keys() or find_not_catching_up(before, after)
                ):
                    return before, after, waited
        finally:
            reader.close()

    before, after, waited = context.read("the groups' lag on the target twice", read)
    waiting = find_not_catching_up(before, after)
    missing = [name for name in names if name not in after]
    lags = sum(each.lag for each in after.values()), sum(each.lag for each in before.values())
    text = (
        f"{counted(len(names), 'group')}: lag on the target {lags[0]:,}, {lags[1]:,} "
        f"{waited:g} s before; {len(waiting):,} not catching up"
    )
    if len(groups) > len(names):
        text = f"{counted(len(groups) - len(names), 'group')} not active before; {text}"
    if waiting:
        shown = [f"{name}: {lag:,}" for name, lag in waiting.items()]
        return fails(
            f"{text}: {first_names(shown)}",
            "Start their consumers with bootstrap.servers of the target, and see their logs.",
        )
    if missing:
        return could_not_check(f"{text}; no offset on the target: {first_names(missing)}")
    return passes(text)


def _read_lags(
    cluster: Cluster, reader: ConsumerGroupReader, names: list[str]
) -> dict[str, GroupLag]:
    views = reader.views(names)
    where = {at for view in views.values() for at in view.offsets}
    ends = cluster.offsets(where, OffsetSpec.latest(), IsolationLevel.READ_COMMITTED)
    found = {}
    for name, view in views.items():
        offsets = {at: each.offset for at, each in view.offsets.items() if each.offset >= 0}
        if offsets:
            lag = sum(max(0, ends.get(at, offset) - offset) for at, offset in offsets.items())
            found[name] = GroupLag(lag, sum(offsets.values()))
    return found


def check_measures(context: CheckContext) -> CheckFinding:
    """D46: measured times and losses."""
    found, limits = context.facts.measures, context.limits
    if found is None:
        return could_not_check("the drill has measured nothing yet")
    rto = "unknown" if found.rto_s is None else duration(found.rto_s, tenths=True)
    records = "unknown" if found.rpo_records is None else counted(found.rpo_records, "record")
    text = f"RTO {rto}, RPO {records}"
    if found.rpo_bytes is not None:
        text += f", {found.rpo_bytes:,} bytes"
    if found.rpo_s is not None:
        text += f", {duration(found.rpo_s, tenths=True)}"
    if found.phases:
        longest, seconds = max(found.phases.items(), key=lambda each: each[1])
        text += f"; longest phase {safe_text(longest)}, {duration(seconds, tenths=True)}"
    over = []
    if limits.rto_s is not None and found.rto_s is not None and found.rto_s > limits.rto_s:
        over.append(f"RTO above {limits.rto_s:g} s")
    if limits.rpo_records is not None and (found.rpo_records or 0) > limits.rpo_records:
        over.append(f"RPO above {counted(limits.rpo_records, 'record')}")
    if over:
        return fails(
            f"{text}; {', '.join(over)}",
            "The phases show where the time went; lag before the drill decides the loss.",
        )
    if found.rto_s is None or found.rpo_records is None:
        return could_not_check(text)
    return passes(text)


def check_reverse(context: CheckContext) -> CheckFinding:
    """D47: the reverse pipeline copies every target partition from the move on."""
    reverse = context.facts.reverse
    if reverse is None:
        return could_not_check(
            "no reverse pipeline is named", "Name its file: k2ktui drill check --reverse FILE."
        )
    there = Cluster(reverse.target, "source")

    def read() -> Mapping[SourcePartition, Position]:
        return known_positions(reverse, there)

    positions = context.read("the reverse pipeline's positions", read)
    replicas = context.snapshot().replicas.values()
    wanted = {
        (r.position.target_topic, r.position.target_partition) for r in replicas if r.position
    }
    ends = context.facts.cut_over_ends or {}
    absent, late = [], []
    for topic, number in sorted((t, n) for t, n in wanted if n is not None):
        position = positions.get(SourcePartition(topic, number))
        if position is None:
            absent.append(f"{topic}-{number}")
        elif position.start > ends.get((topic, number), position.start):
            late.append(f"{topic}-{number} from {position.start}, not {ends[topic, number]}")
    text = (
        f"{len(wanted) - len(absent):,} of {counted(len(wanted), 'target partition')} copied back"
    )
    if absent or late:
        parts = [f"not copied: {first_names(absent)}"] if absent else []
        parts += [f"records after the move missing: {first_names(late)}"] if late else []
        return fails(
            f"{text}; {'; '.join(parts)}",
            "Start the reverse pipeline; its start position must be before the first record that "
            "clients wrote to the target.",
        )
    if not ends:
        return could_not_check(f"{text}; the ends of the target before the move are unknown")
    return passes(f"{text}, from the first record after the move on")


def check_tail(context: CheckContext) -> CheckFinding:
    """D48: records of the source, of a failback's old source in its phase, that were not copied."""
    if context.facts.phase is DrillPhase.TAIL and context.facts.forward is not None:
        return _check_old_source(context, context.facts.forward)
    error = context.down("source")
    if error is not None:
        return could_not_check(
            "which records were not copied is unknown until the source is back; a failback then "
            f"lists them in phase tail: {error.message}"
        )
    missing: dict[tuple[str, int], tuple[int, int]] = {}
    unknown = []
    for row in (each.status for each in context.view().partitions):
        first = row.position if row.position is not None else row.source_start
        if first is None or row.source_end is None:
            unknown.append(f"{row.topic}-{row.partition}")
            continue
        end = row.source_end + (row.held_back or 0)
        if end > first:
            missing[row.topic, row.partition] = first, end
    left = find_unlisted(missing, _read_spans(context))
    total = sum(end - first for first, end in missing.values())
    text = (
        f"{counted(total, 'offset')} of {counted(len(missing), 'partition')} not copied, "
        f"{sum(left.values()):,} of them not listed"
    )
    if left:
        return fails(
            f"{text}: {_name_counts(left)}",
            "List them before anything is deleted: k2ktui status -f FILE has the offsets.",
        )
    return could_not_check(f"{text}; unknown: {first_names(unknown)}") if unknown else passes(text)


def _read_spans(context: CheckContext) -> dict[tuple[str, int], tuple[int, int]]:
    """Return the offsets that the drill has listed, by topic and partition."""
    return {(at.topic, at.partition): span for at, span in (context.facts.tail or {}).items()}


def _name_counts(counts: Mapping[tuple[str, int], int]) -> str:
    return first_names(f"{topic}-{number}: {count:,}" for (topic, number), count in counts.items())


def _check_old_source(context: CheckContext, forward: ForwardPipeline) -> CheckFinding:
    """Read again what the forward pipeline has not copied: nothing, or what was listed."""

    def read() -> list[TailPartition]:
        return read_tail(forward, read_bounds(forward), lambda _: None)

    left = context.read("the records of the old source that were not copied", read)
    listed = _read_spans(context)
    spans = {(each.topic, each.partition): (each.first, each.end) for each in left}
    unlisted = find_unlisted(spans, listed)
    text = (
        f"{counted(count_records(left), 'record')} of {counted(len(left), 'partition')} of the old "
        f"source not copied, {counted(len(listed), 'partition')} listed"
    )
    if unlisted:
        return fails(
            f"{text}; written since: {_name_counts(unlisted)}",
            "A producer still writes to the old source: stop it, abort the drill and begin again.",
        )
    return passes(text)


CHECKS: Mapping[str, Callable[[CheckContext], CheckFinding]] = {
    "D44": check_reads,
    "D45": check_target_lag,
    "D46": check_measures,
    "D47": check_reverse,
    "D48": check_tail,
}
