"""The section of RESULTS.md on pipelines of thousands of partitions."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from bench.machine import describe

IDLE_TARGET, FIRST_TARGET_S, DELAY_TARGET_MS = 4.0, 15.0, 150.0


@dataclass(frozen=True, slots=True)
class Growth:
    """What was measured with so many partitions.

    Attributes:
        partitions: number of source partitions, in topics of ten.
        create_s: seconds that a plain client waits for the target topics to have leaders.
        first_s: seconds from the start of the process to the first records on the target, where
            its topics exist.
        all_s: the same, until all watched partitions have theirs.
        first_created_s: as ``first_s``, where the run creates the topics.
        first_again_s: as ``first_s``, for a record written after a stop.
        start_cpu_s: CPU seconds of the run until the first records.
        idle: percent of a core in the idle run, by kind of process.
        broker_idle: percent of a core of both brokers beside it.
        delays_ms: median, 99 % and largest delay of a single record.
        rss_mb: resident memory of the run.
        mode: ``coordination.mode`` of the run.
    """

    partitions: int
    create_s: float
    first_s: float
    all_s: float
    first_created_s: float
    first_again_s: float
    start_cpu_s: float
    idle: dict[str, float]
    broker_idle: float
    delays_ms: tuple[float, float, float]
    rss_mb: float
    mode: str

    @property
    def idle_all(self) -> float:
        """Percent of a core of all processes of the run."""
        return sum(self.idle.values())


def report(results: Sequence[Growth]) -> str:
    """Return the section of RESULTS.md."""
    shown = ("Date", "CPU", "Apache Kafka", "Python", "k2ktui")
    lines = [
        "## Growth: thousands of partitions in one pipeline",
        "",
        *(f"{name}: {value}  " for name, value in describe().items() if name in shown),
        f"Load average at the end: {os.getloadavg()[0]:.1f}",
        "",
        "| partitions | first records, s | all, s | again, s | with creation, s "
        "| creation by itself, s "
        "| CPU to first records, s | idle, % of a core | driver / Java / workers | brokers, % "
        "| delay p50 / p99 / max, ms | memory, MB | mode |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|---|",
        *(_row(growth) for growth in results),
        "",
        f"Targets at 5,000 partitions: first records ≤ {FIRST_TARGET_S:.0f} s, idle ≤ "
        f"{IDLE_TARGET:.0f} %, delay p99 ≤ {DELAY_TARGET_MS:.0f} ms.",
        "",
        "`python -m bench.growth`: topics of 10 partitions with a record in each, one broker per",
        "cluster. First records: from the start of the process until one of 20 watched partitions",
        "has a visible record, where the target's topics exist; again: a new record after a stop;",
        "with creation: the run creates the target's topics. Creation by itself: what a plain",
        "client waits for the broker. Delay: a single record every 0.2 s in an idle pipeline.",
        "Mode: of coordination; shared is the default.",
        "",
    ]
    return "\n".join(lines)


def _row(row: Growth) -> str:
    kinds = " / ".join(f"{row.idle.get(kind, 0.0):.1f}" for kind in ("driver", "Java", "workers"))
    delays = " / ".join(f"{value:.0f}" for value in row.delays_ms)
    return (
        f"| {row.partitions:,} | {row.first_s:.1f} | {row.all_s:.1f} | {row.first_again_s:.1f} "
        f"| {row.first_created_s:.1f} | {row.create_s:.1f} | {row.start_cpu_s:.1f} "
        f"| {row.idle_all:.1f} | {kinds} | {row.broker_idle:.1f} | {delays} | {row.rss_mb:.0f} "
        f"| {row.mode} |"
    )
