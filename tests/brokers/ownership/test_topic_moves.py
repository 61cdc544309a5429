"""Topics of a pipeline are moved and released on a real broker, while runs own it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from k2ktui.engine.records.cluster_pair import ClusterPair
from k2ktui.engine.records.moved_topic import (
    MovedTopic,
    TopicMoves,
    moved_topic_key,
    moved_topic_value,
)
from k2ktui.engine.records.run_record import run_key
from k2ktui.engine.records.state import (
    Position,
    SourcePartition,
    position_key,
    position_value,
)
from k2ktui.errors import Refused, TimedOut
from k2ktui.kafka.properties.translation import wire
from k2ktui.replication.fencing_errors import OwnershipLost, Superseded, UnreadableRecords
from k2ktui.replication.ownership import fence as fence_module
from k2ktui.replication.ownership import ownership as ownership_module
from k2ktui.replication.ownership.commit_state import CommitState
from k2ktui.replication.ownership.ownership import Ownership
from k2ktui.replication.ownership.pipeline import commit_topic, make_ownership
from k2ktui.replication.ownership.topic_moves import (
    move_topics,
    read_moved,
    release_topics,
    write_moved_positions,
)
from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.kafka import Out, await_stable, grow_topic, produce, read_all
from tests.support.commands.earlier_code import unpack
from tests.support.pipelines.copied import Copied


def moved(topic: str, drill: str = "20261121-101500-3f2a") -> MovedTopic:
    return MovedTopic(topic, f"dc1.{topic}", drill, 1_795_252_312_786, "ann@bastion")


class Runs:
    """The runs of a test, closed at its end."""

    def __init__(self, copied: Copied, closing: ExitStack) -> None:
        self._copied, self._closing = copied, closing

    def whole(self) -> Ownership:
        copied = self._copied
        pair = ClusterPair("cluster-a", copied.target.cluster_id, "m")
        options = wire(copied.config.target, "producer")
        ownership = make_ownership(copied.config, copied.cluster, options, 1, pair)
        self._closing.callback(ownership.close, fence=False)
        return ownership

    def start(self) -> Ownership:
        """A run that copies the pipeline alone, with two slots."""
        ownership = self.whole()
        ownership.take_over(2)
        ownership.renew(0)
        return ownership

    def divide(self, slots: int) -> str:
        ownership = self.whole()
        ownership.divide(slots)
        return ownership.publish_layout().id

    def take_slot(self, slot: int, layout: str) -> Ownership:
        ownership = self.whole().of_slot(slot, layout)
        self._closing.callback(ownership.close, fence=False)
        ownership.take_over(1)
        ownership.renew(0)
        return ownership


@pytest.fixture
def copied(target: KafkaNode, tmp_path: Path) -> Copied:
    copied = Copied(tmp_path, target, target)  # no source is read
    for topic in ("orders", "payments"):
        for n in range(2):
            key = position_key(copied.name, SourcePartition(topic, n))
            position = Position(40 + n, 0, -1, "", 1, 0, topic, n)
            produce(target, copied.commits, [Out(position_value(position), key)])
    return copied


@pytest.fixture
def runs(copied: Copied) -> Iterator[Runs]:
    with ExitStack() as closing:
        yield Runs(copied, closing)


def move(copied: Copied, *topics: str) -> dict[SourcePartition, int]:
    """Move topics; return the positions that are final."""
    final = move_topics(copied.config, copied.cluster, [moved(topic) for topic in topics])
    return {at: position.offset for at, position in final.items()}


def moved_now(copied: Copied) -> set[str]:
    await_stable(copied.target, copied.commits)
    return {one.topic for one in read_moved(copied.config, copied.cluster).all}


def versions(copied: Copied) -> list[int]:
    """Return the versions of all run records of the pipeline, oldest first."""
    await_stable(copied.target, copied.commits)
    records = read_all(copied.target, copied.commits)
    return [
        json.loads(record.value or b"")["v"]
        for record in records
        if record.key == run_key(copied.name)
    ]


def test_a_run_goes_on_after_topics_were_moved_and_released(copied: Copied, runs: Runs) -> None:
    run = runs.start()
    assert not moved_now(copied)
    final = move(copied, "orders")
    assert final == {SourcePartition("orders", n): 40 + n for n in range(2)}
    assert moved_now(copied) == {"orders"}

    with pytest.raises(OwnershipLost):
        run.renew(0)
    assert run.must_take_over
    state = run.take_over(2)
    assert state.moved.all == (moved("orders"),)
    run.renew(0)

    assert move(copied, "payments").keys() == {SourcePartition("payments", n) for n in range(2)}
    with pytest.raises(OwnershipLost):
        run.renew(1)
    assert {one.topic for one in run.take_over(2).moved.all} == {"orders", "payments"}

    released = release_topics(copied.config, copied.cluster, ["orders", "never moved"])
    assert {str(at): p.offset for at, p in released.items()} == {"orders-0": 40, "orders-1": 41}
    with pytest.raises(OwnershipLost):
        run.renew(0)
    assert run.take_over(2).moved.all == (moved("payments"),)
    run.renew(0)


def test_a_run_that_another_one_has_replaced_does_not_come_back(copied: Copied, runs: Runs) -> None:
    """Only the run that a move has interrupted goes on."""
    first = runs.start()
    second = runs.start()
    move(copied, "orders")
    move(copied, "payments")
    with pytest.raises(Superseded):
        first.renew(0)
    with pytest.raises(OwnershipLost):
        second.renew(0)
    second.take_over(2)
    third = runs.start()
    with pytest.raises(Superseded):
        second.renew(0)
    third.renew(0)


def test_runs_take_their_slots_again_by_the_same_layout(copied: Copied, runs: Runs) -> None:
    layout = runs.divide(2)
    slots = [runs.take_slot(slot, layout) for slot in range(2)]
    move(copied, "orders")
    for slot, run in enumerate(slots):
        with pytest.raises(Superseded):
            run.renew(0)
        again = runs.take_slot(slot, layout)
        assert again.pipeline_run.layout is not None and again.pipeline_run.layout.ready
        assert again.run.term > run.run.term
    state = runs.whole().divide(3)
    assert state.moved.all == (moved("orders"),), "a new layout keeps what is moved"


def test_a_layout_that_is_being_changed_is_not_used(copied: Copied, runs: Runs) -> None:
    runs.divide(2)
    dividing = runs.whole()
    dividing.divide(3)
    move(copied, "orders")
    with pytest.raises(OwnershipLost):
        dividing.publish_layout()
    state = copied.commit_state()
    assert state.run.layout is not None and not state.run.layout.ready


def test_earlier_releases_refuse_the_pipeline_while_topics_are_moved(
    copied: Copied, runs: Runs
) -> None:
    """Each run record has the version that they do not read, also that of a later run."""
    runs.start()
    assert versions(copied)[-1] == 1
    move(copied, "orders")
    layout = runs.divide(1)
    runs.take_slot(0, layout)
    runs.start()
    written = versions(copied)
    assert set(written[written.index(3) :]) == {3}
    release_topics(copied.config, copied.cluster, ["orders"])
    runs.start()
    assert versions(copied)[-1] == 1


@pytest.fixture(scope="module")
def earlier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the package of the last commit that does not know moved topics."""
    return unpack("6adee294", tmp_path_factory.mktemp("earlier"))


# What a driver of that commit does before it copies, of the pipeline or of a slot.
START = """
import sys
from k2ktui.kafka.clients import target_cluster
from k2ktui.kafka.properties.translation import load_checked, wire
from k2ktui.replication.ownership.pipeline import describe_malformed, make_ownership
config, layout = load_checked((sys.argv[1],)).config, sys.argv[2]
ownership = make_ownership(config, target_cluster(config), wire(config.target, "producer"), 1)
if layout:
    ownership = ownership.of_slot(0, layout)
state = ownership.take_over(1)
if state.malformed:
    describe_malformed(config, state)
print("copies")
"""


def start_earlier(copied: Copied, earlier: Path, layout: str = "") -> str:
    """Return what a driver of the earlier commit says."""
    env = {**os.environ, "PYTHONPATH": str(earlier), "PYTHONSAFEPATH": "1"}
    command = [sys.executable, "-c", START, str(copied.file), layout]
    done = subprocess.run(command, capture_output=True, text=True, env=env, timeout=300)
    return done.stdout + done.stderr


def test_an_earlier_release_copies_nothing_of_the_pipeline(
    copied: Copied, runs: Runs, earlier: Path
) -> None:
    """Not the whole of it and no slot, as often as it tries; this release then goes on."""
    layout = runs.divide(2)
    assert "copies" in start_earlier(copied, earlier, layout)
    assert "copies" in start_earlier(copied, earlier)
    layout = runs.divide(2)
    move(copied, "orders")
    for of in (layout, "", ""):
        said = start_earlier(copied, earlier, of)
        assert "of this pipeline" in said and "cannot be read" in said and "copies" not in said
    state = runs.whole().take_over(2)
    assert state.moved.all == (moved("orders"),) and state.run.has_moved is False
    assert versions(copied)[-1] == 3, "its run record is replaced by one that it does not read"


def test_nothing_is_copied_while_a_move_cannot_be_read(copied: Copied, runs: Runs) -> None:
    """Whatever errorHandling says: a topic on the target only could be copied again."""
    copied.settings = {"errorHandling": {"onControlMessageDeserializationError": "ignore"}}
    key, value = moved_topic_key(copied.name, "orders"), moved_topic_value(moved("orders"))
    produce(copied.target, copied.commits, [Out(value.replace(b'"v":1', b'"v":9'), key)])
    with pytest.raises(UnreadableRecords, match="1 record of moved topics"):
        runs.start()
    with pytest.raises(UnreadableRecords):
        read_moved(copied.config, copied.cluster)
    with pytest.raises(UnreadableRecords):
        move(copied, "payments")
    assert move(copied, "orders"), "moved again, it can be read"
    assert runs.start() is not None and moved_now(copied) == {"orders", "payments"}


def test_a_release_reaches_records_of_a_commit_topic_that_has_grown(
    copied: Copied, runs: Runs
) -> None:
    for size in range(2, 9):
        if commit_topic(copied.config, size).partition(0):
            break
    move(copied, "orders")
    grow_topic(copied.target, copied.commits, size)
    assert runs.start().topic.partitions == size
    assert moved_now(copied) == {"orders"}
    move(copied, "payments")
    release_topics(copied.config, copied.cluster, ["orders"])
    assert moved_now(copied) == {"payments"}
    release_topics(copied.config, copied.cluster, ["payments"])
    assert not moved_now(copied)


def test_a_mover_that_is_killed_halfway_ends_no_run(
    copied: Copied, runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its first record says that it is at work: the run waits for it, and then takes over."""
    run = runs.start()

    def kill(name: str) -> None:
        if name == "moved":
            raise KeyboardInterrupt

    with monkeypatch.context() as killing, pytest.raises(KeyboardInterrupt):
        killing.setattr(ownership_module, "failpoint", kill)
        mover = runs.whole()
        mover.move(TopicMoves(moved=(moved("orders"),)))
    monkeypatch.setattr(ownership_module, "_INTERRUPTED_S", 0.5)
    with pytest.raises(OwnershipLost):
        run.renew(0)
    assert run.take_over(2).moved.all == (moved("orders"),), "what was committed counts"
    assert move(copied, "orders"), "and it can be done again"


def test_a_run_that_is_stopped_does_not_wait_for_a_mover(
    copied: Copied, runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = runs.start()

    def kill(name: str) -> None:
        if name == "moved":
            raise KeyboardInterrupt

    with monkeypatch.context() as killing, pytest.raises(KeyboardInterrupt):
        killing.setattr(ownership_module, "failpoint", kill)
        runs.whole().move(TopicMoves(moved=(moved("orders"),)))

    def wait(seconds: float) -> None:
        raise AssertionError(f"it waits for {seconds} s")

    monkeypatch.setattr(ownership_module, "sleep", wait)
    run.canceled = lambda: True
    with pytest.raises(OwnershipLost):
        run.renew(0)


def test_a_run_that_takes_over_during_a_move_knows_it(
    copied: Copied, runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The mover is fenced by it, begins again, and interrupts it."""
    started: list[Ownership] = []

    def start(name: str) -> None:
        if name == "moved" and not started:
            started.append(runs.whole())
            assert started[0].take_over(2).moved.all == (moved("orders"),)
            started[0].renew(0)

    monkeypatch.setattr(ownership_module, "failpoint", start)
    assert move(copied, "orders")
    (run,) = started
    with pytest.raises(OwnershipLost):
        run.renew(0)
    assert run.take_over(2).moved.all == (moved("orders"),)
    run.renew(0)


def test_a_run_that_starts_is_interrupted_and_takes_over_again(
    copied: Copied, runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Topics are moved between two of its requests; it does not end, and knows what is moved."""
    runs.start().close()
    monkeypatch.setattr(fence_module, "_TAKE_PAUSE_S", 0.1)
    final: list[object] = []

    def move_once(name: str) -> None:
        if name == "fencing" and not final:
            final.append("begun")
            final.append(move(copied, "orders"))

    run = runs.whole()
    monkeypatch.setattr(fence_module, "failpoint", move_once)
    assert run.take_over(2).moved.all == (moved("orders"),)
    run.renew(0)
    assert len(final) == 2


def test_positions_of_moved_topics_are_written_while_runs_go_on(copied: Copied, runs: Runs) -> None:
    first, second = (SourcePartition("orders", n) for n in range(2))
    run = runs.start()
    move(copied, "orders")
    run.close(fence=False)
    run = runs.start()
    before = copied.commit_state()

    def back(state: CommitState, term: int) -> dict[SourcePartition, Position | None]:
        assert term > before.run.term, "a lower offset of an earlier term would not count"
        return {first: replace(state.positions[first], offset=7, term=term), second: None}

    write_moved_positions(copied.config, copied.cluster, back)
    with pytest.raises(OwnershipLost):
        run.renew(0)
    state = run.take_over(2)
    assert state.positions[first].offset == 7 and second not in state.positions
    payments = {at: known for at, known in before.positions.items() if at.topic == "payments"}
    assert {at: known for at, known in state.positions.items() if at != first} == payments
    assert state.moved.all == (moved("orders"),)
    run.renew(0)

    def refuse(state: CommitState, term: int) -> dict[SourcePartition, Position | None]:
        raise Refused("released meanwhile")

    with pytest.raises(Refused, match="released meanwhile"):
        write_moved_positions(copied.config, copied.cluster, refuse)
    with pytest.raises(OwnershipLost):
        run.renew(0)
    assert run.take_over(2).positions == state.positions
    run.renew(0)


def test_it_is_refused_where_no_run_can_be_fenced(copied: Copied) -> None:
    copied.settings = {"features": {"exactlyOnce": "disabled"}}
    with pytest.raises(Refused, match="without exactly-once"):
        move(copied, "orders")
    copied.settings = {"coordination": {"commit": {"topic": "none"}, "state": {"topic": "none"}}}
    with pytest.raises(TimedOut, match="does not exist"):
        move(copied, "orders")
    assert not read_moved(copied.config, copied.cluster)
