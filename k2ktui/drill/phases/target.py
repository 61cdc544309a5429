"""Phases about the replicator and the clients on the target."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from time import monotonic, time

from k2ktui.drill.changes.handler import read_change
from k2ktui.drill.changes.jobs import find_own_job, is_on_this_host
from k2ktui.drill.checks.findings import find_behind
from k2ktui.drill.copier import watch_copier
from k2ktui.drill.logs import name_partitions
from k2ktui.drill.phases.client_reads import find_reads
from k2ktui.drill.phases.group_protocols import ask_about_groups
from k2ktui.drill.phases.leave_topics import find_returned
from k2ktui.drill.phases.moves import find_unapplied, make_plan
from k2ktui.drill.phases.redirect import describe_redirect, find_held_name, find_unable
from k2ktui.drill.phases.rights import create_rights, find_missing_rights
from k2ktui.drill.phases.source import find_written
from k2ktui.drill.session import PhaseResult, Session, failed
from k2ktui.engine.drill import changes as drill_changes
from k2ktui.engine.drill.changes import dump_fenced, dump_host
from k2ktui.engine.drill.checks import DrillPhase
from k2ktui.engine.drill.clients import Clients, describe_come, find_missing, see_on_target
from k2ktui.engine.drill.model import ChangeKind, ChangeStatus, Drill, GroupResult
from k2ktui.engine.drill.steps import (
    describe_phase_of,
    find_change,
    list_remarks,
    put_change,
)
from k2ktui.engine.drill.tail import PartitionEnd
from k2ktui.engine.moves.groups import GroupView
from k2ktui.engine.moves.plan import PlanRow
from k2ktui.errors import ConnectionFailed, TimedOut
from k2ktui.jobs.local_jobs import this_host
from k2ktui.jobs.manager import StopMode, stop_job
from k2ktui.kafka.properties.translation import wire
from k2ktui.replication.ownership.pipeline import make_ownership
from k2ktui.sync.cluster_readers import TargetClusterReader
from k2ktui.sync.flow import CopierObservation
from k2ktui.sync.store import StateStore
from k2ktui.text import counted, first_lines, safe_text

# A drill is one record: of more partitions, the ends are not kept, and D47 could not be checked.
_MOST_ENDS = 5_000
# A fenced run finds out with its next transaction or renewal.
_RUNS_END_S = 30.0
# A group whose activity is unknown is waited for so long after the last one that came.
_NO_MORE_S = 15.0


def run_fence_replicator(session: Session) -> PhaseResult:
    """Stop the pipeline's job on this host, and raise the epochs of the driver and of all slots."""
    pipeline = session.flow.pipeline
    if pipeline is None:
        return _await_stopped_copier(session)
    if not pipeline.features.exactly_once:
        return failed(
            "features.exactlyOnce is disabled: a running driver cannot be fenced",
            "Stop the pipeline on every host, and enable features.exactlyOnce.",
        )
    _stop_own_job(session)
    topic = session.target.find(pipeline.coordination.commit.topic)
    if topic is None:
        return failed("the commit topic does not exist", "Check coordination.commit.topic.")
    change = find_change(session.drill, ChangeKind.EPOCHS)
    if change is None:
        change = session.intend_new(
            DrillPhase.FENCE_REPLICATOR,
            ChangeKind.EPOCHS,
            "raise the producer epochs of the driver and of all slots, and refuse new starts",
        )
    # Also if an earlier process did it: a driver may have started since.
    options = wire(pipeline.target, "producer")
    # The run record names the drill, too: the state topic may be lost.
    fence = session.drill.id
    ownership = make_ownership(pipeline, session.target, options, topic.partitions, fenced_by=fence)
    try:
        ownership.take_over(0)
        term = ownership.run.term
        # A run that shares the pipeline bumps the epochs of its slots before it finds that it may
        # not copy: those that D42 compares are read when all have ended.
        _await_fenced_runs(session)
        made = replace(change, after=dump_fenced(term, ownership.read_states()))
    finally:
        # Nothing was written with these epochs: they stay as they were read.
        ownership.close(fence=False)
    if change.status is ChangeStatus.MADE:
        session.change_drill(lambda drill: put_change(drill, made))
    else:
        session.settle(made, ChangeStatus.MADE)
    return PhaseResult(f"no driver of an earlier term than {term} can write any more")


def _await_fenced_runs(session: Session) -> None:
    """Wait until fenced runs have ended, on any host; D42 reports those that have not."""
    until = monotonic() + min(_RUNS_END_S, session.drill.options.wait_s)
    store = StateStore(session.config, session.target)

    def look() -> tuple[bool, str]:
        alive = store.read_settled().alive(int(time() * 1000))
        hosts = ", ".join(dict.fromkeys(safe_text(run.host, 60) for run in alive))
        ended = not alive or monotonic() > until
        return ended, f"{counted(len(alive), 'run')} to end on {hosts}"

    try:
        session.wait(DrillPhase.FENCE_REPLICATOR, look, hint="Stop these runs: k2ktui jobs stop.")
    finally:
        store.close()


def _await_stopped_copier(session: Session) -> PhaseResult:
    """Wait until the operator has stopped the other program that copies, and prove it."""
    watched: tuple[CopierObservation, int] | None = None

    def look() -> tuple[bool, str]:
        nonlocal watched
        watched = watch_copier(session.flow, session.source, session.target)
        if watched is None:
            return True, "k2ktui does not copy here"
        seen, _ = watched
        if seen.signs:
            return False, f"{seen.name} still copies: {'; '.join(seen.signs)}. {seen.how_to_stop}"
        return True, seen.evidence

    hint = "Stop the program that copies from the source to the target."
    evidence = session.wait(DrillPhase.FENCE_REPLICATOR, look, hint=hint)
    if watched is None:
        finding = "Stop the program that copies yourself, before the target is opened."
        return PhaseResult(evidence, (finding,))
    seen, copies = watched
    frozen = f"nothing was written to {counted(copies, 'target partition')}"
    if seen.unproven:
        text = f"{frozen}, but it is not proven that {seen.name} is stopped"
        return PhaseResult(text, (f"{seen.unproven}. {seen.how_to_stop}",))
    return PhaseResult(f"{seen.name} is stopped: {evidence}; {frozen}")


def read_fenced(drill: Drill) -> dict[str, tuple[int, int]] | None:
    """Return producer id and epoch by transactional id, as a drill left them; None before it."""
    change = find_change(drill, ChangeKind.EPOCHS)
    if change is None or change.status is not ChangeStatus.MADE:
        return None
    return read_change(drill, change, drill_changes.read_fenced)


def _stop_own_job(session: Session) -> None:
    change = find_change(session.drill, ChangeKind.JOB)
    job = find_own_job(session)
    if job is None or not job.alive:
        intended = change is not None and change.status is ChangeStatus.INTENDED
        if change is not None and intended and is_on_this_host(session, change):
            session.settle(change, ChangeStatus.MADE)  # by an earlier process, which was ended then
        return
    if change is None:
        what = f"stop the job {safe_text(job.place.id)} on {safe_text(this_host())}"
        change = session.intend_new(
            DrillPhase.FENCE_REPLICATOR, ChangeKind.JOB, what, dump_host(this_host())
        )
    now = stop_job(job, session.may)
    if now.alive:
        stop_job(job, session.may, StopMode.KILL)
    session.settle(change, ChangeStatus.MADE)


def run_open_target(session: Session) -> PhaseResult:
    """Prove once more that nothing has moved, and declare the target open."""
    failed_rights: tuple[str, ...] = ()
    if session.drill.figures.opened_ms is None:
        moved = _find_moved(session)
        logs = session.snapshot.logs if session.snapshot is not None else {}
        ends = tuple(PartitionEnd(*at, log.end) for at, log in sorted(logs.items()))
        if moved:
            return failed("the target cannot be opened yet", *moved)
        effect = describe_phase_of(session.drill, DrillPhase.OPEN_TARGET)
        rights = find_missing_rights(session)
        lines = [effect, *describe_redirect(session), *rights.lines, *list_remarks(session.drill)]
        session.confirm(DrillPhase.OPEN_TARGET, "\n".join(lines))
        if held := find_held_name(session):  # a member that shares the name has failed meanwhile
            return failed("the target cannot be opened yet", *held)
        failed_rights = create_rights(session, rights.acls)
        # Once it is open, the name may move: another member may move it, or a person by hand.
        if session.drill.redirects and (unready := ask_about_groups(session)):
            return unready
        now = int(time() * 1000)
        kept = ends if len(ends) <= _MOST_ENDS else ()
        session.change_drill(
            lambda drill: replace(
                drill, figures=replace(drill.figures, opened_ms=now), opened_ends=kept
            )
        )
        session.write("the target is open", phase=str(DrillPhase.OPEN_TARGET))
    text = "the target is open: start your producers and consumers there"
    if session.drill.redirects:
        text = "the target is open: the clients' name moves next"
    return PhaseResult(text, failed_rights)


def _find_moved(session: Session) -> list[str]:
    """Return what is no longer as the phases before left it."""
    findings = find_unapplied(make_plan(session)) + find_unable(session)
    seen = session.flow.observe_copier(session.target)
    if seen is not None and seen.signs:
        findings.append(f"{seen.name} copies again: {'; '.join(seen.signs)}. {seen.how_to_stop}")
    if session.drill.kind.is_switchover:
        logs = session.open_logs()
        try:
            if session.drill.topics:
                findings += find_returned(session)
            written = find_written(session, logs.read())
        except (ConnectionFailed, TimedOut) as error:
            return [
                *findings,
                f"{error.message}: the source is lost. Resume the drill with --as disaster.",
            ]
        finally:
            logs.close()
        if written:
            findings.append(f"{written}. Abort the drill, or resume it with --from-fence.")
    return findings


def run_watch_clients(session: Session) -> PhaseResult:
    """Watch the groups start on the target; name those that do not within the bound."""
    plan = make_plan(session)
    applied: dict[str, list[PlanRow]] = defaultdict(list)
    for row in plan.rows:
        if row.proposed is not None:
            applied[row.group].append(row)
    if session.applied is None:
        # Another process applied them; groups that are active already are not planned again.
        session.applied = {
            (row.group, row.topic, row.partition): row.proposed
            for rows in applied.values()
            for row in rows
            if row.proposed is not None
        }
    groups = session.drill.groups
    expected = {group.group for group in groups if group.was_active} & applied.keys()
    # Without the source it is not known which groups were active: those that come are watched.
    unknown = {group.group for group in groups if group.was_active is None} & applied.keys()
    newest, changed_at = frozenset[str](), monotonic()
    # The clients that have not come, by group; the fewest, and since when there are so few.
    missing: dict[str, Clients] = {}
    left, left_at = -1, monotonic()
    reader = TargetClusterReader(session.config)
    watched: dict[str, GroupResult] = {}

    def look() -> tuple[bool, str]:
        nonlocal watched, newest, changed_at, left, left_at
        watched = _watch(session, reader, applied, missing)
        seen = frozenset(name for name in unknown if watched[name].joined)
        if seen != newest:
            newest, changed_at = seen, monotonic()
        late = [name for name in sorted(expected | seen) if not _is_started(watched[name])]
        awaits = unknown and (not seen or monotonic() - changed_at < _NO_MORE_S)
        now = sum(map(len, missing.values()))
        if left < 0 or now < left:
            left, left_at = now, monotonic()
        # The others of a group follow its first client soon, or not at all.
        follows = bool(now) and monotonic() - left_at < _NO_MORE_S
        text = _describe_clients(watched, expected, unknown, missing)
        return not (late or awaits or follows), text

    try:
        live = session.wait(
            DrillPhase.WATCH_CLIENTS, look, hint="", timeout=session.drill.options.watch_s
        )
    except TimedOut:
        live = _describe_clients(watched, expected, unknown, missing)
    finally:
        reader.close()
    session.reads = find_reads(session, plan)
    findings = [
        f"{safe_text(name)}: {watched[name].note}"
        for name in sorted(watched)
        if watched[name].note and (name in expected or watched[name].joined)
    ]
    return PhaseResult(live, tuple(first_lines(findings, 50)))


def _describe_clients(
    watched: Mapping[str, GroupResult],
    expected: Collection[str],
    unknown: Collection[str],
    missing: Mapping[str, Clients],
) -> str:
    """Return how many groups read on the target, and which clients have come, in one line."""
    names = [*expected, *unknown]
    started = [name for name in names if _is_started(watched[name])]
    text = f"{len(started):,} of {counted(len(names), 'group')} read on the target"
    come = describe_come({name: watched[name].clients for name in names}, missing)
    text += f"; {come}" if come else ""
    if not unknown:
        return text
    left = sorted(set(unknown) - set(started))
    more = f"; not yet: {name_partitions(map(safe_text, left))}" if left else ""
    return f"{text}; which were active on the source is not known{more}"


def _is_started(result: GroupResult) -> bool:
    return bool(result.joined) and not result.note


def _watch(
    session: Session,
    reader: TargetClusterReader,
    applied: Mapping[str, Sequence[PlanRow]],
    missing: dict[str, Clients],
) -> dict[str, GroupResult]:
    """Read the groups on the target once, and record what is seen; update who is missing."""
    views = reader.views(sorted(applied))
    ends = {
        at: log.end
        for at, log in reader.logs(
            {(r.topic, r.partition) for rs in applied.values() for r in rs}
        ).items()
    }
    known = {group_result.group: group_result for group_result in session.drill.groups}
    for group, rows in applied.items():
        before, view = known.get(group, GroupResult(group)), views.get(group)
        members = view.named if view is not None else ()
        clients = see_on_target(before.clients, members, int(time() * 1000))
        known[group] = _judge(replace(before, clients=clients), view, rows, ends)
        missing[group] = find_missing(clients, len(members))
    first = min((result.first_ms for result in known.values() if result.first_ms), default=None)
    session.change_drill(
        lambda drill: replace(
            drill,
            groups=tuple(known[name] for name in sorted(known)),
            figures=replace(drill.figures, first_record_ms=first),
        )
    )
    return {group: known[group] for group in applied}


def _judge(
    before: GroupResult,
    view: GroupView | None,
    rows: Sequence[PlanRow],
    ends: Mapping[tuple[str, int], int],
) -> GroupResult:
    """Return what is seen of a group: joined, not behind its applied offsets, and moving."""
    joined = bool(before.joined) or (view is not None and not view.empty)
    applied = {(row.topic, row.partition): row.proposed for row in rows if row.proposed is not None}
    committed = {at: commit.offset for at, commit in view.offsets.items()} if view else {}
    behind = find_behind(applied, committed)
    moved = any(committed.get(at, -1) > offset for at, offset in applied.items())
    waiting = any(ends.get(at, 0) > offset for at, offset in applied.items())
    first = before.first_ms or (int(time() * 1000) if moved else None)
    note = ""
    if behind:
        named = name_partitions(f"{topic}-{number}" for topic, number in behind)
        note = f"committed before its applied offset on {named}"
    elif not joined:
        note = "has not joined on the target"
    elif waiting and not moved and first is None:
        note = "has joined, and has not committed a record yet"
    return replace(before, joined=joined, first_ms=first, note=note)
