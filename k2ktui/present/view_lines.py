"""A view as lines of text, for screen readers, logs and simple terminals."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from k2ktui.engine.moves.journal import RunKind, Runner, RunnerState
from k2ktui.engine.moves.ratings import NOTHING, GroupSummary, RereadEstimate
from k2ktui.engine.trend import Direction
from k2ktui.present.failover import failover_lines, held_line, objectives_line
from k2ktui.present.formatting import duration, moment, number, seconds, share
from k2ktui.present.groups import mappings_lines, rereads_text
from k2ktui.present.pair_state import moved_lines, pair_text
from k2ktui.present.runs import describe_others
from k2ktui.text import counted, safe_message, safe_text
from k2ktui.watch.model import PartName, View
from k2ktui.watch.severity import find_problems, judge_mirror_flow, judge_runner, state_time

UNKNOWN = "unknown"
_PROBLEMS = 20
_BEHIND = 3
_SIDES = (PartName.SOURCE, PartName.TARGET)


def view_lines(view: View, now: float) -> Iterator[str]:
    """Yield the view as lines; ``now`` is the reference time for ages."""
    yield f"{moment(view.taken_at)} pipeline {safe_text(view.pair.pipeline)}: {pair_text(view)}"
    yield f"  lag {_lag(view)}{_old(view, now, *_SIDES)}"
    if held := [row.status.held_back for row in view.partitions if row.status.held_back]:
        yield (
            f"  held back {counted(sum(held), 'record')} by open transactions on "
            f"{counted(len(held), 'partition')} of the source{_old(view, now, PartName.SOURCE)}"
        )
    if view.totals.held_partitions:
        yield f"  {held_line(view)}{_old(view, now, PartName.STATE, *_SIDES)}"
    for line in moved_lines(view):
        yield f"  {line}{_old(view, now, PartName.TARGET)}"
    yield f"  throughput {_number(view.totals.rate, 'records/s')}"
    yield (
        f"  coverage {_share(view.totals.coverage)} of retained offsets, "
        f"{_share(view.totals.commit_coverage)} of group positions"
        f"{_old(view, now, *_SIDES, PartName.GROUPS)}"
    )
    states = _counts(view.totals.states)
    yield f"  partitions {view.totals.partitions:,}: {states}{_old(view, now, *_SIDES)}"
    yield from _group_lines(view, now)
    for line in (*mappings_lines(view), *failover_lines(view, now)):
        yield f"  {line if line.startswith('RPO') else line[0].lower() + line[1:]}"
    if view.objectives and not view.is_left:
        yield f"  {objectives_line(view)}"
    if view.last_comparison is not None:
        yield f"  {view.last_comparison.describe()}{_old(view, now, PartName.STATE)}"
    yield from _compared(view, now)
    yield f"  {_jobs(view, now)}{_old(view, now, PartName.STATE)}"
    for side, cluster, given in (
        (PartName.SOURCE, view.source, view.pair.source),
        (PartName.TARGET, view.target, view.pair.target),
    ):
        version = f", Kafka {safe_text(cluster.version)}" if cluster.version else ""
        name = f"{safe_text(given)}, " if given else ""
        name += safe_text(cluster.cluster_id or UNKNOWN)
        yield f"  {side} cluster {name}{version}: {_age(view, side, now)}"
    if view.source_down:
        yield f"  groups of the source are from a copy on the target: {view.source_down}"
    for note in view.notes:
        yield f"  note: {safe_message(note)}"
    problems = find_problems(view, now)
    for problem in problems[:_PROBLEMS]:
        name = problem.severity.name.lower()
        yield f"  problem ({name}) {problem.kind} {safe_text(problem.subject)}: " + safe_message(
            problem.message
        )
    if len(problems) > _PROBLEMS:
        yield f"  and {len(problems) - _PROBLEMS:,} more problems"


def _old(view: View, now: float, *names: PartName) -> str:
    """Return the age of a value as text if it depends on a stale part, else ""."""
    ages = [view.age(name, now) for name in names if view.part(name).stale]
    known = [age for age in ages if age is not None]
    return f" (old: read {duration(max(known))} ago)" if known else ""


def _old_groups(view: View, now: float) -> str:
    if view.source_down and view.commits_at is not None and not view.stale(PartName.GROUPS):
        return f" (old: the source's commits are {duration(now - view.commits_at)} old)"
    return _old(view, now, PartName.GROUPS)


def _lag(view: View) -> str:
    totals = view.totals
    if view.failover.failed_over and totals.lag_records is None:
        return "none that counts: the workload is on the target"
    if view.is_left:
        return "none that counts: every topic was moved to the target"
    text = _number(totals.lag_records, "records")
    if totals.arrived_records:
        text += f", {totals.arrived_records:,} of them from the target"
    if totals.lag_seconds is not None:
        text += f", the oldest {seconds(totals.lag_seconds)} old"
    if totals.direction is not Direction.UNKNOWN:
        text += f", {totals.direction}"
    if totals.lag_records and totals.eta_s:
        text += f", caught up in {duration(totals.eta_s)} at this pace"
    if totals.unknown and totals.partitions:
        text += f", unknown for {counted(totals.unknown, 'partition')}"
    return text


def _group_lines(view: View, now: float) -> Iterator[str]:
    """Yield what is said of the groups: their sums, and those that are furthest behind."""
    old = _old_groups(view, now)
    yield f"  {_groups(view)}{old}"
    groups = sorted((g for g in view.summaries if g.lag_s), key=lambda g: -(g.lag_s or 0.0))
    if groups:
        yield f"  furthest behind: {'; '.join(map(_lag_of, groups[:_BEHIND]))}{old}"


def _groups(view: View) -> str:
    totals = view.totals
    if totals.groups is None:
        return f"groups {UNKNOWN}"
    text = f"groups {totals.groups:,}: {_counts(totals.bases)}; {totals.diverging:,} diverge"
    now = RereadEstimate(totals.rereads, totals.skips)
    after = RereadEstimate(totals.moved_rereads, totals.moved_skips)
    return f"{text}; {rereads_text(now, after)}"


def _lag_of(group: GroupSummary) -> str:
    at_least = "at least " if group.untimed else ""
    text = f"{safe_text(group.group)} {at_least}{seconds(group.lag_s)}"
    if group.lag is not None:
        text += f", {counted(group.lag, 'record')}"
    if group.direction is not Direction.UNKNOWN:
        text += f", {group.direction}"
    if group.lag and group.eta_s:
        text += f", caught up in {duration(group.eta_s)} at this pace"
    return text


def _compared(view: View, now: float) -> Iterator[str]:
    """Yield each group's re-reads with k2ktui and with MirrorMaker 2."""
    if not view.compares:
        return
    if view.audit is None:
        yield f"  re-reads by MirrorMaker 2 {UNKNOWN}"
        return
    by_k2ktui, by_mirror_maker = view.again
    read = duration(now - view.audit.taken_at)
    yield (
        f"  re-reads if groups continued on the target now: k2ktui {reread_text(by_k2ktui)}, "
        f"MirrorMaker 2 {safe_text(view.audit.flow)} {reread_text(by_mirror_maker)}; "
        f"read {read} ago"
    )
    most = sorted(view.summaries, key=lambda g: -(g.theirs or NOTHING).records)
    for group in most[:_PROBLEMS]:
        other = reread_text(group.theirs) if group.theirs else UNKNOWN
        ours_text = reread_text(group.ours)
        yield f"    {safe_text(group.group)}: k2ktui {ours_text}, MirrorMaker 2 {other}"
    if len(most) > _PROBLEMS:
        yield f"    and {len(most) - _PROBLEMS:,} more groups"


def reread_text(count: RereadEstimate) -> str:
    """Return the re-read and skipped records, and the number of undetermined partitions."""
    skipped = f", {count.skipped:,} skipped" if count.skipped else ""
    parts = [f"{count.without:,} not translated"] if count.without else []
    parts += [f"{count.unknown:,} unknown"] if count.unknown else []
    more = f" (partitions: {', '.join(parts)})" if parts else ""
    return f"{count.records:,}{skipped}{more}"


def _jobs(view: View, now: float) -> str:
    if view.pair.mirror:
        return f"job none: MirrorMaker 2 copies, {judge_mirror_flow(view, now).word}"
    if view.part(PartName.STATE).taken_at is None:
        return f"job {UNKNOWN}"
    firsts = {kind: next((r for r in view.runners if r.kind is kind), None) for kind in RunKind}
    copying, syncing = firsts[RunKind.COPY], firsts[RunKind.SYNC]
    parts = ["job none has run yet"]
    if view.pair.equal_offsets:
        parts = ["job none: another program copies"]
    if copying is not None:
        others = describe_others_of(view, now, RunKind.COPY)
        slots = counted(copying.slots, "slot") + (f", {others}" if others else "")
        laps = f"lap {copying.lap:,}, {slots}, "
        parts = [f"job {_standing(view, copying, now, laps)}"]
    if syncing is not None:
        parts.append(f"sync {_standing(view, syncing, now)}")
    return "; ".join(parts)


def describe_others_of(view: View, now: float, kind: RunKind) -> str:
    """Return how many runs of a kind are alive at once; "" for one that copies."""
    at = int(state_time(view, now) * 1000)
    alive = [runner for runner in view.runners if runner.kind is kind and runner.alive(at)]
    copying = [runner.generation for runner in alive if runner.state is not RunnerState.STANDBY]
    return describe_others(copying, len(alive) - len(copying))


def _standing(view: View, runner: Runner, now: float, laps: str = "") -> str:
    standing = judge_runner(runner, state_time(view, now)).word
    seen = max(0.0, now - runner.last_ms / 1000)
    return (
        f"{standing} on {safe_text(runner.host)} as {safe_text(runner.user)}, {laps}"
        f"heartbeat {duration(seen)} ago"
    )


def _age(view: View, name: PartName, now: float) -> str:
    part, age = view.part(name), view.age(name, now)
    text = "never read" if age is None else f"read {duration(age)} ago"
    if part.error:
        return f"{text}, stale: {safe_message(part.error)}"
    return f"{text}, stale: no response for {duration(part.pending_s)}" if part.stale else text


def _number(value: float | None, unit: str) -> str:
    return UNKNOWN if value is None else f"{number(value)} {unit}"


def _share(value: float | None) -> str:
    return UNKNOWN if value is None else share(value)


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {name}" for name, count in counts.items()) or "none"
