"""Makes the dead letters of records that fail a step: as they were, with origin and cause."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from k2ktui.engine.dead_letters import describe_cause
from k2ktui.engine.state import SourcePartition
from k2ktui.engine.transforms import Transform
from k2ktui.log.records import Records
from k2ktui.replication.copying.dead_letters import LetterMaker, in_offset_order
from k2ktui.replication.slot_task import SlotTask
from k2ktui.replication.stages.rows import join_record
from k2ktui.replication.stages.steps import plan_steps
from k2ktui.replication.stages.transformed import Failure


def make_dead_letters(
    failures: Sequence[Failure],
    transform: Transform,
    source: SourcePartition,
    task: SlotTask,
    *,
    now: bool,
) -> Records:
    """Return the dead letters of records that failed, in offset order.

    Args:
        failures: the records, in offset order.
        transform: what they failed.
        source: their partition.
        task: the slot's task.
        now: stamp them with the current time.

    Raises:
        CorruptBatch: the headers of a record cannot be read.
    """
    steps = plan_steps(transform)
    maker = LetterMaker(source, task.state_topics.pipeline, task.origin, now)
    made = []
    for number in sorted({each.step for each in failures}):
        step = steps[number]
        failed = [each for each in failures if each.step == number]
        records = Records(
            np.array([each.offset for each in failed], dtype=np.int64),
            np.array([each.timestamp for each in failed], dtype=np.int64),
            [join_record(each.key, each.value, each.headers) for each in failed],
        )
        made.append(maker.make(records, step, describe_cause(transform, step)))
    return in_offset_order(made)
