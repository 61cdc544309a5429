"""The report of a site drill: the site first, then each pipeline; pure. Times in epoch ms."""

from __future__ import annotations

from collections import Counter
from typing import Any

from k2ktui.drill.progress import describe_loss, describe_state, rto_ms
from k2ktui.drill.report import (
    Report,
    Section,
    has_findings,
    list_harm,
    make_report,
    render_markdown,
    report_json,
    stopped_ms,
)
from k2ktui.engine.drill.checks import DrillKind
from k2ktui.engine.drill.model import Drill, DrillStatus
from k2ktui.engine.drill.site import BARRIER, MemberState, MemberStatus, SiteDrill, can_all_go_back
from k2ktui.engine.drill.site_mark import SiteName
from k2ktui.engine.drill.site_names import describe_name, describe_place, list_users
from k2ktui.text import (
    counted,
    duration,
    first_lines,
    list_names,
    moment,
    safe_message,
    safe_text,
)

_NAMED, _NAMES = 10, 3
_COLUMNS = ("pipeline", "status", "RPO", "RTO", "result")
_NAME_COLUMNS = ("name", "pipelines", "place")


def site_has_findings(site: SiteDrill) -> bool:
    """Return whether something was found, was left out, or has not ended."""
    return (
        not site.is_over
        or bool(site.mark.left_out)
        or bool(site.mark.ignored)
        or any(has_findings(drill) for drill in site.drills)
    )


def site_rpo(site: SiteDrill) -> tuple[int | None, bool]:
    """Return the records that are on the source only, and whether this is a lower bound.

    None if no member has measured it.
    """
    known = [
        (drill.figures.rpo_records, drill.figures.rpo_at_least)
        for drill in (state.drill for state in site.moving)
        if drill is not None
    ]
    records = [exact if exact is not None else least for exact, least in known]
    measured = [number for number in records if number is not None]
    if not measured:
        return None, False
    bound = len(measured) < len(site.moving) or any(exact is None for exact, _ in known)
    return sum(measured), bound


def site_rto_ms(site: SiteDrill) -> int | None:
    """Return the time from the first stop of applications to the last pipeline's first record.

    None while a pipeline that moves has no record read on its target.
    """
    moved = [state.drill for state in site.moving]
    firsts = [drill.figures.first_record_ms for drill in moved if drill is not None]
    if not firsts or len(firsts) < len(moved) or None in firsts:
        return None
    begun = min(stopped_ms(drill) for drill in moved if drill is not None)
    return max(0, max(first for first in firsts if first is not None) - begun)


def summarize_site(site: SiteDrill) -> list[str]:
    """Return the result of a site drill in a few lines, the verdict first."""
    lines = [_verdict(site)]
    records, bound = site_rpo(site)
    if records is not None:
        least = "at least " if bound else ""
        lines.append(f"RPO: {least}{counted(records, 'record')} on the source only")
    lines.append(f"RTO: {_rto(site)}")
    counts = Counter(state.status for state in site.members)
    words = ", ".join(f"{counts[status]} {status}" for status in MemberStatus if counts[status])
    lines.append(f"Pipelines: {len(site.members):,}: {words}")
    lines += first_lines([describe_name(site, name) for name in site.mark.names], _NAMES)
    out = [state.pipeline for state in site.members if state.left_out]
    if out:
        lines.append(f"Left out by choice: {list_names(out, _NAMED)}")
    if site.mark.ignored:
        lines.append(f"Files left out by choice: {list_names(site.mark.ignored, _NAMED)}")
    return lines


def _verdict(site: SiteDrill) -> str:
    name = f"{site.kind.noun} of {safe_text(site.name)}"
    if site.status is DrillStatus.ABORTED:
        return f"The {name} was aborted."
    if site.status is not DrillStatus.DONE:
        held = [state.pipeline for state in site.moving if state.status is MemberStatus.HELD]
        return f"The {name} has not ended" + (
            f"; held: {list_names(held, _NAMED)}." if held else "."
        )
    if site.kind is DrillKind.REHEARSE:
        unsafe = [drill.pipeline for drill in site.drills if drill.blockers]
        if unsafe:
            return f"A failover now would not be safe: findings of {list_names(unsafe, _NAMED)}."
        return "A failover now would move every group to its exact position."
    moved = [state.drill for state in site.moving if state.drill is not None]
    harmed = [drill.pipeline for drill in moved if list_harm(drill)]
    if harmed:
        return f"The {name} ended; records or groups suffered: {list_names(harmed, _NAMED)}."
    with_findings = [drill.pipeline for drill in moved if has_findings(drill)]
    more = f"; findings of {list_names(with_findings, _NAMED)}" if with_findings else ""
    return f"The {name} succeeded{more}."


def _rto(site: SiteDrill) -> str:
    tool = sum(drill.tool_ms for drill in site.drills) / 1000
    text = f"{duration(tool, tenths=True)} of the tool, all pipelines added up"
    total = site_rto_ms(site)
    if total is None:
        if site.kind is DrillKind.REHEARSE:
            return f"{text}; the time of people and applications is not measured"
        moving = [state.drill for state in site.moving]
        reading = sum(d is not None and d.figures.first_record_ms is not None for d in moving)
        verb = "is" if len(moving) == 1 else "are"
        return f"{reading} of {counted(len(moving), 'pipeline')} {verb} read on the target; {text}"
    return f"{duration(total / 1000)} until every pipeline was read on its target; {text}"


def member_rows(site: SiteDrill) -> list[dict[str, Any]]:
    """Return an object for each member: status, RPO, RTO, and why it is held."""
    return [_member(state) for state in site.members]


def _member(state: MemberState) -> dict[str, Any]:
    drill = state.drill
    figures = drill.figures if drill is not None else None
    return {
        "pipeline": state.pipeline,
        "drill": state.member.drill,
        "file": state.file,
        "target": state.member.target,
        "status": str(state.status),
        "acting": state.acting,
        "phase": describe_member(state),
        "error": state.error,
        "rpo_records": figures.rpo_records if figures else None,
        "rpo_at_least": figures.rpo_at_least if figures else None,
        "rpo_s": figures.rpo_s if figures else None,
        "rto_ms": rto_ms(drill) if drill is not None else None,
        "opened_ms": figures.opened_ms if figures else None,
    }


def describe_member(state: MemberState) -> str:
    """Return what a member waits for, or came to, in one line; safe to print."""
    if state.error:
        return safe_message(state.error)
    if state.left_out:
        return "by a typed choice: the others go on without it"
    if state.status is MemberStatus.READY:
        return f"verified; {BARRIER} waits for the others"
    if state.drill is None:
        return "not begun"
    return safe_message(describe_state(state.drill))


def name_rows(site: SiteDrill) -> list[dict[str, Any]]:
    """Return an object for each name of clients: whose it is, where it is, when it moves."""
    return [
        {
            "name": name.name,
            "pipelines": [state.pipeline for state in list_users(site, name)],
            "place": describe_place(site, name),
        }
        for name in site.mark.names
    ]


def site_json(site: SiteDrill) -> dict[str, Any]:
    """Return the report as a JSON object, with the report of each member."""
    records, bound = site_rpo(site)
    return {
        "id": site.id,
        "site": site.name,
        "cluster": site.mark.cluster,
        "kind": str(site.kind),
        "status": str(site.status),
        "started_ms": site.started_ms,
        "summary": summarize_site(site),
        "rpo_records": records,
        "rpo_is_lower_bound": bound,
        "rto_ms": site_rto_ms(site),
        "can_go_back": can_all_go_back(site),
        "left_out": [state.pipeline for state in site.members if state.left_out],
        "files_left_out": list(site.mark.ignored),
        "names": name_rows(site),
        "pipelines": member_rows(site),
        "reports": [report_json(drill) for drill in site.drills],
    }


def make_site_report(site: SiteDrill) -> Report:
    """Return the report of a site drill, with those of its members."""
    begun = f"Begun {moment(site.started_ms / 1000)}, cluster {safe_text(site.mark.cluster)}"
    rows = tuple(map(_cells, site.members))
    sections = [Section("Pipelines", columns=_COLUMNS, rows=rows)]
    if names := tuple(_name_cells(site, name) for name in site.mark.names):
        sections.append(Section("Clients' names", columns=_NAME_COLUMNS, rows=names))
    return Report(
        title=f"Site drill {site.id}: {site.kind} of {safe_text(site.name)}",
        summary=(*summarize_site(site), begun),
        sections=tuple(sections),
        is_good=not site_has_findings(site) if site.is_over else None,
        members=tuple(make_report(drill) for drill in site.drills),
    )


def site_markdown(site: SiteDrill) -> str:
    """Return the report as Markdown; its first ten lines are the summary."""
    return render_markdown(make_site_report(site))


def _cells(state: MemberState) -> tuple[str, ...]:
    """Return the row of a member below :data:`_COLUMNS`; safe to print."""
    drill: Drill | None = state.drill
    loss = describe_loss(drill) if drill is not None else ""
    time = rto_ms(drill) if drill is not None else None
    return (
        safe_text(state.pipeline),
        str(state.status),
        loss or "—",
        "—" if time is None else duration(time / 1000),
        describe_member(state),
    )


def _name_cells(site: SiteDrill, name: SiteName) -> tuple[str, ...]:
    """Return the row of a name below :data:`_NAME_COLUMNS`; safe to print."""
    users = ", ".join(safe_text(state.pipeline) for state in list_users(site, name))
    return safe_text(name.name), users, describe_place(site, name)
