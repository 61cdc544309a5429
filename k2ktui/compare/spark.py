"""Compare parts in Spark tasks, each with connections of its own to both clusters."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from functools import cache, partial
from itertools import islice
from types import MappingProxyType

from k2ktui.compare.tasks import ComparisonTask, TaskResult, make_task, run_task
from k2ktui.compare.transform_tasks import TransformTask, run_transform
from k2ktui.config.model import PipelineConfig
from k2ktui.engine.compare.parts import ComparisonPart
from k2ktui.engine.transforms.model import Transform
from k2ktui.errors import K2kError
from k2ktui.replication.spark.java import application_name
from k2ktui.replication.spark.session import SparkRuntime
from k2ktui.replication.transform_preview import partition_counts
from k2ktui.replication.transforms.schemas import TransformSchemas
from k2ktui.runtime.java import find_java
from k2ktui.runtime.spark_extra import require_pyspark, require_transform_packages

log = logging.getLogger(__name__)

# To connect takes as long as to compare a small part. With fewer tasks for each core than this, one
# core would compare long after the others have nothing left.
_MOST_PARTS_A_TASK, _TASKS_A_CORE = 4, 4
_TICK_S = 1.0


def why_no_spark(*, transforms: bool = False) -> str:
    """Return why this host cannot run Spark's driver; "" if it can.

    ``transforms`` is whether it has to run transforms.
    """
    try:
        require_pyspark("comparing with Spark")
        if transforms:
            require_transform_packages("running transforms again")
        find_java()
    except K2kError as error:
        return error.message
    return ""


def parts_a_task(parts: int, cores: int) -> int:
    """Return how many parts a task compares."""
    return max(1, min(_MOST_PARTS_A_TASK, parts // (_TASKS_A_CORE * cores)))


def compare_in_spark(
    config: PipelineConfig,
    parts: Sequence[ComparisonPart],
    bytes_per_s: float | None,
    transforms: Mapping[str, Transform] = MappingProxyType({}),
    tick: Callable[[], None] = lambda: None,
) -> Iterator[tuple[ComparisonTask, TaskResult]]:
    """Compare parts with the pipeline's Spark settings; yield results as they are made.

    Args:
        config: the pipeline.
        parts: the parts.
        bytes_per_s: bound of what all tasks together read; None for none.
        transforms: those that are run again, by source topic.
        tick: called about every second; what it raises ends the comparison.

    Raises:
        ConnectionFailed, TimedOut: a cluster does not answer.
        ConfigError: Spark rejects a transform.
        NotInstalled: PySpark is missing, or a package that a transform needs.
        K2kError: Spark did not start, or lost a task.
    """
    require_pyspark("comparing with Spark")
    schemas = TransformSchemas(config, registers=False) if transforms else None
    spark = SparkRuntime(
        config.spark, application_name(config), {}, {}, transforms=bool(transforms), schemas=schemas
    )
    try:
        spark.start()
        yield from _run(spark, _divide(config, parts, spark, bytes_per_s, transforms), tick)
    finally:
        spark.stop()
        spark.forget_files()


_Work = ComparisonTask | TransformTask


def _divide(
    config: PipelineConfig,
    parts: Sequence[ComparisonPart],
    spark: SparkRuntime,
    bytes_per_s: float | None,
    transforms: Mapping[str, Transform],
) -> Iterator[_Work]:
    """Yield what each Spark task has to do: parts of topics with the same transform, or none."""
    counts_of = cache(partial(partition_counts, config))
    share = None if bytes_per_s is None else bytes_per_s / spark.parallelism
    alike: dict[Transform | None, list[ComparisonPart]] = {}
    for part in parts:
        alike.setdefault(transforms.get(part.source.topic), []).append(part)
    for transform, some in alike.items():
        size = parts_a_task(len(some), spark.parallelism)
        for at in range(0, len(some), size):
            chosen = some[at : at + size]
            if transform is None:
                yield make_task(config, chosen, share)
                continue
            # Both ends of such a task read, each from one cluster.
            half = None if share is None else share / 2
            counts = {topic: counts_of(topic) for topic in {part.source.topic for part in chosen}}
            yield TransformTask(make_task(config, chosen, half, transforms=True), transform, counts)


def _run(
    spark: SparkRuntime, tasks: Iterable[_Work], tick: Callable[[], None]
) -> Iterator[tuple[ComparisonTask, TaskResult]]:
    """Keep all cores busy, and no more tasks in memory than that."""
    left = iter(tasks)
    running: dict[Future[TaskResult | K2kError], ComparisonTask] = {}
    log.info("comparing in %d Spark tasks at a time", spark.parallelism)
    while True:
        for work in islice(left, spark.parallelism - len(running)):
            if isinstance(work, TransformTask):
                running[spark.call_transformed(partial(run_transform, work))] = work.task
            else:
                running[spark.call(partial(run_task, work))] = work
        if not running:
            return
        tick()
        for future in wait(running, _TICK_S, FIRST_COMPLETED).done:
            task, result = running.pop(future), future.result()
            if isinstance(result, K2kError):
                raise result
            yield task, result
