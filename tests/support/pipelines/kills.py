"""Workers that are killed at chosen steps while a pipeline copies."""

from __future__ import annotations

import random
from collections.abc import Mapping

from tests.support.pipelines.pipeline import Pipeline
from tests.support.records.traffic import Traffic

WORKER_STEPS = ("joined", "sent", "before-state", "before-commit", "after-commit", "lap-over")

COMPRESSIBLE = b"compressible " * 25


def copy_despite_kills(
    pipeline: Pipeline,
    topics: dict[str, int],
    seed: int,
    batches: Mapping[str, object] | None = None,
) -> int:
    """Write and copy while a worker is killed at every step, in random order, then catch up.

    Args:
        pipeline: the pipeline.
        topics: number of partitions of each topic.
        seed: of the traffic and the order.
        batches: settings of the traffic's producers, if of special ones.

    Returns:
        How many records were sent.
    """
    steps = random.Random(seed).sample(WORKER_STEPS, len(WORKER_STEPS))
    prefixes = pipeline.prefixes or ([COMPRESSIBLE] if batches else [])
    with Traffic(pipeline.source, topics, seed, prefixes=prefixes, batches=batches) as traffic:
        run = pipeline.start()
        run.expect("firstrecord")
        for step in steps:
            pipeline.arm(step)
            pipeline.await_hit(step)
        pipeline.await_copying()
    pipeline.end(run)
    return traffic.sent
