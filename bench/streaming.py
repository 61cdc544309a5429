"""A lap's job beside a trigger of Structured Streaming: ``python -m bench.streaming --keep``.

One Spark session with a pipeline's settings runs the same small tasks as plain jobs, as laps do,
and as triggers of a stream, in turns. The tasks do nothing, so that only what Spark does to start
and to record them is measured. Two idle brokers share the machine, as beside a pipeline.

A second stream has a sink that drops everything and no task in Python.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.clusters import make_class_archives, running, wait_for
from bench.compare import spread
from bench.machine import describe
from bench.run import say
from bench.sections import put_section
from k2ktui.config.model import SparkSettings
from k2ktui.replication.spark.session import SparkRuntime, collect_all

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

#: What a turn measures, in this order.
JOB, STREAM, EMPTY = "plain job", "trigger, `foreachBatch`", "trigger, `noop`"
#: Spark's names of a trigger's time, and of the parts that have a row.
WHOLE = "triggerExecution"
PARTS: Mapping[str, str] = {
    "latestOffset": "asks the source for its end",
    "walCommit": "writes the offsets to the checkpoint, before the batch",
    "queryPlanning": "plans the batch",
    "addBatch": "runs the batch: its jobs",
    "commitOffsets": "writes the commit to the checkpoint, after the batch",
}

_RESULTS = Path(__file__).with_name("RESULTS.md")
_SOURCE = "rate-micro-batch"
# The first triggers of a query compile its plan, and create its directories.
_UNCOUNTED = 5
# Spark keeps so many triggers of a query.
_MOST_TRIGGERS = 100 - _UNCOUNTED
_STREAM_S = 120.0


@dataclass(frozen=True, slots=True)
class Turn:
    """A turn: jobs, and triggers of both streams, one kind after the other.

    Attributes:
        jobs: milliseconds of each plain job.
        stream: ``durationMs`` of each trigger that ran the same tasks.
        empty: ``durationMs`` of each trigger whose sink drops everything.
    """

    jobs: tuple[float, ...]
    stream: tuple[Mapping[str, int], ...]
    empty: tuple[Mapping[str, int], ...]

    @property
    def ratio(self) -> float:
        """The median trigger, divided by the median job of the same tasks."""
        return statistics.median(_column(self.stream, WHOLE)) / statistics.median(self.jobs)

    @property
    def empty_ratio(self) -> float:
        """The median trigger that runs no task in Python, divided by the median job."""
        return statistics.median(_column(self.empty, WHOLE)) / statistics.median(self.jobs)


def _column(triggers: Sequence[Mapping[str, int]], name: str) -> list[int]:
    return [trigger.get(name, 0) for trigger in triggers]


def _task(items: Iterator[Any]) -> Iterator[int]:
    """Count a partition: the work of each task, in a job and in a trigger."""
    yield sum(1 for _ in items)


def measure_turn(spark: SparkSession, tasks: int, count: int, directory: Path) -> Turn:
    """Measure ``count`` jobs of so many tasks, and as many triggers of each stream."""
    jobs = _jobs(spark.sparkContext, tasks, count // 2)

    def run_batch(frame: DataFrame, _: int) -> None:
        assert len(frame.rdd.mapPartitions(_task).collect()) == tasks

    frame = (
        spark.readStream.format(_SOURCE)
        .option("rowsPerBatch", tasks)
        .option("numPartitions", tasks)
        .load()
    )
    stream = _triggers(frame.writeStream.foreachBatch(run_batch), count, directory / "stream")
    empty = _triggers(frame.writeStream.format("noop"), count, directory / "empty")
    # Half before the triggers and half after them: the machine's load may change.
    jobs += _jobs(spark.sparkContext, tasks, count - count // 2)
    return Turn(tuple(jobs), stream, empty)


def _jobs(context: Any, tasks: int, count: int) -> list[float]:
    """Return the milliseconds of each of ``count`` jobs."""
    jobs = []
    for _ in range(count):
        began = time.perf_counter()
        collect_all(context, tasks, _task)
        jobs.append((time.perf_counter() - began) * 1000)
    return jobs


def _triggers(
    writer: DataStreamWriter, count: int, checkpoint: Path
) -> tuple[Mapping[str, int], ...]:
    """Run a query, one trigger after the other, and return the durations of ``count`` of them."""
    query = writer.option("checkpointLocation", str(checkpoint)).start()
    try:

        def ended() -> bool:
            error = query.exception()
            if error is not None:
                raise error
            return len(query.recentProgress) >= _UNCOUNTED + count

        wait_for(ended, f"{count} triggers", _STREAM_S)
        triggers = query.recentProgress
    finally:
        query.stop()
    counted = [trigger.durationMs for trigger in triggers[_UNCOUNTED:][:count]]
    assert all(trigger.numInputRows for trigger in triggers[_UNCOUNTED:][:count])
    return tuple(counted)


def section(turns: Sequence[Turn], tasks: int, master: str, load: float) -> str:
    """Return the section of RESULTS.md.

    Args:
        turns: what was measured.
        tasks: tasks of each job, and of each trigger.
        master: Spark's master.
        load: load average of the last minute, when the measurement began.
    """
    shown = ("Date", "CPU", "Apache Kafka", "Python", "Spark", "k2ktui")
    jobs = [job for turn in turns for job in turn.jobs]
    streams = {
        STREAM: [trigger for turn in turns for trigger in turn.stream],
        EMPTY: [trigger for turn in turns for trigger in turn.empty],
    }
    ratios = {
        STREAM: [turn.ratio for turn in turns],
        EMPTY: [turn.empty_ratio for turn in turns],
    }
    lines = [f"| {JOB} | {len(jobs)} | {spread(jobs, 0)} | |"]
    for name, triggers in streams.items():
        whole = _column(triggers, WHOLE)
        lines.append(f"| {name} | {len(whole)} | {spread(whole, 0)} | {spread(ratios[name], 1)} |")
    parts = []
    for part, does in PARTS.items():
        cells = " | ".join(spread(_column(one, part), 0) for one in streams.values())
        parts.append(f"| `{part}` | {does} | {cells} |")
    return "\n".join(
        [
            "## Structured Streaming: a trigger beside a lap's job",
            "",
            *(f"{name}: {value}  " for name, value in describe().items() if name in shown),
            f"Load average before and at the end: {load:.1f}, {os.getloadavg()[0]:.1f}",
            "",
            "| | measured | ms | of the job's time |",
            "|---|---|---|---|",
            *lines,
            "",
            f"| part of a trigger | | {STREAM}, ms | {EMPTY}, ms |",
            "|---|---|---|---|",
            *parts,
            "",
            f"`python -m bench.streaming`: {len(turns)} turns in one Spark session, with settings",
            f"of a pipeline (`{master}`), after one that does not count. Medians, with the lowest",
            "and the highest in parentheses; ratios are those of the medians of each turn.",
            "",
            f"- **Plain job**: {tasks} tasks in Python that count one item each.",
            f"- **`foreachBatch`**: the source is Spark's `{_SOURCE}`, which needs no broker",
            f"  and always has the next batch: {tasks} rows in {tasks} partitions. The function",
            "  runs the same tasks on the rows. A trigger begins when the one before has ended.",
            "- **`noop`**: the same source, and a sink that drops the rows in Java.",
            f"- The first {_UNCOUNTED} triggers of each query do not count. The checkpoint is on a",
            "  local disk; on HDFS or S3, each of its writes takes longer.",
            "- Two idle brokers share the machine. A Kafka source was not measured: it also asks",
            "  the brokers for the end offsets in each trigger, fetches and decodes.",
            "- The parts leave out what Spark does between them.",
            "",
        ]
    )


def main(arguments: list[str] | None = None) -> int:
    """Measure, print, and write if asked to; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m bench.streaming", description=__doc__)
    add = parser.add_argument
    add("--turns", type=int, default=5, help="turns that count")
    add("--count", type=int, default=40, help="jobs, and triggers of each stream, of a turn")
    add("--tasks", type=int, default=2, help="tasks of each job and trigger, and cores of Spark")
    add("--quick", action="store_true", help="one turn of 3: no figures to keep")
    add("--keep", action="store_true", help="write the section of RESULTS.md")
    add("--heap", default="1g", help="Java heap of each broker")
    options = parser.parse_args(arguments)
    count = 3 if options.quick else min(options.count, _MOST_TRIGGERS)
    load = os.getloadavg()[0]
    settings = SparkSettings(master=f"local[{options.tasks}]")
    turns = []
    with tempfile.TemporaryDirectory(prefix="k2ktui-streaming-") as name:
        make_class_archives()
        with running(Path(name), options.heap):
            runtime = SparkRuntime(settings, "k2ktui bench", {}, {})
            runtime.start()
            try:
                from pyspark.sql import SparkSession

                spark = SparkSession.builder.getOrCreate()
                for number in range(1 + (1 if options.quick else options.turns)):
                    turn = measure_turn(spark, options.tasks, count, Path(name) / f"turn{number}")
                    say(f"turn {number}: a trigger takes {turn.ratio:.1f} times a job")
                    turns.append(turn)
            finally:
                runtime.stop()
    text = section(turns[1:], options.tasks, settings.master, load)
    print(text)
    if options.keep:
        put_section(_RESULTS, "streaming", text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
