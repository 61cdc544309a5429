"""Several drivers of one pipeline against a model of the coordinator, in any order of steps.

Whatever is lost, late, timed out, suspended or killed: every record is committed once and in
order, and of drivers that nobody killed one is left that goes on.
"""

from __future__ import annotations

from collections.abc import Coroutine
from dataclasses import dataclass
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from k2ktui.kafka.transactions import Producer, add_partitions, end_transaction
from k2ktui.kafka.wire import CoordinatorError, OutcomeUnknown
from k2ktui.replication.epochs import (
    STATE,
    Contested,
    NotOwner,
    OwnershipUnknown,
    ProducerEpochs,
)
from tests.support.coordinator import Coordinator, Fault, ModelWire, Pause, Produce, Version
from tests.support.examples import examples

PARTITIONS = 2
_S = 60.0
_SETTLING_STEPS = 400


@dataclass(frozen=True)
class Run:
    """A run record: which driver, its term, its slots."""

    driver: int
    term: int
    slots: int


@dataclass(frozen=True)
class Copied:
    """Record ``value`` of a source partition, and with it the position behind it."""

    partition: int
    value: int


class Failed(Exception):
    """A request of a lap was refused, or its outcome is unknown."""


class ModelDriver:
    """What Warden and Driver do, request by request; ``slots`` decides who copies what."""

    def __init__(self, number: int, slots: int, coordinator: Coordinator, late: list[Any]) -> None:
        self.number = number
        self._slots = slots
        self._target = coordinator
        self._wire: Any = ModelWire(coordinator, late)
        self._epochs = ProducerEpochs(self._wire, "g", 60_000)
        self._term = 0
        self._positions = dict.fromkeys(range(PARTITIONS), 0)
        self.ended = False
        self.killed = False
        self._steps: Coroutine[Any, Any, None] = self._run()
        self._steps.send(None)

    @property
    def running(self) -> bool:
        return not (self.ended or self.killed)

    def step(self, fault: Fault) -> None:
        """Go on to the next request."""
        try:
            self._steps.send(fault)
        except StopIteration:
            self.ended = True

    async def _run(self) -> None:
        while True:
            try:
                await self._take_over()
                await self._copy()
            except NotOwner:
                return
            except OwnershipUnknown:
                if self._term and self._has_successor():
                    return
            except (CoordinatorError, Failed):
                pass  # an operator starts it again, or it waits for the target

    def _has_successor(self) -> bool:
        return any(
            isinstance(entry, Run) and entry.term >= self._term and entry.driver != self.number
            for entry in self._target.written
        )

    async def _take_over(self) -> None:
        self._term = 0
        epochs = self._epochs
        await epochs.take_ownership(_S)
        await epochs.fence(STATE, _S)
        await Pause()
        ever = [entry.slots for entry in self._target.written if isinstance(entry, Run)]
        for slot in range(max([self._slots, *ever])):
            await epochs.fence(slot, _S)
        await epochs.confirm_ownership(_S)
        await self._read()
        await self._begin_term()

    async def _read(self) -> None:
        """Wait until the last stable offset has passed what is open now, then read."""
        await Pause()
        waiting = self._target.open()
        while waiting & self._target.open():
            await Pause()
            waiting &= self._target.open()
        for entry in self._target.committed:
            if isinstance(entry, Copied):
                self._positions[entry.partition] = entry.value + 1

    async def _begin_term(self) -> None:
        runs = [entry.term for entry in self._target.committed if isinstance(entry, Run)]
        term = max([0, *runs]) + 1
        token = await self._recover(STATE)
        try:
            await self._transaction(token, [Run(self.number, term, self._slots)])
        except Failed:
            await self._epochs.confirm_ownership(_S)
            raise
        self._term = term

    async def _recover(self, slot: int) -> Producer:
        try:
            return await self._epochs.renew(slot, _S)
        except Contested:
            return await self._epochs.reclaim(slot, _S)

    async def _copy(self) -> None:
        broken: set[int] = set()
        while True:
            for slot in range(self._slots):
                try:
                    if slot in broken:
                        await self._recover(slot)
                        await self._read()
                        broken.discard(slot)
                    await self._lap(slot, await self._epochs.renew(slot, _S))
                except (Contested, CoordinatorError, Failed):
                    broken.add(slot)
                    await Pause()

    async def _lap(self, slot: int, token: Producer) -> None:
        mine = [p for p in range(PARTITIONS) if p % self._slots == slot]
        if not mine:
            await Pause()
            return
        for _ in range(2):
            await self._transaction(token, [Copied(p, self._positions[p]) for p in mine])
            for partition in mine:
                self._positions[partition] += 1

    async def _transaction(self, token: Producer, changes: list[Any]) -> None:
        try:
            await add_partitions(self._wire, token, [("t", 0)])
            for change in changes:
                if await self._wire.send(Produce(token, change)):
                    raise Failed
            await end_transaction(self._wire, token, commit=True)
        except (OutcomeUnknown, CoordinatorError):
            raise Failed from None


class Cluster:
    """The model of everything, and what may happen to it."""

    def __init__(self, version: Version, first_epoch: int) -> None:
        self.target = Coordinator(version, first_epoch)
        self.late: list[Any] = []
        self.drivers: list[ModelDriver] = []
        self.all_may_end = False

    def act(self, action: tuple[str, int, int, Fault]) -> None:
        """Let one thing happen; numbers choose among what there is."""
        kind, one, other, fault = action
        if kind == "start" and len(self.drivers) < 4:
            number = len(self.drivers)
            self.drivers.append(ModelDriver(number, 1 + one % 3, self.target, self.late))
        elif kind == "step" and self.drivers:
            driver = self.drivers[one % len(self.drivers)]
            for done in range(1 + other):
                if driver.running:
                    driver.step(fault if done == other else Fault.NONE)
        elif kind == "kill" and len(self.drivers) > 1:
            self.drivers[one % len(self.drivers)].killed = True
            self.all_may_end = True
        elif kind == "time out" and self.target.ids:
            self.target.time_out(sorted(self.target.ids)[one % len(self.target.ids)])
        elif kind == "expire" and self.target.ids:
            name = sorted(self.target.ids)[one % len(self.target.ids)]
            self.target.expire(name)
            # Then a driver of long ago may be the first to ask for it, and ends all the same.
            self.all_may_end |= name == "g.driver"
        elif kind == "move":
            self.target.move()
        elif kind == "arrive" and self.late:
            self.target.handle(self.late.pop(one % len(self.late)))

    def settle(self) -> None:
        """Nothing is lost any more; every driver goes on, until each partition has grown.

        They go on for a while each: two that both take the other for a lost response of their own
        take the pipeline from each other until one of them is quicker.
        """
        before, dice = self.counts(), Random(0)
        for number in range(_SETTLING_STEPS):
            for driver in self.drivers:
                for _ in range(dice.randrange(60)):
                    if driver.running:
                        driver.step(Fault.NONE)
            if number % 50 == 0:  # transactions of the killed
                for name in self.target.open():
                    self.target.time_out(name)
            self.target.complete()
            if not any(driver.running for driver in self.drivers):
                assert self.all_may_end, "all of them have ended"
                self.drivers.append(ModelDriver(number + 9, 2, self.target, self.late))
            if all(now > was + 5 for now, was in zip(self.counts(), before, strict=True)):
                return
        raise AssertionError("nothing is copied any more")

    def counts(self) -> list[int]:
        return [len(self.copied(partition)) for partition in range(PARTITIONS)]

    def copied(self, partition: int) -> list[int]:
        return [
            entry.value
            for entry in self.target.committed
            if isinstance(entry, Copied) and entry.partition == partition
        ]

    def check(self) -> None:
        for partition in range(PARTITIONS):
            found = self.copied(partition)
            assert found == list(range(len(found))), f"partition {partition}: {found}"


def actions(kinds: list[str]) -> st.SearchStrategy[tuple[str, int, int, Fault]]:
    faults = st.sampled_from([Fault.NONE] * 3 + [f for f in Fault if f is not Fault.NONE])
    return st.tuples(st.sampled_from(kinds), st.integers(0, 11), st.integers(0, 12), faults)


ANY = actions(["step"] * 9 + ["start", "time out", "time out", "expire", "move", "arrive", "kill"])


@settings(max_examples=examples(150))
@given(
    version=st.sampled_from(Version),
    first_epoch=st.sampled_from([-1, 32758, 32764]),
    happening=st.lists(ANY, max_size=80),
)
def test_any_order_of_steps(version: Version, first_epoch: int, happening: list[Any]) -> None:
    cluster = Cluster(version, first_epoch)
    cluster.act(("start", 1, 0, Fault.NONE))
    for action in happening:
        cluster.act(action)
        cluster.check()
    cluster.settle()
    cluster.check()


def steps(driver: ModelDriver, number: int) -> None:
    for _ in range(number):
        if driver.running:
            driver.step(Fault.NONE)


def second_copies(cluster: Cluster, slots: int) -> ModelDriver:
    """Let another driver take over, and copy."""
    cluster.act(("start", slots - 1, 0, Fault.NONE))
    second, before = cluster.drivers[-1], cluster.counts()
    while not all(now > was + 2 for now, was in zip(cluster.counts(), before, strict=True)):
        assert second.running
        steps(second, 1)
        cluster.target.complete()
    return second


@pytest.mark.parametrize("version", Version)
def test_suspended_at_any_request_of_a_recovery(version: Version) -> None:
    """It is superseded meanwhile, by a driver with other slots: awake again, it copies nothing."""
    for suspended_after in range(40):
        cluster = Cluster(version, -1)
        cluster.act(("start", 0, 0, Fault.NONE))
        first = cluster.drivers[0]
        while cluster.target.ids.get("g.0") is None or "g.0" not in cluster.target.open():
            steps(first, 1)
        cluster.target.time_out("g.0")
        steps(first, suspended_after)
        second = second_copies(cluster, 2)
        for _ in range(100):
            steps(first, 1)
            steps(second, 1)
            cluster.check()
        assert second.running and not first.running, suspended_after
        cluster.settle()
        cluster.check()


@pytest.mark.parametrize("version", Version)
def test_a_suspended_starter_raises_one_slot_at_most(version: Version) -> None:
    """The check before each slot: it may be late for the one that it was about to raise."""
    for suspended_after in range(2, 30):  # after two it has been the owner
        cluster = Cluster(version, -1)
        cluster.act(("start", 2, 0, Fault.NONE))
        first = cluster.drivers[0]
        steps(first, suspended_after)
        second = second_copies(cluster, 3)
        before = {name: found.epoch for name, found in cluster.target.ids.items()}
        for _ in range(60):
            steps(first, 1)
            cluster.target.complete()
        raised = [n for n, was in before.items() if cluster.target.ids[n].epoch != was]
        assert len(raised) <= 1, suspended_after
        assert second.running
        cluster.settle()
        assert second.running


@pytest.mark.parametrize("version", Version)
def test_an_aborted_transaction_is_no_rival(version: Version) -> None:
    """Not even at the last epoch of a producer id."""
    for first_epoch in (-1, *range(32750, 32766)):
        cluster = Cluster(version, first_epoch)
        cluster.act(("start", 1, 0, Fault.NONE))
        (driver,) = cluster.drivers
        for _ in range(20):
            while not cluster.target.open():
                steps(driver, 1)
            for name in cluster.target.open():
                cluster.target.time_out(name)
            cluster.target.complete()
        cluster.settle()
        cluster.check()
        assert len(cluster.drivers) == 1
