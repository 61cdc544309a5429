"""Makes the dead letters of records that fail a step: as they were, with origin and cause."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from k2ktui.engine.dead_letters import CAUSE_HEADER, ORIGIN_HEADERS, STEP_HEADER, describe_cause
from k2ktui.engine.state import SourcePartition
from k2ktui.engine.transforms import Transform
from k2ktui.log.records import Records, concatenate
from k2ktui.replication.copying.outgoing_batch import OutgoingBatch, TargetPartition
from k2ktui.replication.copying.partition_reader import now_ms
from k2ktui.replication.copying.record_headers import change_headers
from k2ktui.replication.slot_task import HeaderRules, SlotTask
from k2ktui.replication.stages.plan import plan_steps
from k2ktui.replication.stages.rows import Failure, join_record


@dataclass(frozen=True, slots=True)
class DeadLetterOwner:
    """The origin of a batch of dead letters, which have no mapping range."""

    source: SourcePartition

    def acknowledge(self, outgoing: OutgoingBatch, target: TargetPartition, base: int) -> None:
        """Nothing follows from where dead letters are."""


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
    made = []
    for number in sorted({each.step for each in failures}):
        step = steps[number]
        failed = [each for each in failures if each.step == number]
        cause = describe_cause(transform, step)
        rules = HeaderRules(
            added=ORIGIN_HEADERS, constants=((STEP_HEADER, step), (CAUSE_HEADER, cause))
        )
        stamps = [now_ms() if now else each.timestamp for each in failed]
        records = Records(
            np.array([each.offset for each in failed], dtype=np.int64),
            np.array(stamps, dtype=np.int64),
            [join_record(each.key, each.value, each.headers) for each in failed],
        )
        made.append(change_headers(records, rules, source, task.state_topics.pipeline, task.origin))
    found = concatenate(made)
    return found.take(np.argsort(found.offsets, kind="stable"))
