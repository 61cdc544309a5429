"""Which findings are problems and how severe: one rule for screens, logs and exit codes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from k2ktui.engine.drill.model import find_last_rehearsal
from k2ktui.engine.moves.journal import RunKind, Runner, RunnerState
from k2ktui.engine.moves.ratings import GroupSummary, Rating
from k2ktui.engine.severity import Severity, SeverityLabel
from k2ktui.engine.status import PartitionState
from k2ktui.text import counted, duration
from k2ktui.watch.model import PartitionRow, PartName, View


@dataclass(frozen=True, slots=True)
class Problem:
    """A finding that needs attention.

    Attributes:
        kind: ``cluster``, ``partition``, ``copy``, ``group``, ``groups``, ``job``, ``mirror`` or
            ``objective``: where to look at it.
        subject: what it concerns: a side, ``topic-partition``, a group.
        key: the subject for programs: part name, ``(topic, partition)``, group.
        message: what is wrong, with numbers.
    """

    severity: Severity
    kind: str
    subject: str
    key: object
    message: str


# Suffix of a problem that is based on an old reading.
OLD = " (according to the last reading, which is old)"
_PARTITION = {
    PartitionState.CAUGHT_UP: Severity.OK,
    PartitionState.BEHIND: Severity.INFO,
    PartitionState.NEW: Severity.WARN,
    PartitionState.UNKNOWN: Severity.UNKNOWN,
    PartitionState.LOST: Severity.BAD,
    PartitionState.RECREATED: Severity.BAD,
    PartitionState.GONE: Severity.BAD,
    PartitionState.REFUSED: Severity.BAD,
    PartitionState.HELD_BACK: Severity.WARN,
    PartitionState.FENCED: Severity.INFO,
    PartitionState.HELD: Severity.INFO,
    PartitionState.MOVED: Severity.INFO,
}


def judge_partition(row: PartitionRow) -> SeverityLabel:
    """Rate a partition by its state, and by records behind an open transaction."""
    verdict = SeverityLabel(_PARTITION[row.status.state], str(row.status.state))
    held = None if row.status.moved_by else row.status.held
    if held is not None and held.too_long and verdict.severity < Severity.WARN:
        return SeverityLabel(Severity.WARN, verdict.word)
    return verdict


# By default, MirrorMaker 2 sends a heartbeat every second.
_BEAT_S = 30.0
_STUCK_MS = 30_000
_RUNNER = {
    RunnerState.RUNNING: Severity.OK,
    RunnerState.STANDBY: Severity.INFO,
    RunnerState.STARTING: Severity.INFO,
    RunnerState.STOPPING: Severity.INFO,
    RunnerState.STOPPED: Severity.INFO,
    RunnerState.SILENT: Severity.BAD,
}


def judge_runner(runner: Runner, now: float) -> SeverityLabel:
    """Rate a runner by its last heartbeat; ``now`` is epoch seconds."""
    standing = runner.standing(int(now * 1000))
    return SeverityLabel(_RUNNER[standing], str(standing))


def state_time(view: View, now: float) -> float:
    """Return the reference time for heartbeats: an unread heartbeat does not count as silence."""
    state = view.part(PartName.STATE)
    return state.taken_at if state.stale and state.taken_at is not None else now


def find_problems(view: View, now: float) -> list[Problem]:
    """Return the problems, worst first; at most one per subject."""
    problems = [
        *_of_parts(view),
        *_of_jobs(view, now),
        *_of_partitions(view),
        *_of_copies(view),
        *_of_groups(view),
        *_of_objectives(view),
    ]
    return sorted(problems, key=lambda problem: -problem.severity)


def _of_parts(view: View) -> list[Problem]:
    problems = []
    for name in PartName:
        part = view.part(name)
        if part.error and name is PartName.COMPARISON:
            text = f"MirrorMaker 2 cannot be compared: {part.error}"
            problems.append(Problem(Severity.WARN, "groups", "MirrorMaker 2", str(name), text))
        elif part.error:
            problems.append(Problem(Severity.BAD, "cluster", _subject(name), str(name), part.error))
        elif part.stale and not part.is_paused and name is not PartName.COMPARISON:
            text = f"no response for {duration(part.pending_s)}; the data shown are old"
            problems.append(Problem(Severity.UNKNOWN, "cluster", _subject(name), str(name), text))
    return problems


def _subject(name: PartName) -> str:
    return f"{name} cluster" if name in (PartName.SOURCE, PartName.TARGET) else str(name)


def judge_mirror_flow(view: View, now: float) -> SeverityLabel:
    """Rate a MirrorMaker 2 flow by its heartbeat, which its configuration can disable."""
    if view.heartbeat_at is None:
        return SeverityLabel(Severity.UNKNOWN, "no heartbeat")
    alive = now - view.heartbeat_at <= _BEAT_S
    return (
        SeverityLabel(Severity.OK, "running") if alive else SeverityLabel(Severity.WARN, "silent")
    )


def _of_mirror(view: View, now: float) -> list[Problem]:
    verdict = judge_mirror_flow(view, now)
    if view.heartbeat_at is None or verdict.severity is Severity.OK:
        return []
    if view.part(PartName.TARGET).stale:
        return []  # the cluster is the problem
    text = (
        f"MirrorMaker 2 has written no heartbeat for {duration(now - view.heartbeat_at)}: it has "
        "stopped or hangs"
    )
    return [Problem(verdict.severity, "mirror", view.pair.pipeline, "", text)]


def _of_jobs(view: View, now: float) -> list[Problem]:
    if view.pair.mirror:
        return _of_mirror(view, now)
    if view.part(PartName.STATE).taken_at is None or view.part(PartName.STATE).stale:
        return []
    copying = [runner for runner in view.runners if runner.kind is RunKind.COPY]
    syncing = [runner for runner in view.runners if runner.kind is RunKind.SYNC]
    of_copies, of_sync = _of_runs(copying, now), _of_runs(syncing, now, "k2ktui sync: ")
    if view.pair.equal_offsets:
        return of_sync
    if view.pair_state.fenced_by or view.is_left:  # nothing is to be copied
        return [*(of_copies if any(runner.last_error for runner in copying) else []), *of_sync]
    # The mapping application copies nothing: its run is the one that counts.
    alive = any(runner.alive(int(now * 1000)) for runner in copying or syncing)
    if not (of_copies or alive) and (copying or not of_sync):
        of_copies = [Problem(Severity.WARN, "job", view.pair.pipeline, "", "no job is running")]
    return [*of_copies, *of_sync]


def _of_runs(runners: Sequence[Runner], now: float, what: str = "") -> list[Problem]:
    """Return the errors of live runs; without one, that the last one is silent."""
    alive = [runner for runner in runners if runner.alive(int(now * 1000))]
    if alive:
        return [
            Problem(
                judge_error(runner), "job", runner.host, runner.runner, what + runner.last_error
            )
            for runner in alive
            if runner.last_error
        ]
    if runners and judge_runner(runners[0], now).severity is Severity.BAD:
        runner = runners[0]
        text = (
            f"{what}no heartbeat for {duration(now - runner.last_ms / 1000)}: it has stopped or "
            "cannot reach the target"
        )
        return [Problem(Severity.BAD, "job", runner.host, runner.runner, text)]
    return []


def judge_error(runner: Runner) -> Severity:
    """Rate the error of a live run: bad if it has kept records from being copied for a while."""
    lasted_ms = runner.at_ms - runner.error_ms if runner.error_ms else 0
    return Severity.BAD if lasted_ms >= _STUCK_MS else Severity.WARN


def _of_partitions(view: View) -> list[Problem]:
    problems = []
    old = OLD if view.copy_stale else ""
    for row in view.partitions:
        if row.status.state is PartitionState.UNKNOWN and not _has_answered(view):
            continue  # the cluster is the problem
        verdict = judge_partition(row)
        if verdict.severity >= Severity.WARN:
            topic, partition = row.key
            what = f"{verdict.word}: {row.why}" if row.why else verdict.word
            subject = f"{topic}-{partition}"
            problems.append(Problem(verdict.severity, "partition", subject, row.key, what + old))
    return problems


def _of_copies(view: View) -> list[Problem]:
    """Return the target partitions with records of writers that are not expected there."""
    if view.other_writers is None or view.other_writers.expected:
        return []
    old = OLD if view.stale(PartName.TARGET) else ""
    problems = [
        Problem(Severity.BAD, "copy", one.name, (one.topic, one.partition), one.describe() + old)
        for one in view.other_writers.strange
    ]
    for text in view.other_writers.list_unread():
        problems.append(Problem(Severity.WARN, "copy", "copies", text, text + old))
    return problems


def _of_objectives(view: View) -> list[Problem]:
    """Return the objectives that a failover now, or the last rehearsal, misses."""
    failover, problems = view.failover, []
    if missed := view.missed_rpo:
        oldest = "" if failover.rpo_s is None else f", the oldest {duration(failover.rpo_s)} old"
        text = f"{', '.join(missed)}: {failover.rpo_records or 0:,} not copied{oldest}"
        old = OLD if view.copy_stale else ""
        problems.append(Problem(Severity.WARN, "objective", "RPO", "rpo", text + old))
    last = find_last_rehearsal(view.drills)
    if last is not None and (missed := view.missed_rto):
        took = duration(last.tool_ms / 1000, tenths=True)
        text = f"{', '.join(missed)}: the last rehearsal took {took} of the tool"
        problems.append(Problem(Severity.WARN, "objective", "RTO", "rto", text))
    return problems


def _has_answered(view: View) -> bool:
    clusters = (PartName.SOURCE, PartName.TARGET)
    return all(view.part(name).taken_at is not None for name in clusters)


def _of_groups(view: View) -> list[Problem]:
    problems = []
    old = OLD if view.groups_stale else ""
    waiting, gone = view.waiting, view.gone_unread
    # Of the same severity, those that skip or read again most come first, as in Groups.
    for group in sorted(view.summaries, key=lambda row: (-row.skips, -row.rereads, row.group)):
        rating = group.rating
        unmapped = group.unmapped - group.checking_unmapped
        if rating is Rating.UNMAPPED and unmapped <= waiting[group.group]:
            continue  # the partitions are the problem: nothing of them is copied yet
        if rating is Rating.BOTH_ACTIVE and view.pair.bidirectional:
            continue  # applications that run on both clusters are what such a pair is for
        if rating.severity >= Severity.WARN:
            what = describe_group(group, gone.get(group.group)) + old
            problems.append(Problem(rating.severity, "group", group.group, group.group, what))
    return problems


def describe_group(group: GroupSummary, gone: int | None) -> str:
    """Return what is wrong with a group, with numbers.

    Args:
        group: its sums.
        gone: how many of the records that a move skips the source has deleted, too; None if that
            is not known. See :attr:`View.gone_unread`.
    """
    error = group.source.error or group.target.error
    if error:
        return error
    parts = []
    if unmapped := group.unmapped - group.checking_unmapped:
        parts.append(f"no mapping for {unmapped:,} of {counted(group.partitions, 'partition')}")
    if group.skips:
        parts.append(f"on the target it would skip {counted(group.skips, 'record')}")
    if group.moved_skips:
        parts.append(_describe_deleted(group.moved_skips, gone))
    if group.rereads:
        parts.append(f"on the target it would re-read {counted(group.rereads, 'record')}")
    if group.rating is Rating.BOTH_ACTIVE:
        parts.append(
            "active on both clusters: each side reads every record, and a move commits nothing "
            "until the consumers on the target are stopped"
        )
    if group.unknown:
        where = counted(group.unknown, "partition")
        parts.append(
            f"the number of records between its commit and its translation is unknown for {where}"
        )
    return "; ".join(parts) or group.rating.word


def _describe_deleted(skipped: int, gone: int | None) -> str:
    """Say what a move skips, and whether the group can still read it on the source."""
    what = f"a move skips {counted(skipped, 'unread record')} that the target has deleted; "
    if gone is None:
        return what + "whether the source still has them is not known"
    if gone >= skipped:
        return what + "the source has deleted them, too: they are gone on both clusters"
    if not gone:
        return what + "the source still has them: the group can read them there first"
    return what + (
        f"the source still has at least {skipped - gone:,} of them, which the group can read there "
        "first; the others are gone on both clusters"
    )
