"""A row for each pipeline of a directory: what a person on call looks at first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from k2ktui.engine.drill.model import Drill
from k2ktui.engine.drill.pair_state import NOT_READ, PairState
from k2ktui.engine.moves.journal import RunKind, RunnerState
from k2ktui.engine.moves.pipeline_summary import PipelineSummary
from k2ktui.engine.severity import Severity, SeverityLabel
from k2ktui.fleet.files import PipelineFile
from k2ktui.replication.reports.events import Rehearsed
from k2ktui.sync.drill.rehearsals import last_rehearsal
from k2ktui.text import counted
from k2ktui.watch.model import PartName, PipelinePair, Point, View, cluster_names
from k2ktui.watch.pipeline_reader import describe_pair
from k2ktui.watch.severity import Problem, find_problems

# Written once a minute; twice late is old, and the figures are shown as such.
SUMMARY_OLD_S = 180.0


@dataclass(frozen=True, slots=True)
class FleetRow:
    """A pipeline at one moment; None is unknown, never zero.

    Attributes:
        file: its file.
        pair: its name and its clusters.
        taken_at: when it was read, epoch seconds; None if it was not read yet.
        copying, standbys: number of its runs that copy, and that wait.
        lag: source offsets not copied yet.
        behind_s: age of the oldest record not copied yet.
        rate: source offsets copied per second.
        points: lag of the last minutes, the oldest first.
        summary: coverage and groups, as ``start`` or ``sync`` last wrote them.
        rpo_records, rpo_s: what a failover now would lose, and its age.
        rehearsal: the last rehearsal that has ended.
        pair_state: which cluster the workload uses.
        site_drills: its drills that belong to site drills.
        held: what operators hold, as ``k2ktui release`` takes it.
        moved: source topics whose clients were moved to the target, by the drill that did.
        is_left: whether those are all: the pipeline can be retired.
        strange: records in its copies that no registered pipeline wrote.
        stale: the parts whose values are old.
        problems: what needs attention, the worst first.
    """

    file: Path
    pair: PipelinePair
    taken_at: float | None = None
    copying: int = 0
    standbys: int = 0
    lag: int | None = None
    behind_s: float | None = None
    rate: float | None = None
    points: tuple[Point, ...] = ()
    summary: PipelineSummary | None = None
    rpo_records: int | None = None
    rpo_s: float | None = None
    rehearsal: Rehearsed | None = None
    pair_state: PairState = NOT_READ
    site_drills: tuple[Drill, ...] = ()
    held: tuple[str, ...] = ()
    moved: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    is_left: bool = False
    strange: int | None = None
    stale: frozenset[PartName] = frozenset()
    problems: tuple[Problem, ...] = ()

    @property
    def is_valid(self) -> bool:
        """Whether its file is valid."""
        return not any(problem.kind == "file" for problem in self.problems)

    @property
    def severity(self) -> Severity:
        """The worst of its problems; unknown until it was read."""
        if self.taken_at is None:
            return Severity.UNKNOWN
        return self.problems[0].severity if self.problems else Severity.OK

    @property
    def run(self) -> SeverityLabel:
        """Its runs as one word."""
        if self.taken_at is None or PartName.STATE in self.stale:
            return SeverityLabel(Severity.UNKNOWN, "unknown")
        if self.copying:
            return SeverityLabel(Severity.OK, counted(self.copying, "run"))
        if self.pair.equal_offsets:
            return SeverityLabel(Severity.INFO, "other program")
        if self.pair_state.fenced_by:
            return SeverityLabel(Severity.INFO, "fenced")
        if self.standbys:
            return SeverityLabel(Severity.INFO, "standby")
        if self.is_left:
            return SeverityLabel(Severity.INFO, "moved")
        return SeverityLabel(Severity.BAD, "none")

    @property
    def coverage(self) -> float | None:
        """Share of the retained source offsets that translate exactly, 0 to 1."""
        if self.summary is None or self.lag is None or self.pair_state.moved:
            return None
        return self.summary.coverage(self.lag)

    def summary_age(self, now: float) -> float | None:
        """Return the seconds since the summary was made; None without one."""
        return None if self.summary is None else max(0.0, now - self.summary.at_ms / 1000)

    @property
    def order(self) -> tuple[int, str]:
        """Sort key that puts the worst first."""
        return -self.severity, self.pair.pipeline

    def as_json(self) -> dict[str, Any]:
        """Return the object that commands print."""
        summary = None
        if self.summary is not None:
            groups = [
                {
                    "severity": group.severity.name.lower(),
                    "status": group.word,
                    "count": group.count,
                }
                for group in self.summary.groups
            ]
            summary = {**asdict(self.summary), "groups": groups}
        return {
            "pipeline": self.pair.pipeline,
            "file": str(self.file),
            "source": self.pair.source,
            "target": self.pair.target,
            "environment": self.pair.environment,
            "severity": self.severity.name.lower(),
            "taken_at": self.taken_at,
            "run": self.run.word,
            "copying": self.copying,
            "standbys": self.standbys,
            "lag_records": self.lag,
            "lag_s": self.behind_s,
            "rate": self.rate,
            "coverage": self.coverage,
            "rpo_records": self.rpo_records,
            "rpo_s": self.rpo_s,
            "summary": summary,
            "rehearsal": None if self.rehearsal is None else asdict(self.rehearsal),
            "pair_state": self.pair_state.as_json(),
            "held": list(self.held),
            "moved_topics": {drill: list(topics) for drill, topics in self.moved.items()},
            "can_be_retired": self.is_left,
            "strange_records": self.strange,
            "stale": sorted(self.stale),
            "problems": [
                {
                    "severity": problem.severity.name.lower(),
                    "subject": problem.subject,
                    "message": problem.message,
                }
                for problem in self.problems
            ],
        }


def make_row(file: Path, view: View, summary: PipelineSummary | None) -> FleetRow:
    """Return the row of a view that was read without groups and mappings."""
    now_ms = int(view.taken_at * 1000)
    alive = [
        runner for runner in view.runners if runner.kind is RunKind.COPY and runner.alive(now_ms)
    ]
    standbys = sum(runner.state is RunnerState.STANDBY for runner in alive)
    failover = view.failover
    parts = (PartName.SOURCE, PartName.TARGET, PartName.STATE)
    problems = [*find_problems(view, view.taken_at), *_of_summary(view, summary)]
    return FleetRow(
        file=file,
        pair=_named(view.pair, view.source.address, view.target.address),
        taken_at=view.taken_at,
        copying=len(alive) - standbys,
        standbys=standbys,
        lag=None if view.pair_state.moved else view.totals.lag_records,
        behind_s=None if view.pair_state.moved else view.totals.lag_seconds,
        rate=view.totals.rate,
        points=view.points,
        summary=summary,
        rpo_records=failover.rpo_records,
        rpo_s=failover.rpo_s,
        rehearsal=last_rehearsal(view.drills, view.objectives),
        pair_state=view.pair_state,
        site_drills=tuple(drill for drill in view.drills if drill.site is not None),
        held=view.held_names,
        moved=view.moved_topics,
        is_left=view.is_left,
        strange=None if view.other_writers is None else view.other_writers.records,
        stale=frozenset(name for name in parts if view.part(name).stale),
        problems=tuple(sorted(problems, key=lambda problem: -problem.severity)),
    )


def _of_summary(view: View, summary: PipelineSummary | None) -> list[Problem]:
    if summary is None:
        return []
    return [
        Problem(
            group.severity,
            "groups",
            "groups",
            group.word,
            f"{counted(group.count, 'group')}: {group.word}",
        )
        for group in summary.groups
        if group.severity >= Severity.WARN
    ]


def first_row(file: PipelineFile, at: float) -> FleetRow:
    """Return the row of a pipeline before it is read; of a file that is not valid, the only one."""
    if file.flow is not None:
        config = file.flow.config
        servers = config.source.bootstrap_servers, config.target.bootstrap_servers
        return FleetRow(file.path, _named(describe_pair(file.flow), *servers))
    assert file.error is not None
    problem = Problem(Severity.BAD, "file", file.path.name, "", file.error.message)
    pair, old = PipelinePair(file.name), frozenset(PartName)
    return FleetRow(file.path, pair, taken_at=at, stale=old, problems=(problem,))


def _named(pair: PipelinePair, source: str, target: str) -> PipelinePair:
    names = cluster_names(pair, source, target)
    return replace(pair, source=names[0], target=names[1])


def worst_first(rows: Sequence[FleetRow]) -> list[FleetRow]:
    """Return the rows, those with the worst problems first."""
    return sorted(rows, key=lambda row: row.order)
