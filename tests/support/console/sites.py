"""Site drills as the records of their members say, in rows of a directory; nothing runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from k2ktui.console.session import Options, Session
from k2ktui.console.themes import shipped_directory
from k2ktui.engine.drill.checks import DrillKind, DrillPhase
from k2ktui.engine.drill.model import Drill, DrillFigures, Fence, PhaseStatus
from k2ktui.engine.drill.site_mark import SiteMark, SiteMember, member_drill_id
from k2ktui.engine.drill.steps import begin_phase, end_phase
from k2ktui.engine.severity import Severity
from k2ktui.fleet.files import PipelineFile
from k2ktui.fleet.model import FleetRow
from k2ktui.watch.model import PartName, PipelinePair
from k2ktui.watch.severity import Problem
from tests.support.console.fleets import MadeFleet
from tests.support.console.views import NOON
from tests.support.drill.made_drills import NOON_MS, acted, denied, in_phase, new_drill, through

SITE = "20261121-115802-beef"
NAMES = ("billing", "clicks", "iot", "ledger", "orders", "payments", "search")


def mark(*left_out: int) -> SiteMark:
    """Return the mark of a site drill of seven pipelines of paris."""
    members = tuple(
        SiteMember(name, member_drill_id(SITE, number), f"target-{number % 2}")
        for number, name in enumerate(NAMES, 1)
    )
    out = tuple(member_drill_id(SITE, number) for number in left_out)
    return SiteMark(SITE, "paris", "cluster-of-paris", members, out, ("/p/typo.yaml",))


def member(number: int, drill: Drill, site: SiteMark) -> Drill:
    """Return a drill as that of a member."""
    name = NAMES[number - 1]
    return replace(drill, id=member_drill_id(SITE, number), pipeline=name, site=site)


def planned(last: DrillPhase, *, seconds: float = 2.0) -> Drill:
    """Return a planned drill up to a phase, on which somebody acts."""
    drill = through(new_drill(DrillKind.PLANNED, fence=Fence.ACL), last)
    figures = DrillFigures(rpo_records=0, rpo_s=0.0)
    return acted(replace(drill, changes=(denied(),), figures=figures), seconds_ago=seconds)


def held() -> Drill:
    """Return a planned drill that content has stopped."""
    drill = planned(DrillPhase.DRAIN)
    phase = next(record.phase for record in drill.phases if record.status is PhaseStatus.WAITING)
    began = begin_phase(drill, phase, NOON_MS - 30_000)
    text = "group payments-app still has 2 members on the source"
    drill = end_phase(began, phase, PhaseStatus.FAILED, NOON_MS - 9_000, text, (text,), ("D20",))
    return replace(drill, session="")


def half_way() -> tuple[Drill, ...]:
    """Return a site drill: most wait before the barrier, one is behind, one held, one left out."""
    site = mark(3)
    ready = planned(DrillPhase.FENCE_REPLICATOR)
    behind = acted(in_phase(planned(DrillPhase.LAG), DrillPhase.FENCE_PRODUCERS, "12 s of 30 s"))
    drills = {1: ready, 2: behind, 4: ready, 5: ready, 6: held()}
    drills[3] = replace(planned(DrillPhase.LAG), session="")
    return tuple(member(number, drill, site) for number, drill in drills.items())


def rows(*drills: Drill) -> tuple[FleetRow, ...]:
    """Return the rows of the seven pipelines; the target of the last one does not answer."""
    made = []
    for name in NAMES:
        own = tuple(drill for drill in drills if drill.pipeline == name)
        pair = PipelinePair(name, source="paris", target="rome")
        row = FleetRow(Path(f"/p/{name}.yaml"), pair, NOON - 1, copying=1, site_drills=own)
        if name == "search":
            problem = Problem(Severity.BAD, "cluster", "target cluster", "target", "no answer")
            old = frozenset({PartName.TARGET, PartName.STATE})
            row = replace(row, stale=old, problems=(problem,))
        made.append(row)
    return tuple(made)


def site_session(
    *drills: Drill,
    read_only: bool = False,
    theme: str = "k2k-dark",
    ascii: bool = False,
    feed: MadeFleet | None = None,
) -> Session:
    """Return a session on a directory with these drills, or with the rows of a feed."""
    feed = feed or MadeFleet(*rows(*drills))
    feed.files = tuple(PipelineFile(row.file) for row in feed.made)
    pair = PipelinePair("pipelines")
    options = Options(read_only, ascii, theme, themes=(shipped_directory(),))
    names = {name: Path(f"/p/{name}.yaml") for name in NAMES}
    return Session(feed, pair, options=options, fleet=names)
