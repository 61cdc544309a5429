"""Pipelines of a directory as if they had been read, and the console on them."""

from __future__ import annotations

from pathlib import Path

from k2ktui.console.session import Options, Session
from k2ktui.console.themes import shipped_directory
from k2ktui.engine.drill.pair_state import PairPhase, PairState
from k2ktui.engine.moves.pipeline_summary import GroupCount, PipelineSummary
from k2ktui.engine.severity import Severity
from k2ktui.errors import ConfigError
from k2ktui.fleet.feed import FleetFeed
from k2ktui.fleet.files import PipelineFile
from k2ktui.fleet.model import FleetRow, first_row
from k2ktui.replication.reports.events import Rehearsed
from k2ktui.watch.model import PartName, PipelinePair, Point
from k2ktui.watch.severity import Problem
from tests.support.console.views import NOON

NAMES = {name: Path(f"/p/{name}.yaml") for name in ("orders", "clicks", "typo", "back", "new")}
PAIR = PipelinePair("pipelines")


def points(*lags: int) -> tuple[Point, ...]:
    first = NOON - 10.0 * len(lags)
    return tuple(Point(first + 10.0 * n, lag, 0.5, 100.0, 1.0) for n, lag in enumerate(lags))


def pair(name: str, source: str = "dc-east", target: str = "dc-west") -> PipelinePair:
    return PipelinePair(name, source=source, target=target)


GOOD = FleetRow(
    NAMES["orders"],
    pair("orders"),
    NOON - 4,
    copying=2,
    lag=179,
    behind_s=0.5,
    rate=587.0,
    points=points(120, 300, 250, 179),
    summary=PipelineSummary(
        int(1000 * (NOON - 30)), 90_000, 89_980, (GroupCount(Severity.OK, "in step", 41),)
    ),
    rpo_records=179,
    rpo_s=0.5,
    rehearsal=Rehearsed(NOON - 3 * 86_400, 0, 12, 0.4, 95.0),
    strange=0,
)
BAD = FleetRow(
    NAMES["clicks"],
    pair("clicks", "eu-1", "lake"),
    NOON - 5,
    lag=8_120_441,
    behind_s=7_440.0,
    points=points(7_000_000, 7_500_000, 8_120_441),
    summary=PipelineSummary(
        int(1000 * (NOON - 7_440)),
        9_000_000,
        8_700_000,
        (GroupCount(Severity.BAD, "skips", 1), GroupCount(Severity.OK, "in step", 6)),
    ),
    rpo_records=8_120_441,
    rpo_s=7_440.0,
    stale=frozenset({PartName.SOURCE}),
    problems=(
        Problem(Severity.BAD, "cluster", "source cluster", "source", "no broker answers"),
        Problem(Severity.BAD, "groups", "groups", "skips", "1 group: skips"),
        Problem(Severity.WARN, "job", "clicks", "", "no job is running"),
    ),
)
BACK = FleetRow(
    NAMES["back"],
    pair("back", "dc-west", "dc-east"),
    NOON - 3,
    pair_state=PairState(PairPhase.FAILED_OVER, "d1", moved=True, fenced_by="d1", rpo_records=12),
    rehearsal=Rehearsed(NOON - 40 * 86_400, 2, None, None, 95.0),
)
ERROR = ConfigError("the configuration has 1 error:\n  typo.yaml:2: sorce: unknown key")
TYPO = first_row(PipelineFile(NAMES["typo"], error=ERROR), NOON - 5)
NEW = FleetRow(NAMES["new"], pair("new"))


class MadeFleet(FleetFeed):
    """Rows as if they had been read."""

    def __init__(self, *rows: FleetRow) -> None:
        super().__init__([], 5.0, PAIR)
        self.made = list(rows)

    @property
    def rows(self) -> list[FleetRow]:
        return self.made

    def now(self) -> float:
        return NOON


def fleet_session(*rows: FleetRow, **options: object) -> Session:
    feed = MadeFleet(*(rows or (GOOD, BAD, BACK, TYPO, NEW)))
    chosen = Options(True, themes=(shipped_directory(),), **options)  # type: ignore[arg-type]
    return Session(feed, PAIR, options=chosen, fleet=dict(NAMES))
