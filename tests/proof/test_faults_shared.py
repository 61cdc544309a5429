"""Runs that share a pipeline die, hang and are cut off; nothing is lost or doubled."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable, Collection, Iterator
from itertools import count
from pathlib import Path

import pytest

from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.kafka import eventually
from tests.support.clusters.other_hosts import other_host
from tests.support.clusters.proxy import ProxiedNode, proxied_node
from tests.support.pipelines.fixtures import MakePipeline
from tests.support.pipelines.kills import tell_all
from tests.support.pipelines.pipeline import Pipeline, Run
from tests.support.pipelines.shared_pipelines import (
    BEAT_S,
    GRACE_S,
    LAP_S,
    SHARED,
    await_all_copying,
    expect_owning,
    prove_caught_up,
    read_beats,
    read_clocks,
)
from tests.support.records.traffic import Traffic

pytestmark = pytest.mark.proof
RUNS = 3
FAULTS = ("killed", "suspended", "cut off")
# The clocks of two runs differ by an hour.
CLOCKS = (-1800, 0, 1800)
# A run that is gone loses its slots after the grace window, and others copy them. By the clock of a
# run that is left: its records are late by a part of a beat, and it writes some in between, because
# of new owners and of slots that it takes over.
OWNED_S = GRACE_S + 10 * BEAT_S
# The slots are fenced, their positions read and topics discovered; attempts follow each other after
# some seconds, and each takes several on a busy machine. Then the lap begins.
COPIED_S = OWNED_S + LAP_S + 10 * BEAT_S


@pytest.fixture(scope="module")
def shaky(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProxiedNode]:
    """A target with a proxy before its second listener."""
    with proxied_node("shared-cut", tmp_path_factory.mktemp("cut")) as node:
        yield node


class Team:
    """Three runs on hosts of their own; ``far`` ones reach the target through a proxy."""

    def __init__(
        self, source: KafkaNode, target: ProxiedNode, topics: dict[str, int], at: Path, seed: int
    ) -> None:
        self._dice, self._topics, self._target = random.Random(seed), topics, target
        (at / "far").mkdir()
        self.near = Pipeline(at, source, target, list(topics), SHARED)
        proxied = {"target.kafka.common": {"bootstrap.servers": target.proxy.address}}
        self._far = Pipeline(
            at / "far", source, target, list(topics), SHARED | proxied, self.near.name
        )
        self._fars = self._dice.choice((1, 2))
        self._clocks = self._dice.sample(CLOCKS, RUNS)
        self.runs = [self._start(number) for number in range(RUNS)]

    def _start(self, number: int) -> Run:
        pipeline = self._far if number < self._fars else self.near
        return pipeline.start(env=other_host(f"host-{number}", self._clocks[number]))

    def check_clocks(self) -> None:
        """The clocks of two runs differ by an hour, as the heartbeats show that others read."""

        def shown() -> dict[str, float]:
            clocks = read_clocks(self.near)
            return clocks if len(clocks) == RUNS else {}

        clocks: dict[str, float] = eventually(shown, "each has a heartbeat")
        for number, clock_s in enumerate(self._clocks):
            (ahead_s,) = (s for name, s in clocks.items() if name.startswith(f"host-{number}-"))
            assert abs(ahead_s - clock_s) < 600

    def survive(self, fault: str) -> None:
        """Let it befall one or two runs; the others copy all, and later they all do again."""
        whole = self._dice.random() < 0.5
        hit = self._dice.sample(range(RUNS), self._dice.choice((1, 2)))
        if fault == "cut off":
            hit = list(range(self._fars))
        began, passed_s = time.monotonic(), self._start_clock(hit)
        for number in hit:
            self._strike(self.runs[number], fault, whole=whole)
        expect_owning([run for number, run in enumerate(self.runs) if number not in hit])
        owned_s, owned_own_s = time.monotonic() - began, passed_s()
        await_all_copying(self.near, self._topics)
        copied_s, copied_own_s = time.monotonic() - began, passed_s()
        print(
            f"{fault}: {len(hit)} runs ({'all processes' if whole else 'the driver'}); the others "
            f"own all slots after {owned_s:.1f} s, and copy after {copied_s:.1f} s; by their own "
            f"clocks, after {owned_own_s:.0f} and {copied_own_s:.0f} s"
        )
        assert owned_own_s <= OWNED_S
        assert copied_own_s <= COPIED_S
        for number in hit:
            self._end_fault(number, fault)
        expect_owning(self.runs)
        await_all_copying(self.near, self._topics)

    def _start_clock(self, hit: Collection[int]) -> Callable[[], float]:
        """Return what says how many seconds have passed since, for the run that had the fewest.

        On a busy machine, all that a run does takes longer; it writes its records later, too.
        """
        hosts = tuple(f"host-{number}-" for number in range(RUNS) if number not in hit)
        before = read_beats(self.near)

        def passed_s() -> float:
            now = read_beats(self.near)
            left = [name for name in before if name.startswith(hosts)]
            assert len(left) == len(hosts)
            # One that seemed to be gone for a while has no record meanwhile.
            return BEAT_S * min(now.get(name, before[name]) - before[name] for name in left)

        return passed_s

    def _strike(self, run: Run, fault: str, *, whole: bool) -> None:
        if fault == "cut off":
            self._target.proxy.cut()
            return
        number = signal.SIGKILL if fault == "killed" else signal.SIGSTOP
        if whole:
            tell_all(run, number)
        else:
            run.signal(number)

    def _end_fault(self, number: int, fault: str) -> None:
        if fault == "cut off":
            self._target.proxy.restore()
        elif fault == "suspended":
            tell_all(self.runs[number], signal.SIGCONT)
        else:
            self.runs[number].close()
            self.runs[number] = self._start(number)

    def close(self) -> None:
        self._target.proxy.restore()
        self.near.close()
        self._far.close()


@pytest.mark.seeds(2)
def test_one_or_two_of_three_runs_die_hang_or_are_cut_off(
    source: KafkaNode, shaky: ProxiedNode, topics: dict[str, int], tmp_path: Path, seed: int
) -> None:
    """In any order, with clocks an hour apart; everything is compared after the last fault."""
    team = Team(source, shaky, topics, tmp_path, seed)
    try:
        expect_owning(team.runs)
        team.check_clocks()
        for fault in random.Random(seed).sample(FAULTS, len(FAULTS)):
            with Traffic(source, topics, seed):
                await_all_copying(team.near, topics)
                team.survive(fault)
        prove_caught_up(team.near, topics)
        for run in team.runs:
            assert run.stop() == 0, run.tail()
        team.near.prove()
    finally:
        team.close()


def test_the_leader_dies_or_hangs_while_it_divides_and_while_it_reassigns(
    make_pipeline: MakePipeline, topics: dict[str, int]
) -> None:
    """At each step, the runs that are left elect another leader, which does the rest."""
    shared, hosts = make_pipeline(list(topics), SHARED), count()

    def start() -> Run:
        """No run sees whether the process of another one lives."""
        return shared.start(env=other_host(f"host-{next(hosts)}"))

    shared.arm("fenced")
    with Traffic(shared.source, topics, 1):
        runs = [start() for _ in range(2)]
        lose_leader(shared, runs, "fenced")
        for step in ("reassigning", "reassigned"):
            shared.arm(step)
            runs.append(start())
            lose_leader(shared, runs, step)
            expect_owning(runs)
            await_all_copying(shared, topics)
        shared.arm("reassigning", signal.SIGSTOP)
        runs.append(start())
        shared.await_hit("reassigning")
        (hung,) = eventually(lambda: [run for run in runs if run.suspended()], "one hangs")
        expect_owning([run for run in runs if run is not hung])
        await_all_copying(shared, topics)
        tell_all(hung, signal.SIGCONT)
        expect_owning(runs)
        await_all_copying(shared, topics)
    prove_caught_up(shared, topics)
    for run in runs:
        assert run.stop() == 0, run.tail()
    shared.prove()


def lose_leader(pipeline: Pipeline, runs: list[Run], step: str) -> None:
    """Wait until the signal has killed a run at the step, and remove that run."""
    pipeline.await_hit(step)
    (dead,) = eventually(lambda: [run for run in runs if not run.running], f"killed at {step}")
    dead.close()
    runs.remove(dead)
