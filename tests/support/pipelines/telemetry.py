"""A run's status as its driver would write it, for tests of metrics."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from time import time
from typing import Any

from k2ktui.config.model import PipelineConfig
from k2ktui.engine.records.state import Gap, Position, SourcePartition
from k2ktui.replication.copying.slot_task import (
    Fault,
    FaultKind,
    LapOutcome,
    SlotResult,
    SlotStats,
    SourceLogBounds,
)
from k2ktui.replication.reports.events import Report
from k2ktui.replication.reports.status import RunStatus, SlotFigures
from k2ktui.replication.telemetry.metrics import CATALOG, PipelineFigures
from k2ktui.replication.telemetry.session import exporters_for, read_exporter_names
from tests.support.clusters.kafka import eventually

ORDERS_0 = SourcePartition("orders", 0)
ORDERS_1 = SourcePartition("orders", 1)


def pipeline(bootstrap: str = "localhost:1", **sections: Any) -> PipelineConfig:
    """A pipeline by the name of p; ``sections`` are laid over."""
    there = {"kafka": {"common": {"bootstrap.servers": bootstrap}}}
    whole = {
        "name": "p",
        "source": there,
        "target": there,
        "replication": {
            "source": {"topic": ".*"},
            "sink": {"topic": "source", "partition": "source"},
        },
        "drill": {"objectives": {"rpoRecords": 5, "rpoTime": "1 minute", "rtoTime": "1 hour"}},
    }
    return PipelineConfig.model_validate(whole | sections)


def position(offset: int, *gaps: Gap) -> Position:
    """A position at ``offset``."""
    return Position(offset, 0, 0, "", 3, 0, "orders", 0, gaps=gaps)


class Written:
    """The status of a run, and what its driver writes there.

    Args:
        clock: epoch seconds.
    """

    def __init__(self, clock: Callable[[], float] = time) -> None:
        self.reported: list[Report] = []
        self.status = RunStatus("p", self.reported.append, clock=clock)
        self.driver = self.status.add_driver()

    def begin(self) -> None:
        """Take over with term 3 and two slots, copy, and stop a partition that is not found."""
        self.survey({ORDERS_0: 1010}, {ORDERS_0: position(0)})
        self.driver.start(3, 2)
        self.lap(0, offset=1000, end=1010)
        self.stop(SourcePartition("orders", 9))

    def survey(
        self,
        ends: Mapping[SourcePartition, int],
        positions: Mapping[SourcePartition, Position] | None = None,
        **more: Any,
    ) -> None:
        """Discover the partitions that have ends."""
        self.driver.discover(ends.keys(), positions or {}, ends, **more)

    def lap(
        self,
        slot: int,
        offset: int,
        end: int,
        *gaps: Gap,
        next_ms: int = -1,
        records: int = 100,
    ) -> None:
        """End a lap that brought partition ``slot`` of orders to ``offset`` of a log up to ``end``.

        It took ten seconds, and began a quarter of one after the last.
        """
        source = SourcePartition("orders", slot)
        known = self.status.slots.setdefault(slot, SlotFigures())
        known.ended_at = known.ended_at or 1_000.0
        began_at = known.ended_at + 0.25
        result = SlotResult(
            slot,
            LapOutcome.DONE,
            {source: position(offset, *gaps)},
            stats=SlotStats(
                records=records,
                batches=4,
                rebuilt=1,
                written_bytes=9000,
                transactions=2,
                commit_s=0.5,
                cpu_s=0.75,
            ),
            began_at=began_at,
            ended_at=began_at + 10.0,
            log_bounds={source: SourceLogBounds(5, end, next_ms)},
        )
        self.driver.end_lap(slot, result)

    def stop(self, source: SourcePartition, kind: FaultKind = FaultKind.TRUNCATED) -> None:
        """Stop a partition."""
        self.driver.stopped.stop(Fault(source, kind, "what", "hint"))


class Run(Written):
    """A run that is measured, and the notes it made."""

    def __init__(self, config: PipelineConfig, env: dict[str, str]) -> None:
        super().__init__()
        self.notes: list[str] = []
        names = read_exporter_names(env, wanted=False)
        self.exporters = exporters_for(config, CATALOG, names, env, self.notes.append)
        objectives = config.drill.objectives.values
        self._figures = PipelineFigures(self.status, config.spark.lap_s, objectives)

    def begin(self) -> None:
        super().begin()
        self.export()

    def export(self) -> None:
        """Start the exporters."""
        self.exporters.start(CATALOG, self._figures)

    @property
    def port(self) -> int:
        """Where Prometheus is served, once it is."""
        endpoint = self.exporters.endpoint
        assert endpoint is not None
        return int(eventually(lambda: endpoint.port, "the endpoint listens"))


Start = Callable[..., Run]


@contextmanager
def measured() -> Iterator[Start]:
    """Begin measured runs: exporter, pipeline, and variables without their OTEL_."""
    runs: list[Run] = []

    def begin(exporter: str, config: PipelineConfig | None = None, **env: object) -> Run:
        variables = {f"OTEL_{name}": str(text) for name, text in env.items()}
        run = Run(config or pipeline(), {"OTEL_METRICS_EXPORTER": exporter, **variables})
        runs.append(run)
        return run

    try:
        yield begin
    finally:
        for run in runs:
            run.exporters.close()
