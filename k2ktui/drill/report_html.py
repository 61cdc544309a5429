"""A report as one HTML page: no script, nothing loaded, light and dark, printable.

Drawings are SVG without a view box: widths are percentages, so that texts keep their size on a
phone, where a table has its cells below each other. Every text from elsewhere passes :func:`_safe`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from html import escape

from k2ktui.drill.report import Report, Section, describe_where, make_report, verify_command
from k2ktui.engine.drill.checks import DrillCheckOutcome
from k2ktui.engine.drill.format import report_digest
from k2ktui.engine.drill.model import Drill, PhaseRecord, PhaseStatus
from k2ktui.engine.drill.objectives import NO_OBJECTIVES, objective_time
from k2ktui.engine.drill.rehearsals import Rehearsal
from k2ktui.engine.drill.steps import describe_status
from k2ktui.text import counted, duration, moment, safe_message

# Lines of the timeline, in pixels: a phase has a line of text and its bar.
_PHASE, _BAR_AT, _BAR = 40, 22, 10
# Share of the timeline that the shortest bar has.
_LEAST = 0.5
# A chart: its height, and that of the texts above and below the columns.
_CHART, _ABOVE, _BELOW = 190, 26, 24
# With more rehearsals, the charts are below each other.
_BESIDE = 100
# A chart of few rehearsals keeps its columns narrow.
_LEAST_SLOTS = 10
_BAD = {PhaseStatus.FAILED: "bad", PhaseStatus.SKIPPED: "warn", PhaseStatus.RUNNING: "info"}
_WORDS = {
    **dict.fromkeys((str(PhaseStatus.DONE), str(DrillCheckOutcome.PASS), "made", "undone"), "ok"),
    **dict.fromkeys((str(PhaseStatus.FAILED), str(DrillCheckOutcome.FAIL)), "bad"),
    **dict.fromkeys((str(PhaseStatus.SKIPPED), str(DrillCheckOutcome.UNKNOWN), "kept"), "warn"),
}
_RESULT = {"Phases": 1, "Changes": 1, "Checks": 2, "Pipelines": 1, "Drills": 4}
_STYLE = """
:root { color-scheme: light dark; --back: #ffffff; --text: #1c2430; --muted: #5b6675;
  --line: #d9dfe7; --panel: #f4f6f9; --ok: #1a7f4b; --warn: #9a6200; --bad: #c02b2b;
  --info: #2563a8; --rest: #a9c9ea; --track: #e8ecf1; }
@media (prefers-color-scheme: dark) { :root { --back: #12161c; --text: #e4e8ee; --muted: #98a3b3;
  --line: #2d3541; --panel: #1a2028; --ok: #57c98a; --warn: #e0aa4e; --bad: #f27b7b;
  --info: #6aaef0; --rest: #2f5680; --track: #252d37; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 62rem; padding: 1.5rem 1rem 3rem; background: var(--back);
  color: var(--text); font: 16px/1.5 system-ui, -apple-system, "Segoe UI", sans-serif; }
h1 { font-size: 1.4rem; line-height: 1.25; margin: 0 0 1rem; overflow-wrap: anywhere; }
h2 { font-size: 1.1rem; margin: 2.2rem 0 .7rem; overflow-wrap: anywhere; }
h3 { font-size: 1rem; margin: 1.6rem 0 .6rem; }
p, li { overflow-wrap: anywhere; }
.summary { margin: 0 0 1rem; padding: .9rem 1.1rem; background: var(--panel);
  border: 1px solid var(--line); border-left: 5px solid var(--info); border-radius: 6px;
  list-style: none; }
.summary.ok { border-left-color: var(--ok); }
.summary.bad { border-left-color: var(--bad); }
.summary li:first-child { font-weight: 600; font-size: 1.08rem; }
.muted, figcaption { color: var(--muted); font-size: .9rem; }
figure { margin: 0 0 1.4rem; }
figcaption { margin-bottom: .3rem; }
.trend { display: grid; grid-template-columns: repeat(auto-fit, minmax(17rem, 1fr)); gap: 0 2rem; }
.key { display: inline-block; width: .9rem; height: .6rem; border-radius: 2px; }
.key ~ .key { margin-left: .8rem; }
.key.tool { background: var(--info); } .key.rest { background: var(--rest); }
.key.warn { background: var(--warn); }
.trend.wide { grid-template-columns: 1fr; }
svg { display: block; width: 100%; font: 13px system-ui, sans-serif; overflow: visible; }
svg text { fill: var(--text); }
svg .muted { fill: var(--muted); }
.track { fill: var(--track); }
rect.ok, text.ok { fill: var(--ok); } rect.warn, text.warn { fill: var(--warn); }
rect.bad, text.bad { fill: var(--bad); } rect.info { fill: var(--info); }
rect.rest { fill: var(--rest); } rect.unknown { fill: var(--muted); }
line.axis { stroke: var(--line); } line.goal { stroke: var(--bad); stroke-dasharray: 5 4; }
.table { overflow-x: auto; border: 1px solid var(--line); border-radius: 6px; }
table { border-collapse: collapse; width: 100%; font-size: .875rem; }
th, td { padding: .35rem .6rem; text-align: left; vertical-align: top;
  border-top: 1px solid var(--line); }
th { color: var(--muted); font-weight: 600; white-space: nowrap; border-top: 0;
  background: var(--panel); }
td { overflow-wrap: anywhere; min-width: 3.5rem; }
td.long { min-width: 15rem; }
td.number { white-space: nowrap; }
td.ok, td.warn, td.bad { font-weight: 600; white-space: nowrap; }
td.ok { color: var(--ok); } td.warn { color: var(--warn); } td.bad { color: var(--bad); }
code { font: .85em ui-monospace, monospace; overflow-wrap: anywhere; }
@media (max-width: 34rem) { .table { overflow: visible; border: 0; }
  table, tbody, tr, td { display: block; } thead { display: none; }
  tr { margin-bottom: .6rem; border: 1px solid var(--line); border-radius: 6px;
    padding: .35rem 0; }
  td, td.long { border: 0; min-width: 0; padding: .1rem .7rem; }
  td::before { content: attr(data-label) ": "; color: var(--muted); font-weight: 400; } }
@media print { body { max-width: none; padding: 0; font-size: 11pt; }
  .table { overflow: visible; border: 0; } table { font-size: 8.5pt; }
  td.long { min-width: 0; } tr, figure { break-inside: avoid; } h2 { break-after: avoid; }
  * { print-color-adjust: exact; } }
"""


def report_html(drill: Drill, rehearsals: Sequence[Rehearsal] = ()) -> str:
    """Return the report as a page; the same as :func:`~k2ktui.drill.report.report_markdown`.

    Args:
        drill: the drill.
        rehearsals: the pipeline's rehearsals, the oldest first.
    """
    return render_html(make_report(drill, rehearsals))


def render_html(report: Report) -> str:
    """Return a report as a page; the same as :func:`~k2ktui.drill.report.render_markdown`."""
    return "\n".join(_page(report)) + "\n"


def _page(report: Report) -> Iterator[str]:
    yield "<!DOCTYPE html>"
    yield '<html lang="en">'
    yield "<head>"
    yield '<meta charset="utf-8">'
    # Nothing is loaded and nothing runs, whatever a name contains.
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    yield f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield f"<title>{_safe(report.title)}</title>"
    yield f"<style>{_STYLE}</style>"
    yield "</head>"
    yield "<body>"
    yield f"<h1>{_safe(report.title)}</h1>"
    yield f'<ul class="summary {_VERDICTS[report.is_good]}">'
    yield from (f"<li>{_safe(line)}</li>" for line in report.summary)
    yield "</ul>"
    yield from _content(report, 2)
    yield "</body>"
    yield "</html>"


_VERDICTS = {None: "info", True: "ok", False: "bad"}


def _content(report: Report, level: int) -> Iterator[str]:
    """Yield the elements below the summary, with headings of this level."""
    drill = report.drill
    if drill is not None:
        yield f'<p class="muted">{_safe(describe_where(drill))}</p>'
        yield f"<h{level}>Timeline</h{level}>"
        yield from _timeline(drill)
        if report.rehearsals:
            yield f"<h{level}>Trend of the rehearsals</h{level}>"
            yield from _trend(drill, report.rehearsals)
    for section in report.sections:
        yield from _section(section, level)
    for member in report.members:
        yield from _section(Section(member.title, items=member.summary), level)
        yield from _content(member, level + 1)
    if drill is not None:
        digest, verify = report_digest(drill), f"<code>{_safe(verify_command(drill))}</code>"
        yield '<p class="muted">'
        yield f"SHA-256 of the report: <code>{digest}</code>. Verify it with {verify}."
        yield "It covers the drill, not the other rehearsals.</p>"


def _safe(text: object) -> str:
    """Return text that ends no element and no attribute, and hides nothing."""
    return escape(safe_message(text), quote=True)


def _section(section: Section, level: int) -> Iterator[str]:
    """Yield a section's elements, with a heading of this level."""
    yield f"<h{level}>{_safe(section.title)}</h{level}>"
    if section.text:
        yield f"<p>{_safe(section.text)}</p>"
    if section.items:
        yield "<ul>"
        yield from (f"<li>{_safe(item)}</li>" for item in section.items)
        yield "</ul>"
    if not section.columns:
        return
    yield '<div class="table"><table>'
    heading = "".join(f"<th>{_safe(name)}</th>" for name in section.columns)
    yield f"<thead><tr>{heading}</tr></thead>"
    yield "<tbody>"
    result = _RESULT.get(section.title)
    for row in section.rows:
        cells = (
            _td(label, text, is_result=number == result)
            for number, (label, text) in enumerate(zip(section.columns, row, strict=True))
        )
        yield f"<tr>{''.join(cells)}</tr>"
    yield "</tbody>"
    yield "</table></div>"


_SHORT, _LONG = 12, 40


def _td(label: str, text: str, *, is_result: bool) -> str:
    kind = _WORDS.get(text, "") if is_result else ""
    if not kind and len(text) > _LONG:
        kind = "long"
    if not kind and len(text) <= _SHORT:
        kind = "number"
    named = f' data-label="{_safe(label)}"'
    return f"<td{_class(kind)}{named}>{_safe(text)}</td>"


def _timeline(drill: Drill) -> Iterator[str]:
    """Yield a bar for each phase, from its beginning to its end; the tool's share is darker."""
    begun = [record for record in drill.phases if record.began_ms is not None]
    first = min((record.began_ms or 0 for record in begun), default=drill.started_ms)
    last = max((_end(drill, record) for record in begun), default=first)
    span = max(1, last - first)
    height = _PHASE * len(drill.phases) + 18
    yield "<figure>"
    yield (
        '<figcaption><span class="key tool"></span> the tool '
        '<span class="key rest"></span> waiting for people and applications '
        '<span class="key warn"></span> the tool, with findings</figcaption>'
    )
    label = f"Phases from {moment(first / 1000)} to {moment(last / 1000)}"
    yield f'<svg role="img" aria-label="{_safe(label)}" height="{height}">'
    for number, record in enumerate(drill.phases):
        yield from _phase(drill, record, number * _PHASE, first, span)
    y = height - 4
    yield f'<text class="muted" x="0" y="{y}">{_safe(moment(first / 1000))}</text>'
    end = moment(last / 1000).partition(" ")[2]
    yield f'<text class="muted" x="100%" y="{y}" text-anchor="end">{_safe(end)}</text>'
    yield "</svg>"
    yield "</figure>"


def _end(drill: Drill, record: PhaseRecord) -> int:
    """Return when a phase ended; of one that runs, the last sign of life."""
    if record.ended_ms is not None:
        return record.ended_ms
    return max(record.began_ms or 0, drill.beat_ms)


def _phase(drill: Drill, record: PhaseRecord, top: int, first: int, span: int) -> Iterator[str]:
    waits = record.began_ms is None
    status = describe_status(drill, record)
    took = 0 if record.began_ms is None else max(0, _end(drill, record) - record.began_ms)
    right = status if waits else duration(took / 1000, tenths=True)
    if record.status is PhaseStatus.FAILED:
        right = f"failed, {right}"
    tone = "muted" if waits else _BAD.get(record.status, "")
    y = top + _BAR_AT - 7
    yield f'<text x="0" y="{y}"{_class("muted" if waits else "")}>{_safe(record.phase)}</text>'
    yield f'<text x="100%" y="{y}" text-anchor="end"{_class(tone)}>{_safe(right)}</text>'
    yield _rect(0, 100, top + _BAR_AT, _BAR, "track")
    if record.began_ms is None:
        return
    at = min(100 - _LEAST, 100 * (record.began_ms - first) / span)
    width = min(100 - at, max(_LEAST, 100 * took / span))
    share = 1.0 if not took else max(0.0, 1 - record.waited_ms / took)
    solid = _BAD.get(record.status, "warn" if record.findings else "info")
    title = f"{record.phase}: {status}, {right}: {record.live}"
    yield _rect(at, width, top + _BAR_AT, _BAR, "rest", title)
    if share > 0:
        yield _rect(at, max(_LEAST, width * share), top + _BAR_AT, _BAR, solid, title)


def _class(name: str) -> str:
    return f' class="{name}"' if name else ""


def _rect(x: float, width: float, y: float, height: float, kind: str, title: str = "") -> str:
    """Return a rectangle: ``x`` and ``width`` in percent, the others in pixels."""
    said = f"<title>{_safe(title)}</title>" if title else ""
    return (
        f'<rect class="{kind}" x="{x:.2f}%" width="{width:.2f}%" y="{y:.1f}" '
        f'height="{height:.1f}" rx="2">{said}</rect>'
    )


@dataclass(frozen=True, slots=True)
class _Series:
    """One chart of the trend: its title, values, objective, and how a value is written."""

    title: str
    values: Sequence[float | None]
    goal: float | None
    text: Callable[[float], str]


def _trend(drill: Drill, rehearsals: Sequence[Rehearsal]) -> Iterator[str]:
    goals = drill.objectives or NO_OBJECTIVES
    ages = [None if r.rpo_ms is None else r.rpo_ms / 1000 for r in rehearsals]

    def seconds(value: float) -> str:
        return duration(value, tenths=True)

    series = (
        _Series(
            "RPO: records on the source only",
            [r.rpo_records for r in rehearsals],
            goals.rpo_records,
            lambda value: counted(round(value), "record"),
        ),
        _Series("RPO: age of the oldest of them", ages, goals.rpo_s, seconds),
        _Series(
            "RTO: time of the tool",
            [r.rto_ms / 1000 for r in rehearsals],
            goals.rto_s,
            seconds,
        ),
    )
    wide = " wide" if len(rehearsals) > _BESIDE else ""
    yield f'<div class="trend{wide}">'
    for chart in series:
        yield from _chart(chart, rehearsals)
    yield "</div>"


def _chart(chart: _Series, rehearsals: Sequence[Rehearsal]) -> Iterator[str]:
    """Yield columns, one for each rehearsal, with the objective as a line."""
    known = [value for value in chart.values if value is not None]
    top = max([*known, chart.goal or 0, 0]) or 1
    room = _CHART - _ABOVE - _BELOW
    base = _CHART - _BELOW
    slot = 100 / max(_LEAST_SLOTS, len(rehearsals))
    goal = "" if chart.goal is None else f"objective: at most {_goal_text(chart)}"
    last = chart.values[-1]
    newest = "unknown" if last is None else chart.text(last)
    yield "<figure>"
    yield f"<figcaption>{_safe(chart.title)}<br>last: {_safe(newest)}</figcaption>"
    label = f"{chart.title}; {counted(len(rehearsals), 'rehearsal')}; last: {newest}; {goal}"
    yield f'<svg role="img" aria-label="{_safe(label)}" height="{_CHART}">'
    for number, (rehearsal, value) in enumerate(zip(rehearsals, chart.values, strict=True)):
        above = value is not None and chart.goal is not None and value > chart.goal
        kind = "unknown" if value is None else "bad" if above else "info"
        height = 2.0 if value is None else max(2.0, room * value / top)
        shown = "unknown" if value is None else chart.text(value)
        title = f"{moment(rehearsal.at_ms / 1000)}: {shown}"
        gap = slot * 0.15
        yield _rect(number * slot + gap, slot - 2 * gap, base - height, height, kind, title)
    yield f'<line class="axis" x1="0" x2="100%" y1="{base}" y2="{base}"></line>'
    if chart.goal is not None:
        y = base - room * chart.goal / top
        yield f'<line class="goal" x1="0" x2="100%" y1="{y:.1f}" y2="{y:.1f}"></line>'
    # Above all columns, so that none is behind it.
    most = f"most: {chart.text(max(known))}" if known else ""
    kind = "muted" if chart.goal is None else "bad"
    yield f'<text class="{kind}" x="0" y="12">{_safe(goal or most)}</text>'
    days = [moment(r.at_ms / 1000).partition(" ")[0] for r in (rehearsals[0], rehearsals[-1])]
    span = " to ".join(dict.fromkeys(days))
    yield f'<text class="muted" x="0" y="{_CHART - 6}">{_safe(span)}</text>'
    yield "</svg>"
    yield "</figure>"


def _goal_text(chart: _Series) -> str:
    goal = chart.goal or 0.0
    return chart.text(goal) if chart.title.startswith("RPO: records") else objective_time(goal)
