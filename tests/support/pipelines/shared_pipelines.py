"""Runs of a pipeline that they share, as processes: what they own, and whether they copy."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from typing import Any

from k2ktui.engine.moves.journal import Runner, RunnerKey
from k2ktui.engine.moves.journal_format import read_state_key, read_state_value
from k2ktui.engine.ownership.assignment_records import AssignmentFold
from tests.support.clusters.kafka import end_offsets, eventually, read_all
from tests.support.oracle.group_proofs import prove_groups
from tests.support.pipelines.pipeline import START_TIMEOUT, Pipeline, Run

# A run that a busy machine holds up for seconds is not taken for dead.
SLOTS, GRACE_S, LAP_S = 4, 15, 1
SHARED = {
    "coordination.mode": "shared",
    "coordination.assignment.graceWindow": f"{GRACE_S} seconds",
    "spark.slots": SLOTS,
    "spark.lap": f"{LAP_S} seconds",
}
BEAT_S = GRACE_S / 3  # between two records of a run
_WAIT_S = 2 * START_TIMEOUT  # several runs may start at once


def expect_owning(runs: Collection[Run], total: int = SLOTS) -> None:
    """Wait until these runs own all slots together, evenly."""

    def is_even() -> bool:
        owned = sorted(owning(run) for run in runs)
        return sum(owned) == total and owned[-1] - owned[0] <= 1

    eventually(is_even, lambda: "\n".join(run.tail() for run in runs), _WAIT_S)


def owning(run: Run) -> int:
    """Return how many slots a run said last that it owns."""
    said = [event for event in run.events() if _is_of_owners(event)]
    if not said or said[-1]["event"] == "waiting":
        return 0
    return int(said[-1]["text"].partition(" owns ")[2].split()[0])


def read_beats(pipeline: Pipeline) -> dict[str, int]:
    """Return how many records each run has written that shares the pipeline.

    They are its clock: one each ``BEAT_S``, later if it gets no time to run, and one for each
    change of what it holds.
    """
    fold = AssignmentFold(pipeline.name)
    for got in read_all(pipeline.target, "__k2k_assignment"):
        fold.take(got.key, got.value)
    return {name: member.beat for name, member in fold.members.items()}


def read_clocks(pipeline: Pipeline) -> dict[str, float]:
    """Return by how many seconds the clock of each run is ahead, as its last heartbeat shows."""
    clocks = {}
    for got in read_all(pipeline.target, "__k2k_state"):
        if got.key is None or got.value is None or b'"kind":"runner"' not in got.key:
            continue
        group, key = read_state_key(got.key)
        if group == pipeline.name and isinstance(key, RunnerKey):
            runner = read_state_value(key, got.value)
            assert isinstance(runner, Runner)
            clocks[runner.runner] = runner.at_ms / 1000 - time.time()
    return clocks


def _is_of_owners(event: Mapping[str, Any]) -> bool:
    return event["event"] == "waiting" or str(event.get("text", "")).startswith("shared by ")


def await_all_copying(pipeline: Pipeline, topics: Collection[str]) -> None:
    """Wait until more of every partition is visible on the target."""
    before = {topic: end_offsets(pipeline.target, topic, "read_committed") for topic in topics}

    def has_grown() -> bool:
        now = {topic: end_offsets(pipeline.target, topic, "read_committed") for topic in topics}
        return all(
            now[topic][partition] > end
            for topic, ends in before.items()
            for partition, end in ends.items()
        )

    eventually(has_grown, "every partition grows on the target", _WAIT_S)


def prove_caught_up(pipeline: Pipeline, topics: Collection[str]) -> None:
    """Wait until the runs that share the pipeline have copied everything, and compare it.

    Groups are translated and moved, too.
    """
    for topic in topics:
        eventually(lambda: pipeline.is_caught_up(topic), f"{topic} is copied", _WAIT_S)  # noqa: B023
    prove_groups(pipeline, pipeline.prove())
