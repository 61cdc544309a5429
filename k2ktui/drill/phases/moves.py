"""Phases about the groups' offsets: plan, content proof, apply, and verification."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from time import time

from k2ktui.drill.changes.target import recorded_digests
from k2ktui.drill.operator import agree_question
from k2ktui.drill.session import PhaseResult, Session, failed
from k2ktui.engine.drill import changes as drill_changes
from k2ktui.engine.drill.checks import DrillKind, DrillPhase
from k2ktui.engine.drill.clients import MOST_CLIENTS, see_on_source
from k2ktui.engine.drill.model import (
    ChangeKind,
    ChangeStatus,
    CheckpointEffect,
    Drill,
    GroupResult,
)
from k2ktui.engine.drill.steps import find_change
from k2ktui.engine.members import GroupMember, name_groups
from k2ktui.engine.moves.audit import AuditRow
from k2ktui.engine.moves.groups import EMPTY_STATES, Snapshot, make_group_rows
from k2ktui.engine.moves.plan import Action, Plan, PlanRow, Rewind
from k2ktui.engine.moves.planning import recorded_choice
from k2ktui.engine.moves.ratings import estimate_by_checkpoints
from k2ktui.engine.records.state import SourcePartition
from k2ktui.errors import ConnectionFailed, Refused
from k2ktui.progress import ProgressTexts, listening
from k2ktui.sync.cluster_readers import TargetClusterReader
from k2ktui.sync.flow import GroupAuditor
from k2ktui.sync.moves.plans import plan_options
from k2ktui.sync.moves.snapshot import take_snapshot
from k2ktui.sync.operations import (
    apply_plan,
    plan_snapshot,
    planned_offsets,
    verify_content,
)
from k2ktui.text import counted, first_lines, list_names, safe_message, safe_text

_NAMED = 20
_NAMED_GROUPS = 3
_RANGES = 20
_CONTENT_S = 120.0


def make_plan(session: Session, snapshot: Snapshot | None = None) -> Plan:
    """Plan the chosen groups with what is on the clusters now, or was when a snapshot was taken.

    Raises:
        ConfigError: the pattern of groups matches none.
        ConnectionFailed, TimedOut, Refused: as for ``take_snapshot``.
    """
    # The groups come back to commits from before they left; where they are now decides.
    back = session.drill.kind is DrillKind.FAILBACK
    rewind = Rewind.FOLLOW if back else Rewind.NEVER
    options = plan_options(session.config, rewind=rewind, group=session.chosen, keeps_choices=True)
    patience_s = session.drill.options.wait_s  # a drill has time
    session.snapshot = snapshot or take_snapshot(session.flow, patience_s=patience_s)
    plan = session.plan = plan_snapshot(session.snapshot, options, session.files)
    return plan


def keep_group_results(session: Session, plan: Plan) -> None:
    """Record what a plan does to each group; what was found before about a group stays."""
    # The states of groups are not kept: without the source it is not known which are active.
    down = session.snapshot is not None and bool(session.snapshot.source_down)
    session.change_drill(
        lambda drill: replace(drill, groups=_group_results(drill, plan, knows_active=not down))
    )
    if session.snapshot is not None and not any(group.clients for group in session.drill.groups):
        views = session.snapshot.source
        note_on_source(session, {name: view.named for name, view in views.items()})


def note_on_source(session: Session, members: Mapping[str, Collection[GroupMember]]) -> None:
    """Record who is in the drill's groups on the source: once they have left, nobody can tell."""
    now = int(time() * 1000)

    def note(drill: Drill) -> Drill:
        room, groups = MOST_CLIENTS - sum(len(group.clients) for group in drill.groups), []
        for group in drill.groups:
            clients = see_on_source(group.clients, members.get(group.group, ()), now, room)
            room -= len(clients) - len(group.clients)
            groups.append(replace(group, clients=clients))
        return replace(drill, groups=tuple(groups))

    session.change_drill(note)


def _group_results(drill: Drill, plan: Plan, *, knows_active: bool) -> tuple[GroupResult, ...]:
    known = {result.group: result for result in drill.groups}
    rows: dict[str, list[PlanRow]] = defaultdict(list)
    for row in plan.rows:
        rows[row.group].append(row)
    for group, rows_of_group in rows.items():
        unmapped = [row for row in rows_of_group if row.proposed is None or _is_refused(row)]
        active = any(row.state_source not in EMPTY_STATES for row in rows_of_group)
        before = known.get(group, GroupResult(group, was_active=active if knows_active else None))
        known[group] = replace(
            before,
            partitions=len(rows_of_group),
            unmapped=len(unmapped),
            reread=sum(row.reread or 0 for row in rows_of_group),
            skipped=sum(row.skipped or 0 for row in rows_of_group),
            note=unmapped[0].reason if unmapped else "",
        )
    return tuple(known[name] for name in sorted(known))


def _is_refused(row: PlanRow) -> bool:
    """Return whether a row is blocked although its committed offset is not the planned one."""
    return row.action is Action.BLOCKED and row.current != row.proposed


def refused_rows(plan: Plan) -> list[str]:
    """Return what a plan does not apply, with the reasons."""
    rows = [row for row in plan.rows if _is_refused(row) or row.proposed is None]
    return _name_rows(rows, "that are not applied")


def chosen_rows(session: Session, plan: Plan) -> list[str]:
    """Return the rows for which an operator chose before the drill, and what becomes of them.

    They stay where they were set; those of which the source commit has moved are translated.
    """
    if session.snapshot is None:
        return []
    snapshot = session.snapshot
    rows = [row for row in plan.rows if recorded_choice(snapshot, row) is not None]
    return _name_rows(rows, "for which operators chose")


def _ask_for_choices(session: Session, plan: Plan) -> None:
    """Require that a person agrees to what becomes of rows that operators chose before.

    Raises:
        Refused: nobody can be asked, or the operator wants to decide anew.
    """
    rows = chosen_rows(session, plan)
    if not rows:
        return
    name = safe_text(session.drill.id)
    title = (
        "Operators chose where these groups continue. They stay there, and count as below; those "
        "of which the source commit has moved since are translated:"
    )
    shown = [title, *(f"  {row}" for row in rows), f"  all rows: {_sum_effect(plan)}"]
    if not session.operator.ask(agree_question(session.drill, shown)):
        raise Refused(
            "\n".join(["a person must decide about chosen rows. " + title, *shown[1:]]),
            unchanged="No offset was committed; the drill stays where it is.",
            hint="To translate them, or to set them anew, use k2ktui plan and k2ktui apply. Then "
            f"repeat at a terminal: k2ktui drill resume {name} -f FILE.",
        )


def _name_rows(rows: Sequence[PlanRow], which: str) -> list[str]:
    named = [
        f"{safe_text(row.group)} {safe_text(row.topic)}-{row.partition}: {safe_message(row.reason)}"
        for row in rows[:_NAMED]
    ]
    more = len(rows) - _NAMED
    return [*named, *([f"and {more:,} more rows {which}"] if more > 0 else [])]


def applied_offsets(plan: Plan) -> dict[tuple[str, str, int], int]:
    """Return the offsets that a plan commits or finds right, by group, topic and partition."""
    return {
        (row.group, row.topic, row.partition): row.proposed
        for row in plan.rows
        if row.proposed is not None and row.action is not Action.BLOCKED
    }


def _sum_effect(plan: Plan) -> str:
    reread = sum(row.reread or 0 for row in plan.rows if row.proposed is not None)
    skipped = sum(row.skipped or 0 for row in plan.rows if row.proposed is not None)
    return f"{reread:,} read again, {skipped:,} skipped{_name_affected(plan)}"


def _name_affected(plan: Plan) -> str:
    """Return the groups that read records again or skip some, in parentheses."""
    affected = {row.group for row in plan.rows if row.proposed is not None}
    affected &= {row.group for row in plan.rows if row.reread or row.skipped}
    return f" ({list_names(sorted(affected), _NAMED_GROUPS)})" if affected else ""


def run_plan(session: Session) -> PhaseResult:
    """Plan the offsets of every group, and compare them with the other program's, if it copies."""
    auditor = session.flow.open_auditor()
    if auditor is None:
        plan = make_plan(session)
        keep_group_results(session, plan)
    else:
        try:
            auditor.read()
            snapshot = take_snapshot(session.flow, patience_s=session.drill.options.wait_s)
            plan = make_plan(session, snapshot)
            keep_group_results(session, plan)
            _keep_checkpoints(session, auditor, snapshot)
        finally:
            auditor.close()
    refused = refused_rows(plan)
    groups = counted(len({row.group for row in plan.rows}), "group")
    text = f"{counted(len(plan.rows), 'row')} of {groups}: {_sum_effect(plan)}"
    return PhaseResult(text, (*refused, *chosen_rows(session, plan)))


def _keep_checkpoints(session: Session, auditor: GroupAuditor, snapshot: Snapshot) -> None:
    """Record what each planned group would read again with the other program's checkpoints."""
    rows = make_group_rows(snapshot)
    partitions = Counter(row.group for row in rows)
    audited: dict[str, list[AuditRow]] = defaultdict(list)
    for row in auditor.audit(rows, time(), ()).rows:
        audited[row.group].append(row)

    def compare(result: GroupResult) -> GroupResult:
        estimate = estimate_by_checkpoints(audited[result.group], partitions[result.group])
        effect = CheckpointEffect(
            reread=estimate.records,
            skipped=estimate.skipped,
            unknown=estimate.unknown,
            without=estimate.without,
        )
        return replace(result, checkpoints=effect)

    session.change_drill(
        lambda drill: replace(drill, groups=tuple(compare(result) for result in drill.groups))
    )


def run_content(session: Session) -> PhaseResult:
    """Compare the next record of every planned row on both clusters."""
    plan = session.plan or make_plan(session)
    limit = session.drill.options.content_rows
    sampled = len(plan.rows) > limit
    if sampled:
        # The same drill samples the same rows.
        chosen = random.Random(session.drill.id).sample(plan.rows, limit)  # noqa: S311
        plan = replace(plan, rows=tuple(chosen))
    return _compare(session, plan, limit if sampled else 0)


def _compare(session: Session, plan: Plan, limit: int) -> PhaseResult:
    phase = DrillPhase.VERIFY if session.drill.record(DrillPhase.VERIFY).began_ms else None
    if session.snapshot is None:
        patience_s = session.drill.options.wait_s
        session.snapshot = take_snapshot(session.flow, planned_offsets(plan), patience_s)

    def show(text: str) -> None:
        if text:
            session.show(phase or DrillPhase.CONTENT, text)

    with listening(ProgressTexts(show)):
        report = verify_content(
            session.flow,
            group=lambda _: True,
            plan=plan,
            sample=_RANGES,
            timeout=_CONTENT_S,
            snapshot=session.snapshot,
        )
    if not limit:
        session.compared = report.verification
    totals, records = report.verification.positions, report.verification.records
    compared = totals.same + totals.rereads + totals.different + records.same + records.different
    different = totals.different + records.different
    session.change_drill(
        lambda drill: replace(
            drill,
            figures=replace(
                drill.figures,
                content_compared=compared,
                content_different=different,
                content_limit=limit,
            ),
        )
    )
    wrong = [
        f"{check.what}: {safe_message(check.why)}"
        for check in report.verification.checks
        if check.outcome == "different"
    ]
    unclear = totals.could_not_check + len(report.unasked)
    text = (
        f"next records: {totals.same + totals.rereads:,} the same, {totals.different:,} different, "
        f"{unclear:,} could not be compared; sampled records: {records.same:,} the same, "
        f"{records.different:,} different"
    )
    if different:
        return failed(text, *first_lines(wrong, _NAMED))
    return PhaseResult(text)


def run_apply(session: Session) -> PhaseResult:
    """Plan, show, confirm, and commit the planned offsets."""
    plan = make_plan(session)
    if session.drill.topics and _await_empty(session, plan):
        plan = make_plan(session)
    keep_group_results(session, plan)
    refused = refused_rows(plan)
    if plan.is_stopped_by_conflict:
        return failed("several pipelines map the same partitions", *refused)
    if not plan.rows:
        return failed("no group has an offset to apply", "Check groups.consumerGroups.")
    _ask_for_choices(session, plan)
    change = find_change(session.drill, ChangeKind.OFFSETS)
    if not plan.changes and change is not None and change.status is ChangeStatus.INTENDED:
        session.settle(change, ChangeStatus.MADE)  # by an earlier process, which was ended then
    if plan.changes:
        groups = counted(len({row.group for row in plan.changes}), "group")
        effect = f"commit {counted(len(plan.changes), 'offset')} of {groups} on the target: "
        more = f", {counted(len(refused), 'row')} not applied" if refused else ""
        session.confirm(DrillPhase.APPLY, effect + _sum_effect(plan) + more)
        plans = (*session.drill.plans, plan.id)
        session.change_drill(lambda drill: replace(drill, plans=plans))
        known = recorded_digests(session, change)
        intended = session.intend_new(
            DrillPhase.APPLY,
            ChangeKind.OFFSETS,
            f"commit offsets of {groups} on the target",
            drill_changes.dump_digests({**known, plan.id: _digest_plan(plan)}),
            drill_changes.dump_names(plans),
        )
        apply_plan(session.config, plan, session.files, session.may, drill=session.drill.id)
        session.settle(intended, ChangeStatus.MADE)
    session.applied = applied_offsets(plan)
    kept = sum(row.action is Action.KEEP for row in plan.rows)
    done = f"{counted(len(plan.changes), 'offset')} committed, {kept:,} were right already"
    return PhaseResult(f"{done}: {_sum_effect(plan)}", tuple(refused))


def _await_empty(session: Session, plan: Plan) -> bool:
    """Wait until the groups of a plan have no members on the target; return whether any had.

    With topics that have moved before, a group may run there already.
    """
    names = sorted({row.group for row in plan.rows})
    if all(row.state_target in EMPTY_STATES for row in plan.rows):
        return False
    reader = TargetClusterReader(session.config)

    def look() -> tuple[bool, str]:
        views = reader.views(names)
        active = {name: view.named for name, view in views.items() if view.is_active}
        text = f"{counted(len(active), 'group')} with members on the target"
        return not active, f"{text}: {name_groups(active)}"

    try:
        session.wait(
            DrillPhase.APPLY,
            look,
            hint="Stop these groups on the target until the target is open for these topics.",
        )
    finally:
        reader.close()
    return True


def _digest_plan(plan: Plan) -> str:
    return drill_changes.digest_rows(
        (row.group, row.topic, row.partition, row.current, row.proposed) for row in plan.changes
    )


def find_unapplied(plan: Plan) -> list[str]:
    """Return the rows whose committed offset on the target is not the planned one."""
    unapplied = [
        f"{safe_text(row.group)} {safe_text(row.topic)}-{row.partition}: {row.current} is "
        f"committed, {row.proposed} was planned"
        for row in plan.rows
        if row.changes
    ]
    return first_lines(unapplied, _NAMED)


def _is_ahead(row: PlanRow) -> bool:
    """Return whether a row is blocked since its committed offset is after the planned one."""
    if row.current is None or row.proposed is None:
        return False
    return row.action is Action.BLOCKED and row.current > row.proposed


def run_verify(session: Session) -> PhaseResult:
    """Read the committed offsets back, and compare the next record of every group."""
    plan = make_plan(session)
    if session.applied is None and not any(map(_is_ahead, plan.rows)):
        # An earlier process has applied them; where a group is ahead, its offset is not known.
        session.applied = applied_offsets(plan)
    wrong = find_unapplied(plan)
    if wrong:
        return failed("committed offsets differ from the planned ones", *wrong)
    text = f"{counted(len(plan.rows), 'offset')} read back as planned"
    try:
        compared = _compare(session, plan, 0)
    except ConnectionFailed as error:
        return PhaseResult(f"{text}; content could not be compared: {error.message}")
    return replace(compared, live=f"{text}; {compared.live}")


def planned_sources(rows: Sequence[PlanRow]) -> list[tuple[PlanRow, SourcePartition, int]]:
    """Return rows that come from one source partition, with that partition and its offset."""
    return [(row, *row.sources[0]) for row in rows if len(row.sources) == 1]
