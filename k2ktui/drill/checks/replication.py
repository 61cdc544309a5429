"""The pipeline copies, is close to the source's end, and can read what it lacks."""

from __future__ import annotations

import time
from collections.abc import Iterable

from k2ktui.drill.checks.context import CheckContext
from k2ktui.drill.checks.evidence import join_preflight
from k2ktui.drill.checks.registration import ALL, MOVES, SWITCHOVERS, WITH_SOURCE, check
from k2ktui.engine.drill.checks import CheckFinding, DrillPhase, could_not_check, fails, passes
from k2ktui.engine.moves.groups import Snapshot
from k2ktui.engine.records.hold import NO_HOLDS
from k2ktui.engine.status import PartitionState, PartitionStatus
from k2ktui.kafka.admin.topics import abort_command
from k2ktui.kafka.clients import describe_readable
from k2ktui.replication.preflight.headroom import check_headroom
from k2ktui.text import counted, duration, first_names, join_first, safe_text
from k2ktui.watch.model import View

_STOPPED = frozenset(
    {
        PartitionState.LOST,
        PartitionState.RECREATED,
        PartitionState.GONE,
        PartitionState.REFUSED,
    }
)
_START = "Start the pipeline: k2ktui start -f FILE, or k2ktui jobs start -f FILE."
# A pipeline copies some partitions after others; these many samples show that one stands still.
_SAMPLES = 3


@check("D06", "lag", {DrillPhase.PREFLIGHT: ALL, DrillPhase.LAG: SWITCHOVERS}, blocks=SWITCHOVERS)
def check_lag(context: CheckContext) -> CheckFinding:
    """Pass if records and seconds not copied are within bounds on every partition."""
    rows = _statuses(context)
    if not rows:
        return could_not_check("no partition is selected")
    unknown = [row for row in rows if row.lag_records is None]
    known = [row for row in rows if row.lag_records is not None]
    behind = [row for row in known if row.lag_records]
    worst = max((row.lag_records or 0 for row in known), default=0)
    oldest = max((row.lag_s or 0.0 for row in known), default=0.0)
    figures = (
        f"{len(behind):,} of {counted(len(rows), 'partition')} behind; worst lag "
        f"{counted(worst, 'record')}, {duration(oldest)}"
    )
    limits = context.limits
    late = [
        row
        for row in known
        if (row.lag_records or 0) > limits.lag_records or (row.lag_s or 0.0) > limits.lag_s
    ]
    missing = f"; lag unknown: {_names(unknown)}" if unknown else ""
    if late:
        return fails(
            f"{figures}{missing}; too far behind: {_names(late)}",
            f"Wait until the pipeline has copied {_names(late)}; k2ktui watch -f FILE shows the "
            "lag.",
        )
    return could_not_check(figures + missing) if unknown else passes(figures)


@check(
    "D49",
    "held topics",
    {DrillPhase.PREFLIGHT: ALL, DrillPhase.LAG: SWITCHOVERS},
    blocks=SWITCHOVERS,
)
def check_held(context: CheckContext) -> CheckFinding:
    """Pass if no topic or partition of the pipeline is held.

    A switchover would wait for held partitions in ``drain`` for ever.
    """
    holds = NO_HOLDS if context.flow.is_mirror else context.state().holds
    if not holds:
        return passes("nothing is held")
    held = [row for row in _statuses(context) if holds.of(row.topic, row.partition)]
    behind = sum(row.lag_records or 0 for row in held)
    some = context.facts.topics
    in_force = [hold for hold in holds.all if not some or hold.topic in some]
    if not in_force:
        return passes("nothing of the chosen topics is held")
    shown = [f"{hold.key.name} {hold.describe()}" for hold in in_force]
    return fails(
        f"{counted(len(shown), 'hold')}, {counted(behind, 'record')} not copied: "
        f"{first_names(shown)}",
        "Release them: k2ktui release -f FILE TOPIC[:PARTITION]….",
    )


@check("D07", "heartbeat", {DrillPhase.PREFLIGHT: WITH_SOURCE}, blocks=SWITCHOVERS)
def check_heartbeat(context: CheckContext) -> CheckFinding:
    """Pass if the process that copies has sent a heartbeat recently."""
    limit = context.limits.heartbeat_s
    if context.flow.is_mirror:
        at, who = context.view().heartbeat_at, "MirrorMaker 2"
        if at is None:
            return could_not_check("MirrorMaker 2 has sent no heartbeat; it may be disabled")
    else:
        runners = context.state().runners
        who = f"pipeline {safe_text(context.config.name)}"
        if not runners:
            return fails("no run of the pipeline has ever sent a heartbeat", _START)
        at = max(runner.last_ms for runner in runners) / 1000
    age = max(0.0, time.time() - at)
    copied = max((row.copied_at or 0.0 for row in _statuses(context)), default=0.0)
    newest = f"; newest commit {duration(max(0.0, time.time() - copied))} ago" if copied else ""
    text = f"last heartbeat of {who} {duration(age)} ago{newest}"
    if age > limit:
        return fails(f"{text}; at most {limit:g} s are allowed", _START)
    return passes(text)


@check(
    "D08",
    "copying makes progress",
    {DrillPhase.PREFLIGHT: WITH_SOURCE, DrillPhase.LAG: SWITCHOVERS},
    blocks=SWITCHOVERS,
)
def check_progress(context: CheckContext) -> CheckFinding:
    """Pass if the pipeline runs, and a second reading shows that it copies or has nothing to
    copy.
    """
    if context.flow.pipeline is not None:
        now_ms = int(time.time() * 1000)
        alive = context.state().alive(now_ms)
        if not alive:
            return fails("no run of the pipeline is alive", _START)
        run = f"{counted(len(alive), 'run')} alive; "
    else:
        run = ""
    before, after = _samples(context)
    moved = sum((now.position or 0) - (old.position or 0) for old, now in _pairs(before, after))
    behind = [row for row in after if row.lag_records]
    text = f"{run}{counted(moved, 'record')} copied between two readings; {_behind(behind, after)}"
    if behind and not moved:
        return fails(
            text,
            f"See why {_names(behind)} is not copied in the log of the run: k2ktui jobs log, or "
            "screen Jobs.",
        )
    return passes(text)


@check(
    "D09",
    "stalled partitions",
    {DrillPhase.PREFLIGHT: WITH_SOURCE, DrillPhase.LAG: SWITCHOVERS},
    blocks=SWITCHOVERS,
)
def check_stalled(context: CheckContext) -> CheckFinding:
    """Pass if no partition stands still while it has records to copy."""
    before, after = _samples(context)
    stopped = [row for row in after if row.state in _STOPPED]
    still = find_still(before, after)
    if stopped or still:
        reasons = [f"{state}: {_names(rows)}" for state, rows in _by_state(stopped).items()]
        if still:
            reasons.append(f"not copied between {_SAMPLES} readings: {_names(still)}")
        return fails(
            f"{len(stopped) + len(still):,} of {counted(len(after), 'partition')} stalled; "
            + "; ".join(reasons),
            "k2ktui status -f FILE explains each partition.",
        )
    return passes(f"0 of {counted(len(after), 'partition')} stalled")


def find_still(
    before: Iterable[PartitionStatus], after: Iterable[PartitionStatus]
) -> list[PartitionStatus]:
    """Return the partitions that had records to copy in both readings and did not move."""
    return [
        now
        for old, now in _pairs(before, after)
        if old.lag_records and now.lag_records and old.position == now.position
    ]


@check(
    "D10",
    "open transactions on the source",
    {DrillPhase.PREFLIGHT: WITH_SOURCE, DrillPhase.FENCE_PRODUCERS: SWITCHOVERS},
    blocks=SWITCHOVERS,
)
def check_open_transactions(context: CheckContext) -> CheckFinding:
    """Pass if no transaction holds back records for longer than a bound; after the fence, none
    at all.
    """
    rows = _statuses(context)
    held = [row for row in rows if row.held_back]
    fenced = context.has_reached(DrillPhase.FENCE_PRODUCERS)
    limit = 0.0 if fenced else context.limits.open_transaction_s
    late = [row for row in held if fenced or (row.held_back_s or 0.0) >= limit]
    text = f"{len(held):,} of {counted(len(rows), 'partition')} with an open transaction"
    if late:
        oldest = max(late, key=lambda row: row.held_back_s or 0.0)
        detail = oldest.held.text() if oldest.held else ""
        return fails(
            f"{text}; {_names([oldest])}: {detail}",
            f"Stop or restart the producer of {_names([oldest])}; abort an abandoned transaction: "
            + abort_command(
                context.config.source, oldest.topic, oldest.partition, oldest.source_end
            ),
        )
    if any(row.held_back is None for row in rows):
        return could_not_check(f"{text}; the high watermark of some partitions is unknown")
    return passes(text)


@check("D11", "truncation and gaps", {DrillPhase.PREFLIGHT: WITH_SOURCE}, blocks=SWITCHOVERS)
def check_truncation(context: CheckContext) -> CheckFinding:
    """Pass if the source still has every record from the replicated position on."""
    rows = [row for row in context.view().partitions if row.status.position is not None]
    lost, cut = [], []
    for row in (row.status for row in rows):
        position = row.position or 0
        if row.source_start is not None and position < row.source_start:
            lost.append((row, row.source_start - position))
        elif row.source_end is not None and position > row.source_end:
            cut.append((row, position - row.source_end))
    gaps = sum(end - first for row in rows for first, end in row.gaps)
    recorded = f"; {counted(gaps, 'offset')} lost earlier and recorded as gaps" if gaps else ""
    if lost or cut:
        parts = []
        if lost:
            count = counted(sum(number for _, number in lost), "offset")
            parts.append(f"{count} deleted before they were copied: {_names(r for r, _ in lost)}")
        if cut:
            count = counted(sum(number for _, number in cut), "offset")
            parts.append(f"log ends {count} before the position: {_names(r for r, _ in cut)}")
        return fails(
            "; ".join(parts) + recorded,
            f"Decide how to continue with {_names(r for r, _ in [*lost, *cut])}: onSourceDataLoss: "
            "continue copies the rest and records the gap; k2ktui offsets set moves positions.",
        )
    unknown = [
        row.status for row in rows if None in (row.status.source_start, row.status.source_end)
    ]
    text = f"0 of {counted(len(rows), 'partition')} lost records{recorded}"
    return could_not_check(f"{text}; unknown: {_names(unknown)}") if unknown else passes(text)


@check("D12", "topic ids", {DrillPhase.PREFLIGHT: ALL}, blocks=MOVES)
def check_topic_ids(context: CheckContext) -> CheckFinding:
    """Pass if no topic was deleted and created again on either cluster since it was first
    copied; could-not-check where topics have no id (before Kafka 2.8).
    """
    snapshot = context.snapshot()
    copied = {at: r for at, r in snapshot.replicas.items() if at.topic not in snapshot.moved}
    unusable = {at: r.unusable_reason for at, r in copied.items() if r.unusable_reason}
    total = counted(len({at.topic for at in copied}), "topic")
    if unusable:
        reasons = list(dict.fromkeys(unusable.values()))
        return fails(
            f"{join_first(reasons, 3)}; {total} checked",
            "Clear the positions of those topics and copy them again: k2ktui offsets clear.",
        )
    if snapshot.source_down:
        return could_not_check(f"{total} unchanged on the target; {snapshot.source_down}")
    missing = sorted({row.topic for row in _statuses(context) if row.state is PartitionState.GONE})
    if missing:
        return fails(
            f"{counted(len(missing), 'topic')} no longer on the source: {first_names(missing)}",
            "If it was deleted on purpose, acknowledge it: k2ktui offsets acknowledge -f FILE "
            "TOPIC. If the pipeline's file lists it by name, remove it there, and clear its "
            "positions: k2ktui offsets clear.",
        )
    if without := sorted(_topics_without_id(snapshot)):
        return could_not_check(
            f"{counted(len(without), 'topic')} without an id: {first_names(without)}; brokers "
            "have none before Kafka 2.8. A topic that ends after what was copied may be another one"
        )
    return passes(f"{total} with the same id as when they were first copied")


def _topics_without_id(snapshot: Snapshot) -> set[str]:
    """Return the topics, of both clusters, that the position or the cluster knows without an id."""
    topics: set[str] = set()
    for at, replica in snapshot.replicas.items():
        position = replica.position
        if position is None:
            continue
        if not position.topic_id:
            topics.add(at.topic)
        for name, id_ in position.target_topics.items():
            if not (id_ and snapshot.target_ids.get(name)):
                topics.add(name)
    return topics


@check("D13", "retention headroom", {DrillPhase.PREFLIGHT: WITH_SOURCE}, blocks=SWITCHOVERS)
def check_retention_headroom(context: CheckContext) -> CheckFinding:
    """Pass if the source does not soon delete a record that is not copied yet."""
    snapshot = context.snapshot()
    copied = {at: r for at, r in snapshot.replicas.items() if at.topic not in snapshot.moved}
    positions = {at: r.position for at, r in copied.items() if r.position}
    source = context.cluster("source")

    def read() -> CheckFinding:
        topics = describe_readable(source, {at.topic for at in positions}).values()
        return join_preflight([check_headroom(context.config, source, topics, positions)])

    return context.read("the retention of the source's topics", read)


def _statuses(context: CheckContext) -> list[PartitionStatus]:
    """Return the partitions that are copied; topics that drills moved before are left out."""
    return [row.status for row in context.view().partitions if not row.status.moved_by]


def _samples(context: CheckContext) -> tuple[list[PartitionStatus], list[PartitionStatus]]:
    """Return the first reading, and the last one: earlier if nothing stands still any more."""
    before = _statuses(context)
    after = before

    def moves(view: View) -> bool:
        return not find_still(before, [row.status for row in view.partitions])

    if any(row.lag_records for row in before):
        for number in range(1, _SAMPLES):
            view = context.later_view(number, moves)
            after = [row.status for row in view.partitions]
            if moves(view):
                break
    return before, after


def _pairs(
    before: Iterable[PartitionStatus], after: Iterable[PartitionStatus]
) -> list[tuple[PartitionStatus, PartitionStatus]]:
    known = {(row.topic, row.partition): row for row in before}
    return [
        (known[row.topic, row.partition], row)
        for row in after
        if (row.topic, row.partition) in known
    ]


def _by_state(rows: Iterable[PartitionStatus]) -> dict[PartitionState, list[PartitionStatus]]:
    by_state: dict[PartitionState, list[PartitionStatus]] = {}
    for row in rows:
        by_state.setdefault(row.state, []).append(row)
    return by_state


def _behind(behind: list[PartitionStatus], rows: list[PartitionStatus]) -> str:
    return f"{len(behind):,} of {counted(len(rows), 'partition')} behind"


def _names(rows: Iterable[PartitionStatus]) -> str:
    return first_names(f"{row.topic}-{row.partition}" for row in rows)
