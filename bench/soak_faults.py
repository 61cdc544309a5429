"""The faults of a soak: what happens to the run, and to the clusters, once a minute."""

from __future__ import annotations

import contextlib
import random
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import psutil

from tests.support.clusters.kafka import end_offsets, grow_topic
from tests.support.clusters.proxy import ProxiedNode
from tests.support.commands.verbs import k2ktui
from tests.support.pipelines.pipeline import Pipeline, Run
from tests.support.pipelines.shared_pipelines import expect_owning

SLOTS = 2
_SHORTEST_S, _LONGEST_S = 5.0, 25.0
_MOST_PARTITIONS, _REREAD = 12, 500


@dataclass
class Scene:
    """What faults act on.

    Attributes:
        pipeline: the pipeline.
        target: its target, behind a proxy.
        run: the run that copies at present; some faults replace it.
        dice: decides which process, and for how long.
        unproven: topics that are copied and not proven, with their partitions; empty if there are
            none. What makes records be copied again acts on these.
    """

    pipeline: Pipeline
    target: ProxiedNode
    run: Run
    dice: random.Random
    unproven: dict[str, int] = field(default_factory=dict)

    def wait(self) -> None:
        """Let time pass while something is suspended, cut off or down."""
        time.sleep(self.dice.uniform(_SHORTEST_S, _LONGEST_S))

    def start_again(self) -> None:
        """Start the next run, once nothing of the present one is left."""
        self.run.await_gone()
        self.run = self.pipeline.start()


def _kill_worker(scene: Scene) -> None:
    with contextlib.suppress(psutil.NoSuchProcess):
        scene.dice.choice(scene.run.workers()).kill()


def _kill_java(scene: Scene) -> None:
    scene.run.java().kill()


def _kill_driver(scene: Scene) -> None:
    scene.run.signal(signal.SIGKILL)
    scene.run.wait()
    scene.start_again()


def _stop(scene: Scene) -> None:
    scene.run.stop()
    scene.start_again()


def _take_over(scene: Scene) -> None:
    """The run before is fenced: it ends, or shares the pipeline and is stopped."""
    before, scene.run = scene.run, scene.pipeline.start("--take-over")
    if scene.pipeline.settings["coordination.mode"] == "shared":
        expect_owning([before, scene.run], SLOTS)
        before.signal()
    before.wait()
    before.await_gone()


def _join_and_kill(scene: Scene) -> None:
    """Another run gets half of the slots; then one of the two is killed, and the other gets all."""
    both = [scene.run, scene.pipeline.start()]
    expect_owning(both, SLOTS)
    scene.wait()
    killed = both.pop(scene.dice.randrange(2))
    killed.signal(signal.SIGKILL)
    killed.wait()
    killed.await_gone()
    (scene.run,) = both
    expect_owning(both, SLOTS)


def _suspend_driver(scene: Scene) -> None:
    scene.run.signal(signal.SIGSTOP)
    scene.wait()
    scene.run.signal(signal.SIGCONT)


def _suspend_worker(scene: Scene) -> None:
    with contextlib.suppress(psutil.NoSuchProcess):
        worker = scene.dice.choice(scene.run.workers())
        worker.suspend()
        scene.wait()
        worker.resume()


def _cut_off(scene: Scene) -> None:
    scene.target.proxy.cut()
    scene.wait()
    scene.target.proxy.restore()


def _restart_source(scene: Scene) -> None:
    scene.pipeline.source.restart()


def _kill_source(scene: Scene) -> None:
    scene.pipeline.source.kill()
    scene.pipeline.source.start()


def _restart_target(scene: Scene) -> None:
    scene.target.restart()


def _kill_target(scene: Scene) -> None:
    scene.target.kill()
    scene.wait()
    scene.target.start()


def _add_partition(scene: Scene) -> None:
    topic = scene.dice.choice(list(scene.unproven))
    if scene.unproven[topic] < _MOST_PARTITIONS:
        grow_topic(scene.pipeline.source, topic, scene.unproven[topic] + 1)
        scene.unproven[topic] += 1


def _move_back(scene: Scene) -> None:
    """Copy again what some partitions have copied last."""
    scene.run.stop()
    scene.run.await_gone()
    topic = scene.dice.choice(list(scene.unproven))
    ends = end_offsets(scene.pipeline.source, topic)
    moved = scene.dice.sample(sorted(ends), 1 + scene.dice.randrange(len(ends)))
    to = [f"{topic}:{at}:{max(0, ends[at] - scene.dice.randrange(1, _REREAD))}" for at in moved]
    said = k2ktui("offsets", "set", "-f", scene.pipeline.write(), "--yes", *to)
    if said.code:
        raise AssertionError(f"positions were not moved: {said.err}")
    scene.start_again()


Fault = Callable[[Scene], None]

# How often each of them is drawn. A driver that is killed shows no growth over a long time.
FAULTS: dict[str, tuple[Fault, int]] = {
    "worker killed": (_kill_worker, 6),
    "worker suspended": (_suspend_worker, 4),
    "Java killed": (_kill_java, 4),
    "driver suspended": (_suspend_driver, 3),
    "target cut off": (_cut_off, 4),
    "target restarted": (_restart_target, 3),
    "target killed": (_kill_target, 2),
    "source restarted": (_restart_source, 3),
    "source killed": (_kill_source, 2),
    "driver killed": (_kill_driver, 1),
    "stopped and started": (_stop, 1),
    "taken over by another run": (_take_over, 1),
    "another run joins, one of the two killed": (_join_and_kill, 2),
    "a partition added": (_add_partition, 2),
    "positions moved back": (_move_back, 2),
}
# These need a topic whose records are not proven.
UNPROVEN_FAULTS = ("a partition added", "positions moved back")
# Where runs do not share a pipeline, no other one joins.
EXCLUSIVE_FAULTS = tuple(name for name in FAULTS if FAULTS[name][0] is not _join_and_kill)


def draw(dice: random.Random, names: list[str]) -> str:
    """Return the name of the next fault, one of ``names``."""
    (name,) = dice.choices(names, [FAULTS[name][1] for name in names])
    return name
