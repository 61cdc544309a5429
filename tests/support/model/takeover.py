"""What a takeover does, and in which order: of a slot, and of a whole pipeline.

Nothing here knows Kafka: a takeover is a generator of steps. Whoever carries them out sends the
answer of each back, and may carry it out on a model or on a cluster. The next step of the program
is to do so (docs/internals/one-level-ownership.md); today's takeovers are in ``Ownership``.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

STATE = -2
"""The id of an owner's own records, as in ``epochs.py``; ids that carry data count from 0."""


@dataclass(frozen=True)
class Division:
    """How a pipeline is divided into slots; ``id`` is different for every one.

    ``alone`` says that only the run that has made it takes its slots. It is ready once every slot
    of any division before it has been fenced.
    """

    id: str
    slots: int
    alone: bool = False
    ready: bool = False


@dataclass(frozen=True)
class PipelineRun:
    """The run record of a pipeline.

    Attributes:
        term: above every earlier one of the pipeline; that of a finished takeover is above those of
            all slots, too.
        division: whose slots may be taken; None if no slot may.
        most: the largest number of slots of any division so far.
        old_ids: how many ids ``<group>.N`` the release before may have used since a takeover has
            fenced them.
    """

    term: int = 0
    division: Division | None = None
    most: int = 0
    old_ids: int = 0

    def lets_take(self, division: Division) -> bool:
        """Return whether slots of a division may be taken."""
        now = self.division
        return now is not None and now.ready and now.id == division.id


@dataclass(frozen=True)
class SlotRun:
    """The run record of a slot: its term, and how many ids it may use."""

    slot: int
    term: int
    ids: int


@dataclass(frozen=True)
class Move:
    """A record that the topic of a source partition is moved, or released."""

    partition: int
    is_moved: bool


@dataclass(frozen=True)
class Start:
    """A position that is set, of a term."""

    partition: int
    offset: int
    term: int


# The steps. Each is of the lock for which the takeover is, unless it says otherwise.


@dataclass(frozen=True)
class TakeLock:
    """Bump the lock twice, whoever has it."""


@dataclass(frozen=True)
class Confirm:
    """Bump the lock if nobody else has; the takeover ends if somebody has."""


@dataclass(frozen=True)
class Fence:
    """Confirm the lock, then bump an id twice; answered with False if its transaction cannot end.

    Then it is aborted, and no token can write with the id.
    """

    id: int


@dataclass(frozen=True)
class FenceSlot:
    """Carry ``fence_slot`` out for a slot, with its lock; answered with its ids, or None.

    None says that another run has taken the slot's lock meanwhile.
    """

    slot: int


@dataclass(frozen=True)
class ReadWritten:
    """Read the run records, also those of open and aborted transactions."""


@dataclass(frozen=True)
class ReadStable:
    """Wait until nothing that was written before is undecided, and read what is committed."""


@dataclass(frozen=True)
class Write:
    """Confirm the lock, write records in one transaction, and wait until it is committed."""

    records: tuple[PipelineRun | SlotRun | Move | Start, ...]


Step = TakeLock | Confirm | Fence | FenceSlot | ReadWritten | ReadStable | Write


@dataclass(frozen=True)
class Written:
    """The answer to ``ReadWritten``.

    Attributes:
        run: the pipeline's newest run record, with the largest numbers of all of them.
        committed: the newest one that is seen to be committed.
        ids: how many ids the slot may have used; 0 if it has no run record.
    """

    run: PipelineRun
    committed: PipelineRun
    ids: int = 0


@dataclass(frozen=True)
class Stable:
    """The answer to ``ReadStable``.

    Attributes:
        term: the highest one of all run records and positions, of the pipeline and of every slot.
        positions: the next record of each partition.
        moved: the partitions whose topic is moved.
    """

    term: int
    positions: Mapping[int, int]
    moved: frozenset[int]


T = TypeVar("T")
Steps = Generator[Step, Any, T]


class Outdated(Exception):
    """A slot is of a division that is no longer the pipeline's."""


class NotMoved(Exception):
    """Positions can be set while runs go on only for topics that are moved."""


@dataclass(frozen=True)
class Taken:
    """What was taken over: its term, its ids, and those that cannot be used, for now."""

    term: int
    ids: int
    unfinished: frozenset[int]
    state: Stable


def fence_slot(division: Division | None = None) -> Steps[tuple[Written, int, frozenset[int]]]:
    """Fence whoever copies a slot.

    The pipeline's run record is read when the lock has been bumped: a takeover of the pipeline
    writes its record, then bumps the lock. Whoever comes later sees the other one.

    Args:
        division: give the slot up if it may not be taken for this one; None only fences.

    Raises:
        Outdated: it was given up.
    """
    yield TakeLock()
    yield Fence(STATE)
    written: Written = yield ReadWritten()
    if division is not None and not written.run.lets_take(division):
        raise Outdated
    ids = max(1, written.ids)
    unfinished = set()
    for number in range(ids):
        if not (yield Fence(number)):
            unfinished.add(number)
    return written, max(ids, len(unfinished) + 1), frozenset(unfinished)


def take_slot(slot: int, division: Division) -> Steps[Taken]:
    """Take a slot of a division over.

    Positions and moved topics are read together, after all bumps. The term is above those of all
    slots: the partitions may have been in another one.

    Raises:
        Outdated: the pipeline has another division.
    """
    written, ids, unfinished = yield from fence_slot(division)
    state: Stable = yield ReadStable()
    term = max(state.term, written.run.term) + 1
    yield Write((SlotRun(slot, term, ids),))
    return Taken(term, ids, unfinished, state)


@dataclass(frozen=True)
class Change:
    """What a takeover of the whole pipeline is for.

    Attributes:
        division: the next one; None if no run may copy (a drill, new positions).
        keeps: keep the division instead, so that runs go on (moved topics).
        moves: topics that are moved and released.
        positions: the next records of partitions.
    """

    division: Division | None = None
    keeps: bool = False
    moves: tuple[Move, ...] = ()
    positions: Mapping[int, int] = field(default_factory=dict)


def change_pipeline(change: Change) -> Steps[Taken]:
    """Take the whole pipeline over.

    The lock of the pipeline decides between two takeovers: only the one that has bumped it last
    writes its records, and bumps slots. What a slot's takeover has to find is written before any
    slot's lock is bumped.

    Raises:
        NotMoved: a position is of a topic that is not moved, and runs go on.
    """
    yield TakeLock()
    yield Fence(STATE)
    written: Written = yield ReadWritten()
    early = _early(change, written)
    yield Write((early, *change.moves))
    ids: list[int] = []
    for slot in range(early.most):
        slot_ids: int | None = None
        while slot_ids is None:  # another run is taking the slot over, and finds the early record
            yield Confirm()
            slot_ids = yield FenceSlot(slot)
        ids.append(slot_ids)
    for number in range(early.old_ids):
        yield Fence(number)
    state: Stable = yield ReadStable()
    if change.keeps and not change.positions.keys() <= state.moved:
        raise NotMoved
    term = max(state.term, early.term) + 1
    division = early.division
    if division is not None and not change.keeps:
        division = replace(division, ready=True)
    # The ids of the release before are fenced: whoever uses them again writes a record before.
    late = replace(early, term=term, division=division, old_ids=0)
    starts = (Start(at, offset, term) for at, offset in sorted(change.positions.items()))
    kept = division.slots if division is not None and division.alone and not change.keeps else 0
    yield Write((late, *starts, *(SlotRun(slot, term, ids[slot]) for slot in range(kept))))
    return Taken(term, 0, frozenset(), state)


def _early(change: Change, written: Written) -> PipelineRun:
    """Return the run record that is written before any slot's lock is bumped."""
    before, division = written.run, change.division
    if change.keeps:
        division = before.division
        is_committed = division == written.committed.division
    else:
        is_committed = False
    if division is not None and not is_committed:
        # Another takeover may have been interrupted while it fenced the slots.
        division = replace(division, ready=False)
    slots = 0 if division is None else division.slots
    return PipelineRun(before.term + 1, division, max(before.most, slots), before.old_ids)
