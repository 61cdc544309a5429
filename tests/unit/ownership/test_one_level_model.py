"""One level of ownership (docs/internals/one-level-ownership.md), on the model of the coordinator.

Runs take slots, and take the whole pipeline over for themselves, to divide it, to move topics and
to set positions, in any order of steps with any losses, beside runs of the release before. Every
record is committed once and in order; no owner of a slot commits once a later one has begun; one of
two takeovers wins all slots; a dead run stops only its own.

Each rule that is broken on purpose (``Planted``) is found by one of the same schedules.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.model.coordinator import Version
from tests.support.model.drivers import ModelDriver, actions, steps
from tests.support.model.one_level import OneLevelCluster, PipelineDriver, SlotOwner
from tests.support.model.planted import Planted
from tests.support.schedule.examples import examples

ANY = actions(
    ["step"] * 20
    + ["go on"] * 6
    + ["slot"] * 4
    + ["exclusive", "exclusive", "divide", "divide", "fence", "positions", "topic", "topic"]
    + ["time out", "time out", "expire", "move", "arrive", "kill", "complete", "block", "unblock"]
    + ["lose", "lost", "lost"]
)
WITH_RELEASE_BEFORE = actions(
    ["step"] * 20
    + ["go on"] * 6
    + ["slot", "slot", "exclusive", "exclusive", "divide", "positions", "topic"]
    + ["old slot", "old slot", "old whole", "old whole", "old topic"]
    + ["time out", "time out", "move", "arrive", "kill", "complete", "lose", "lost", "lost"]
)


@settings(max_examples=examples(300), deadline=None)
@given(
    version=st.sampled_from(Version),
    first_epoch=st.sampled_from([-1, 32758, 32764]),
    slots=st.integers(0, 2),
    happening=st.lists(ANY, max_size=80),
)
def test_any_order_of_steps(
    version: Version, first_epoch: int, slots: int, happening: list[Any]
) -> None:
    cluster = OneLevelCluster(version, first_epoch)
    if slots:
        share(cluster, slots)
    else:
        cluster.start_exclusive(2)
    act(cluster, happening)


@settings(max_examples=examples(300), deadline=None)
@given(
    version=st.sampled_from(Version),
    shared=st.integers(0, 2),
    happening=st.lists(WITH_RELEASE_BEFORE, max_size=80),
)
def test_any_order_of_steps_with_the_release_before(
    version: Version, shared: int, happening: list[Any]
) -> None:
    cluster = OneLevelCluster(version)
    if shared:
        cluster.share(shared)
        for slot in range(shared):
            cluster.start_slot(slot)
    else:
        cluster.start_whole(2, shared=0)
    act(cluster, happening)


def act(cluster: OneLevelCluster, happening: list[Any]) -> None:
    for action in happening:
        cluster.act(action)
        cluster.check()
    cluster.settle()
    cluster.check()


def share(cluster: OneLevelCluster, slots: int) -> list[SlotOwner]:
    """Divide the pipeline, and let a run take each slot."""
    finish(cluster, cluster.start_division(slots))
    owners = [cluster.start_owner(slot) for slot in range(slots)]
    return [owner for owner in owners if owner is not None]


def finish(cluster: OneLevelCluster, driver: PipelineDriver) -> None:
    """Let a takeover of the pipeline come to its end; what nobody ends is aborted after a while."""
    for number in range(400):
        if number == 200:
            for name in cluster.target.open():
                cluster.target.time_out(name)
        steps(driver, 1)
        cluster.target.complete()
    assert driver.is_done


def go_on(cluster: OneLevelCluster, *drivers: ModelDriver, times: int = 100) -> None:
    """Let only these continue, in turn."""
    for _ in range(times):
        for driver in drivers:
            steps(driver, 1)
        cluster.target.complete()
    cluster.check()


def owners_of(cluster: OneLevelCluster, driver: PipelineDriver) -> list[SlotOwner]:
    return [owner for owner in cluster.owners() if owner.run == driver.run]


def copies(cluster: OneLevelCluster, *drivers: ModelDriver) -> None:
    """Let drivers continue until every partition has grown."""
    before = cluster.counts()
    for _ in range(30):
        go_on(cluster, *drivers, times=10)
        if all(now > was + 2 for now, was in zip(cluster.counts(), before, strict=True)):
            return
    raise AssertionError("nothing is copied any more")


Schedule = Callable[[OneLevelCluster, int, int], None]


def slots_change(cluster: OneLevelCluster, until: int, after: int) -> None:
    """A run takes slot 1 of 2 while another one takes the pipeline over, as one slot."""
    finish(cluster, cluster.start_division(2))
    late, changing = cluster.start_owner(1), cluster.start_exclusive(1)
    assert late is not None
    go_on(cluster, changing, times=until)
    go_on(cluster, late, times=after)
    finish(cluster, changing)
    copies(cluster, late, *owners_of(cluster, changing))
    assert not late.running and cluster.owners() == owners_of(cluster, changing)


def slots_change_for_all(cluster: OneLevelCluster, until: int, after: int) -> None:
    """The same, but the leader divides it again, and another run takes the slot."""
    finish(cluster, cluster.start_division(2))
    late, changing = cluster.start_owner(1), cluster.start_division(1)
    assert late is not None
    go_on(cluster, changing, times=until)
    go_on(cluster, late, times=after)
    finish(cluster, changing)
    owner = cluster.start_owner(0)
    assert owner is not None
    copies(cluster, late, owner)
    assert not late.running and owner.running


def topic_moves(cluster: OneLevelCluster, until: int, after: int) -> None:
    """A run takes slot 0 of 2 while its topic is moved; one of slot 1 was killed in a lap."""
    late, killed = share(cluster, 2)
    while not cluster.copied(1) or cluster.target.ids["g.1.0"].first is None:
        go_on(cluster, killed, times=1)
    killed.killed = True
    mover = cluster.start_move(0, moves=True)
    for number in range(200):
        if number == until:
            steps(late, after)
        steps(mover, 1)
        if number > 100:  # its open transaction holds the mover's reading back
            steps(late, 1)
        if number % 7 == 0:
            cluster.target.complete()
        cluster.check()
    assert not mover.running and 0 in cluster.final
    taken = [cluster.start_owner(slot) for slot in range(2)]
    go_on(cluster, *(owner for owner in taken if owner is not None), times=40)
    assert cluster.counts()[1] > 2, "the other topic is copied"


def two_take_over(cluster: OneLevelCluster, until: int, after: int) -> None:
    """Two runs start at once, for themselves; the first one is suspended meanwhile."""
    finish(cluster, cluster.start_exclusive(2))
    first, second = cluster.start_exclusive(2), cluster.start_exclusive(1 + after % 2)
    go_on(cluster, first, times=until)
    go_on(cluster, second, times=after)
    cluster.go_on(500, seed=until)
    cluster.check()
    runs = {owner.run for owner in cluster.owners()}
    assert runs in ({first.run}, {second.run}), "each has some of the slots, or none has any"
    winner = first if first.run in runs else second
    assert winner.change.division is not None
    assert len(cluster.owners()) == winner.change.division.slots
    copies(cluster, *cluster.owners())


def a_starter_wakes_up(cluster: OneLevelCluster, until: int, after: int) -> None:
    """It was suspended while it took the pipeline over, and another run has all slots now."""
    first = cluster.start_exclusive(2)
    go_on(cluster, first, times=2 + until)
    if not first.running:
        return
    second = cluster.start_exclusive(2)
    finish(cluster, second)
    copies(cluster, *owners_of(cluster, second))
    before = {name: known.epoch for name, known in cluster.target.ids.items()}
    go_on(cluster, first, times=100)
    raised = [name for name, epoch in before.items() if cluster.target.ids[name].epoch != epoch]
    assert len({name.split(".")[1] for name in raised}) < 2, f"it bumps {raised}"
    go_on(cluster, first, *owners_of(cluster, second))
    assert not first.running and len(owners_of(cluster, second)) == 2


def partitions_change_slots(cluster: OneLevelCluster, until: int, after: int) -> None:
    """A slot was taken over often; then its partitions come into another one, and back."""
    for slots in (1, 1, 1, 2, 1, 2):
        finish(cluster, cluster.start_division(slots))
        taken = [cluster.start_owner(slot) for slot in range(slots)]
        owners = [owner for owner in taken if owner is not None]
        for _ in range(30 + until + after):
            for owner in owners:
                steps(owner, 1)
            cluster.target.complete()
    cluster.check()


def suspended_run_wakes_up(cluster: OneLevelCluster, until: int, after: int) -> None:
    """Its slots belong to another run, with another number of slots."""
    first = cluster.start_exclusive(2)
    finish(cluster, first)
    go_on(cluster, *owners_of(cluster, first), times=until)
    second = cluster.start_exclusive(1 + after % 2)
    finish(cluster, second)
    copies(cluster, *owners_of(cluster, second))
    go_on(cluster, *owners_of(cluster, first), *owners_of(cluster, second))
    copies(cluster, *owners_of(cluster, second))
    assert cluster.owners() == owners_of(cluster, second)


def owner_works_on(cluster: OneLevelCluster, until: int, after: int) -> None:
    """It is faster than the run that takes its slot over meanwhile."""
    (first,) = share(cluster, 1)
    go_on(cluster, first, times=40 + until)
    second = cluster.start_owner(0)
    assert second is not None
    for _ in range(40):
        go_on(cluster, first, times=after)
        go_on(cluster, second, times=1)
    copies(cluster, first, second)
    assert first.running != second.running


def run_of_the_release_before_wakes_up(cluster: OneLevelCluster, until: int, after: int) -> None:
    """It has copied the whole pipeline with ids of its own, until a run took all slots over."""
    old = cluster.start_whole(1 + after % 2, shared=0)
    copies(cluster, old)
    go_on(cluster, old, times=until)
    new = cluster.start_exclusive(2)
    finish(cluster, new)
    copies(cluster, *owners_of(cluster, new))
    go_on(cluster, old, *owners_of(cluster, new))
    copies(cluster, *owners_of(cluster, new))
    assert not old.running and len(owners_of(cluster, new)) == 2


def release_before_takes_over(cluster: OneLevelCluster, until: int, after: int) -> None:
    """A run is suspended while one of the release before takes its pipeline over."""
    new = cluster.start_exclusive(1 + after % 2)
    finish(cluster, new)
    copies(cluster, *owners_of(cluster, new))
    go_on(cluster, *owners_of(cluster, new), times=until)
    old = cluster.start_whole(2, shared=0)
    copies(cluster, old)
    go_on(cluster, old, *owners_of(cluster, new))
    copies(cluster, old)
    assert old.running and not cluster.owners()


# One by one: a run that takes a slot must not read before it has bumped the lock.
FIRST_STEPS = (*range(3), *range(5, 40, 5))
SCHEDULES: dict[Schedule, tuple[Sequence[int], Sequence[int]]] = {
    slots_change: (range(0, 60, 4), FIRST_STEPS),
    slots_change_for_all: (range(0, 60, 4), FIRST_STEPS),
    topic_moves: (range(0, 60, 3), range(0, 40, 4)),
    two_take_over: (range(0, 60, 4), range(0, 60, 9)),
    a_starter_wakes_up: (range(60), range(1)),
    partitions_change_slots: (range(0, 10, 3), range(1)),
    suspended_run_wakes_up: (range(30), range(2)),
    owner_works_on: (range(12), range(1, 16)),
    run_of_the_release_before_wakes_up: (range(30), range(2)),
    release_before_takes_over: (range(30), range(2)),
}


def interleaved(schedule: Schedule, make: Callable[[], OneLevelCluster]) -> None:
    for until, after in product(*SCHEDULES[schedule]):
        schedule(make(), until, after)


@pytest.mark.parametrize("version", Version)
@pytest.mark.parametrize("schedule", SCHEDULES, ids=lambda schedule: schedule.__name__)
def test_in_every_order(schedule: Schedule, version: Version) -> None:
    interleaved(schedule, lambda: OneLevelCluster(version))


@pytest.mark.parametrize("version", Version)
@pytest.mark.parametrize("schedule", [suspended_run_wakes_up, owner_works_on])
def test_a_run_is_fenced_where_its_bump_would_count_as_a_repeat(
    schedule: Schedule, version: Version
) -> None:
    interleaved(schedule, lambda: OneLevelCluster(version, remembers=True))


FOUND_BY: list[tuple[Planted, Schedule, str]] = [
    (Planted.ONE_BUMP, owner_works_on, "partition"),
    (Planted.OWNER_NOT_CONFIRMED, slots_change, "partition 1"),
    (Planted.PIPELINE_NOT_CONFIRMED, a_starter_wakes_up, "it bumps"),
    (Planted.NO_PIPELINE_LOCK, two_take_over, "partition"),
    (Planted.OWN_TERM, partitions_change_slots, "partition"),
    (Planted.LATE_RECORD, slots_change, "partition 1"),
    (Planted.LATE_RECORD, slots_change_for_all, "partition 1"),
    (Planted.LATE_RECORD, topic_moves, "copied once moved"),
    (Planted.RECORD_NOT_READ, slots_change, "partition 1"),
    (Planted.RECORD_BEFORE_LOCK, slots_change, "partition 1"),
    (Planted.MOVES_BEFORE_BUMPS, topic_moves, "copied once moved"),
    (Planted.MOVES_UNSTABLE, topic_moves, "copied once moved"),
    (Planted.OLD_IDS, run_of_the_release_before_wakes_up, "partition"),
    (Planted.NOT_TOLD, release_before_takes_over, "partition"),
]


@pytest.mark.parametrize(
    ("planted", "schedule", "message"),
    FOUND_BY,
    ids=[f"{planted.value}-{schedule.__name__}" for planted, schedule, _ in FOUND_BY],
)
def test_a_rule_that_is_broken_is_found(planted: Planted, schedule: Schedule, message: str) -> None:
    remembers = planted is Planted.ONE_BUMP  # by Kafka's own coordinator, one bump is enough
    said = []
    for until, after in product(*SCHEDULES[schedule]):
        cluster = OneLevelCluster(Version.TV2, planted=planted, remembers=remembers)
        try:
            schedule(cluster, until, after)
        except AssertionError as error:
            said.append(str(error))
            if message in said[-1]:
                return
    raise AssertionError(f"not found: {said}")


def test_every_rule_is_broken_once() -> None:
    assert {planted for planted, _, _ in FOUND_BY} == set(Planted)


@pytest.mark.parametrize("version", Version)
def test_a_dead_run_stops_only_its_own_slot(version: Version) -> None:
    """It is killed at any request; the other one is not even fenced."""
    for killed_after in range(30):
        cluster = OneLevelCluster(version)
        dead, other = share(cluster, 2)
        go_on(cluster, dead, other, times=20)
        go_on(cluster, dead, times=killed_after)
        cluster.kill(dead)
        before, term = len(cluster.copied(1)), other.term
        go_on(cluster, dead, other)
        assert len(cluster.copied(1)) > before and other.running and other.term == term
        taken = cluster.start_owner(0)
        assert taken is not None
        copies(cluster, taken, other)
        assert other.running and other.term == term


@pytest.mark.parametrize("version", Version)
def test_a_change_that_dies_before_its_record_interrupts_nobody(version: Version) -> None:
    for killed_after in range(12):
        cluster = OneLevelCluster(version)
        finish(cluster, run := cluster.start_exclusive(2))
        owners = owners_of(cluster, run)
        terms = [owner.term for owner in owners]
        go_on(cluster, dead := cluster.start_exclusive(1), *owners, times=killed_after)
        cluster.kill(dead)
        copies(cluster, *owners)
        assert [owner.term for owner in owners] == terms and cluster.owners() == owners


@pytest.mark.parametrize("version", Version)
def test_a_run_that_copies_alone_has_all_its_slots_or_none(version: Version) -> None:
    """Another one is killed while it takes the pipeline over: perhaps it has fenced one slot."""
    for killed_after in range(12, 50):
        cluster = OneLevelCluster(version)
        finish(cluster, run := cluster.start_exclusive(2))
        owners = owners_of(cluster, run)
        go_on(cluster, dead := cluster.start_exclusive(2), times=killed_after)
        cluster.kill(dead)
        go_on(cluster, *owners)
        assert cluster.owners() in (owners, [])
        assert killed_after < 18 or not cluster.owners()


@pytest.mark.parametrize("version", Version)
@pytest.mark.parametrize("shared", [False, True])
def test_nobody_copies_while_a_drill_fences_the_pipeline(version: Version, shared: bool) -> None:
    """A run of before may be suspended at any request."""
    for suspended_after in range(0, 30, 2):
        cluster = OneLevelCluster(version)
        if shared:
            owners = share(cluster, 2)
        else:
            finish(cluster, run := cluster.start_exclusive(2))
            owners = owners_of(cluster, run)
        go_on(cluster, *owners, times=20 + suspended_after)
        finish(cluster, cluster.start_fence())
        before = cluster.counts()
        late = cluster.start_owner(1)
        go_on(cluster, *owners, *([late] if late is not None else []))
        assert cluster.counts() == before and not cluster.owners()


@pytest.mark.parametrize("version", Version)
@pytest.mark.parametrize("shared", [False, True])
def test_runs_go_on_by_themselves_while_a_topic_is_moved_and_released(
    version: Version, shared: bool
) -> None:
    """The one that moves it is killed at any request, and another one does it again."""
    for killed_after in range(0, 60, 4):
        cluster = OneLevelCluster(version)
        if shared:
            owners = share(cluster, 2)
        else:
            finish(cluster, exclusive := cluster.start_exclusive(2))
            owners = owners_of(cluster, exclusive)
        copies(cluster, *owners)
        go_on(cluster, killed := cluster.start_move(0, moves=True), *owners, times=killed_after)
        cluster.kill(killed)
        change_meanwhile(cluster, cluster.start_move(0, moves=True))
        before = cluster.counts()
        change_meanwhile(cluster, cluster.start_positions(0, 2, keeps=True))
        go_on(cluster, *owners)
        assert cluster.counts()[0] == before[0] and cluster.counts()[1] > before[1]
        change_meanwhile(cluster, cluster.start_move(0, moves=False))
        copies(cluster, *owners)
        assert cluster.owners() == owners


def change_meanwhile(cluster: OneLevelCluster, driver: PipelineDriver) -> None:
    """Let a takeover of the pipeline come to its end while runs go on."""
    for seed in range(100):
        if driver.running:
            cluster.go_on(20, seed)
    cluster.check()
    assert driver.is_done


@pytest.mark.parametrize("version", Version)
@pytest.mark.parametrize("keeps", [False, True])
def test_positions_are_set_for_a_pipeline_that_nobody_copies(version: Version, keeps: bool) -> None:
    """Unless the topic is moved, all runs end before; with runs that go on, nothing is set."""
    cluster = OneLevelCluster(version)
    finish(cluster, exclusive := cluster.start_exclusive(2))
    owners = owners_of(cluster, exclusive)
    copies(cluster, *owners)
    setter = cluster.start_positions(1, 2, keeps=keeps)
    go_on(cluster, setter, *owners)
    assert setter.is_done != keeps and cluster.owners() == (owners if keeps else [])
    finish(cluster, again := cluster.start_exclusive(1))
    copies(cluster, *owners_of(cluster, again))


@pytest.mark.parametrize("version", Version)
@pytest.mark.parametrize("next_is_old", [False, True])
def test_an_upgrade_is_killed_in_the_middle(version: Version, next_is_old: bool) -> None:
    """At any request; then a run of either release goes on with the pipeline."""
    for killed_after in range(0, 75, 2):
        cluster = OneLevelCluster(version)
        old = cluster.start_whole(2, shared=0)
        copies(cluster, old)
        go_on(cluster, new := cluster.start_exclusive(2), old, times=killed_after)
        cluster.kill(new)
        go_on_after_a_kill(cluster, old, next_is_old=next_is_old)


@pytest.mark.parametrize("version", Version)
@pytest.mark.parametrize("next_is_old", [False, True])
def test_a_way_back_is_killed_in_the_middle(version: Version, next_is_old: bool) -> None:
    """A run of the release before takes over from one of this, and is killed at any request."""
    for killed_after in range(0, 75, 2):
        cluster = OneLevelCluster(version)
        finish(cluster, new := cluster.start_exclusive(2))
        owners = owners_of(cluster, new)
        copies(cluster, *owners)
        go_on(cluster, old := cluster.start_whole(2, shared=0), *owners, times=killed_after)
        cluster.kill(old)
        go_on_after_a_kill(cluster, *owners, next_is_old=next_is_old)


def go_on_after_a_kill(cluster: OneLevelCluster, *before: ModelDriver, next_is_old: bool) -> None:
    """Let a run start; those of before are suspended meanwhile, and wake up when it copies."""
    for name in cluster.target.open():  # of the one that was killed
        cluster.target.time_out(name)
    if next_is_old:
        copies(cluster, old := cluster.start_whole(1, shared=0))
        go_on(cluster, old, *before)
        copies(cluster, old)
        assert old.running and not cluster.owners()
    else:
        finish(cluster, new := cluster.start_exclusive(1))
        go_on(cluster, *owners_of(cluster, new), *before)
        copies(cluster, *owners_of(cluster, new))
        assert cluster.owners() == owners_of(cluster, new)
    assert not any(driver.running for driver in before)


@pytest.mark.parametrize("version", Version)
def test_runs_of_both_releases_share_a_pipeline(version: Version) -> None:
    """They take slots from each other, of a division that either has made."""
    for divided_by_old, taken_after in product((False, True), range(0, 40, 3)):
        cluster = OneLevelCluster(version)
        if divided_by_old:
            cluster.share(2)
        else:
            finish(cluster, cluster.start_division(2))
        old, new = cluster.start_slot(0), cluster.start_owner(1)
        assert old is not None and new is not None
        copies(cluster, old, new)
        go_on(cluster, old, new, times=taken_after)
        of_old, of_new = cluster.start_slot(1), cluster.start_owner(0)
        assert of_old is not None and of_new is not None
        copies(cluster, of_old, of_new)
        go_on(cluster, old, new, of_old, of_new)
        assert of_old.running and of_new.running and not old.running and not new.running
