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
    """Read the run records, also those of open and aborted transactions.

    Of the whole pipeline: first write what has to precede the fencing, and fence its shared slots.
    """


@dataclass(frozen=True, slots=True)
class FenceId:
    """Confirm the lock, then bump an id twice; answered with False if its transaction cannot end.

    Then it is aborted, and no token can write with the id.
    """

    number: int


@dataclass(frozen=True, slots=True)
class ReadStable:
    """Wait until nothing that was written before is undecided, and read what is committed."""


@dataclass(frozen=True, slots=True)
class WriteRun:
    """Confirm the lock, write the run record, and wait until it is committed."""

    term: int
    ids: int


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
    """A slot that was taken over: its term, how many ids it may use, and which it cannot use."""

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
    unfinished = set()
    for number in range(written.ids):
        if not (yield FenceId(number)):
            unfinished.add(number)
    return FencedOwner(written, frozenset(unfinished))


def begin_slot(fenced: FencedOwner) -> Steps[BeginningStep, Taken]:
    """Begin a term of a slot whose owner was fenced.

    Positions and moved topics are read together, after all bumps. The term is above those of all
    slots: the partitions may have been in another one. Whether the lock was lost meanwhile is found
    when the run record is written, before any id is used.
    """
    stable: Stable = yield ReadStable()
    unusable = fenced.unfinished | stable.retired
    ids = max(fenced.written.ids, len(unusable) + 1)
    term = max(stable.term, fenced.written.term) + 1
    yield WriteRun(term, ids)
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
