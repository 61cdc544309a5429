"""The report of a drill, as Markdown and as JSON, and its verification; pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import asdict
from typing import Any

from k2ktui.engine.drill.checks import DrillCheckOutcome, DrillKind, DrillPhase
from k2ktui.engine.drill.format import find_broken_event, report_content, report_digest
from k2ktui.engine.drill.model import (
    ChangeStatus,
    Drill,
    DrillFigures,
    DrillStatus,
    GroupResult,
    PhaseRecord,
    PhaseStatus,
)
from k2ktui.engine.drill.steps import describe_undo, describe_way_back
from k2ktui.engine.drill.tail import list_tail
from k2ktui.text import counted, duration, moment, safe_message, safe_text

ENDED = "ended"
_LISTED_GROUPS = 200
# The check that compares the measured RPO and RTO with the objectives.
MEASURES = "D46"


def end_text(drill: Drill) -> str:
    """Return the text of a drill's last event, which holds the hash of its report."""
    return f"{ENDED}: {drill.status}, report sha256 {report_digest(drill)}"


def has_findings(drill: Drill) -> bool:
    """Return whether something was found that an operator should know or fix."""
    return bool(drill.blockers) or any(
        record.findings or record.status is PhaseStatus.FAILED for record in drill.phases
    )


def misses_only_objectives(drill: Drill) -> bool:
    """Return whether a rehearsal found nothing but a missed objective."""
    findings = _list_findings(drill)
    return bool(findings) and all(check == MEASURES for _, check in findings)


def list_harm(drill: Drill) -> list[str]:
    """Return the harm that a drill has done to records and groups; empty if none.

    Findings of checks are not harm: they name what could have gone wrong, or still may.
    """
    figures, groups = drill.figures, drill.groups
    missing = figures.rpo_records or figures.rpo_at_least or 0
    reread, skipped = (sum(n or 0 for n in ns) for ns in _effects(groups))
    unmapped = sum(1 for group in groups if group.unmapped)
    absent = sum(1 for group in groups if group.was_active and group.joined is False)
    least = "at least " if figures.rpo_records is None else ""
    harm = (
        (missing, f"{least}{counted(missing, 'record')} missing"),
        (reread, f"{counted(reread, 'record')} read again"),
        (skipped, f"{counted(skipped, 'record')} skipped"),
        (figures.content_different, f"{counted(figures.content_different, 'record')} different"),
        (unmapped, f"{counted(unmapped, 'group')} not moved completely"),
        (absent, f"{counted(absent, 'group')} not on the target yet"),
    )
    return [text for number, text in harm if number]


def _effects(groups: Collection[GroupResult]) -> tuple[list[int | None], list[int | None]]:
    return [group.reread for group in groups], [group.skipped for group in groups]


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
    lines = [_verdict(drill)]
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


def _verdict(drill: Drill) -> str:
    name = f"{drill.kind.noun} of {safe_text(drill.pipeline)}"
    if drill.status is DrillStatus.ABORTED:
        return f"The {name} was aborted; what it had changed was restored."
    if drill.status is not DrillStatus.DONE:
        return f"The {name} has not ended."
    if drill.kind is DrillKind.REHEARSE:
        if drill.blockers and misses_only_objectives(drill):
            return (
                "A failover now would move every group to its exact position, but would miss an "
                "objective."
            )
        if drill.blockers:
            findings_text = _count_findings(drill) or counted(len(drill.blockers), "finding")
            return f"A failover now would not be safe: {findings_text}."
        return "A failover now would move every group to its exact position."
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


def _groups(groups: Collection[GroupResult]) -> str:
    unmapped = sum(1 for group in groups if group.unmapped)
    reread = sum(group.reread or 0 for group in groups)
    skipped = sum(group.skipped or 0 for group in groups)
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


def report_json(drill: Drill) -> dict[str, Any]:
    """Return the report as a JSON object."""
    return {
        "id": drill.id,
        "status": str(drill.status),
        "ended_ms": drill.ended_ms,
        "summary": summarize(drill),
        "tool_ms": drill.tool_ms,
        **report_content(drill),
        "checks": [check.as_json() for check in drill.checks],
        "events": [asdict(event) for event in drill.events],
        "sha256": report_digest(drill),
    }


def report_markdown(drill: Drill) -> str:
    """Return the report as Markdown; its first ten lines are the summary."""
    return "\n".join(_lines(drill)) + "\n"


def _lines(drill: Drill) -> Iterator[str]:
    yield f"# Drill {_cell(drill.id)}: {drill.kind} of {_cell(safe_text(drill.pipeline))}"
    yield ""
    for line in summarize(drill):
        yield f"- {_cell(line)}"
    began = moment(drill.started_ms / 1000)
    yield f"- Begun {began} by {_cell(safe_text(drill.started_by))}, k2ktui {_cell(drill.version)}"
    yield ""
    source, target = _cell(drill.source_cluster) or "unknown", _cell(drill.target_cluster)
    yield f"Source cluster {source}, target cluster {target}. {_cell(describe_way_back(drill))}"
    yield ""
    if drill.blockers:
        yield "## Findings"
        yield ""
        for blocker in drill.blockers:
            yield f"- {_cell(blocker)}"
        yield ""
    yield "## Phases"
    yield ""
    yield "| phase | status | took | of the tool | result |"
    yield "|---|---|---|---|---|"
    for record in drill.phases:
        yield _phase(record)
    yield ""
    yield from _changes(drill)
    yield from _tables(drill)
    yield "## Journal"
    yield ""
    yield "| time | by | phase | event | hash |"
    yield "|---|---|---|---|---|"
    for event in drill.events:
        at = moment(event.at_ms / 1000)
        row = (at, safe_text(event.who), event.phase, event.text, event.digest)
        yield f"| {' | '.join(map(_cell, row))} |"
    yield ""
    verify = f"k2ktui drill report {_cell(drill.id)} -f FILE --verify"
    yield f"SHA-256 of the report: `{report_digest(drill)}`. Verify it with `{verify}`."


def _phase(record: PhaseRecord) -> str:
    took = record.took_ms
    times = ("—", "—")
    if took is not None:
        times = (f"{took / 1000:.1f} s", f"{max(0, took - record.waited_ms) / 1000:.1f} s")
    text = "; ".join(part for part in (record.live, *record.findings) if part)
    return f"| {record.phase} | {record.status} | {times[0]} | {times[1]} | {_cell(text)} |"


def _changes(drill: Drill) -> Iterator[str]:
    yield "## Changes"
    yield ""
    if not drill.changes:
        yield "Nothing was changed."
    else:
        yield "| change | status | to undo it |"
        yield "|---|---|---|"
    for change in drill.changes:
        undo = (
            "—"
            if change.status is ChangeStatus.UNDONE
            else _cell(describe_undo(drill, change.kind))
        )
        yield f"| {_cell(change.what)} | {change.status} | {undo} |"
    yield ""


def _tables(drill: Drill) -> Iterator[str]:
    if drill.tail:
        yield "## Tail: records of the old source that had not been copied"
        yield ""
        for line in list_tail(drill.tail):
            yield f"- {_cell(line)}"
        yield ""
    if drill.checks:
        yield "## Checks"
        yield ""
        yield "| id | check | result | evidence |"
        yield "|---|---|---|---|"
        for check in drill.checks:
            text = f"{check.evidence}. Fix: {check.hint}" if check.hint else check.evidence
            yield f"| {check.id} | {_cell(check.title)} | {check.outcome} | {_cell(text)} |"
        yield ""
    if drill.groups:
        yield "## Groups"
        yield ""
        yield "| group | partitions | unmapped | re-read | skipped | compared | different | note |"
        yield "|---|---|---|---|---|---|---|---|"
        for group in drill.groups[:_LISTED_GROUPS]:
            yield _group(group)
        more = len(drill.groups) - _LISTED_GROUPS
        if more > 0:
            yield f"| and {more:,} more | | | | | | | in the JSON report |"
        yield ""
        yield from _checkpoints(drill.groups)


def _checkpoints(groups: Collection[GroupResult]) -> Iterator[str]:
    """Yield a table that compares MirrorMaker 2's checkpoints with k2ktui's positions."""
    with_checkpoints = [
        (group, group.checkpoints) for group in groups if group.checkpoints is not None
    ]
    if not with_checkpoints:
        return
    yield "## Checkpoints of MirrorMaker 2"
    yield ""
    yield (
        "| group | re-read by checkpoints | re-read by k2ktui | skipped by checkpoints "
        "| skipped by k2ktui | partitions without a checkpoint | partitions of unknown effect |"
    )
    yield "|---|---|---|---|---|---|---|"
    for group, effect in with_checkpoints[:_LISTED_GROUPS]:
        cells = (
            _cell(safe_text(group.group)),
            effect.reread,
            _count(group.reread),
            effect.skipped,
            _count(group.skipped),
            effect.without,
            effect.unknown,
        )
        yield f"| {' | '.join(map(str, cells))} |"
    more = len(with_checkpoints) - _LISTED_GROUPS
    if more > 0:
        yield f"| and {more:,} more | | | | | | in the JSON report |"
    yield ""


def _count(number: int | None) -> str:
    return "—" if number is None else str(number)


def _group(group: GroupResult) -> str:
    cells = [
        _cell(safe_text(group.group)),
        group.partitions,
        group.unmapped,
        _count(group.reread),
        _count(group.skipped),
        group.compared,
        group.different,
        _cell(group.note),
    ]
    return f"| {' | '.join(map(str, cells))} |"


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
