"""Events of a running pipeline, one frozen class each.

Reports are for operators: text lines, with the same content as JSON objects, which can be parsed.
The other events are for the status of the run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, asdict, dataclass, fields
from time import time
from typing import Any

from k2ktui.engine.records.state import SourcePartition
from k2ktui.errors import fix_text
from k2ktui.replication.copying.slot_task import Fault, FaultKind
from k2ktui.text import counted, duration, safe_message, safe_text


@dataclass(frozen=True, slots=True)
class Started:
    """The pipeline has taken over: positions are known and the first lap follows.

    A run that shares a pipeline reports it for each slot that it gets; ``is_more`` marks all but
    the first. ``slots`` and ``partitions`` are those that it has then, ``seconds`` passed since the
    request to run, or since it got the slot.
    """

    pipeline: str
    term: int
    slots: int
    partitions: int
    seconds: float
    is_more: bool = False


@dataclass(frozen=True, slots=True)
class Progress:
    """Work of all slots since the last progress report, about one lap each.

    ``lag_records`` is that of the last topic discovery. ``pause_s`` is the longest time a slot was
    idle between two laps, ``cpu_s`` the CPU time of the workers.
    """

    lap: int
    seconds: float
    records: int
    written_bytes: int
    rebuilt: int
    transactions: int
    commit_s: float
    cpu_s: float
    pause_s: float
    partitions: int
    stopped: int
    lag_records: int | None


@dataclass(frozen=True, slots=True)
class FirstRecord:
    """The first transaction of this run is visible, ``seconds`` after the run was requested."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Stopped:
    """A partition stopped."""

    fault: Fault


@dataclass(frozen=True, slots=True)
class Resumed:
    """A stopped partition is copied again."""

    topic: str
    partition: int


@dataclass(frozen=True, slots=True)
class Waiting:
    """The run is a standby and waits for others: which ones, safe to print."""

    runs: str


@dataclass(frozen=True, slots=True)
class Note:
    """Information for the operator; the pipeline continues."""

    text: str


@dataclass(frozen=True, slots=True)
class Finished:
    """The run has ended: whether every partition reached its end, and why others stopped."""

    caught_up: bool
    records: int
    seconds: float
    faults: tuple[Fault, ...]


@dataclass(frozen=True, slots=True)
class SlotsAssigned:
    """The owners of the slots that runs share have changed.

    Attributes:
        generation: number of this generation of owners.
        slots: the slots that this run owns.
    """

    generation: int
    slots: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Trouble:
    """What keeps records of a subject from being copied now; "" when it is over.

    ``blocks`` is False for what should be mended, and keeps none from being copied.
    """

    subject: str
    text: str
    blocks: bool = True


@dataclass(frozen=True, slots=True)
class Rehearsed:
    """The last rehearsal of a failover: its end in epoch seconds, and what it found.

    ``missed`` is the number of objectives of the file that it did not meet.
    """

    at: float
    findings: int
    rpo_records: int | None
    rpo_s: float | None
    rto_s: float
    missed: int = 0


Report = Waiting | Started | Progress | FirstRecord | Stopped | Resumed | Note | Finished
Event = Report | SlotsAssigned | Trouble

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
