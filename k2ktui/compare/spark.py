"""Compare parts in Spark tasks, each with connections of its own to both clusters."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from functools import partial

from k2ktui.compare.tasks import ComparisonTask, TaskResult, make_task, run_task
from k2ktui.config.model import PipelineConfig
from k2ktui.engine.compare.parts import ComparisonPart
from k2ktui.errors import K2kError
from k2ktui.replication.spark.java import application_name
from k2ktui.replication.spark.session import SparkRuntime
from k2ktui.runtime.java import find_java
from k2ktui.runtime.spark_extra import require_pyspark

log = logging.getLogger(__name__)

# To connect takes as long as to compare a small part. With fewer tasks for each core than this, one
# core would compare long after the others have nothing left.
_MOST_PARTS_A_TASK, _TASKS_A_CORE = 4, 4


def why_no_spark() -> str:
    """Return why this host cannot run Spark's driver; "" if it can."""
    try:
        require_pyspark("comparing with Spark")
        find_java()
    except K2kError as error:
        return error.message
    return ""


def parts_a_task(parts: int, cores: int) -> int:
    """Return how many parts a task compares."""
    return max(1, min(_MOST_PARTS_A_TASK, parts // (_TASKS_A_CORE * cores)))


def compare_in_spark(
    config: PipelineConfig, parts: Sequence[ComparisonPart], bytes_per_s: float | None
) -> Iterator[tuple[ComparisonTask, TaskResult]]:
    """Compare parts with the pipeline's Spark settings; yield results as they are made.

    Args:
        config: the pipeline.
        parts: the parts.
        bytes_per_s: bound of what all tasks together read; None for none.

    Raises:
        ConnectionFailed, TimedOut: a cluster does not answer.
        NotInstalled: PySpark is missing.
        K2kError: Spark did not start, or lost a task.
    """
    require_pyspark("comparing with Spark")
    spark = SparkRuntime(config.spark, application_name(config), {}, {})
    try:
        spark.start()
        share = None if bytes_per_s is None else bytes_per_s / spark.parallelism
        size = parts_a_task(len(parts), spark.parallelism)
        tasks = (
            make_task(config, parts[at : at + size], share) for at in range(0, len(parts), size)
        )
        yield from _run(spark, tasks)
    finally:
        spark.stop()
        spark.forget_files()


def _run(
    spark: SparkRuntime, tasks: Iterator[ComparisonTask]
) -> Iterator[tuple[ComparisonTask, TaskResult]]:
    """Keep all cores busy, and no more tasks in memory than that."""
    running: dict[Future[TaskResult | K2kError], ComparisonTask] = {}
    log.info("comparing in %d Spark tasks at a time", spark.parallelism)
    while True:
        for task in tasks:
            running[spark.call(partial(run_task, task))] = task
            if len(running) >= spark.parallelism:
                break
        if not running:
            return
        for future in wait(running, return_when=FIRST_COMPLETED).done:
            task, result = running.pop(future), future.result()
            if isinstance(result, K2kError):
                raise result
            yield task, result
