"""Which rehearsal a running pipeline exports: the last one that has ended."""

from __future__ import annotations

from dataclasses import replace

from k2ktui.engine.drill.checks import DrillKind, DrillPhase
from k2ktui.engine.drill.model import Drill, DrillFigures, DrillStatus, PhaseRecord, PhaseStatus
from k2ktui.engine.drill.objectives import Objectives
from k2ktui.replication.reports.events import Rehearsed
from k2ktui.sync.drill.rehearsals import last_rehearsal

ENDED = Drill(
    "a",
    DrillKind.REHEARSE,
    "p",
    "s",
    "t",
    "1",
    1_000,
    "ops@h",
    status=DrillStatus.DONE,
    ended_ms=9_000,
    phases=(PhaseRecord(DrillPhase.PLAN, PhaseStatus.DONE, 1_000, 4_000, waited_ms=500),),
    figures=DrillFigures(rpo_records=7, rpo_s=2.0),
    blockers=("plan: x",),
)


def test_the_last_rehearsal_that_ended_counts() -> None:
    assert last_rehearsal([]) is None
    open_ = replace(ENDED, id="b", status=DrillStatus.OPEN, ended_ms=None)
    aborted = replace(ENDED, id="c", status=DrillStatus.ABORTED, ended_ms=99_000)
    planned = replace(ENDED, id="d", kind=DrillKind.PLANNED, ended_ms=99_000)
    older = replace(ENDED, id="e", ended_ms=8_000, blockers=())
    assert last_rehearsal([open_, aborted, planned]) is None
    last = last_rehearsal([older, open_, ENDED, aborted, planned])
    assert last == Rehearsed(9.0, 1, 7, 2.0, 2.5)
    assert last_rehearsal([ENDED], Objectives(7, 2.0, 2.5)) == last
    missed = last_rehearsal([ENDED], Objectives(6, 1.9, 2.4))
    assert missed is not None and missed.missed == 3
