"""Fencing as ``Fence`` and ``ProducerEpochs`` do it, against the model of the coordinator.

``test_epochs.py`` has a model of the driver, with its own order of steps. Here the order is that of
the program, and a token is judged by what the coordinator would accept from it.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator
from contextlib import nullcontext
from copy import copy
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from k2ktui.kafka.admin.transaction_state import TransactionState
from k2ktui.kafka.producer_id import Producer
from k2ktui.kafka.wire.cluster import CoordinatorError
from k2ktui.kafka.wire.transactions import add_partitions, end_transaction, init_producer
from k2ktui.replication.fencing_errors import OwnershipLost, Superseded
from k2ktui.replication.ownership import fence as fence_module
from k2ktui.replication.ownership.commit_state import CommitTopic
from k2ktui.replication.ownership.epochs import (
    STATE,
    Contested,
    NotOwner,
    ProducerEpochs,
    transactional_id,
)
from k2ktui.replication.ownership.fence import Fence
from k2ktui.replication.ownership.takeover import (
    FencedOwner,
    FencingStep,
    ReadWritten,
    Written,
    carry_out,
    fence_owner,
)
from tests.support.model.coordinator import Coordinator, Copied, DirectWire, Produce, Version
from tests.support.schedule.examples import examples

_S = 60.0
_SLOTS = 3


def run(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Return the result of what never waits."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value
    raise AssertionError("it waits")


class Loop:
    """A loop for what never waits."""

    def run(self, request: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        return run(request())

    def close(self) -> None:
        """Nothing is open."""


class Owner:
    """A driver that owns the pipeline, with a token and an open transaction for each slot."""

    def __init__(self, target: Coordinator, slots: int = _SLOTS) -> None:
        self.target, self.wire = target, DirectWire(target)
        self.epochs = ProducerEpochs(self.wire, "g", 60_000)
        run(self.epochs.take_ownership(_S))
        for slot in (STATE, *range(slots)):
            run(self.epochs.fence(slot, _S))
        self.tokens = {slot: self.recover(slot) for slot in (STATE, *range(slots))}

    def recover(self, slot: int) -> Producer:
        """Return a token; near the last epoch of a producer id, a bump gets another one."""
        try:
            token = run(self.epochs.renew(slot, _S))
        except Contested:
            token = run(self.epochs.reclaim(slot, _S))
        assert isinstance(token, Producer)
        return token

    def begin(self) -> None:
        """Let the task of each slot write a record, which is not committed yet."""
        for slot, token in self.tokens.items():
            run(add_partitions(self.wire, token, [("t", 0)]))
            assert not run(self.wire.send(Produce(token, Copied(slot, 0))))


def can_write(target: Coordinator, token: Producer) -> bool:
    """Return whether a transaction with a token would be committed; changes nothing."""
    name, wire = token.transactional_id or "", DirectWire(target)
    before = copy(target.ids[name])
    try:
        target.complete()
        run(add_partitions(wire, token, [("t", 0)]))
        run(end_transaction(wire, token, commit=True))
    except CoordinatorError:
        return False
    finally:
        target.ids[name] = before
    return True


def take(fence: Fence, ids: int) -> FencedOwner:
    """Fence whoever has the lock, and as many ids as the run records are said to name."""

    def carry(step: FencingStep) -> Any:
        return Written(ids) if isinstance(step, ReadWritten) else fence.carry_out(step)

    return fence.take(lambda: carry_out(fence_owner(), carry))


@pytest.fixture
def make_fence(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[DirectWire], Fence]]:
    """Make the ``Fence`` of a pipeline, on the model."""
    monkeypatch.setattr(fence_module, "Loop", Loop)

    def make(wire: DirectWire) -> Fence:
        monkeypatch.setattr(fence_module, "Wire", lambda *_: wire)
        monkeypatch.setattr(fence_module, "_TAKE_PAUSE_S", 0.0)
        return Fence(
            {},
            cluster_id=None,
            pipeline="p",
            topic=CommitTopic("c", 1, "g"),
            transactional=True,
            timeout_ms=60_000,
            sync_timeout=_S,
            limit=nullcontext(),
            has_successor=lambda is_certain: is_certain,
        )

    yield make


@pytest.mark.parametrize("version", Version)
@pytest.mark.parametrize("first_epoch", [-1, 32758, 32762, 32763, 32764])
@pytest.mark.parametrize("is_open", [False, True])
def test_a_takeover_fences_every_id_of_the_driver_before(
    version: Version, first_epoch: int, is_open: bool, make_fence: Callable[[DirectWire], Fence]
) -> None:
    """Whether it copies or waits: none of its tokens writes, and what was open is aborted."""
    target = Coordinator(version, first_epoch)
    before = Owner(target)
    if is_open:
        before.begin()
    fence = make_fence(DirectWire(target))
    take(fence, _SLOTS)
    assert not [slot for slot, token in before.tokens.items() if can_write(target, token)]
    assert not target.committed and not target.open()
    assert fence.is_owned and set(fence.producer_ids()) == set(range(_SLOTS))
    for slot in range(_SLOTS):
        assert can_write(target, fence.recover(slot)), "the new one writes"
    with pytest.raises(NotOwner):
        run(before.epochs.confirm_ownership(_S))


@pytest.mark.parametrize("version", Version)
@pytest.mark.parametrize("is_open", [False, True])
def test_a_driver_is_fenced_where_its_bump_would_count_as_a_repeat(
    version: Version, is_open: bool, make_fence: Callable[[DirectWire], Fence]
) -> None:
    """Bumped once only, its lock and ids have the epoch before the current one, and come back."""
    target = Coordinator(version, remembers=True)
    before = Owner(target)
    if is_open:
        before.begin()
    take(make_fence(DirectWire(target)), _SLOTS)
    with pytest.raises(NotOwner):
        run(before.epochs.confirm_ownership(_S))
    for slot, token in before.tokens.items():
        with pytest.raises(CoordinatorError):
            run(init_producer(before.wire, token, 60_000, _S))
        assert not can_write(target, token), slot


@pytest.mark.parametrize("version", Version)
def test_each_takeover_raises_every_epoch_again(
    version: Version, make_fence: Callable[[DirectWire], Fence]
) -> None:
    """Also the second one of a driver, after its ownership was unknown: tasks may be left."""
    target = Coordinator(version)
    fence = make_fence(DirectWire(target))
    take(fence, _SLOTS)
    tokens = [fence.recover(slot) for slot in range(_SLOTS)]
    before = {name: known_id.epoch for name, known_id in target.ids.items()}
    take(fence, _SLOTS)
    assert not [token for token in tokens if can_write(target, token)]
    assert all(target.ids[name].epoch > epoch for name, epoch in before.items())


@pytest.mark.parametrize("version", Version)
def test_another_driver_takes_over_at_any_request_of_a_takeover(
    version: Version, make_fence: Callable[[DirectWire], Fence]
) -> None:
    """One of them owns the pipeline, and no token of the other one writes."""
    at = 0
    while True:
        target = Coordinator(version)
        Owner(target).begin()
        others: list[Owner] = []

        def take_over(target: Coordinator = target, others: list[Owner] = others) -> None:
            others.append(Owner(target))

        wire = DirectWire(target, at, take_over)
        fence, tokens = make_fence(wire), []
        try:
            take(fence, _SLOTS)
            tokens = [fence.recover(slot) for slot in range(_SLOTS)]
        except (Superseded, OwnershipLost):
            pass
        if not others:
            break
        (other,) = others
        theirs = [token for token in other.tokens.values() if can_write(target, token)]
        ours = [token for token in tokens if can_write(target, token)]
        assert not (theirs and ours), f"request {at}"
        at += 1
    assert at > 2 * _SLOTS, "there were requests"


class NotedWire(DirectWire):
    """Notes which ids are bumped, and by which epoch."""

    def __init__(self, target: Coordinator) -> None:
        super().__init__(target)
        self.bumps: list[tuple[str, int]] = []

    async def send(
        self, request: Any, node: int | None = None, timeout: float | None = None
    ) -> Any:
        self.bumps.append((request.transactional_id, request.producer_epoch))
        return await super().send(request, node, timeout)


def test_what_a_takeover_bumps(make_fence: Callable[[DirectWire], Fence]) -> None:
    """The lock twice; then each id twice, when a bump with the lock's epoch has confirmed it."""
    wire = NotedWire(Coordinator(Version.TV2))
    take(make_fence(wire), 2)
    expected = [("g.driver", -1)] * 2
    for number, name in enumerate(("state", "0", "1")):
        expected += [("g.driver", 1 + number), *[(f"g.{name}", -1)] * 2]
    assert wire.bumps == expected


@pytest.mark.parametrize("version", Version)
def test_a_driver_that_lost_the_lock_gets_no_token(version: Version) -> None:
    """Also where the new owner could not bump the slot, as its last transaction did not end."""
    target = Coordinator(version)
    owner = Owner(target, slots=1)
    owner.begin()
    name = transactional_id("g", 0)
    target.block(name)
    other = ProducerEpochs(owner.wire, "g", 60_000, patience=0.0)
    run(other.take_ownership(_S))
    with pytest.raises(CoordinatorError):
        run(other.fence(0, _S))
    assert other.is_fenced(0, run(other.describe(0, _S)))
    target.blocked.clear()
    target.complete()
    with pytest.raises(NotOwner):
        owner.recover(0)


@pytest.mark.parametrize("version", Version)
def test_a_lock_that_has_expired_is_not_another_drivers(
    version: Version, make_fence: Callable[[DirectWire], Fence]
) -> None:
    """Its own bump has created it again: asked once more, the fence still names no other driver."""
    target = Coordinator(version)
    fence = make_fence(DirectWire(target))
    take(fence, _SLOTS)
    tokens = [fence.recover(slot) for slot in range(_SLOTS)]
    for name in list(target.ids):
        target.expire(name)
    for ask in (lambda: fence.renew(0), fence.confirm, lambda: fence.renew(1), fence.confirm):
        with pytest.raises(OwnershipLost, match=r"transactional\.id\.expiration\.ms"):
            ask()
    assert not fence.is_owned
    take(fence, _SLOTS)
    assert not [token for token in tokens if can_write(target, token)]
    for slot in range(_SLOTS):
        assert can_write(target, fence.recover(slot))


@pytest.mark.parametrize("version", Version)
def test_a_slot_that_has_expired_does_not_cost_the_lock(
    version: Version, make_fence: Callable[[DirectWire], Fence]
) -> None:
    target = Coordinator(version)
    fence = make_fence(DirectWire(target))
    take(fence, _SLOTS)
    tokens = [fence.recover(slot) for slot in range(_SLOTS)]
    for slot in (STATE, *range(_SLOTS)):
        target.expire(transactional_id("g", slot))
    assert all(can_write(target, fence.recover(slot)) for slot in (STATE, *range(_SLOTS)))
    assert fence.is_owned and not [token for token in tokens if can_write(target, token)]


@pytest.mark.parametrize("version", Version)
def test_a_lock_that_has_expired_and_was_taken_is_the_others(
    version: Version, make_fence: Callable[[DirectWire], Fence]
) -> None:
    target = Coordinator(version)
    fence = make_fence(DirectWire(target))
    take(fence, _SLOTS)
    target.expire("g.driver")
    other = Owner(target)
    with pytest.raises(Superseded):
        fence.renew(0)
    assert can_write(target, other.recover(0))


STEPS = st.lists(
    st.sampled_from(
        ["renew", "renew", "begin", "begin", "commit", "time out", "complete", "fence", "move"]
    ),
    max_size=16,
)


@settings(max_examples=examples(500))
@given(version=st.sampled_from(Version), first_epoch=st.sampled_from([-1, 32758]), happening=STEPS)
# The bump after an abort is recognized as a retry: the token has the epoch of the abort.
@example(version=Version.TV2, first_epoch=-1, happening=["begin", "time out", "renew"])
@example(version=Version.TV2, first_epoch=-1, happening=["begin", "commit"])
def test_a_slot_is_called_fenced_only_if_none_of_its_tokens_writes(
    version: Version, first_epoch: int, happening: list[str]
) -> None:
    """Whatever coordinator answers: one that another broker has replaced tells an earlier state."""
    target = Coordinator(version, first_epoch)
    owner = Owner(target, slots=1)
    starting = ProducerEpochs(owner.wire, "g", 60_000)  # has no token yet
    name, states = transactional_id("g", 0), list[TransactionState]()
    for action in happening:
        token = owner.tokens[0]
        try:
            if action == "renew":
                owner.tokens[0] = owner.recover(0)
            elif action == "fence":
                run(owner.epochs.fence(0, _S))
            elif action == "begin":
                run(add_partitions(owner.wire, token, [("t", 0)], deadline=0.0))
            elif action == "commit":
                run(end_transaction(owner.wire, token, commit=True))
            elif action == "time out":
                target.time_out(name)
            elif action == "complete":
                target.complete()
            else:
                target.move()
        except (CoordinatorError, Contested):
            pass
        state = run(owner.epochs.describe(0, _S))
        assert state is not None
        states.append(state)
        if starting.is_fenced(0, state):
            assert not can_write(target, owner.tokens[0]), state
        for told in states:
            if owner.epochs.is_fenced(0, told):
                assert not can_write(target, owner.tokens[0]), told
