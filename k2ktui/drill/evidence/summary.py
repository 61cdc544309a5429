"""A summary of signed reports: one page, for a quarter; only what is verified is listed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from k2ktui.drill.evidence.document import Evidence
from k2ktui.drill.evidence.verification import Verified
from k2ktui.drill.report import Report, Section
from k2ktui.engine.drill.model import DrillStatus
from k2ktui.engine.strict_json import MalformedRecord, number
from k2ktui.text import counted, duration, moment, safe_text

_COLUMNS = (
    *("ended", "pipeline", "number", "drill", "result", "RPO, records", "RPO, age", "RTO"),
    *("failed checks", "what the report says", "signed"),
)


def choose(verified: Verified, since_ms: int, last: int | None) -> list[Evidence]:
    """Return the documents of drills that ended since a time, the newest first.

    Args:
        verified: the documents of a directory.
        since_ms: epoch milliseconds.
        last: maximum number of drills of each pipeline; None for all.
    """
    newest = sorted(verified.evidence, key=lambda one: (one.ended_ms, one.digest), reverse=True)
    chosen: dict[str, list[Evidence]] = {}
    for evidence in newest:
        of_pipeline = chosen.setdefault(evidence.pipeline, [])
        if evidence.ended_ms >= since_ms and (last is None or len(of_pipeline) < last):
            of_pipeline.append(evidence)
    listed = {one.digest for of_pipeline in chosen.values() for one in of_pipeline}
    return [evidence for evidence in newest if evidence.digest in listed]


def make_summary(verified: Verified, chosen: Sequence[Evidence], title: str) -> Report:
    """Return the summary: what is wrong first, then the drills, then what is not proven.

    Args:
        verified: all documents of the directory: gaps are those of the whole sequence.
        chosen: the documents that are listed.
        title: heading.
    """
    problems = verified.problems
    pipelines = len({evidence.pipeline for evidence in chosen})
    verdict = "All signatures and sequences hold."
    if problems:
        verdict = f"{counted(len(problems), 'problem')}: see below."
    sections = [Section("Problems", items=problems)] if problems else []
    sections.append(Section("Drills", columns=_COLUMNS, rows=tuple(map(_row, chosen))))
    if verified.notes:
        sections.append(Section("Notes", items=verified.notes))
    sections.append(
        Section(
            "What is not proven",
            "Whoever has the private key can sign anything, and sign a whole sequence anew. That "
            "the newest reports of a sequence are missing cannot be told: compare the highest "
            "number of each with what you were told.",
            items=tuple(_highest(verified.evidence)),
        )
    )
    return Report(
        title=title,
        summary=(
            verdict,
            f"{counted(len(chosen), 'drill')} of {counted(pipelines, 'pipeline')} listed, of "
            f"{counted(len(verified.files), 'file')}",
        ),
        sections=tuple(sections),
        is_good=not problems,
    )


def _highest(documents: Sequence[Evidence]) -> list[str]:
    last = {(one.pipeline, one.key): one.place.sequence for one in documents}
    return [
        f"{safe_text(pipeline)}, key {key}: the highest number is {sequence}"
        for (pipeline, key), sequence in last.items()
    ]


def _row(evidence: Evidence) -> tuple[str, ...]:
    figures = evidence.figures
    records, least = figures.get("rpo_records"), figures.get("rpo_at_least")
    rpo = _number(records)
    if records is None and least is not None:
        rpo = f"at least {_number(least)}"
    return (
        moment(evidence.ended_ms / 1000),
        safe_text(evidence.pipeline),
        str(evidence.place.sequence),
        f"{evidence.kind.noun} {safe_text(evidence.drill_id)}",
        _result(evidence),
        rpo,
        _seconds(figures.get("rpo_s")),
        _rto(figures),
        ", ".join(map(safe_text, evidence.failed_checks)) or "—",
        safe_text(evidence.summary[0]) if evidence.summary else "",
        f"{evidence.signed.describe()}, {safe_text(evidence.signed_by)}, "
        f"{moment(evidence.signed_ms / 1000)}, key {evidence.key[:16]}",
    )


def _result(evidence: Evidence) -> str:
    """Return how a drill has ended, as its command's exit code had it."""
    if evidence.status is not DrillStatus.DONE:
        return str(evidence.status)
    return "findings" if evidence.has_findings or evidence.failed_checks else "pass"


def _rto(figures: Mapping[str, Any]) -> str:
    """Return the RTO; where people and applications did not take part, the tool's share."""
    if (whole := figures.get("rto_s")) is not None:
        return _seconds(whole)
    return f"{_seconds(figures.get('tool_s'))} of the tool"


def _number(value: object) -> str:
    try:
        return f"{number(value):,.0f}"
    except MalformedRecord:
        return "—"


def _seconds(value: object) -> str:
    try:
        return duration(number(value), tenths=True)
    except MalformedRecord:
        return "—"
