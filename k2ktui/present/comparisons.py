"""A comparison's report as columns, lines and Markdown: offsets and hashes, never contents."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from k2ktui.engine.compare.outcomes import UNPROVEN, Finding, Outcome, PartResult
from k2ktui.engine.compare.record import ComparedPartition, ComparedPartitions
from k2ktui.engine.compare.report import ComparisonReport
from k2ktui.engine.records.state import SourcePartition
from k2ktui.engine.severity import Severity, SeverityLabel
from k2ktui.present import formatting
from k2ktui.present.columns import Column, text_column
from k2ktui.present.formatting import Cell, Glyphs, Tone
from k2ktui.present.partitions import COMPARED
from k2ktui.text import counted, duration, moment, safe_message, safe_text
from k2ktui.watch.model import PartitionRow

_RANK, _EMPTY_RANK = 4, 15
_WIDTH = len("● equal in part, 5 m")
_HASH_CHARACTERS = 16
_MARKS = str.maketrans(
    {char: f"\\{char}" for char in "\\`*_{}[]()#+!|~"} | {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
)


def partition_columns(
    differences: Callable[[PartResult], int],
) -> tuple[Column[PartResult], ...]:
    """Return the columns of a table of partitions; ``differences`` counts those of one."""
    return (
        text_column("partition", lambda result: safe_text(result.source), left=True),
        text_column("offsets", lambda result: f"{result.first}…{result.end}"),
        text_column("equal", lambda result: f"{result.counts.get(Outcome.EQUAL, 0):,}"),
        text_column("differences", lambda result: f"{differences(result):,}"),
        text_column("unproven", lambda result: f"{result.count(UNPROVEN):,}"),
        text_column("digest", lambda result: f"{result.target_digest:032x}", left=True, wide=True),
    )


def compared_column(
    compared: Callable[[], ComparedPartitions], now: Callable[[], float], glyphs: Glyphs
) -> Column[PartitionRow]:
    """Return the column of the last comparison's result and age; it sorts by the differences.

    It is the first that a narrow terminal leaves out as long as there was no comparison.
    """

    def order(row: PartitionRow) -> tuple[int, int] | None:
        last = compared().get(row.key)
        return None if last is None else (-last.differences, -last.unproven)

    return Column(
        COMPARED,
        "compared",
        lambda row: compared_cell(compared().get(row.key), now(), glyphs),
        order,
        width=_WIDTH,
        rank=_RANK if compared() else _EMPTY_RANK,
    )


def compared_cell(last: ComparedPartition | None, now: float, glyphs: Glyphs) -> Cell:
    """Return what the last comparison found on a partition, and how long ago."""
    if last is None:
        return Cell(formatting.NOT_AVAILABLE, Tone.MUTED)
    severity, word = Severity.OK, "equal" if last.is_whole else "equal in part"
    if last.differences:
        severity, word = Severity.BAD, f"{last.differences:,} different"
    elif last.unproven:
        severity, word = Severity.INFO, f"{last.unproven:,} unproven"
    age = formatting.short_age(now - last.at_ms / 1000)
    return glyphs.mark(SeverityLabel(severity, f"{word}, {age}"))


def summary_lines(report: ComparisonReport) -> Iterator[str]:
    """Yield the totals, one line for each outcome, and what was not compared."""
    for outcome, count in sorted(
        report.counts.items(), key=lambda item: list(Outcome).index(item[0])
    ):
        yield f"{outcome}: {count:,}"
    for at, why in sorted(report.left_out.items()):
        yield f"not compared: {safe_text(at)}: {safe_message(why)}"
    for topic, parts in sorted(report.ignored.items()):
        yield f"{safe_text(topic)}: the pipeline changes, so not compared: {', '.join(parts)}"
    took = duration(max(0.0, report.ended_at - report.began_at))
    yield (
        f"{counted(len(report.results), 'partition')}, {report.different:,} different, "
        f"{report.unproven:,} unproven; {report.read_bytes:,} bytes read in {took}"
    )


def finding_text(at: SourcePartition, finding: Finding) -> str:
    """Return a finding with its place, in one line."""
    source = safe_text(at)
    if finding.source_offset is not None:
        source += f"@{finding.source_offset}"
    target = ""
    if finding.target is not None:
        topic, partition = finding.target
        target = f" → {safe_text(topic)}-{partition}@{finding.target_offset}"
    why = f": {safe_message(finding.why)}" if finding.why else ""
    return f"{source}{target}: {finding.outcome}{why}"


def unread_text(result: PartResult) -> str:
    """Return why a source partition was not read to its end."""
    return f"{safe_text(result.source)}: not read {safe_message(result.unread)}"


def markdown(report: ComparisonReport) -> str:
    """Return the report as a Markdown page."""
    return "\n".join(_lines(report)) + "\n"


def _lines(report: ComparisonReport) -> Iterator[str]:
    yield f"# Comparison of {_plain(report.pipeline)}: {_verdict(report)}"
    yield ""
    yield f"- Source cluster: {_plain(report.source_cluster)}"
    yield f"- Target cluster: {_plain(report.target_cluster)}"
    yield f"- From {moment(report.began_at)} to {moment(report.ended_at)}"
    if report.topics:
        yield f"- Topics: {_plain(report.topics)}"
    if report.since_ms is not None:
        yield f"- Records from {moment(report.since_ms / 1000)} on"
    if report.sample < 1:
        yield f"- A sample of {report.sample:.2%} of the offsets"
    for note in report.notes:
        yield f"- {_plain(note)}"
    yield ""
    yield "| outcome | records |"
    yield "|---|---:|"
    for outcome in Outcome:
        if report.counts.get(outcome):
            yield f"| {outcome} | {report.counts[outcome]:,} |"
    yield ""
    yield "| partition | offsets | equal | differences | unproven | source digest | target digest |"
    yield "|---|---|---:|---:|---:|---|---|"
    for at, result in sorted(report.results.items()):
        yield (
            f"| {_plain(at)} | {result.first}…{result.end} "
            f"| {result.counts.get(Outcome.EQUAL, 0):,} | {report.differences(result):,} "
            f"| {result.count(UNPROVEN):,} "
            f"| {result.source_digest:032x} | {result.target_digest:032x} |"
        )
    yield from _finding_lines(report)
    yield from _unproven_lines(report)
    if report.left_out or report.ignored:
        yield ""
        yield "## Not compared"
        yield ""
        for at, why in sorted(report.left_out.items()):
            yield f"- {_plain(at)}: {_plain(why)}"
        for topic, parts in sorted(report.ignored.items()):
            yield f"- {_plain(topic)}, which the pipeline changes: {', '.join(parts)}"


def _verdict(report: ComparisonReport) -> str:
    if not report.has_records:
        return "no record was compared"
    differences = counted(report.different, "difference") if report.different else "no difference"
    return f"{differences}, {report.unproven:,} unproven" if report.unproven else differences


def _finding_lines(report: ComparisonReport) -> Iterator[str]:
    notable = {
        at: result
        for at, result in sorted(report.results.items())
        if report.findings(result) or result.unread
    }
    if not notable:
        return
    yield ""
    yield "## First findings of each partition"
    yield ""
    for at, result in notable.items():
        for finding in report.findings(result):
            hashes = (finding.source_hash, finding.target_hash)
            shown = " and ".join(one[:_HASH_CHARACTERS] or "none" for one in hashes)
            yield f"- {_plain(finding_text(at, finding))} (SHA-256 {shown})"
        if result.unread:
            yield f"- {_plain(unread_text(result))}"


def _unproven_lines(report: ComparisonReport) -> Iterator[str]:
    lines = [
        f"- {_plain(finding_text(at, finding))}"
        for at, result in sorted(report.results.items())
        for finding in result.unproven_findings
    ]
    if lines:
        yield from ("", "## Unproven: first records of each partition", "", *lines)


def _plain(value: object) -> str:
    """Return a text without a meaning in Markdown."""
    return safe_text(value).translate(_MARKS)
