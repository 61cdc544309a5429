"""What a takeover of a whole pipeline writes next (docs/internals/one-level-ownership.md).

In which order it does that is the program's own, ``k2ktui/replication/ownership/takeover.py``; what
it writes today is in ``Ownership``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from k2ktui.replication.ownership.takeover import (
    BeginningStep,
    PipelineStep,
    Steps,
    Taken,
    WriteRun,
    Written,
    begin,
    fence_pipeline,
)


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


@dataclass(frozen=True)
class WrittenRuns(Written):
    """The answer to ``ReadWritten``, with all that a takeover of the pipeline asks.

    Attributes:
        run: the pipeline's newest run record, with the largest numbers of all of them.
        committed: the newest one that is seen to be committed.
    """

    run: PipelineRun = PipelineRun()
    committed: PipelineRun = PipelineRun()


@dataclass(frozen=True)
class Read:
    """What ``ReadStable`` finds: the next record of each partition, and whose topic is moved."""

    positions: Mapping[int, int]
    moved: frozenset[int]


Records = tuple[PipelineRun | SlotRun | Move | Start, ...]
"""What one transaction writes."""


class NotMoved(Exception):
    """Positions can be set while runs go on only for topics that are moved."""


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


def change_pipeline() -> Steps[PipelineStep | BeginningStep, Taken]:
    """Take the whole pipeline over, as the program does."""
    fenced = yield from fence_pipeline()
    return (yield from begin(fenced, 0))


def late_records(change: Change, early: PipelineRun, step: WriteRun, ids: list[int]) -> Records:
    """Return what is written when every run was fenced; ``ids`` are those of each slot.

    Raises:
        NotMoved: a position is of a topic that is not moved, and runs go on.
    """
    if change.keeps and not change.positions.keys() <= step.state.moved:
        raise NotMoved
    division, term = early.division, step.term
    if division is not None and not change.keeps:
        division = replace(division, ready=True)
    # The ids of the release before are fenced: whoever uses them again writes a record before.
    late = replace(early, term=term, division=division, old_ids=0)
    starts = (Start(at, offset, term) for at, offset in sorted(change.positions.items()))
    kept = division.slots if division is not None and division.alone and not change.keeps else 0
    return (late, *starts, *(SlotRun(slot, term, ids[slot]) for slot in range(kept)))


def early_record(change: Change, written: WrittenRuns) -> PipelineRun:
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
