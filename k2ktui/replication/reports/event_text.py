"""Reports as text lines for operators, and as JSON objects for logs; the JSON can be parsed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, asdict, fields
from time import time
from typing import Any

from k2ktui.engine.records.state import SourcePartition
from k2ktui.errors import fix_text
from k2ktui.replication.copying.slot_task import Fault, FaultKind
from k2ktui.replication.reports.events import (
    Finished,
    FirstRecord,
    Note,
    Progress,
    Report,
    Resumed,
    Started,
    Stopped,
    Waiting,
)
from k2ktui.text import counted, duration, safe_message, safe_text

_KINDS: Mapping[str, type[Report]] = {
    kind.__name__.lower(): kind
    for kind in (Waiting, Started, Progress, FirstRecord, Stopped, Resumed, Note, Finished)
}


def report_event(report: Report) -> dict[str, Any]:
    """Return a report as a ``--log-format json`` object; ``at`` is epoch seconds."""
    return {"event": type(report).__name__.lower(), "at": round(time(), 3), **asdict(report)}


def read_report(event: Mapping[str, Any]) -> Report | None:
    """Return the report in a JSON object; None if it has none or a damaged one."""
    kind = _KINDS.get(str(event.get("event")))
    if kind is None:
        return None
    try:
        # Logs of earlier releases lack what has a default.
        wanted = (e for e in fields(kind) if e.name in event or e.default is MISSING)
        values = {member.name: event[member.name] for member in wanted}
        if "fault" in values:
            values["fault"] = _fault(values["fault"])
        if "faults" in values:
            values["faults"] = tuple(_fault(value) for value in values["faults"])
        return kind(**values)
    except (KeyError, TypeError, ValueError):
        return None


def _fault(value: Mapping[str, Any]) -> Fault:
    source = SourcePartition(**value["source"])
    # Logs of earlier releases call them "what" and "mend".
    message = value["message"] if "message" in value else value["what"]
    hint = value["hint"] if "hint" in value else value["mend"]
    kind, refused_by = FaultKind(value["kind"]), value.get("refused_by", "")
    return Fault(source, kind, message, hint, value["offset"], refused_by)


def report_text(report: Report) -> str:
    """Return a report as one or more lines; names in it are safe to print."""
    match report:
        case Started():
            now = "now " if report.is_more else ""
            ready = "" if report.is_more else f", ready after {_seconds(report.seconds)}"
            return (
                f"{safe_text(report.pipeline)}: term {report.term}, {now}"
                f"{counted(report.partitions, 'partition')} in "
                f"{counted(report.slots, 'slot')}{ready}"
            )
        case FirstRecord():
            return f"first records visible on the target after {_seconds(report.seconds)}"
        case Progress():
            return _progress(report)
        case Stopped():
            fault = report.fault
            return (
                f"STOPPED {safe_text(fault.source)} ({fault.kind}): {safe_message(fault.message)}\n"
                f"  {safe_message(fix_text(fault.hint))}"
            )
        case Resumed():
            return f"RESUMED {safe_text(report.topic)}-{report.partition}"
        case Waiting():
            return f"standby: waits for {safe_text(report.runs)}"
        case Note():
            return f"note: {safe_message(report.text)}"
        case Finished():
            return _finished_text(report)


def _progress(report: Progress) -> str:
    rate = report.records / report.seconds if report.seconds else 0.0
    megabytes = report.written_bytes / 1e6 / report.seconds if report.seconds else 0.0
    lag = "…" if report.lag_records is None else f"{report.lag_records:,}"
    stopped = f", {report.stopped} stopped" if report.stopped else ""
    return (
        f"lap {report.lap}: {counted(report.records, 'record')}, {rate:,.0f}/s, "
        f"{megabytes:.1f} MB/s, "
        f"{counted(report.transactions, 'transaction')}, lag {lag}, "
        f"{counted(report.partitions, 'partition')}{stopped}"
    )


def _seconds(value: float) -> str:
    return duration(value, tenths=True)


def _finished_text(report: Finished) -> str:
    end = "caught up" if report.caught_up else "ended"
    line = f"{end}: {counted(report.records, 'record')} in {_seconds(report.seconds)}"
    if report.faults:
        names = ", ".join(safe_text(fault.source) for fault in report.faults[:20])
        line += f"; {counted(len(report.faults), 'partition')} stopped: {names}"
    return line
