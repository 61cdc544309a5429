"""Rules of takeovers that are broken on purpose: the model must find each of them."""

from __future__ import annotations

from enum import Enum
from typing import Any

from k2ktui.replication.ownership.takeover import Confirm, FenceId, Steps, T, WriteEarly


class Planted(Enum):
    """A rule that is broken."""

    ONE_BUMP = "each epoch is bumped once, not twice"
    OWNER_NOT_CONFIRMED = "the lock of a slot is not confirmed"
    PIPELINE_NOT_CONFIRMED = "the lock of the pipeline is not confirmed before a slot is fenced"
    NO_PIPELINE_LOCK = "a takeover of the pipeline takes each slot, and no lock of all"
    OWN_TERM = "a slot's term is above its own earlier ones only"
    LATE_RECORD = "the run record of the pipeline is written after the slots are fenced"
    RECORD_NOT_READ = "the run record of the pipeline is not read when a slot is taken"
    RECORD_BEFORE_LOCK = "the run record of the pipeline is read before the slot's lock is bumped"
    MOVES_BEFORE_BUMPS = "moved topics are read before the bumps"
    MOVES_UNSTABLE = "moved topics are read while an open transaction may hide them"
    OLD_IDS = "the ids of the release before are not bumped"
    NOT_TOLD = "the release before is not told how many slots there are"


def plant(planted: Planted | None, steps: Steps[Any, T]) -> Steps[Any, T]:
    """Return the steps of a takeover, with a rule broken."""
    if planted is None:
        return (yield from steps)
    answer: Any = None
    has_written = False
    while True:
        try:
            step = steps.send(answer)
        except StopIteration as end:
            result: T = end.value
            return result
        match step, planted:
            case Confirm(), Planted.PIPELINE_NOT_CONFIRMED:
                answer = None
                continue
            case FenceId(), Planted.OLD_IDS if has_written:
                answer = True
                continue
        has_written = has_written or isinstance(step, WriteEarly)
        answer = yield step
