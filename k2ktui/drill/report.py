"""The report of a drill: what it says, as Markdown and as JSON, and its verification; pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from k2ktui.drill.facts import DrillMeasures
from k2ktui.engine.drill.changes import describe_undo
from k2ktui.engine.drill.checks import CheckResult, DrillCheckOutcome, DrillKind, DrillPhase
from k2ktui.engine.drill.clients import MOST_CLIENTS, MOST_OF_GROUP, GroupClient
from k2ktui.engine.drill.format import find_broken_event, report_content, report_digest
from k2ktui.engine.drill.hooks import describe_results, describe_run
from k2ktui.engine.drill.model import (
    Change,
    ChangeStatus,
    Drill,
    DrillFigures,
    DrillStatus,
    GroupResult,
    PhaseRecord,
    PhaseStatus,
)
from k2ktui.engine.drill.rehearsals import Rehearsal
from k2ktui.engine.drill.steps import describe_status, describe_way_back
from k2ktui.engine.drill.tail import list_tail
from k2ktui.text import counted, duration, list_names, moment, safe_message, safe_text

ENDED = "ended"
_LISTED_GROUPS, _LISTED_REHEARSALS, _LISTED_TOPICS = 200, 30, 20
UNSIGNED = "the report was not signed at the drill's end"
"""How a finding about a report begins that was to be signed."""
# The check that compares the measured RPO and RTO with the objectives.
MEASURES = "D46"


def end_text(drill: Drill) -> str:
    """Return the text of a drill's last event, which holds the hash of its report."""
    return f"{ENDED}: {drill.status}, report sha256 {report_digest(drill)}"


def has_findings(drill: Drill) -> bool:
    """Return whether something was found that an operator should know or fix.

    The harm of a drill that has moved the pipeline is part of it. Records that are read again or
    skipped are not: D22 finds them, except where an operator has chosen the position.
    """
    harmed = any(number for number, _ in _harm(drill))
    if drill.blockers or (_has_moved(drill) and harmed):
        return True
    return any(record.findings or record.status is PhaseStatus.FAILED for record in drill.phases)


def is_unsigned(drill: Drill) -> bool:
    """Return whether the report of a drill that was aborted was to be signed, and was not."""
    return any(text.startswith(UNSIGNED) for text in drill.blockers)


def _has_moved(drill: Drill) -> bool:
    """Return whether it has ended with the groups on the other cluster."""
    return drill.status is DrillStatus.DONE and drill.kind is not DrillKind.REHEARSE


def misses_only_objectives(drill: Drill) -> bool:
    """Return whether a rehearsal found nothing but a missed objective."""
    findings = _list_findings(drill)
    return bool(findings) and all(check == MEASURES for _, check in findings)


def list_harm(drill: Drill) -> list[str]:
    """Return the harm that a drill has done to records and groups; empty if none.

    Findings of checks are not harm: they name what could have gone wrong, or still may.
    """
    reread, skipped = _sum_effects(drill.groups)
    missing, *others = _harm(drill)
    harm = (
        missing,
        (reread, f"{counted(reread, 'record')} read again"),
        (skipped, f"{counted(skipped, 'record')} skipped"),
        *others,
    )
    return [text for number, text in harm if number]


def _harm(drill: Drill) -> list[tuple[int, str]]:
    """Return the harm that no operator has chosen: a number, and what it counts."""
    figures, groups = drill.figures, drill.groups
    missing = figures.rpo_records or figures.rpo_at_least or 0
    unmapped = sum(1 for group in groups if group.unmapped)
    absent = sum(1 for group in groups if group.was_active and group.joined is False)
    least = "at least " if figures.rpo_records is None else ""
    return [
        (missing, f"{least}{counted(missing, 'record')} missing"),
        (figures.content_different, f"{counted(figures.content_different, 'record')} different"),
        (unmapped, f"{counted(unmapped, 'group')} not moved completely"),
        (absent, f"{counted(absent, 'group')} not on the target yet"),
    ]


def _sum_effects(groups: Collection[GroupResult]) -> tuple[int, int]:
    return sum(group.reread or 0 for group in groups), sum(group.skipped or 0 for group in groups)


def _count_findings(drill: Drill) -> str:
    """Return the number of checks that fail, and of other findings, in words; "" for none.

    A check that two phases have asked counts once, and not if it has passed later.
    """
    checks = sum(check.failed for check in drill.checks)
    others = sum(not check for _, check in _list_findings(drill))
    parts = [f"{counted(checks, 'check')} failed"] if checks else []
    if others:
        parts.append(counted(others, "other finding" if checks else "finding"))
    return ", ".join(parts)


def summarize(drill: Drill) -> list[str]:
    """Return the result of a drill in a few lines, the verdict first."""
    figures = drill.figures
    lines = [_verdict(drill), *_topics(drill)]
    if figures.rpo_records is not None:
        lines.append(f"RPO: {_rpo(drill)}")
    elif figures.rpo_at_least is not None:
        lines.append(f"RPO: {_known_rpo(figures)}")
    lines.append(f"RTO: {_rto(drill)}")
    lines += _objectives(drill)
    if drill.groups:
        lines.append(f"Groups: {_groups(drill.groups)}")
        lines += _sum_checkpoints(drill.groups)
    if figures.content_compared:
        lines.append(
            f"Content: {figures.content_compared:,} records compared, "
            f"{figures.content_different:,} different"
            + (f" (a sample: more than {figures.content_limit:,})" if figures.content_limit else "")
        )
    if drill.checks:
        counts = ", ".join(
            f"{sum(c.outcome is o for c in drill.checks)} {o}" for o in DrillCheckOutcome
        )
        lines.append(f"Checks: {counts}")
    return lines


def _topics(drill: Drill) -> list[str]:
    """Return which topics a drill over some topics is over, and how many others are left."""
    if not drill.topics:
        return []
    text = f"Topics: {list_names(drill.topics, _LISTED_TOPICS)}"
    left = drill.figures.topics_left
    if left == 0:
        return [f"{text}; every topic of the pipeline has moved: it can be retired"]
    more = "" if left is None else f"; {counted(left, 'topic')} of the pipeline not moved"
    return [text + more]


def _verdict(drill: Drill) -> str:
    name = f"{drill.kind.noun} of {safe_text(drill.pipeline)}"
    if drill.topics:
        name = f"{drill.kind.noun} of {counted(len(drill.topics), 'topic')} of "
        name += safe_text(drill.pipeline)
    if drill.status is DrillStatus.ABORTED:
        kept = [safe_message(c.what) for c in drill.changes if c.status is ChangeStatus.KEPT]
        if kept:
            return f"The {name} was aborted. Not taken back completely: {'; '.join(kept)}."
        return f"The {name} was aborted; what it had changed was restored."
    if drill.status is not DrillStatus.DONE:
        return f"The {name} has not ended."
    if drill.kind is DrillKind.REHEARSE:
        of = f" of {counted(len(drill.topics), 'topic')}" if drill.topics else ""
        if drill.blockers and misses_only_objectives(drill):
            return (
                f"A failover{of} now would move every group to its exact position, but would miss "
                "an objective."
            )
        if drill.blockers:
            findings_text = _count_findings(drill) or counted(len(drill.blockers), "finding")
            return f"A failover{of} now would not be safe: {findings_text}."
        return f"A failover{of} now would move every group to its exact position."
    findings = _count_findings(drill)
    if harm := list_harm(drill):
        return f"The {name} ended: {', '.join(harm)}."
    return f"The {name} succeeded{f'; {findings}' if findings else ''}."


def _list_findings(drill: Drill) -> list[tuple[str, str]]:
    return [finding for record in drill.phases for finding in record.list_findings()]


def _objectives(drill: Drill) -> list[str]:
    """Return a line with the objectives and whether they were met; none without objectives."""
    if not drill.objectives:
        return []
    result = next((check for check in drill.checks if check.id == MEASURES), None)
    word = {
        None: "not compared yet",
        DrillCheckOutcome.PASS: "met",
        DrillCheckOutcome.FAIL: "missed",
        DrillCheckOutcome.UNKNOWN: "not all could be compared",
    }[None if result is None else result.outcome]
    return [f"Objectives: {word}: {drill.objectives.describe()}"]


def _rpo(drill: Drill) -> str:
    figures = drill.figures
    records = counted(figures.rpo_records or 0, "record")
    if not figures.rpo_records:
        return f"{records} on the source only{_silence(figures)}"
    if figures.rpo_at_least is not None:
        records = f"between {figures.rpo_at_least:,} and {records}"
    size = "" if figures.rpo_bytes is None else f", {figures.rpo_bytes:,} bytes"
    age = "" if figures.rpo_s is None else f", the oldest {duration(figures.rpo_s)} old"
    return f"{records} on the source only{size}{age}{_silence(figures)}"


def _known_rpo(figures: DrillFigures) -> str:
    """Return the lower bound of a loss: the source does not answer."""
    least = counted(figures.rpo_at_least or 0, "record")
    return f"at least {least} on the source only{_silence(figures)}"


def _silence(figures: DrillFigures) -> str:
    if figures.silent_s is None:
        return ""
    return f"; nothing was read from the source for {duration(figures.silent_s)}"


def _rto(drill: Drill) -> str:
    tool = f"{drill.tool_ms / 1000:.1f} s of the tool"
    first = drill.figures.first_record_ms
    if drill.kind is DrillKind.REHEARSE or first is None:
        return f"{tool}; the time of people and applications is not measured"
    total = max(0, first - stopped_ms(drill)) / 1000
    begun = producers_stopped_ms(drill) is None
    since = "the beginning" if begun else "the stop of the producers"
    return f"{duration(total)} from {since} to the first record read on the target; {tool}"


def stopped_ms(drill: Drill) -> int:
    """Return when the applications stopped, from which the RTO counts.

    For a switchover, this is when its producers were proven to be fenced. Until then, and for a
    disaster, it is the start of the drill.
    """
    producers = producers_stopped_ms(drill)
    return drill.started_ms if producers is None else producers


def producers_stopped_ms(drill: Drill) -> int | None:
    """Return when the producers stopped, as their fence has proven it; None before."""
    fence = drill.record(DrillPhase.FENCE_PRODUCERS)
    if fence.status is not PhaseStatus.DONE or fence.ended_ms is None:
        return None
    return max(drill.started_ms, fence.ended_ms - int(drill.options.frozen_s * 1000))


def measure(drill: Drill) -> DrillMeasures:
    """Return what a drill has measured so far."""
    figures = drill.figures
    first = figures.first_record_ms
    return DrillMeasures(
        rto_s=None if first is None else max(0, first - stopped_ms(drill)) / 1000,
        phases={
            str(record.phase): record.took_ms / 1000
            for record in drill.phases
            if record.took_ms is not None
        },
        rpo_records=figures.rpo_records,
        rpo_bytes=figures.rpo_bytes,
        rpo_s=figures.rpo_s,
        tool_s=drill.tool_ms / 1000,
        rpo_at_least=figures.rpo_at_least,
    )


def _groups(groups: Collection[GroupResult]) -> str:
    unmapped = sum(1 for group in groups if group.unmapped)
    reread, skipped = _sum_effects(groups)
    text = f"{len(groups):,}, {reread:,} records read again, {skipped:,} skipped"
    return text + (f", {unmapped:,} cannot be moved completely" if unmapped else "")


def _sum_checkpoints(groups: Collection[GroupResult]) -> list[str]:
    """Return a line on what MirrorMaker 2's checkpoints would do; none if k2ktui copies."""
    effects = [group.checkpoints for group in groups if group.checkpoints is not None]
    if not effects:
        return []
    text = (
        f"{sum(effect.reread for effect in effects):,} records read again, "
        f"{sum(effect.skipped for effect in effects):,} skipped"
    )
    if without := sum(effect.without for effect in effects):
        text += f", {counted(without, 'partition')} without a checkpoint"
    if unknown := sum(effect.unknown for effect in effects):
        text += f", {unknown:,} of unknown effect"
    return [f"With MirrorMaker 2's checkpoints instead: {text}"]


def report_json(drill: Drill, rehearsals: Sequence[Rehearsal] = ()) -> dict[str, Any]:
    """Return the report as a JSON object."""
    shown = _until(drill, rehearsals)
    return {
        "id": drill.id,
        "status": str(drill.status),
        "ended_ms": drill.ended_ms,
        "summary": summarize(drill),
        "tool_ms": drill.tool_ms,
        **report_content(drill),
        "checks": [check.as_json() for check in drill.checks],
        "events": [asdict(event) for event in drill.events],
        **({"rehearsals": [rehearsal.as_json() for rehearsal in shown]} if shown else {}),
        "sha256": report_digest(drill),
    }


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the report. Each form of the report escapes the texts in its own way.

    Attributes:
        title: its heading.
        text: a sentence; may be empty.
        items: a list; may be empty.
        columns, rows: a table; may be empty.
        lines: the table in plain text; if empty, its cells, each after the name of its column.
    """

    title: str
    text: str = ""
    items: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    lines: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Report:
    """The report of a drill, of a site drill with those of its members, or of an audit of
    MirrorMaker 2, before it has a form.

    Attributes:
        title: its heading.
        summary: its first lines: the result, for those who read no further.
        sections: all else.
        is_good: whether nothing was found; None before the end.
        drill: the drill; None for a site drill, which has no record of its own, and for an audit.
        rehearsals: those until the drill ended, the oldest first.
        members: the reports of a site drill's members.
    """

    title: str
    summary: tuple[str, ...]
    sections: tuple[Section, ...]
    is_good: bool | None
    drill: Drill | None = None
    rehearsals: tuple[Rehearsal, ...] = ()
    members: tuple[Report, ...] = ()


def make_report(drill: Drill, rehearsals: Sequence[Rehearsal] = ()) -> Report:
    """Return the report of a drill.

    Args:
        drill: the drill.
        rehearsals: the pipeline's rehearsals, the oldest first.
    """
    began = moment(drill.started_ms / 1000)
    begun = f"Begun {began} by {safe_text(drill.started_by)}, k2ktui {drill.version}"
    shown = _until(drill, rehearsals)
    bad = has_findings(drill) or any(check.failed for check in drill.checks)
    doubt = f"Not proven who wrote its record: {safe_message(drill.doubt)}"
    return Report(
        title=f"Drill {drill.id}: {drill.kind} of {safe_text(drill.pipeline)}",
        summary=(*summarize(drill), begun, *([doubt] if drill.doubt else [])),
        sections=tuple(_sections(drill, shown)),
        is_good=not bad if drill.is_over else None,
        drill=drill,
        rehearsals=shown,
    )


def describe_where(drill: Drill) -> str:
    """Return the clusters of a drill, and the way back."""
    source, target = drill.source_cluster or "unknown", drill.target_cluster
    return f"Source cluster {source}, target cluster {target}. {describe_way_back(drill)}"


def verify_command(drill: Drill) -> str:
    """Return the command that verifies the report of a drill."""
    return f"k2ktui drill report {drill.id} -f FILE --verify"


def _until(drill: Drill, rehearsals: Iterable[Rehearsal]) -> tuple[Rehearsal, ...]:
    """Return the rehearsals that had ended with the drill: its report stays the same later."""
    end = drill.ended_ms
    return tuple(r for r in rehearsals if end is None or r.at_ms <= end)


def _sections(drill: Drill, rehearsals: Sequence[Rehearsal]) -> Iterator[Section]:
    if drill.blockers:
        yield Section("Findings", items=drill.blockers)
    yield Section(
        "Phases",
        columns=("phase", "status", "took", "of the tool", "result"),
        rows=tuple(_phase(drill, record) for record in drill.phases),
        lines=tuple(
            f"{number} {_phase_line(drill, record)}"
            for number, record in enumerate(drill.phases, start=1)
        ),
    )
    if not drill.changes:
        yield Section("Changes", "Nothing was changed.")
    else:
        rows = tuple(_change(drill, change) for change in drill.changes)
        yield Section(
            "Changes",
            columns=("change", "status", "to undo it"),
            rows=rows,
            lines=tuple(map(_change_line, rows)),
        )
    yield from _hooks(drill)
    if drill.tail:
        title = "Tail: records of the old source that had not been copied"
        yield Section(title, items=tuple(list_tail(drill.tail)))
    if drill.checks:
        failed_first = sorted(drill.checks, key=lambda check: (not check.failed, check.id))
        yield Section(
            "Checks",
            columns=("id", "check", "result", "evidence"),
            rows=tuple(map(_check, drill.checks)),
            lines=tuple("{} {}: {}: {}".format(*_check(check)) for check in failed_first),
        )
    if drill.groups:
        columns = (
            *("group", "partitions", "unmapped", "re-read", "skipped", "compared", "different"),
            "note",
        )
        yield Section(
            "Groups",
            columns=columns,
            rows=list_rows(map(_group, drill.groups)),
            lines=tuple(map(_group_line, drill.groups)),
        )
    yield from _clients(drill)
    yield from _checkpoints(drill.groups)
    if rehearsals:
        yield _trend(rehearsals)
    events = tuple(
        (moment(e.at_ms / 1000), safe_text(e.who), e.phase, e.text, e.digest) for e in drill.events
    )
    yield Section(
        "Journal",
        columns=("time", "by", "phase", "event", "hash"),
        rows=events,
        lines=tuple(f"{at} {who} {phase}: {text}" for at, who, phase, text, _ in events),
    )


def _trend(rehearsals: Sequence[Rehearsal]) -> Section:
    rows = [
        (
            moment(rehearsal.at_ms / 1000),
            _count(rehearsal.rpo_records),
            "—" if rehearsal.rpo_ms is None else duration(rehearsal.rpo_ms / 1000, tenths=True),
            duration(rehearsal.rto_ms / 1000, tenths=True),
            str(rehearsal.findings),
            str(rehearsal.missed),
        )
        for rehearsal in reversed(rehearsals[-_LISTED_REHEARSALS:])
    ]
    more = len(rehearsals) - len(rows)
    text = f"The last {len(rows)} of {len(rehearsals)}; all are in the JSON report." if more else ""
    columns = ("ended", "RPO, records", "RPO, age", "RTO of the tool", "findings", "missed")
    return Section("Rehearsals", text, columns=columns, rows=tuple(rows))


def list_rows(
    rows: Iterable[tuple[str, ...]],
    most: int = _LISTED_GROUPS,
    others: str = "in the JSON report",
) -> tuple[tuple[str, ...], ...]:
    """Return the first rows of a table; the last one says how many more there are, and where."""
    every = tuple(rows)
    more = len(every) - most
    if more <= 0:
        return every
    blanks = ("",) * (len(every[0]) - 2)
    return (*every[:most], (f"and {more:,} more", *blanks, others))


def render_text(report: Report) -> Iterator[str]:
    """Yield a report as paragraphs of plain text, without hashes and rehearsals."""
    where = () if report.drill is None else (describe_where(report.drill),)
    yield "\n".join(map(safe_message, (*report.summary, *where)))
    for section in report.sections:
        lines = [section.text] if section.text else []
        lines += section.items
        lines += section.lines or (_name_cells(section.columns, row) for row in section.rows)
        shown = [safe_message(section.title), *(f"  {safe_message(line)}" for line in lines)]
        yield "\n".join(shown)
    for member in report.members:
        yield safe_message(member.title)
        yield from render_text(member)


def _name_cells(columns: Sequence[str], row: Sequence[str]) -> str:
    named = (f"{column} {cell}" for column, cell in zip(columns[1:], row[1:], strict=True))
    return f"{row[0]}: {', '.join(named)}"


def report_markdown(drill: Drill, rehearsals: Sequence[Rehearsal] = ()) -> str:
    """Return the report as Markdown; its first ten lines are the summary."""
    return render_markdown(make_report(drill, rehearsals))


def render_markdown(report: Report) -> str:
    """Return a report as Markdown."""
    return "\n".join(_markdown(report, "#")) + "\n"


def _markdown(report: Report, level: str) -> Iterator[str]:
    drill = report.drill
    yield f"{level} {_cell(report.title)}"
    yield ""
    for line in report.summary:
        yield f"- {_cell(line)}"
    yield ""
    if drill is not None:
        yield _cell(describe_where(drill))
        yield ""
    for section in report.sections:
        yield f"{level}# {section.title}"
        yield ""
        if section.text:
            yield _cell(section.text)
            yield ""
        for item in section.items:
            yield f"- {_cell(item)}"
        if section.columns:
            yield f"| {' | '.join(section.columns)} |"
            yield f"|{'---|' * len(section.columns)}"
        for row in section.rows:
            yield f"| {' | '.join(map(_cell, row))} |"
        if section.items or section.columns:
            yield ""
    for member in report.members:
        yield from _markdown(member, f"{level}#")
        yield ""
    if drill is not None:
        digest, verify = report_digest(drill), verify_command(drill)
        yield f"SHA-256 of the report: `{digest}`. Verify it with `{_cell(verify)}`."


def _phase(drill: Drill, record: PhaseRecord) -> tuple[str, ...]:
    took = record.took_ms
    times = ("—", "—")
    if took is not None:
        times = (f"{took / 1000:.1f} s", f"{max(0, took - record.waited_ms) / 1000:.1f} s")
    text = "; ".join(part for part in (record.live, *record.findings) if part)
    return (str(record.phase), describe_status(drill, record), *times, text)


def _phase_line(drill: Drill, record: PhaseRecord) -> str:
    """Return a phase without its findings, which are in a section of their own."""
    took = record.took_ms
    time = "" if took is None else f" ({duration(took / 1000, tenths=True)})"
    return f"{record.phase}: {describe_status(drill, record)}{time} {record.live}".rstrip()


def _change(drill: Drill, change: Change) -> tuple[str, ...]:
    undone = change.status is ChangeStatus.UNDONE
    undo = "—" if undone else describe_undo(drill, change.kind)
    return (change.what, str(change.status), undo)


def _change_line(cells: tuple[str, ...]) -> str:
    what, status, undo = cells
    return f"{what}: {status}" + ("" if undo == "—" else f"; to undo it: {undo}")


def _check(check: CheckResult) -> tuple[str, ...]:
    evidence = f"{check.evidence}. Fix: {check.hint}" if check.hint else check.evidence
    return (check.id, check.title, str(check.outcome), evidence)


def _hooks(drill: Drill) -> Iterator[Section]:
    """Yield a table of the hooks, and what each has printed."""
    if not drill.hooks:
        return
    rows = tuple(
        (
            hook.name,
            hook.purpose,
            hook.command,
            hook.abort or "—",
            str(hook.status),
            describe_results(hook),
        )
        for hook in drill.hooks
    )
    yield Section(
        "Hooks",
        columns=("hook", "for", "command", "abort", "status", "result"),
        rows=rows,
        lines=tuple(line for hook in drill.hooks for line in describe_run(hook)),
    )
    for hook in drill.hooks:
        for name, output in (
            (hook.name, hook.output),
            (f"abort of the {hook.name}", hook.undo_output),
        ):
            if output:
                lines = tuple(output.splitlines())
                yield Section(f"Output of the {name}, attempt {hook.attempts}", items=lines)


def _clients(drill: Drill) -> Iterator[Section]:
    """Yield a table of the groups' clients; nothing if none was seen on the source."""
    watched = drill.record(DrillPhase.WATCH_CLIENTS).began_ms is not None
    rows = tuple(
        (
            safe_text(group.group),
            client.name,
            client.reads or "—",
            _came(client) if watched else "—",
        )
        for group in drill.groups
        for client in group.clients
    )
    if not rows:
        return
    columns = ("group", "client on the source", "read there", "gap until it joined on the target")
    text = ""
    if any(len(group.clients) == MOST_OF_GROUP for group in drill.groups) or (
        len(rows) >= MOST_CLIENTS
    ):
        text = f"The first {MOST_OF_GROUP} of each group, and {MOST_CLIENTS} in all."
    lines = tuple(_name_cells(columns, row) for row in rows)
    yield Section("Clients", text, columns=columns, rows=list_rows(rows), lines=lines)


def _came(client: GroupClient) -> str:
    if client.gap_s is None:
        return "not seen there by one of its names"
    return f"at most {duration(client.gap_s, tenths=True)}"


def _checkpoints(groups: Collection[GroupResult]) -> Iterator[Section]:
    """Yield a table that compares MirrorMaker 2's checkpoints with k2ktui's positions."""
    rows = tuple(
        (
            safe_text(group.group),
            str(effect.reread),
            _count(group.reread),
            str(effect.skipped),
            _count(group.skipped),
            str(effect.without),
            str(effect.unknown),
        )
        for group in groups
        if (effect := group.checkpoints) is not None
    )
    columns = (
        *("group", "re-read by checkpoints", "re-read by k2ktui", "skipped by checkpoints"),
        *("skipped by k2ktui", "partitions without a checkpoint", "partitions of unknown effect"),
    )
    if rows:
        lines = tuple(_name_cells(columns, row) for row in rows)
        yield Section(
            "Checkpoints of MirrorMaker 2", columns=columns, rows=list_rows(rows), lines=lines
        )


def _count(number: int | None) -> str:
    return "—" if number is None else str(number)


def _group(group: GroupResult) -> tuple[str, ...]:
    return (
        safe_text(group.group),
        str(group.partitions),
        str(group.unmapped),
        _count(group.reread),
        _count(group.skipped),
        str(group.compared),
        str(group.different),
        group.note,
    )


def _group_line(group: GroupResult) -> str:
    reread, skipped = ("—" if n is None else f"{n:,}" for n in (group.reread, group.skipped))
    return (
        f"{safe_text(group.group)}: {counted(group.partitions, 'partition')}, "
        f"{group.unmapped:,} unmapped, re-read {reread}, skipped {skipped}, "
        f"{group.different:,} of {group.compared:,} compared records differ"
        + (f"; {group.note}" if group.note else "")
    )


def _cell(text: object) -> str:
    """Return text that ends no cell and starts no markup."""
    safe = safe_message(text)
    for mark in "\\`*_[]<>|":
        safe = safe.replace(mark, f"\\{mark}")
    return safe


def verify_report(drill: Drill, entries: Collection[str]) -> list[str]:
    """Return what does not fit; nothing if the drill's record is as it was written.

    Args:
        drill: the drill as read from the state topic.
        entries: digests of its events, as the journal has them.
    """
    broken = find_broken_event(drill)
    problems = []
    if broken is not None:
        problems.append(f"event {broken} was changed after it was written")
    missing = [n for n, event in enumerate(drill.events, 1) if event.digest not in entries]
    if missing:
        numbers = ", ".join(map(str, missing))
        problems.append(f"the journal does not have the events {numbers} with these hashes")
    if drill.is_over:
        last = drill.events[-1].text if drill.events else ""
        if last != end_text(drill):
            problems.append("the report was changed after the drill ended")
    return problems
