"""Groups continue on the target with the right records; the way back is ready."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from time import sleep

import numpy as np
from confluent_kafka import IsolationLevel
from confluent_kafka.admin import OffsetSpec

from k2ktui.drill.checks.context import CheckContext
from k2ktui.drill.checks.evidence import decide
from k2ktui.drill.checks.findings import (
    GroupLag,
    TopicPartition,
    find_behind,
    find_not_catching_up,
    find_unlisted,
)
from k2ktui.drill.checks.registration import ALL, MOVES, SWITCHOVERS, check
from k2ktui.drill.facts import DrillMeasures, GroupReads
from k2ktui.drill.forward import ForwardPipeline
from k2ktui.drill.tail import read_bounds, read_tail
from k2ktui.engine.drill.checks import (
    CheckFinding,
    DrillKind,
    DrillPhase,
    could_not_check,
    fails,
    passes,
)
from k2ktui.engine.drill.tail import TailPartition, count_records
from k2ktui.engine.mapping.ranges import NOT_FOUND
from k2ktui.engine.records.state import Position, SourcePartition
from k2ktui.kafka.clients import Cluster
from k2ktui.log.content import ContentReader, RecordRange, content_digest
from k2ktui.replication.preflight.committed import read_committed
from k2ktui.sync.cluster_readers import ConsumerGroupReader
from k2ktui.sync.verify.changed_records import ignored_parts, leaves_records_out
from k2ktui.sync.verify.record_comparison import Compaction
from k2ktui.text import counted, duration, first_names, safe_text

# Offsets read on the source for each record that a group read: logs have gaps.
_OFFSETS_PER_RECORD = 10
_LEAST_OFFSETS = 100
_PAUSE_S = 1.0
Applied = Mapping[str, Mapping[TopicPartition, int]]


@check(
    "D44",
    "records that groups read",
    {DrillPhase.SHADOW: {DrillKind.REHEARSE}, DrillPhase.WATCH_CLIENTS: MOVES},
)
def check_reads(context: CheckContext) -> CheckFinding:
    """Pass if the first records that each group read on the target are its next records on the
    source.
    """
    reads = context.facts.reads
    if not reads:
        return could_not_check("no group has read a record on the target yet")
    total = sum(len(read.digests) for read in reads)
    groups = counted(len({read.group for read in reads}), "group")
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
    mapped = [read for read in reads if leaves_records_out(context.config, read.source.topic)]
    reads = tuple(read for read in reads if read not in mapped)
    compared = _compare_with_source(context, reads)
    wrong = [*_compare_with_mapping(context, mapped), *compared.wrong]
    if wrong:
        return fails(f"{text}; {len(wrong):,} partitions differ: {first_names(wrong)}", _WRONG)
    if compared.compacted:
        return could_not_check(f"{text}; {compared.compacted:,} compacted partitions differ")
    if compared.missing:
        missing = f"{compared.missing:,} of them not found on the source to compare"
        return could_not_check(f"{text}; {missing}")
    if not mapped:
        return passes(f"{text}, all equal to the next records on the source")
    where = f"{counted(len(mapped), 'partition')} with a transform read from the mapped offset on"
    if not reads:
        return passes(f"{text}; {where}, contents not compared")
    return passes(f"{text}; {where}, the others equal to the next records on the source")


@dataclass(frozen=True)
class _Compared:
    """What groups read beside their next records on the source.

    Attributes:
        wrong: what differs, a text for each partition.
        compacted: how many partitions differ that compaction may have changed.
        missing: how many records were read that were not found on the source.
    """

    wrong: tuple[str, ...]
    compacted: int
    missing: int


def _compare_with_source(context: CheckContext, reads: Sequence[GroupReads]) -> _Compared:
    compaction = Compaction(context.cluster("source")), Compaction(context.cluster("target"))
    wrong, compacted, missing = [], 0, 0
    for read, expected in zip(reads, _next_on_source(context, reads), strict=True):
        count = min(len(expected), len(read.digests))
        missing += len(read.digests) - count
        pairs = zip(read.digests[:count], expected[:count], strict=True)
        first = next((n for n, (got, want) in enumerate(pairs, 1) if got != want), None)
        place = safe_text(f"{read.group} {read.target[0]}-{read.target[1]}")
        if first is not None:
            if compaction[0].may(read.source.topic) or compaction[1].may(read.target[0]):
                compacted += 1
            else:
                wrong.append(f"{place}: record {first} differs")
        elif expected and not read.digests:
            wrong.append(f"{place}: its next record on the source was not copied")
    return _Compared(tuple(wrong), compacted, missing)


_WRONG = "Stop these groups, and compare: k2ktui verify -f FILE; k2ktui undo restores offsets."


def _next_on_source(context: CheckContext, reads: Sequence[GroupReads]) -> list[list[str]]:
    source = context.cluster("source")
    where = [
        (
            (read.source.topic, read.source.partition, read.source_offset),
            max(_LEAST_OFFSETS, _OFFSETS_PER_RECORD * len(read.digests)),
        )
        for read in reads
    ]

    def read() -> list[RecordRange]:
        with ContentReader(source) as reader:
            return reader.stretches(where, context.limits.reading_s / 2)

    stretches = context.read("the next records of groups on the source", read)
    return [
        [
            content_digest(record, ignored_parts(context.config, read.source.topic))
            for _, record in sorted(stretch.records.items())
        ]
        for read, stretch in zip(reads, stretches, strict=True)
    ]


def _compare_with_mapping(context: CheckContext, reads: Sequence[GroupReads]) -> list[str]:
    """Return the groups whose first record is not where their first unread one landed."""
    replicas, wrong = context.snapshot().replicas, []
    for read in reads:
        replica = replicas.get(read.source)
        ranges = replica.target_ranges.get(read.target) if replica else None
        if ranges is None or not read.offsets:
            continue
        (landed,) = ranges.translate(np.array([read.source_offset], dtype=np.int64)).tolist()
        if landed not in (NOT_FOUND, read.offsets[0]):
            place = safe_text(f"{read.group} {read.target[0]}-{read.target[1]}")
            wrong.append(f"{place}: began at {read.offsets[0]}, not {landed}")
    return wrong


@check("D45", "lag on the target", {DrillPhase.WATCH_CLIENTS: MOVES})
def check_target_lag(context: CheckContext) -> CheckFinding:
    """Pass if the lag on the target of every group that was active falls or is zero, and none has
    committed before its applied offset.
    """
    active, applied = context.facts.active, _by_group(context.facts.applied or {})
    groups = applied.keys() or context.snapshot().source.keys()
    names = sorted(groups if active is None else groups & active)
    if not names:
        return could_not_check("no group is known" if active is None else "no group was active")
    cluster = context.cluster("target")
    # Of a drill over some topics, what its groups read besides does not count.
    of_drill = {at for offsets in applied.values() for at in offsets}
    where = of_drill if applied and context.facts.topics else None

    def read() -> tuple[dict[str, GroupLag], dict[str, GroupLag], float]:
        """Read twice; the second time as soon as all groups catch up, or when the time is over."""
        reader = ConsumerGroupReader(context.config, "target")
        most, waited = context.limits.sample_s, 0.0
        try:
            before = _read_lags(cluster, reader, names, applied, where)
            while True:
                pause = min(_PAUSE_S, most - waited)
                sleep(pause)
                waited += pause
                after = _read_lags(cluster, reader, names, applied, where)
                if waited >= most or not (
                    set(names) - after.keys() or find_not_catching_up(before, after)
                ):
                    return before, after, waited
        finally:
            reader.close()

    before, after, waited = context.read("the groups' lag on the target twice", read)
    waiting = find_not_catching_up(before, after)
    missing = [name for name in names if name not in after]
    lags = sum(lag.lag for lag in after.values()), sum(lag.lag for lag in before.values())
    text = (
        f"{counted(len(names), 'group')}: lag on the target {lags[0]:,}, {lags[1]:,} "
        f"{waited:g} s before; {len(waiting):,} not catching up"
    )
    if len(groups) > len(names):
        text = f"{counted(len(groups) - len(names), 'group')} not active before; {text}"
    return decide(
        text,
        [f"{name}: {lag:,}{_name_behind(after[name])}" for name, lag in waiting.items()],
        _advise({name: after[name] for name in waiting}),
        missing,
        bad_after=": ",
        unknown_after="; no offset on the target: ",
    )


def _advise(waiting: Mapping[str, GroupLag]) -> str:
    """Say what to do about groups that do not catch up."""
    behind = [name for name, lag in waiting.items() if lag.behind]
    slow = [name for name in waiting if name not in behind]
    parts = []
    if slow:
        parts.append(
            f"Start the consumers of {first_names(slow)} with bootstrap.servers of the target, "
            "and see their logs."
        )
    if behind:
        parts.append(
            f"Find out what has set {first_names(behind)} back on the target: they read records "
            "again up to the applied offsets."
        )
    return " ".join(parts)


def _by_group(applied: Mapping[tuple[str, str, int], int]) -> Applied:
    groups: dict[str, dict[TopicPartition, int]] = defaultdict(dict)
    for (group, topic, number), offset in applied.items():
        groups[group][topic, number] = offset
    return groups


def _name_behind(lag: GroupLag) -> str:
    if not lag.behind:
        return ""
    named = first_names(f"{topic}-{number}" for topic, number in lag.behind)
    return f", before its applied offset on {named}"


def _read_lags(
    cluster: Cluster,
    reader: ConsumerGroupReader,
    names: list[str],
    applied: Applied,
    only: Collection[tuple[str, int]] | None,
) -> dict[str, GroupLag]:
    views = reader.views(names)
    where = {at for view in views.values() for at in view.offsets if only is None or at in only}
    ends = cluster.offsets(where, OffsetSpec.latest(), IsolationLevel.READ_COMMITTED)
    lags = {}
    for name, view in views.items():
        offsets = {
            at: committed.offset
            for at, committed in view.offsets.items()
            if committed.offset >= 0 and at in where
        }
        if offsets:
            lag = sum(max(0, ends.get(at, offset) - offset) for at, offset in offsets.items())
            behind = find_behind(applied.get(name, {}), offsets)
            lags[name] = GroupLag(lag, sum(offsets.values()), tuple(behind))
    return lags


@check("D46", "measured RTO and RPO", {DrillPhase.REPORT: ALL})
def check_measures(context: CheckContext) -> CheckFinding:
    """Pass if the measured times and losses are within the objectives of the file; if it has none,
    if they are known.

    Of a rehearsal, the time of the tool counts: people and applications do nothing.
    """
    measures, objectives = context.facts.measures, context.limits.objectives
    if measures is None:
        return could_not_check("the drill has measured nothing yet")
    text = _describe_measures(measures)
    least = measures.rpo_at_least if measures.rpo_records is None else measures.rpo_records
    took = measures.tool_s if measures.rto_s is None else measures.rto_s
    missed = objectives.list_missed(rpo_records=least, rpo_s=measures.rpo_s, rto_s=took)
    if missed:
        return fails(
            f"{text}; {', '.join(missed)}",
            "The phases show where the time went; lag before the drill decides the loss. The "
            "objectives are in the pipeline's file: drill.objectives.",
        )
    if not objectives:
        known = measures.rto_s is not None and measures.rpo_records is not None
        return passes(text) if known else could_not_check(text)
    rehearses = context.facts.kind is DrillKind.REHEARSE
    unknown = objectives.list_unknown(
        rpo_records=measures.rpo_records,
        rpo_s=measures.rpo_s,
        rto_s=took if rehearses else measures.rto_s,
    )
    if unknown:
        return could_not_check(f"{text}; not known, so not compared: {', '.join(unknown)}")
    return passes(f"{text}; {objectives.describe()}")


def _describe_measures(measures: DrillMeasures) -> str:
    rto = "unknown" if measures.rto_s is None else duration(measures.rto_s, tenths=True)
    if measures.rto_s is None and measures.tool_s is not None:
        rto = f"at least {duration(measures.tool_s, tenths=True)} (of the tool)"
    records = "unknown" if measures.rpo_records is None else counted(measures.rpo_records, "record")
    if measures.rpo_records is None and measures.rpo_at_least is not None:
        records = f"at least {counted(measures.rpo_at_least, 'record')}"
    text = f"RTO {rto}, RPO {records}"
    if measures.rpo_bytes is not None:
        text += f", {measures.rpo_bytes:,} bytes"
    if measures.rpo_s is not None:
        text += f", {duration(measures.rpo_s, tenths=True)}"
    if measures.phases:
        longest, seconds = max(measures.phases.items(), key=lambda entry: entry[1])
        text += f"; longest phase {safe_text(longest)}, {duration(seconds, tenths=True)}"
    return text


@check(
    "D47",
    "reverse pipeline",
    {DrillPhase.REVERSE: SWITCHOVERS, DrillPhase.REPORT: {DrillKind.DISASTER}},
)
def check_reverse(context: CheckContext) -> CheckFinding:
    """Pass if the reverse pipeline copies every target topic, from the first record after the
    move on.
    """
    reverse = context.facts.reverse
    if reverse is None:
        return could_not_check(
            "no reverse pipeline is named", "Name its file: k2ktui drill check --reverse FILE."
        )
    copied_from = Cluster(reverse.target, "source")

    def read() -> Mapping[SourcePartition, Position]:
        return read_committed(reverse, copied_from).positions

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


@check(
    "D48",
    "records not copied",
    {
        DrillPhase.TAIL: {DrillKind.FAILBACK},
        DrillPhase.REPORT: {DrillKind.PLANNED, DrillKind.DISASTER},
    },
)
def check_tail(context: CheckContext) -> CheckFinding:
    """Pass if every record of the source that was not copied is listed."""
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
    for row in (partition.status for partition in context.view().partitions):
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
    return decide(
        text,
        _counts(left),
        "List them before anything is deleted: k2ktui status -f FILE has the offsets.",
        unknown,
        bad_after=": ",
    )


def _read_spans(context: CheckContext) -> dict[tuple[str, int], tuple[int, int]]:
    """Return the offsets that the drill has listed, by topic and partition."""
    return {(at.topic, at.partition): span for at, span in (context.facts.tail or {}).items()}


def _counts(counts: Mapping[tuple[str, int], int]) -> list[str]:
    return [f"{topic}-{number}: {count:,}" for (topic, number), count in counts.items()]


def _check_old_source(context: CheckContext, forward: ForwardPipeline) -> CheckFinding:
    """Read again what the forward pipeline has not copied: nothing, or what was listed."""

    def read() -> list[TailPartition]:
        return read_tail(forward, read_bounds(forward), lambda _: None)

    left = context.read("the records of the old source that were not copied", read)
    listed = _read_spans(context)
    spans = {
        (partition.topic, partition.partition): (partition.first, partition.end)
        for partition in left
    }
    unlisted = find_unlisted(spans, listed)
    text = (
        f"{counted(count_records(left), 'record')} of {counted(len(left), 'partition')} of the old "
        f"source not copied, {counted(len(listed), 'partition')} listed"
    )
    return decide(
        text,
        _counts(unlisted),
        f"Stop the producers that still write to {first_names({topic for topic, _ in unlisted})} "
        "on the old source, abort the drill and begin again.",
        bad_after="; written since: ",
    )
