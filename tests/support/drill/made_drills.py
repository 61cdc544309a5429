"""Made drills, as they are in the record on the target; nothing runs."""

from __future__ import annotations

from dataclasses import replace

from k2ktui.drill.checks.catalog import CATALOG
from k2ktui.engine.drill.checks import CheckResult, DrillCheckOutcome, DrillKind, DrillPhase
from k2ktui.engine.drill.model import (
    Change,
    ChangeKind,
    ChangeStatus,
    Drill,
    DrillEvent,
    DrillFigures,
    DrillOptions,
    DrillStatus,
    Fence,
    GroupResult,
    PhaseStatus,
    new_phases,
)
from k2ktui.engine.drill.steps import begin_phase, end_phase
from tests.support.console.views import NOON

NOON_MS = int(NOON * 1000)
HOSTILE = "payments\x1b[31m‮"
LIVE = {
    DrillPhase.PREFLIGHT: "1,200 records not copied, the oldest 3 s old",
    DrillPhase.LAG: "lag 1,200 records, at most 10,000",
    DrillPhase.PLAN: "6 rows planned",
    DrillPhase.CONTENT: "6 rows compared, 60 records, none different",
    DrillPhase.SHADOW: "4 groups read 240 records, none different",
    DrillPhase.REPORT: "4.1 s of the tool",
}


def new_drill(kind: DrillKind, minutes_ago: float = 2.0, fence: Fence = Fence.HAND) -> Drill:
    """Return a drill that was begun some minutes ago and without an operator."""
    began = NOON_MS - int(minutes_ago * 60_000)
    return Drill(
        id=f"20261121-1158{int(minutes_ago):02}-d1d1",
        kind=kind,
        pipeline="orders",
        source_cluster="lQmMYe12RG21HTTP1Fo2zw",
        target_cluster="CHbS4_THSQ-SqJF5kYBYBA",
        version="1.0",
        started_ms=began,
        started_by="ops@bastion1",
        options=DrillOptions(fence=fence),
        files=("orders.yaml",),
        owner="ops@bastion1",
        beat_ms=began,
        events=(DrillEvent(began, "ops@bastion1", "owner", f"started: {kind}"),),
        phases=new_phases(kind),
    )


def through(drill: Drill, last: DrillPhase) -> Drill:
    """Return the drill with all phases up to one done."""
    at = drill.started_ms
    for record in drill.phases:
        drill = begin_phase(drill, record.phase, at)
        at += 1500
        live = LIVE.get(record.phase, "done")
        drill = end_phase(drill, record.phase, PhaseStatus.DONE, at, live)
        if record.phase is last:
            break
    return drill


def in_phase(drill: Drill, phase: DrillPhase, live: str) -> Drill:
    """Return the drill with a phase running."""
    drill = begin_phase(drill, phase, NOON_MS - 20_000)
    return drill.with_phase(replace(drill.record(phase), live=live))


def acted(drill: Drill, owner: str = "ann@bastion2", seconds_ago: float = 2.0) -> Drill:
    """Return the drill with a process that acts on it."""
    beat = NOON_MS - int(seconds_ago * 1000)
    return replace(drill, owner=owner, session="space:1:aa", beat_ms=beat)


def event(seconds_ago: float, phase: str, text: str, who: str = "ops@bastion1") -> DrillEvent:
    """An entry of a drill's journal."""
    return DrillEvent(NOON_MS - int(seconds_ago * 1000), who, phase, text)


def fencing() -> Drill:
    """A planned drill that waits for producers; nothing was changed yet."""
    drill = through(new_drill(DrillKind.PLANNED), DrillPhase.LAG)
    events = (
        *drill.events,
        event(60, "owner", "taken over from ops@bastion1", "ann@bastion2"),
    )
    drill = replace(drill, figures=DrillFigures(rpo_records=1200, rpo_s=3.0), events=events)
    return in_phase(drill, DrillPhase.FENCE_PRODUCERS, "no write for 12 s of 30 s")


def denied() -> Change:
    """A change that an abort restores."""
    return Change(
        DrillPhase.FENCE_PRODUCERS,
        ChangeKind.ACLS,
        f"deny Write on {HOSTILE} to User:*",
        "[]",
        "[]",
        "kafka-acls --remove --topic payments",
        ChangeStatus.MADE,
    )


def stopped() -> Drill:
    """A planned drill whose fence failed, with evidence."""
    drill = through(new_drill(DrillKind.PLANNED, fence=Fence.ACL), DrillPhase.LAG)
    live = "records were written"
    findings = (
        f"D39 producers fenced: 12 records were written to {HOSTILE}-0 in 30 s",
        "D10 open transactions: a transaction of orders-7 is open since 4 m 2 s",
    )
    drill = end_phase(
        begin_phase(drill, DrillPhase.FENCE_PRODUCERS, NOON_MS - 30_000),
        DrillPhase.FENCE_PRODUCERS,
        PhaseStatus.FAILED,
        NOON_MS,
        live,
        findings,
        ("D39", "D10"),
    )
    checks = (
        CheckResult("D01", CATALOG["D01"].title, DrillCheckOutcome.PASS, "both answer"),
        CheckResult("D29", CATALOG["D29"].title, DrillCheckOutcome.FAIL, "3 of 4", "Compare them."),
        CheckResult("D28", CATALOG["D28"].title, DrillCheckOutcome.UNKNOWN, "not authorized"),
        CheckResult(
            "D39",
            "producers fenced",
            DrillCheckOutcome.FAIL,
            "12 records",
            "Stop the producers that still write to payments on the source.",
        ),
    )
    return replace(
        drill,
        changes=(denied(),),
        events=(
            *drill.events,
            event(31, "fence-producers", f"about to: {denied().what}"),
            event(30, "fence-producers", f"made: {denied().what}"),
        ),
        checks=checks,
        blockers=tuple(f"fence-producers: {finding}" for finding in findings),
        figures=DrillFigures(rpo_records=1212, rpo_s=9.0),
    )


def opened() -> Drill:
    """A planned drill past the point of no return."""
    drill = through(new_drill(DrillKind.PLANNED, 9), DrillPhase.OPEN_TARGET)
    drill = replace(drill, figures=DrillFigures(rpo_records=0, opened_ms=NOON_MS - 60_000))
    return in_phase(drill, DrillPhase.WATCH_CLIENTS, "2 of 4 groups read on the target")


def rehearsed(minutes_ago: float = 50.0) -> Drill:
    """A rehearsal that has found nothing."""
    drill = through(new_drill(DrillKind.REHEARSE, minutes_ago), DrillPhase.REPORT)
    return replace(
        drill,
        status=DrillStatus.DONE,
        ended_ms=drill.started_ms + 7_500,
        groups=(GroupResult("billing", 2, 0, 0, 0, 20, 0), GroupResult(HOSTILE, 1, 0, 0, 0, 10)),
        figures=DrillFigures(rpo_records=0, content_compared=60),
    )


def switched_over() -> Drill:
    """A planned drill that has ended; its pipeline is fenced."""
    drill = through(new_drill(DrillKind.PLANNED, 9), DrillPhase.REPORT)
    fenced = Change(
        DrillPhase.FENCE_REPLICATOR, ChangeKind.EPOCHS, "fence", "", "", "", ChangeStatus.MADE
    )
    return replace(
        drill,
        status=DrillStatus.DONE,
        ended_ms=NOON_MS,
        changes=(fenced,),
        figures=DrillFigures(rpo_records=0, opened_ms=NOON_MS - 60_000),
    )


def listed() -> Drill:
    """A failback that has listed the records of the old source that were never copied."""
    drill = through(new_drill(DrillKind.FAILBACK), DrillPhase.SOURCE_BACK)
    began = begin_phase(drill, DrillPhase.TAIL, NOON_MS - 30_000)
    times = "2026-11-21 11:57:07 UTC to 2026-11-21 11:57:51 UTC"
    live = f"13,128 records on 17 partitions, of {times} on the old source only"
    findings = ("orders-0: 15 records, offsets 50 to 64", "orders-1: 15 records")
    return end_phase(began, DrillPhase.TAIL, PhaseStatus.FAILED, NOON_MS, live, findings)
