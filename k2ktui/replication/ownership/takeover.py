"""What a takeover does, and in which order (docs/internals/one-level-ownership.md).

Nothing here knows Kafka: a takeover is a generator of steps. Whoever carries them out sends the
answer of each back: ``Fence`` and ``Ownership`` on a cluster, the tests on a model of it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, TypeVar


@dataclass(frozen=True, slots=True)
class TakeLock:
    """Bump the lock twice, whoever has it."""


@dataclass(frozen=True, slots=True)
class FenceRecords:
    """Confirm the lock, then bump the id of its owner's records twice."""


@dataclass(frozen=True, slots=True)
class ReadWritten:
    """Read the run records, also those of open and aborted transactions."""


@dataclass(frozen=True, slots=True)
class FenceId:
    """Confirm the lock, then bump an id twice; answered with False if its transaction cannot end.

    Then it is aborted, and no token can write with the id.
    """

    number: int


@dataclass(frozen=True, slots=True)
class WriteEarly:
    """Confirm the lock of the pipeline, write what a takeover of a slot has to find, and commit it.

    Answered with how many slots any division has had.
    """


@dataclass(frozen=True, slots=True)
class Confirm:
    """Bump the lock if nobody else has; the takeover ends if somebody has."""


@dataclass(frozen=True, slots=True)
class FenceSlot:
    """Begin to carry ``fence_owner`` out for a slot, with its lock."""

    slot: int


@dataclass(frozen=True, slots=True)
class AwaitSlots:
    """Wait for the slots that were begun.

    Answered with those whose locks other runs have taken meanwhile: they are not fenced.
    """


@dataclass(frozen=True, slots=True)
class ReadStable:
    """Wait until nothing that was written before is undecided, and read what is committed."""


@dataclass(frozen=True, slots=True)
class WriteRun:
    """Confirm the lock, write the run record, and wait until it is committed.

    ``state`` is what was read before.
    """

    term: int
    ids: int
    state: Any


@dataclass(frozen=True, slots=True)
class Written:
    """The answer to ``ReadWritten``.

    Attributes:
        ids: how many ids may have been used.
        term: that of the pipeline's newest run record.
        division: id of the division whose slots may be taken by that record; None if no slot may.
    """

    ids: int
    term: int = 0
    division: str | None = None


@dataclass(frozen=True, slots=True)
class Stable:
    """The answer to ``ReadStable``.

    Attributes:
        term: the highest one of all run records and positions, of the pipeline and of every slot.
        state: positions and moved topics, as they were read together.
        retired: the ids that cannot be used, as what they wrote is of other clusters.
    """

    term: int
    state: Any
    retired: frozenset[int] = frozenset()


FencingStep = TakeLock | FenceRecords | ReadWritten | FenceId
SlotsStep = Confirm | FenceSlot | AwaitSlots
PipelineStep = FencingStep | WriteEarly | SlotsStep
BeginningStep = ReadStable | WriteRun
S = TypeVar("S")
T = TypeVar("T")
Steps = Generator[S, Any, T]


class Outdated(Exception):
    """A slot is of a division that is no longer the pipeline's."""


@dataclass(frozen=True, slots=True)
class FencedOwner:
    """Nobody who had the lock can write; ``unfinished`` are the ids that cannot be used for now."""

    written: Written
    unfinished: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Taken:
    """What was taken over: its term, how many ids it may use, and which it cannot use."""

    term: int
    ids: int
    unusable: frozenset[int]
    state: Any


def fence_owner(division: str | None = None) -> Steps[FencingStep, FencedOwner]:
    """Fence whoever has a lock.

    That the lock is still held at the end is not confirmed here: whoever goes on writes a run
    record, which confirms it, before any token is used.

    The pipeline's run record is read when the lock has been bumped: a takeover of the pipeline
    writes its record, then bumps the lock. Whoever comes later sees the other one.

    Args:
        division: give the slot up if it may not be taken for this one; None only fences.

    Raises:
        Outdated: it was given up.
    """
    yield TakeLock()
    yield FenceRecords()
    written: Written = yield ReadWritten()
    if division is not None and written.division != division:
        raise Outdated
    unfinished = yield from _fence_ids(written.ids)
    return FencedOwner(written, unfinished)


def fence_pipeline() -> Steps[PipelineStep, FencedOwner]:
    """Fence whoever has the pipeline, and every slot of any division that it has had.

    The lock of the pipeline decides between two takeovers: only the one that has bumped it last
    writes its records, and bumps slots. What a slot's takeover has to find is written before any
    slot's lock is bumped.
    """
    yield TakeLock()
    yield FenceRecords()
    written: Written = yield ReadWritten()
    slots: int = yield WriteEarly()
    yield from fence_slots(slots)
    unfinished = yield from _fence_ids(written.ids)
    return FencedOwner(written, unfinished)


def fence_slots(slots: int) -> Steps[SlotsStep, None]:
    """Fence slots for whoever has the lock of the pipeline.

    A run that takes one meanwhile finds the early record; its slot is fenced again.
    """
    waiting = list(range(slots))
    while waiting:
        for slot in waiting:
            yield Confirm()
            yield FenceSlot(slot)
        waiting = yield AwaitSlots()


def _fence_ids(ids: int) -> Steps[FenceId, frozenset[int]]:
    """Fence the ids of a lock; return those whose transactions cannot end."""
    unfinished = set()
    for number in range(ids):
        if not (yield FenceId(number)):
            unfinished.add(number)
    return frozenset(unfinished)


def begin(fenced: FencedOwner, slots: int = 1) -> Steps[BeginningStep, Taken]:
    """Begin a term of a slot, or of a pipeline, whose owner was fenced.

    Positions and moved topics are read together, after all bumps. The term is above those of all
    slots: the partitions may have been in another one. Whether the lock was lost meanwhile is found
    when the run record is written, before any id is used.

    Args:
        fenced: what was fenced.
        slots: how many ids are needed at the same time.
    """
    stable: Stable = yield ReadStable()
    unusable = fenced.unfinished | stable.retired
    ids = max(fenced.written.ids, slots + len(unusable))
    term = max(stable.term, fenced.written.term) + 1
    yield WriteRun(term, ids, stable.state)
    return Taken(term, ids, unusable, stable.state)


def carry_out(steps: Steps[S, T], do: Callable[[S], Any]) -> T:
    """Carry steps out one by one, and return their result; ``do`` returns the answer of each."""
    answer: Any = None
    while True:
        try:
            step = steps.send(answer)
        except StopIteration as end:
            result: T = end.value
            return result
        answer = do(step)
