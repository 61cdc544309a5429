"""Runs with one level of ownership, a slot with its lock, against the model of the coordinator.

They take slots and the pipeline over in the order of the program, beside runs of the release
before. A run that is exclusive, or a standby whose turn it is, divides the pipeline for itself and
keeps all slots; one that shares takes single slots of a division that was made for all.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random
from typing import Any

from k2ktui.kafka.producer_id import Producer
from k2ktui.kafka.wire.cluster import CoordinatorError
from k2ktui.replication.ownership.epochs import STATE, NotOwner, ProducerEpochs, transactional_id
from k2ktui.replication.ownership.takeover import (
    AwaitSlots,
    Confirm,
    FencedOwner,
    FenceId,
    FenceRecords,
    FenceSlot,
    Outdated,
    ReadStable,
    ReadWritten,
    Stable,
    Steps,
    T,
    TakeLock,
    Taken,
    WriteEarly,
    WriteRun,
    begin,
    fence_owner,
)
from tests.support.model.coordinator import Copied, Fault, Moved, Pause, Placed, Run, Version
from tests.support.model.drivers import (
    PARTITIONS,
    ModelDriver,
    fence_id,
    moved_partitions,
    newest_positions,
)
from tests.support.model.model_laps import Failed
from tests.support.model.planted import Planted, plant
from tests.support.model.sharing import Layout, SharedCluster, SlotRunner, newest_layout
from tests.support.model.takeover import (
    Change,
    Division,
    Move,
    NotMoved,
    PipelineRun,
    Read,
    Records,
    SlotRun,
    Start,
    WrittenRuns,
    change_pipeline,
    early_record,
    late_records,
)

_S = 60.0


class _Epochs(ProducerEpochs):
    """Epochs with the planted faults of bumps and confirmations."""

    planted: Planted | None = None
    is_slot = False

    async def _bump_twice(self, slot: int, seconds: float) -> None:
        if self.planted is not Planted.ONE_BUMP:
            return await super()._bump_twice(slot, seconds)
        anyone = Producer(transactional_id(self._group, slot))
        self._held[slot] = await self._bump(anyone, seconds)
        return None

    async def confirm_ownership(self, seconds: float) -> None:
        broken = Planted.OWNER_NOT_CONFIRMED if self.is_slot else Planted.NO_PIPELINE_LOCK
        if self.planted is not broken:
            await super().confirm_ownership(seconds)


@dataclass
class Guard:
    """A lock: the epochs of it and of its ids.

    ``before`` and ``moved`` are what was written, and what was moved, before it was taken.
    """

    slot: int | None
    epochs: _Epochs
    fenced: FencedOwner | None = None
    before: WrittenRuns | None = None
    moved: frozenset[int] = frozenset()


class OneLevelDriver(ModelDriver):
    """Carries takeovers out, request by request."""

    def __init__(self, number: int, run: int, cluster: OneLevelCluster) -> None:
        self.run, self._cluster, self._planted = run, cluster, cluster.planted
        super().__init__(number, 1, cluster)

    def guard(self, slot: int | None) -> Guard:
        group = self.group if slot is None else f"g.{slot}"
        epochs = _Epochs(self._wire, group, 60_000, patience=0.0)
        epochs.planted, epochs.is_slot = self._planted, slot is not None
        return Guard(slot, epochs)

    async def play(self, steps: Steps[Any, T], guard: Guard) -> T:
        """Carry the steps of a takeover out with a lock, and return its result."""
        steps, answer = plant(self._planted, steps), None
        while True:
            try:
                step = steps.send(answer)
            except StopIteration as end:
                result: T = end.value
                return result
            answer = await self._do(step, guard)

    async def _do(self, step: Any, guard: Guard) -> Any:
        match step:
            case TakeLock():
                guard.moved = frozenset(moved_partitions(self._target.committed))
                guard.before = self.written(guard.slot)
                return await guard.epochs.take_ownership(_S)
            case FenceRecords():
                return await guard.epochs.fence(STATE, _S)
            case FenceId(number):
                return await fence_id(guard.epochs, number)
            case ReadWritten():
                await Pause()
                is_early = self._planted is Planted.RECORD_BEFORE_LOCK and guard.slot is not None
                return guard.before if is_early else self.written(guard.slot)
            case ReadStable():
                return await self._read_stable(guard)
            case WriteRun(term, ids):
                assert guard.slot is not None
                return await self._write_all(guard, (SlotRun(guard.slot, term, ids),))
        raise AssertionError(step)

    async def _write_all(self, guard: Guard, records: Records) -> None:
        self._epochs = guard.epochs
        await self._write(*(entry for record in records for entry in self._entries(record)))

    async def _read_stable(self, guard: Guard) -> Stable:
        visible = frozenset(moved_partitions(self._target.visible()))
        await self._read()
        moved = frozenset(moved_partitions(self._target.committed))
        if self._planted is Planted.MOVES_BEFORE_BUMPS:
            moved = guard.moved
        if self._planted is Planted.MOVES_UNSTABLE:
            moved = visible
        read = Read(newest_positions(self._target.committed), moved)
        return Stable(self._stable_term(guard.slot), read)

    def written(self, slot: int | None = None) -> WrittenRuns:
        """Return the run records as compaction leaves them, also those never committed."""
        target = self._target
        layouts = target.kept(lambda entry: isinstance(entry, Layout))
        runs = target.kept(lambda entry: isinstance(entry, Run) and entry.group == "g")
        newest = PipelineRun(
            max((run.term for run in runs), default=0),
            division_of(layouts[-1]) if layouts else None,
            max((max(layout.slots, layout.most) for layout in layouts), default=0),
            max((run.slots for run in runs), default=0),
        )
        own_term = self._planted is Planted.OWN_TERM and slot is not None
        visible, division = newest_layout(target.visible()), newest.division
        committed = PipelineRun(division=division_of(visible) if visible else None)
        own = target.kept(lambda entry: isinstance(entry, Run) and entry.group == f"g.{slot}")
        return WrittenRuns(
            newest.old_ids if slot is None else max([1, *(run.slots for run in own)]),
            0 if own_term else newest.term,
            division.id if division is not None and division.ready else None,
            newest,
            committed,
        )

    def _stable_term(self, slot: int | None) -> int:
        entries = [e for e in self._target.committed if isinstance(e, Run | Copied | Placed)]
        if self._planted is Planted.OWN_TERM and slot is not None:
            entries = [e for e in entries if isinstance(e, Run) and e.group == f"g.{slot}"]
        return max((entry.term for entry in entries), default=0)

    def _entries(self, record: PipelineRun | SlotRun | Move | Start) -> list[Any]:
        """Return a record as the release before reads it."""
        match record:
            case PipelineRun(term, division, most, old_ids):
                most = 0 if self._planted is Planted.NOT_TOLD else most
                return [Run(self.number, term, old_ids, "g"), self._layout(division, most)]
            case SlotRun(slot, term, ids):
                return [Run(self.number, term, ids, f"g.{slot}")]
            case Move(partition, is_moved):
                return [Moved(partition, is_moved)]
            case Start(partition, offset, term):
                return [Placed(partition, offset, term)]

    def _layout(self, division: Division | None, most: int) -> Layout:
        """Return a division as the release before reads it: it knows only those for all runs."""
        if division is None or division.alone:
            return Layout(0, self.number, 0, most=most, division=division)
        driver, attempt = map(int, division.id.split("."))
        return Layout(division.slots, driver, attempt, division.ready, most=most)


def _ids_of(guard: Guard) -> int:
    """Return how many ids a slot may use that a takeover of the pipeline has fenced."""
    fenced = guard.fenced
    assert fenced is not None
    return max(fenced.written.ids, len(fenced.unfinished) + 1)


def division_of(layout: Layout) -> Division | None:
    """Return the division that a run record names."""
    if not layout.slots:
        return layout.division
    return Division(f"{layout.driver}.{layout.attempt}", layout.slots, ready=layout.ready)


class SlotOwner(OneLevelDriver):
    """Copies a slot of a division for a run.

    ``kept`` is what its run has of the slot if it has fenced it by a takeover of the pipeline.
    """

    def __init__(
        self,
        number: int,
        run: int,
        slot: int,
        division: Division,
        cluster: OneLevelCluster,
        kept: tuple[Guard, Taken] | None = None,
    ) -> None:
        self.group, self._slot, self.division, self._kept = f"g.{slot}", slot, division, kept
        super().__init__(number, run, cluster)

    @property
    def term(self) -> int:
        """The term that it has begun."""
        return self._term

    async def _run(self) -> None:
        while True:
            try:
                if self._kept is None:
                    guard = self.guard(self._slot)
                    is_read = self._planted is not Planted.RECORD_NOT_READ
                    steps = fence_owner(self.division.id if is_read else None)
                    fenced = await self.play(steps, guard)
                    taken = await self.play(begin(fenced), guard)
                else:
                    (guard, taken), self._kept = self._kept, None
                self._adopt(guard, taken)
                await self._copy()
            except Outdated:
                return self._cluster.has_lost(self)
            except NotOwner:
                await Pause()
                if not self._goes_on():
                    return self._cluster.has_lost(self)
            except (CoordinatorError, Failed):
                await Pause()

    def _goes_on(self) -> bool:
        """Return whether to take a slot again that another one has fenced.

        Its division may be the pipeline's still, as topics were moved, or a request came late. Then
        it is this run's, unless the leader has given it to another one.
        """
        lets = self.written().division == self.division.id
        return lets and (self.division.alone or self._cluster.assigned[self._slot] is self)

    def _adopt(self, guard: Guard, taken: Taken) -> None:
        self._epochs, self._term, self._covered = guard.epochs, taken.term, taken.ids
        self._positions.update(taken.state.positions)
        self._moved, self._unfinished = set(taken.state.moved), set(taken.unusable)
        self._free = [number for number in range(taken.ids) if number not in self._unfinished]
        self._ids = [self._free.pop(0)]

    def _is_in(self, partition: int, slot: int) -> bool:
        return partition % self.division.slots == self._slot


class PipelineDriver(OneLevelDriver):
    """Takes the whole pipeline over for a change; then its run may have all slots."""

    def __init__(self, number: int, run: int, change: Change, cluster: OneLevelCluster) -> None:
        self.change, self.is_done = change, False
        self._attempt, self._guards = 0, dict[int, Guard]()
        self._contested: list[int] = []
        self._before, self._early = WrittenRuns(0), PipelineRun()
        self._late: Records = ()  # what is written with the late record, as a planted fault
        super().__init__(number, run, cluster)

    async def _run(self) -> None:
        while True:
            self._attempt, self._guards, self._contested = self._attempt + 1, {}, []
            if self.change.division is not None:
                division = replace(self.change.division, id=f"{self.number}.{self._attempt}")
                self.change = replace(self.change, division=division)
            guard = self.guard(None)
            try:
                taken = await self.play(change_pipeline(), guard)
            except NotMoved:
                return
            except NotOwner as error:
                if error.is_certain or self._has_successor():
                    return
                await Pause()
            except (CoordinatorError, Failed):
                await Pause()
            else:
                self.is_done = True
                self._cluster.has_changed(self, taken, self._guards)
                return

    async def _do(self, step: Any, guard: Guard) -> Any:
        if guard.slot is not None:
            return await super()._do(step, guard)
        match step:
            case ReadWritten():
                self._before = await super()._do(step, guard)
                return self._before
            case WriteEarly():
                return await self._write_early(guard)
            case Confirm():
                return await guard.epochs.confirm_ownership(_S)
            case FenceSlot(slot):
                return await self._fence_slot(slot)
            case AwaitSlots():
                contested, self._contested = self._contested, []
                return contested
            case WriteRun():
                ids = [_ids_of(self._guards[slot]) for slot in sorted(self._guards)]
                late: Records = late_records(self.change, self._early, step, ids)
                return await self._write_all(guard, self._late + late)
        return await super()._do(step, guard)

    async def _write_early(self, guard: Guard) -> int:
        self._early = early_record(self.change, self._before)
        records: Records = (self._early, *self.change.moves)
        if self._planted is Planted.LATE_RECORD:
            self._late = records
        else:
            await self._write_all(guard, records)
        return self._early.most

    async def _fence_slot(self, slot: int) -> None:
        guard = self.guard(slot)
        try:
            guard.fenced = await self.play(fence_owner(), guard)
        except (NotOwner, CoordinatorError, Failed):
            await Pause()
            self._contested.append(slot)
        else:
            self._guards[slot] = guard

    async def _write(self, *records: Any) -> None:
        self._term = next(record.term for record in records if isinstance(record, Run))
        await super()._write(*records)


class OneLevelCluster(SharedCluster):
    """A pipeline of runs with one level of ownership, and of the release before.

    Args:
        version, first_epoch: of the coordinator.
        planted: a rule that the runs break.

    Attributes:
        assigned: to what the leader has given each slot last.
        halted: set while a drill fences the pipeline: its lock, and how many records there are.
    """

    def __init__(
        self,
        version: Version = Version.TV2,
        first_epoch: int = -1,
        planted: Planted | None = None,
        *,
        remembers: bool = False,
    ) -> None:
        super().__init__(version, first_epoch)
        self.target.remembers = remembers
        self.planted = planted
        self.assigned: dict[int, ModelDriver] = {}
        self.halted: tuple[object, list[int]] | None = None

    # What starts

    def start_exclusive(self, slots: int, run: int | None = None) -> PipelineDriver:
        """Let a run take the whole pipeline over for itself."""
        return self._start(Change(Division("", slots, alone=True)), run)

    def start_division(self, slots: int, run: int | None = None) -> PipelineDriver:
        """Let the leader divide the pipeline for all runs."""
        return self._start(Change(Division("", slots)), run)

    def start_fence(self) -> PipelineDriver:
        """Let a drill fence the pipeline."""
        return self._start(Change())

    def start_positions(self, partition: int, back: int, *, keeps: bool = False) -> PipelineDriver:
        """Set the position of a partition back by some records."""
        offset = max(0, len(self.copied(partition)) - back)
        return self._start(Change(keeps=keeps, positions={partition: offset}))

    def start_move(self, partition: int, *, moves: bool) -> PipelineDriver:
        """Move the topic of a partition, or release it."""
        if not moves:
            self.final.pop(partition, None)
        return self._start(Change(keeps=True, moves=(Move(partition, moves),)))

    def start_owner(self, slot: int, run: int | None = None) -> SlotOwner | None:
        """Let a run take a slot of the newest division for all runs; it may be of a while ago."""
        committed = [e for e in self.target.committed if isinstance(e, Layout) and e.ready]
        division = division_of(committed[-1]) if committed else None
        if division is None:
            return None
        number = len(self.drivers)
        run = number if run is None else run
        owner = SlotOwner(number, run, slot % division.slots, division, self)
        self.drivers.append(owner)
        self.assigned[slot % division.slots] = owner
        return owner

    def start_slot(self, slot: int) -> SlotRunner | None:
        runner = super().start_slot(slot)
        if runner is not None:
            self.assigned[slot % runner.layout.slots] = runner
        return runner

    def _start(self, change: Change, run: int | None = None) -> PipelineDriver:
        number = len(self.drivers)
        driver = PipelineDriver(number, number if run is None else run, change, self)
        self.drivers.append(driver)
        return driver

    def has_changed(self, driver: PipelineDriver, taken: Taken, guards: dict[int, Guard]) -> None:
        """A takeover of the pipeline is complete; its run keeps the slots that are its own."""
        change = driver.change
        division = change.division
        if division is not None and division.alone:
            for slot in range(division.slots):
                guard, number = guards[slot], len(self.drivers)
                fenced = guard.fenced
                assert fenced is not None
                unfinished = fenced.unfinished
                kept = guard, replace(taken, ids=_ids_of(guard), unusable=unfinished)
                self.drivers.append(SlotOwner(number, driver.run, slot, division, self, kept))
        elif division is None and not change.keeps:
            self.halted = self._lock(), self.counts()
        for move in change.moves:
            if move.is_moved and move.partition not in self.releasing():
                self.final[move.partition] = len(self.copied(move.partition))

    def has_lost(self, owner: SlotOwner) -> None:
        """A slot is another run's; one that copies alone leaves its other slots, too."""
        for other in self.owners():
            if other.division.alone and (other.run, other.division) == (owner.run, owner.division):
                other.ended = True

    def _lock(self) -> object:
        lock = self.target.ids.get("g.driver")
        return None if lock is None else (lock.producer_id, lock.epoch)

    def releasing(self) -> set[int]:
        changes = [d for d in self.drivers if isinstance(d, PipelineDriver) and d.running]
        moves = {move for driver in changes for move in driver.change.moves}
        return super().releasing() | {move.partition for move in moves if not move.is_moved}

    # What may happen

    def act(self, action: tuple[str, int, int, Fault]) -> None:
        kind, one, other, fault = action
        running = [driver for driver in self.drivers if driver.running]
        if kind == "step":
            if running:
                driver = running[one % len(running)]
                for done in range(1 + other):
                    if driver.running:
                        driver.step(fault if done == other else Fault.NONE)
        elif kind == "go on":
            self.go_on(10 * other, one)
        elif kind == "kill":
            if running:
                self.kill(running[one % len(running)])
        elif kind not in _STARTS:
            super().act(action)
        elif len(running) < 7 and len(self.drivers) < 30:
            self._start_any(kind, one, other)

    def _start_any(self, kind: str, one: int, other: int) -> None:
        """Start what an action names; runs are three at most, of this release."""
        slots, partition, run = 1 + other % 2, one % PARTITIONS, -1 - one % 3
        if kind == "slot":
            self.start_owner(one, run)
        elif kind == "exclusive":
            self.start_exclusive(slots, run)
        elif kind == "divide":
            self.start_division(slots, run)
        elif kind == "fence":
            self.start_fence()
        elif kind == "positions":
            self.start_positions(partition, other % 4, keeps=other > 8)
        elif kind == "topic":
            self.start_move(partition, moves=other % 3 > 0)
        elif kind == "old slot":
            self.start_slot(one)
        elif kind == "old topic":
            self.start_mover(partition, moves=other % 3 > 0)
        else:
            self.start_whole(slots, shared=other % 3)

    def go_on(self, steps: int, seed: int = 0) -> None:
        """Let everything that runs continue, in any order, without faults."""
        dice = Random(seed)
        for _ in range(steps):
            running = [driver for driver in self.drivers if driver.running]
            if running:
                dice.choice(running).step(Fault.NONE)
            self.target.complete()

    def kill(self, driver: ModelDriver) -> None:
        """End the process of a driver, with all that its run copies."""
        run = getattr(driver, "run", None)
        for other in self.drivers:
            if other is driver or (run is not None and getattr(other, "run", None) == run):
                other.killed = True

    def owners(self) -> list[SlotOwner]:
        """Return what copies slots."""
        return [d for d in self.drivers if isinstance(d, SlotOwner) and d.running]

    # What must hold

    def check(self) -> None:
        """Raise if a rule was broken that the model is about."""
        self._check_order()
        self._check_terms()
        self.check_moved()
        if self.halted is not None and self.halted[0] == self._lock():
            assert self.halted[1] == self.counts(), "copied while a drill fences the pipeline"

    def _check_order(self) -> None:
        """Every committed record once, in order, from the positions that were set."""
        following = dict.fromkeys(range(PARTITIONS), 0)
        for entry in self.target.committed:
            if isinstance(entry, Placed):
                following[entry.partition] = entry.value
            elif isinstance(entry, Copied):
                at = entry.partition
                assert entry.value == following[at], f"partition {at}: {self.copied(at)}"
                following[at] += 1

    def _check_terms(self) -> None:
        """No two owners of a slot commit: nobody commits a record once a later term has begun."""
        terms = dict.fromkeys(range(PARTITIONS), 0)
        begun: dict[str, int] = {}
        for entry in self.target.committed:
            if isinstance(entry, Run):
                before = begun.get(entry.group, 0)
                assert entry.term >= before, f"{entry.group}: term {entry.term} after {before}"
                begun[entry.group] = entry.term
            elif isinstance(entry, Copied | Placed):
                at = entry.partition
                assert entry.term >= terms[at], f"partition {at}: an earlier owner has committed"
                terms[at] = entry.term

    def take_all(self) -> ModelDriver:
        return self.start_exclusive(2)

    def has_all(self, driver: ModelDriver) -> bool:
        assert isinstance(driver, PipelineDriver)
        return driver.running or any(owner.run == driver.run for owner in self.owners())


_STARTS = (
    *("slot", "exclusive", "divide", "fence", "positions", "topic"),
    *("old slot", "old topic", "old whole"),
)
