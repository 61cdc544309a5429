"""``coordination.mode: standby``: one run copies, others wait, and nothing is lost or doubled."""

from __future__ import annotations

import random
import signal
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.kafka import eventually
from tests.support.clusters.other_hosts import other_host
from tests.support.clusters.proxy import ProxiedNode, proxied_node
from tests.support.pipelines.fixtures import MakePipeline
from tests.support.pipelines.kills import tell_all
from tests.support.pipelines.pipeline import START_TIMEOUT, Pipeline, Run
from tests.support.pipelines.shared_pipelines import GRACE_S
from tests.support.records.traffic import Traffic

STANDBY = {
    "coordination.mode": "standby",
    "coordination.assignment.graceWindow": f"{GRACE_S} seconds",
}


@pytest.fixture
def standby(make_pipeline: MakePipeline, topics: dict[str, int]) -> Pipeline:
    return make_pipeline(list(topics), STANDBY)


def expect_waiting(run: Run, since: int = 0) -> None:
    run.expect("waiting", lambda event: " pid " in event["runs"], since=since)


@pytest.mark.proof
def test_standbys_of_one_host_take_over_from_each_other(
    make_pipeline: MakePipeline, topics: dict[str, int]
) -> None:
    """At once where a run has stopped or was killed: the grace window is longer than any test.

    Also a standby that is started later.
    """
    patient = {"coordination.assignment.graceWindow": "1 hour"}
    standby = make_pipeline(list(topics), STANDBY | patient)
    with Traffic(standby.source, topics, 1):
        first, second, stopped = start_at_once(standby)
        reported = second.reported
        assert stopped.stop() == 0, "a standby ends at once"
        standby.await_copying()
        assert first.running
        assert not [e for e in second.events()[reported:] if e["event"] == "started"]
        assert first.stop() == 0
        second.expect("started", since=reported)
        third = standby.start()
        expect_waiting(third)
        standby.await_copying()
        second.signal(signal.SIGKILL)
        third.expect("firstrecord")
        standby.await_copying()
        third.signal(signal.SIGKILL)
        fourth = standby.start()
        fourth.expect("firstrecord")
        standby.await_copying()
    standby.end(fourth)
    standby.prove()


def start_at_once(standby: Pipeline) -> list[Run]:
    """Start three runs; return the one that works, then those that wait."""
    runs = [standby.start() for _ in range(3)]

    def one_works() -> bool:
        runs.sort(key=working, reverse=True)
        return working(runs[0]) and all(map(waiting, runs[1:]))

    what = lambda: "\n".join(["one works", *(run.tail() for run in runs)])  # noqa: E731
    eventually(one_works, what, 2 * START_TIMEOUT)
    return runs


@pytest.mark.proof
@pytest.mark.seeds(1)
def test_a_standby_takes_over_from_what_dies_or_hangs(
    standby: Pipeline, topics: dict[str, int], seed: int
) -> None:
    """Three times in a row: SIGKILL of the driver, SIGSTOP of it and of all its processes.

    Each run is on a host of its own: none sees whether another one's process lives. What goes on
    after SIGSTOP waits as a standby, and is the next one to take over. At last, ``--take-over``
    fences the run that works, which becomes a standby, in the same process, and works again.
    """
    dice = random.Random(seed)
    hosts = (other_host(f"host-{number}") for number in count())
    left: list[Run] = []
    with Traffic(standby.source, topics, seed):
        works = standby.start(env=next(hosts))
        works.expect("firstrecord")
        for number, whole in dice.sample(BLOWS, len(BLOWS)):
            waits = left.pop() if left else standby.start(env=next(hosts))
            expect_waiting(waits)
            standby.await_copying()
            reported = waits.reported
            if whole:
                tell_all(works, number)
            else:
                works.signal(number)
            waits.expect("progress", lambda event: event["records"], since=reported)
            if number == signal.SIGSTOP:
                reported = works.reported
                tell_all(works, signal.SIGCONT)
                expect_waiting(works, reported)
                assert waits.running
                left.append(works)
            else:
                works.close()
            works = waits
        assert not left or left.pop().stop() == 0
        standby.await_copying()
        reported = works.reported
        taking = standby.start("--take-over", env=next(hosts))
        term = taking.expect("started")["term"]
        taking.expect("firstrecord")
        expect_waiting(works, reported)
        assert all(event["term"] < term for event in works.events("started"))
        standby.await_copying()
        reported = works.reported
        assert taking.stop() == 0
        assert works.expect("started", since=reported)["term"] > term
        standby.await_copying()
    standby.end(works)
    standby.prove()


BLOWS = [(signal.SIGKILL, False), (signal.SIGSTOP, True), (signal.SIGSTOP, False)]


def working(run: Run) -> bool:
    """Whether it has copied since it last waited."""
    return _last(run, lambda event: event["event"] == "progress") > _last(run, _waits)


def waiting(run: Run) -> bool:
    return _last(run, _waits) >= 0 and not working(run)


def _waits(event: dict[str, object]) -> bool:
    return event["event"] == "waiting"


def _last(run: Run, test: object) -> int:
    indexs = [index for index, event in enumerate(run.events()) if test(event)]  # type: ignore[operator]
    return max(indexs, default=-1)


@pytest.fixture(scope="module")
def shaky(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProxiedNode]:
    """A target with a proxy before its second listener."""
    with proxied_node("cut", tmp_path_factory.mktemp("cut")) as node:
        yield node


@pytest.mark.proof
@pytest.mark.seeds(1)
def test_a_run_that_is_cut_off_from_the_target_loses_the_pipeline(
    source: KafkaNode, shaky: ProxiedNode, topics: dict[str, int], tmp_path: Path, seed: int
) -> None:
    """One comes through the proxy, the other does not; when the network is back, one waits."""
    far = Pipeline(
        tmp_path,
        source,
        shaky,
        list(topics),
        {**STANDBY, "target.kafka.common": {"bootstrap.servers": shaky.proxy.address}},
    )
    (tmp_path / "near").mkdir()
    near = Pipeline(tmp_path / "near", source, shaky, list(topics), STANDBY, far.name)
    try:
        with Traffic(source, topics, seed):
            first = far.start()
            first.expect("firstrecord")
            second = near.start()
            expect_waiting(second)
            shaky.proxy.cut()
            second.expect("firstrecord")
            near.await_copying()
            since = first.reported
            shaky.proxy.restore()
            expect_waiting(first, since)
            near.await_copying()
            assert second.stop() == 0
            first.expect("started", since=since)
        far.end(first)
        near.prove()
    finally:
        far.close()
        near.close()
