"""Runs that share slots (docs/internals/ownership.md), against the model of the coordinator."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from k2ktui.engine.records.editions import (
    UNKNOWN_EDITION,
    Edition,
    Editions,
    layout_id,
    merge_editions,
)
from k2ktui.engine.records.run_record import SharedLayout
from k2ktui.kafka.wire.cluster import CoordinatorError
from k2ktui.replication.ownership.epochs import STATE, NotOwner, ProducerEpochs
from tests.support.model.coordinator import Fault, Moved, Pause, Run, Version
from tests.support.model.drivers import (
    PARTITIONS,
    WITH_POSITIONS,
    Cluster,
    ModelDriver,
    moved_partitions,
)
from tests.support.model.takeover import Division

_S = 60.0
_LAYOUT_STEPS = 400


@dataclass(frozen=True)
class Layout:
    """Into how many slots runs share a pipeline, 0 if they do not; by which driver, which try.

    ``edition`` is that of the file for which it was made, ``most`` the largest number of slots so
    far. ``division`` is what the next release writes in place of a layout if one run has all slots
    (``takeover.py``); this one does not know it.
    """

    slots: int
    driver: int
    attempt: int
    ready: bool = False
    edition: Edition = UNKNOWN_EDITION
    most: int = field(default=0, compare=False)
    division: Division | None = None


class WholeDriver(ModelDriver):
    """Takes the whole pipeline over from drivers and from the runs that share it.

    Then it copies alone, or lets runs share it. ``announces`` is the rule under test: the layout is
    written before any lock of a slot is bumped.
    """

    def __init__(
        self,
        number: int,
        slots: int,
        cluster: SharedCluster,
        shared: int,
        announces: bool,
        edition: Edition = UNKNOWN_EDITION,
    ) -> None:
        self._shared, self._announces, self._attempt = shared, announces, 0
        self._edition = edition
        super().__init__(number, slots, cluster)

    async def _announce(self) -> None:
        self._attempt += 1
        if self._edition.digest:
            written = (layout for layout in self._target.written if isinstance(layout, Layout))
            known = merge_editions(Editions((layout.edition,)) for layout in written)
            self._edition = known.edition_of(self._edition.digest, self._edition.number)
        if self._announces:
            await self._write(self._layout(ready=False))
        await self._fence_slots()

    async def _fence_slots(self) -> None:
        """Fence every shared slot that any layout has had."""
        await Pause()
        for slot in range(self._most):
            await self._fence_shared(slot)

    @property
    def _most(self) -> int:
        layouts = [layout for layout in self._target.written if isinstance(layout, Layout)]
        return max([self._shared, *(max(layout.slots, layout.most) for layout in layouts)])

    async def _fence_shared(self, slot: int) -> None:
        """Bump the lock and all ids of a shared slot, as a run does that takes it over."""
        while True:
            await self._epochs.confirm_ownership(_S)
            epochs = ProducerEpochs(self._wire, f"g.{slot}", 60_000, patience=0.0)
            try:
                await epochs.take_ownership(_S)
                await epochs.fence(STATE, _S)
                await Pause()
                runs = [e for e in self._target.written if isinstance(e, Run)]
                ever = [run.slots for run in runs if run.group == f"g.{slot}"]
                for identity in range(max([1, *ever])):
                    await epochs.fence(identity, _S)
                return
            except (NotOwner, CoordinatorError):
                await Pause()  # a run is taking it over; it finds the layout

    async def _check(self) -> None:
        if not self._shared:
            if not self._announces:
                await self._write(self._layout(ready=False))
            return
        await self._write(self._layout(ready=True))
        raise NotOwner(is_certain=True)  # this driver's work is done

    def _layout(self, *, ready: bool) -> Layout:
        return Layout(
            self._shared, self.number, self._attempt, ready, self._edition, most=self._most
        )


class Mover(WholeDriver):
    """Takes the whole pipeline over to move the topic of a source partition, or to release it.

    ``announces`` is the rule under test: the move is committed before any lock is bumped.
    """

    def __init__(
        self, number: int, cluster: SharedCluster, partition: int, announces: bool, *, moves: bool
    ) -> None:
        self.partition, self.moves, self._cluster = partition, moves, cluster
        super().__init__(number, 1, cluster, 0, announces)

    async def _announce(self) -> None:
        if self._announces:
            await self._record()
        await self._fence_slots()

    async def _record(self) -> None:
        """Write the move, and keep the layout if no other driver may be about to change it."""
        moved = Moved(self.partition, self.moves)
        layout = newest_layout(self._target.written)
        if layout is None:
            return await self._write(moved)
        if layout != newest_layout(self._target.committed):
            layout = replace(layout, ready=False)
        await self._write(replace(layout, division=None), moved)
        return None

    async def _check(self) -> None:
        if not self._announces:
            await self._record()
        await self._epochs.confirm_ownership(_S)  # the run record that follows does so
        self._cluster.has_moved(self)
        raise NotOwner(is_certain=True)  # this driver's work is done; runs take over by themselves


class SlotRunner(ModelDriver):
    """Copies one slot of a shared pipeline, as a driver copies a pipeline."""

    def __init__(self, number: int, slot: int, layout: Layout, cluster: SharedCluster) -> None:
        self.group, self._slot, self.layout = f"g.{slot}", slot, layout
        super().__init__(number, 1, cluster)

    async def _check(self) -> None:
        """Give the slot up unless the newest layout is the one that this run works for."""
        await Pause()
        if newest_layout(self._target.written) != self.layout:
            raise NotOwner(is_certain=True)

    def _is_in(self, partition: int, slot: int) -> bool:
        return partition % self.layout.slots == self._slot


def newest_layout(entries: list[Any]) -> Layout | None:
    return next((entry for entry in reversed(entries) if isinstance(entry, Layout)), None)


class SharedCluster(Cluster):
    """A pipeline whose drivers are of both kinds.

    Args:
        version, first_epoch: of the coordinator.
        announces: layouts are written before the locks of slots are bumped.
        announces_moves: so are moves.
        reads_moves: when a takeover reads what is moved.
    """

    def __init__(
        self,
        version: Version,
        first_epoch: int,
        *,
        announces: bool = True,
        announces_moves: bool = True,
        reads_moves: str = WITH_POSITIONS,
    ) -> None:
        super().__init__(version, first_epoch)
        self.announces, self.announces_moves = announces, announces_moves
        self.reads_moves = reads_moves
        self.all_may_end = True
        # How many records of a moved partition there are, of which no more may follow.
        self.final: dict[int, int] = {}

    def act(self, action: tuple[str, int, int, Fault]) -> None:
        kind, one, other, _ = action
        if kind == "whole" and self._has_room:
            self.start_whole(1 + one % 2, shared=other % 3)
        elif kind == "slot" and self._has_room:
            self.start_slot(one)
        elif kind == "topic" and self._has_room:
            self.start_mover(one % 2, moves=other % 3 > 0)
        else:
            super().act(action)

    @property
    def _has_room(self) -> bool:
        return sum(driver.running for driver in self.drivers) < 5 and len(self.drivers) < 20

    def start_whole(
        self, slots: int, shared: int, edition: Edition = UNKNOWN_EDITION
    ) -> WholeDriver:
        driver = WholeDriver(len(self.drivers), slots, self, shared, self.announces, edition)
        self.drivers.append(driver)
        return driver

    def start_mover(self, partition: int, *, moves: bool) -> Mover:
        """Let a driver move the topic of a partition, or release it."""
        if not moves:
            self.final.pop(partition, None)
        mover = Mover(len(self.drivers), self, partition, self.announces_moves, moves=moves)
        self.drivers.append(mover)
        return mover

    def has_moved(self, mover: Mover) -> None:
        """A move is complete: no record of the partition may follow, until it is released."""
        if mover.moves and mover.partition not in self.releasing():
            self.final[mover.partition] = len(self.copied(mover.partition))

    def releasing(self) -> set[int]:
        """Return the partitions that a driver is about to release."""
        movers = (driver for driver in self.drivers if isinstance(driver, Mover) and driver.running)
        return {mover.partition for mover in movers if not mover.moves}

    def check(self) -> None:
        """Raise if a record is committed twice, not in order, or after its topic was moved."""
        super().check()
        self.check_moved()

    def check_moved(self) -> None:
        """Raise if a record of a topic is committed after it was moved."""
        for partition, final in self.final.items():
            copied = len(self.copied(partition))
            assert copied == final, f"partition {partition}: {copied - final} copied once moved"

    def start_slot(self, slot: int) -> SlotRunner | None:
        """Let a run take a slot over if there is a layout; it may be of a while ago."""
        layouts = [e for e in self.target.committed if isinstance(e, Layout) and e.ready]
        if not layouts:
            return None
        layout = layouts[-1]
        runner = SlotRunner(len(self.drivers), slot % layout.slots, layout, self)
        self.drivers.append(runner)
        return runner

    def share(self, slots: int) -> Layout:
        """Let a driver change the layout, and return it."""
        driver = self.start_whole(1, shared=slots)
        for _ in range(_LAYOUT_STEPS):
            if driver.running:
                driver.step(Fault.NONE)
                self.target.complete()
        layout = newest_layout(self.target.committed)
        assert not driver.running and layout is not None and layout.ready
        return layout

    def settle(self) -> None:
        """Whatever was left, one run that takes the whole pipeline over can copy it."""
        self.target.blocked.clear()
        before, dice = self.counts(), Random(0)
        last = self.take_all()
        for number in range(_LAYOUT_STEPS):
            for driver in list(self.drivers):
                for _ in range(dice.randrange(60)):
                    if driver.running:
                        driver.step(Fault.NONE)
            if number % 50 == 0:
                for name in self.target.open():
                    self.target.time_out(name)
            self.target.complete()
            if not self.has_all(last):  # another one took over meanwhile
                last = self.take_all()
            moved = moved_partitions(self.target.committed)
            grown = [now > was + 5 for now, was in zip(self.counts(), before, strict=True)]
            if all(grew or at in moved for at, grew in enumerate(grown)):
                return
        raise AssertionError("nothing is copied any more")

    def take_all(self) -> ModelDriver:
        """Start a run that takes the whole pipeline over."""
        return self.start_whole(1, shared=0)

    def has_all(self, driver: ModelDriver) -> bool:
        """Return whether it is still at work on the whole pipeline."""
        return driver.running

    def run_slots(self, steps: int, seed: int = 0) -> None:
        """Let everything that runs continue, in any order, without faults."""
        dice = Random(seed)
        for _ in range(steps):
            running = [driver for driver in self.drivers if driver.running]
            dice.choice(running).step(Fault.NONE)
            self.target.complete()


class ClusterRegister:
    """The slots of a model cluster, for runs that decide by the assignment topic what they own."""

    def __init__(self, cluster: SharedCluster) -> None:
        self._cluster = cluster
        self.runners: dict[tuple[str, int], SlotRunner] = {}

    @property
    def layout(self) -> SharedLayout:
        """The newest layout, of which a run knows when it has been committed."""
        committed = [e for e in self._cluster.target.committed if isinstance(e, Layout) and e.ready]
        return self._describe(committed[-1])

    @staticmethod
    def _describe(layout: Layout) -> SharedLayout:
        id_ = layout_id(f"{layout.driver:x}{layout.attempt:03x}", layout.edition)
        return SharedLayout(id_, layout.slots, layout.ready)

    @property
    def editions(self) -> Editions:
        """Those of all layouts that were committed."""
        committed = (e for e in self._cluster.target.committed if isinstance(e, Layout))
        return merge_editions(Editions((layout.edition,)) for layout in committed)

    def take(self, runner: str, slot: int, layout: str) -> bool:
        """Begin to take a slot over; the request that fences its owner comes later."""
        newest = newest_layout(self._cluster.target.written)
        if newest is None or not newest.ready or self._describe(newest).id != layout:
            return False
        taken = SlotRunner(len(self._cluster.drivers), slot, newest, self._cluster)
        self._cluster.drivers.append(taken)
        self.runners[runner, slot] = taken
        return True

    def is_owner(self, runner: str, slot: int) -> bool:
        """Return whether it has not found yet that it is fenced."""
        return self.runners[runner, slot].running

    def release(self, runner: str, slot: int) -> None:
        """End what copies the slot; its last requests may arrive later."""
        self.runners[runner, slot].killed = True

    def copies(self, runner: str, slot: int) -> SlotRunner:
        """Return what copies a slot for a run."""
        return self.runners[runner, slot]


assert PARTITIONS == 2, "slots of the model have a partition each, or both"
