"""Run the phases of a drill in order, each after its confirmation, with the checks that it asks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from k2ktui.drill.checks.catalog import blocking, ids_asked
from k2ktui.drill.checks.context import CheckContext, CheckLimits, DrillFacts
from k2ktui.drill.checks.suite import run_checks
from k2ktui.drill.hooks import explain_unsafe_files, list_own_hooks, run_hooks
from k2ktui.drill.phases import (
    move_topics,
    moves,
    redirect,
    reverse,
    shadow,
    source,
    source_back,
    tail,
    target,
)
from k2ktui.drill.report import measure
from k2ktui.drill.session import PhaseResult, Session
from k2ktui.drill.signing import end_drill, explain_unsigned
from k2ktui.engine.drill.checks import CheckResult, DrillKind, DrillPhase
from k2ktui.engine.drill.hooks import HookRole, describe_hook
from k2ktui.engine.drill.model import Drill, DrillStatus, PhaseStatus
from k2ktui.engine.drill.objectives import NO_OBJECTIVES
from k2ktui.engine.drill.steps import describe_phase_of, needs_confirmation, next_phase
from k2ktui.engine.records.state import SourcePartition
from k2ktui.replication.ownership.control_watch import ControlTopicsGuard
from k2ktui.text import counted, duration, safe_message

Run = Callable[[Session], PhaseResult]

# Confirmed inside the phase, when the operator has been shown what it does.
_CONFIRMS_ITSELF = frozenset({DrillPhase.TAIL, DrillPhase.APPLY, DrillPhase.OPEN_TARGET})
_LONGEST_RESULTS = 500
_LOOK_AGAIN_S = 2.0
# Checks of the reverse pipeline, whose file is loaded for them.
_REVERSE = frozenset({"D43", "D47"})


def run_preflight(session: Session) -> PhaseResult:
    """Remember which groups are active; the checks run after it, as after every phase."""
    if session.drill.kind is DrillKind.REHEARSE:
        text = "; ".join([source.measure_loss(session), *session.notes])
        return PhaseResult(text, tuple(_find_unsafe_hooks(session)))
    plan = moves.make_plan(session)
    moves.keep_group_results(session, plan)
    if session.drill.kind.is_switchover:
        return PhaseResult(source.measure_loss(session))
    planned = f"{counted(len(plan.rows), 'row')} planned from kept commits"
    return PhaseResult("; ".join([planned, *explain_unsigned(session)]))


def _find_unsafe_hooks(session: Session) -> list[str]:
    """Return why a drill would refuse the hooks of the file, which a rehearsal never runs."""
    settings = session.config.drill
    reason = explain_unsafe_files(session.files) if settings.hooks or settings.redirect else ""
    return [f"a drill would not run its hooks: {reason}"] if reason else []


def run_report(session: Session) -> PhaseResult:
    """Sum up; the report itself is made of the drill's record whenever it is asked for."""
    if session.drill.topics and session.drill.kind in (DrillKind.PLANNED, DrillKind.DISASTER):
        left = move_topics.count_left(session)
        session.change_drill(
            lambda drill: replace(drill, figures=replace(drill.figures, topics_left=left))
        )
    return PhaseResult(f"{duration(session.drill.tool_ms / 1000, tenths=True)} of the tool")


RUNS: Mapping[DrillPhase, Run] = {
    DrillPhase.SOURCE_BACK: source_back.run_source_back,
    DrillPhase.TAIL: tail.run_tail,
    DrillPhase.PREFLIGHT: run_preflight,
    DrillPhase.LAG: source.run_lag,
    DrillPhase.SOURCE_LOST: source.run_source_lost,
    DrillPhase.FENCE_PRODUCERS: source.run_fence_producers,
    DrillPhase.DRAIN: source.run_drain,
    DrillPhase.STOP_CONSUMERS: source.run_stop_consumers,
    DrillPhase.PLAN: moves.run_plan,
    DrillPhase.CONTENT: moves.run_content,
    DrillPhase.SHADOW: shadow.run_shadow,
    DrillPhase.APPLY: moves.run_apply,
    DrillPhase.VERIFY: moves.run_verify,
    DrillPhase.FENCE_REPLICATOR: target.run_fence_replicator,
    DrillPhase.MOVE_TOPICS: move_topics.run_move_topics,
    DrillPhase.OPEN_TARGET: target.run_open_target,
    DrillPhase.REDIRECT: redirect.run_redirect,
    DrillPhase.WATCH_CLIENTS: target.run_watch_clients,
    DrillPhase.REVERSE: reverse.run_reverse,
    DrillPhase.REPORT: run_report,
}


def run_drill(session: Session) -> bool:
    """Run all phases that are left; return whether the drill has ended.

    A rehearsal goes through all phases, and collects what would have stopped a failover.

    Raises:
        Refused: the operator did not confirm a phase, or a control topic is not the one any more
            that the drill began with.
        TimedOut: a condition did not hold in time.
        K2kError: a phase could not do its work. The drill can be resumed in all cases.
    """
    rehearses = session.drill.kind is DrillKind.REHEARSE
    control = ControlTopicsGuard(session.config, session.target)
    while (phase := next_phase(session.drill)) is not None:
        control.look()
        session.peers.enter(phase)
        result = run_hooks(session, phase, after=False) or _run_phase(session, phase)
        if result.status is PhaseStatus.FAILED and rehearses:
            findings = result.findings or (result.live,)
            result = replace(result, status=PhaseStatus.DONE, findings=findings)
        session.end(phase, result)
        if result.status is PhaseStatus.FAILED:
            return False
    end_drill(session, DrillStatus.DONE)
    return True


def _run_phase(session: Session, phase: DrillPhase) -> PhaseResult:
    """Run a phase once it is confirmed, its checks, and the hooks after it."""
    if needs_confirmation(phase, session.drill.options.fence) and phase not in _CONFIRMS_ITSELF:
        parts = (hook for hook in list_own_hooks(session) if hook.role is not HookRole.HOOK)
        runs = [describe_hook(hook) for hook in parts if hook.phase is phase]
        if runs and (sharing := session.peers.describe_sharing()):
            runs.append(sharing)
        if phase is DrillPhase.FENCE_PRODUCERS:
            runs += redirect.describe_cut_off(session)
        session.confirm(phase, "\n".join([describe_phase_of(session.drill, phase), *runs]))
    session.begin(phase)
    result = _with_checks(session, phase, RUNS[phase](session))
    if result.status is PhaseStatus.FAILED:
        return result
    held = run_hooks(session, phase, after=True)
    if held is None:
        return result
    # Findings of checks are the last ones.
    return replace(
        result,
        status=held.status,
        live=f"{held.live}; {result.live}",
        findings=(*held.findings, *result.findings),
    )


def _with_checks(session: Session, phase: DrillPhase, result: PhaseResult) -> PhaseResult:
    """Return the result with the failures of the checks that this phase asks."""
    ids = ids_asked(session.drill.kind, phase)
    if not ids:
        return result
    facts, limits = _facts(session, phase), _limits(session)
    with CheckContext(session.flow, facts, limits, snapshot=session.snapshot) as context:
        results = []
        for check in run_checks(context, ids):
            results.append(check)
            session.show(phase, f"checks: {len(results)} of {len(ids)}")
    _keep_checks(session, results)
    failures = [check for check in results if check.failed]
    accepted = session.drill.options.accepted
    stops = [check for check in blocking(failures, session.drill.kind) if check.id not in accepted]
    failures.sort(key=lambda check: check not in stops)  # first what the operator has to correct
    texts = tuple(f"{check.id} {check.title}: {safe_message(check.evidence)}" for check in failures)
    failed = tuple(check.id for check in failures)
    result = replace(result, findings=(*result.findings, *texts), failed_checks=failed)
    if not stops:
        return result
    live = f"stopped by {', '.join(check.id for check in stops)}; {result.live}"
    return replace(result, live=live, status=PhaseStatus.FAILED)


def _keep_checks(session: Session, new: list[CheckResult]) -> None:
    results = {check.id: check for check in session.drill.checks}
    results |= {
        check.id: replace(check, evidence=check.evidence[:_LONGEST_RESULTS]) for check in new
    }
    session.change_drill(
        lambda drill: replace(drill, checks=tuple(results[name] for name in sorted(results)))
    )


def _facts(session: Session, phase: DrillPhase) -> DrillFacts:
    drill = session.drill
    asks_reverse = bool(_REVERSE & set(ids_asked(drill.kind, phase)))
    return DrillFacts(
        kind=drill.kind,
        phase=phase,
        cluster_ids=(drill.source_cluster, drill.target_cluster),
        measures=measure(drill),
        plan=session.plan,
        compared=session.compared,
        applied=session.applied,
        # Unknown counts as active.
        active=frozenset(group.group for group in drill.groups if group.was_active is not False),
        fenced=target.read_fenced(drill),
        reads=session.reads,
        reverse=reverse.find_reverse(session) if asks_reverse else None,
        cut_over_ends={
            (bounds.topic, bounds.partition): bounds.end for bounds in drill.opened_ends
        },
        tail=_tail_offsets(drill) if phase is DrillPhase.TAIL else None,
        forward=session.forward if phase is DrillPhase.TAIL else None,
        topics=drill.topics,
        # A rehearsal asks what a drill over the whole pipeline would.
        redirects=drill.redirects or drill.kind is DrillKind.REHEARSE,
        others=tuple(session.peers.list_moving()),
        drill=drill.id,
    )


def _tail_offsets(drill: Drill) -> Mapping[SourcePartition, tuple[int, int]]:
    """Return the offsets of the old source that a failback has listed."""
    return {
        SourcePartition(part.topic, part.partition): (part.first, part.end) for part in drill.tail
    }


def _limits(session: Session) -> CheckLimits:
    options = session.drill.options
    # The fence is proven by its phase; its check only looks once more.
    frozen_s = min(options.frozen_s, _LOOK_AGAIN_S)
    return CheckLimits(
        frozen_s=frozen_s,
        lag_records=options.lag_records,
        objectives=session.drill.objectives or NO_OBJECTIVES,
    )
