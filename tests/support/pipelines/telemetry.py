"""A run's events as the driver would tell them, for tests of metrics."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from k2ktui.config.model import PipelineConfig
from k2ktui.engine.records.state import Gap, Position, SourcePartition
from k2ktui.replication.copying.slot_task import (
    Fault,
    FaultKind,
    LapOutcome,
    SlotStats,
    SourceLogBounds,
)
from k2ktui.replication.reports.events import Event, SlotLap, Started, Stopped, TopicsDiscovered
from k2ktui.replication.telemetry.session import Telemetry, open_telemetry
from tests.support.clusters.kafka import eventually

ORDERS_0 = SourcePartition("orders", 0)
ORDERS_1 = SourcePartition("orders", 1)
STARTED = Started("p", term=3, slots=2, partitions=2, seconds=1.5)


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


def surveyed(
    ends: dict[SourcePartition, int],
    positions: dict[SourcePartition, Position] | None = None,
    partitions: Iterable[SourcePartition] | None = None,
) -> TopicsDiscovered:
    """A snapshot of the partitions that have ends, or of ``partitions``."""
    return TopicsDiscovered(set(ends if partitions is None else partitions), positions or {}, ends)


def lap(slot: int, offset: int, end: int, *, next_ms: int = -1, records: int = 100) -> SlotLap:
    """A lap that brought partition ``slot`` of orders to ``offset`` of a log up to ``end``."""
    source = SourcePartition("orders", slot)
    return SlotLap(
        slot,
        LapOutcome.DONE,
        seconds=10.0,
        pause_s=0.25,
        stats=SlotStats(
            records=records,
            batches=4,
            rebuilt=1,
            written_bytes=9000,
            transactions=2,
            commit_s=0.5,
            cpu_s=0.75,
        ),
        positions={source: position(offset)},
        log_bounds={source: SourceLogBounds(5, end, next_ms)},
    )


def stopped(source: SourcePartition, kind: FaultKind = FaultKind.TRUNCATED) -> Stopped:
    """A partition stopped."""
    return Stopped(Fault(source, kind, "what", "hint"))


EVENTS: tuple[Event, ...] = (
    surveyed({ORDERS_0: 1010}, {ORDERS_0: position(0)}),
    STARTED,
    lap(0, offset=1000, end=1010),
    stopped(SourcePartition("orders", 9)),
)


class Run:
    """A run that is measured, and the notes it made."""

    def __init__(self, config: PipelineConfig, env: dict[str, str]) -> None:
        self.notes: list[str] = []
        opened = open_telemetry(config, self.notes.append, wanted=False, env=env)
        assert opened is not None
        self.telemetry: Telemetry = opened

    def feed(self, *events: Event) -> None:
        for event in events or EVENTS:
            self.telemetry.feed(event)

    @property
    def port(self) -> int:
        """Where Prometheus is served, once it is."""
        endpoint = self.telemetry.exporters.endpoint
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
            run.telemetry.close()
