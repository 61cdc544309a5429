"""Several drivers of one pipeline against a model of the coordinator, step by step."""

from __future__ import annotations

from collections.abc import Coroutine
from random import Random
from typing import Any

from hypothesis import strategies as st

from k2ktui.kafka.admin.transaction_state import TransactionState
from k2ktui.kafka.producer_id import Producer
from k2ktui.kafka.wire.cluster import CoordinatorError, OutcomeUnknown
from k2ktui.kafka.wire.codes import Code
from k2ktui.kafka.wire.transactions import add_partitions, end_transaction
from k2ktui.replication.ownership.epochs import (
    STATE,
    Contested,
    NotOwner,
    ProducerEpochs,
)
from tests.support.model.coordinator import (
    Coordinator,
    Copied,
    Fault,
    ModelWire,
    Moved,
    Pause,
    Placed,
    Produce,
    Run,
    Version,
)
from tests.support.model.model_laps import Failed, Lap, Lost

PARTITIONS = 2
# When a takeover reads what is moved: with the positions, or, as planted faults, before its bumps,
# or after them but while an open transaction hides what was committed.
WITH_POSITIONS, BEFORE_BUMPS, UNSTABLE = "with the positions", "before the bumps", "unstable"
_S = 60.0
_SETTLING_STEPS = 400


class ModelDriver:
    """What Ownership, UnfinishedTransactions and Driver do, request by request.

    ``slots`` decides who copies what; each has a transactional id, and another one while the last
    transaction of that one cannot end.
    """

    group = "g"

    def __init__(self, number: int, slots: int, cluster: Cluster) -> None:
        self.number = number
        self.loses = False
        self.lost = cluster.lost
        self._slots = slots
        self._target = cluster.target
        self._wire = ModelWire(cluster.target, cluster.late)
        self._epochs = ProducerEpochs(self._wire, self.group, 60_000, patience=0.0)
        self._term = 0
        self._positions = dict.fromkeys(range(PARTITIONS), 0)
        self._moved: set[int] = set()
        self._reads_moves = cluster.reads_moves
        self._ids: list[int] = []
        self._free: list[int] = []
        self._covered = 0
        self._unfinished: set[int] = set()
        self.ended = False
        self.killed = False
        self._steps: Coroutine[Any, Any, None] = self._run()
        self._steps.send(None)

    @property
    def running(self) -> bool:
        return not (self.ended or self.killed)

    def step(self, fault: Fault) -> None:
        """Continue with the next request."""
        try:
            self._steps.send(fault)
        except StopIteration:
            self.ended = True

    async def _run(self) -> None:
        while True:
            try:
                await self._take_over()
                await self._copy()
            except NotOwner as error:
                if error.is_certain or (self._term and self._has_successor()):
                    return
            except (CoordinatorError, Failed):
                pass  # an operator starts it again, or it waits for the target

    def _has_successor(self) -> bool:
        return any(
            run.term >= self._term and run.driver != self.number
            for run in self._runs(self._target.written)
        )

    def _runs(self, entries: list[Any]) -> list[Run]:
        return [entry for entry in entries if isinstance(entry, Run) and entry.group == self.group]

    async def _announce(self) -> None:
        """Write what other drivers must find before any further id is bumped."""

    async def _check(self) -> None:
        """Decide whether to copy, after all ids were bumped and the positions read."""

    async def _take_over(self) -> None:
        self._term = 0
        epochs = self._epochs
        if self._reads_moves == BEFORE_BUMPS:
            self._moved = moved_partitions(self._target.committed)
            await Pause()
        await epochs.take_ownership(_S)
        await epochs.fence(STATE, _S)
        await self._announce()
        await Pause()
        ever = [run.slots for run in self._runs(self._target.written)]
        self._unfinished = set()
        for identity in range(max([self._slots, *ever])):
            await self._fence(identity)
        if self._reads_moves == UNSTABLE:
            self._moved = moved_partitions(self._target.visible())
        await self._read()
        if self._reads_moves == WITH_POSITIONS:
            self._moved = moved_partitions(self._target.committed)
        await self._check()
        self._covered = max([self._slots + len(self._unfinished), *ever])
        await self._begin_term()
        self._free = [i for i in range(self._covered) if i not in self._unfinished]
        self._ids = [self._free.pop(0) for _ in range(self._slots)]

    async def _fence(self, identity: int) -> None:
        if not await fence_id(self._epochs, identity):
            self._unfinished.add(identity)

    async def _read(self) -> None:
        """Wait until the last stable offset has passed what is open now, then read."""
        await Pause()
        waiting = self._target.open()
        while waiting & self._target.open():
            await Pause()
            waiting &= self._target.open()
        self._positions.update(newest_positions(self._target.committed))

    async def _begin_term(self) -> None:
        # Of every slot: a partition may have been in another one.
        runs = [entry.term for entry in self._target.committed if isinstance(entry, Run)]
        term = max([0, *runs]) + 1
        await self._write_run(term)
        self._term = term

    async def _write_run(self, term: int) -> None:
        await self._write(Run(self.number, term, self._covered, self.group))

    async def _write(self, *records: Any) -> None:
        token = await self._recover(STATE)
        try:
            await self._transaction(token, [*records])
        except Failed:
            await self._epochs.confirm_ownership(_S)
            raise

    async def _recover(self, slot: int) -> Producer:
        try:
            return await self._epochs.renew(slot, _S)
        except Contested:
            return await self._epochs.reclaim(slot, _S)

    async def _copy(self) -> None:
        broken: set[int] = set()
        lost: set[int] = set()
        while True:
            for identity in sorted(self._unfinished):
                await self._resume(identity)
            for slot in range(self._slots):
                try:
                    if slot in broken:
                        await self._recover(self._ids[slot])
                        lost.discard(slot)
                        await self._read()
                        broken.discard(slot)
                    token = await self._epochs.renew(self._ids[slot], _S)
                    lost.discard(slot)
                    await self._lap(slot, token)
                except (Contested, Failed):
                    broken.add(slot)
                except Lost:
                    broken.add(slot)
                    lost.add(slot)
                except CoordinatorError as error:
                    broken.add(slot)
                    if await self._isolate(slot, error, lost=slot in lost):
                        lost.discard(slot)
                else:
                    continue
                await Pause()

    async def _isolate(self, slot: int, error: CoordinatorError, *, lost: bool) -> bool:
        try:
            state = await describe_unfinished(self._epochs, self._ids[slot], error)
        except (CoordinatorError, Failed):
            return False
        fenced = self._epochs.is_fenced(self._ids[slot], state)
        if not (fenced or (state.committing and not lost)):
            return False
        if not self._free:
            self._covered += 1
            try:
                await self._write_run(self._term)
            except (CoordinatorError, Failed):
                self._covered -= 1
                return False
            self._free.append(self._covered - 1)
        self._unfinished.add(self._ids[slot])
        self._ids[slot] = self._free.pop(0)
        return True

    async def _resume(self, identity: int) -> None:
        try:
            state = await self._epochs.describe(identity, 0.0)
            if state is None or state.aborting or state.committing:
                return
            await self._recover(identity)
        except (Contested, CoordinatorError):
            return
        self._unfinished.discard(identity)
        self._free.append(identity)

    def _is_in(self, partition: int, slot: int) -> bool:
        return partition % self._slots == slot

    async def _lap(self, slot: int, token: Producer) -> None:
        own = [p for p in range(PARTITIONS) if self._is_in(p, slot) and p not in self._moved]
        mine = {p: self._positions[p] for p in own}
        if not mine:
            await Pause()
            return
        copied = dict(mine)
        await Lap(self, self._task(token, copied))
        self._positions.update(copied)

    async def _task(self, token: Producer, positions: dict[int, int]) -> None:
        for _ in range(2):
            await self._transaction(
                token, [Copied(p, at, self._term) for p, at in positions.items()]
            )
            for partition in positions:
                positions[partition] += 1

    async def _transaction(self, token: Producer, changes: list[Any]) -> None:
        try:
            await self._join(token)
            for change in changes:
                if await self._wire.send(Produce(token, change)):
                    raise Failed
            await end_transaction(self._wire, token, commit=True)
        except (OutcomeUnknown, CoordinatorError):
            raise Failed from None

    async def _join(self, token: Producer) -> None:
        for left in reversed(range(3)):  # a transaction that has just ended may have no marker yet
            try:
                await add_partitions(self._wire, token, [("t", 0)], deadline=0.0)
                return
            except CoordinatorError as error:
                if error.code != Code.CONCURRENT_TRANSACTIONS or not left:
                    raise


async def fence_id(epochs: ProducerEpochs, identity: int) -> bool:
    """Bump an id; return False if its last transaction waits for markers, and none can follow."""
    while True:
        try:
            await epochs.fence(identity, _S)
            return True
        except CoordinatorError as error:
            state = await describe_unfinished(epochs, identity, error)
            if epochs.is_fenced(identity, state):
                return False
        await Pause()


async def describe_unfinished(
    epochs: ProducerEpochs, identity: int, error: CoordinatorError
) -> TransactionState:
    """Return the state of an id whose last transaction does not end."""
    if error.code != Code.CONCURRENT_TRANSACTIONS:
        raise error
    state = await epochs.describe(identity, 0.0)
    if state is None:
        raise Failed
    return state


def newest_positions(entries: list[Any]) -> dict[int, int]:
    """Return the next record of each source partition: of the highest term, then the furthest."""
    newest: dict[int, tuple[int, int]] = {}
    for entry in entries:
        if isinstance(entry, Copied | Placed):
            following = entry.value + isinstance(entry, Copied)
            at = entry.partition
            newest[at] = max(newest.get(at, (0, 0)), (entry.term, following))
    return {partition: following for partition, (_, following) in newest.items()}


def moved_partitions(entries: list[Any]) -> set[int]:
    """Return the source partitions whose topic is moved, by the last record of each."""
    last = {entry.partition: entry.is_moved for entry in entries if isinstance(entry, Moved)}
    return {partition for partition, is_moved in last.items() if is_moved}


class Cluster:
    """The model of everything, and what may happen to it."""

    reads_moves = WITH_POSITIONS

    def __init__(self, version: Version, first_epoch: int) -> None:
        self.target = Coordinator(version, first_epoch)
        self.late: list[Any] = []
        self.lost: list[Coroutine[Any, Any, None]] = []
        self.drivers: list[ModelDriver] = []
        self.all_may_end = False

    def act(self, action: tuple[str, int, int, Fault]) -> None:
        """Let one thing happen; numbers choose among what there is."""
        kind, one, other, fault = action
        if kind == "start" and len(self.drivers) < 4:
            number = len(self.drivers)
            self.drivers.append(ModelDriver(number, 1 + one % 3, self))
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
            # Then a driver of long ago may be the first to ask for it, and ends nevertheless.
            self.all_may_end |= name == "g.driver"
        elif kind == "move":
            self.target.move()
        elif kind == "block" and self.target.ids:
            slots = [n for n in sorted(self.target.ids) if n not in ("g.driver", "g.state")]
            if slots:
                self.target.block(slots[one % len(slots)])
        elif kind == "unblock" and self.target.blocked:
            self.target.blocked.discard(sorted(self.target.blocked)[one % len(self.target.blocked)])
        elif kind == "complete":
            self.target.complete()
        elif kind == "lose" and self.drivers:
            self.drivers[one % len(self.drivers)].loses = True
        elif kind == "lost" and self.lost:
            self._continue(one % len(self.lost), 1 + other)
        elif kind == "arrive" and self.late:
            self.target.handle(self.late.pop(one % len(self.late)))

    def _continue(self, number: int, steps: int) -> None:
        """Resume a task whose driver has lost it."""
        try:
            for _ in range(steps):
                self.lost[number].send(Fault.NONE)
        except (StopIteration, Failed):
            del self.lost[number]

    def settle(self) -> None:
        """Nothing is lost any more; every driver continues, until each partition has grown.

        Each continues for a while: two that both take the other for a lost response of their own
        take the pipeline from each other until one of them is quicker.
        """
        before, dice = self.counts(), Random(0)
        self.target.blocked.clear()
        for number in range(_SETTLING_STEPS):
            if self.lost:
                self._continue(dice.randrange(len(self.lost)), dice.randrange(1, 9))
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
                self.drivers.append(ModelDriver(number + 9, 2, self))
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
            copied = self.copied(partition)
            assert copied == list(range(len(copied))), f"partition {partition}: {copied}"


def actions(kinds: list[str]) -> st.SearchStrategy[tuple[str, int, int, Fault]]:
    faults = st.sampled_from([Fault.NONE] * 3 + [f for f in Fault if f is not Fault.NONE])
    return st.tuples(st.sampled_from(kinds), st.integers(0, 11), st.integers(0, 12), faults)


def steps(driver: ModelDriver, number: int) -> None:
    """Let a driver continue for some requests."""
    for _ in range(number):
        if driver.running:
            driver.step(Fault.NONE)
