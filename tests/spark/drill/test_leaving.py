"""Four topics leave a cluster in two drills, while two runs share the pipeline and die in turn."""

from __future__ import annotations

import base64
import json
import signal
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import pytest

from k2ktui.drill.files import reverse_path
from k2ktui.drill.operations import start_drill
from k2ktui.drill.ownership import Actor
from k2ktui.engine.drill.checks import DrillKind, DrillPhase
from k2ktui.engine.drill.model import Drill, DrillStatus, PhaseStatus
from k2ktui.engine.drill.tail import TailChoice
from k2ktui.kafka.clients import target_cluster
from k2ktui.kafka.properties.translation import load_checked
from k2ktui.replication.ownership.topic_moves import read_moved
from k2ktui.runtime.node import KafkaNode
from k2ktui.sync.flow import Flow
from tests.support.clusters.kafka import create_topic, eventually, unique_name
from tests.support.clusters.other_hosts import other_host
from tests.support.drill.runs import MAY, QUICK, Yes
from tests.support.pipelines.both_ways import ENABLED, count_records
from tests.support.pipelines.pipeline import RUN_TIMEOUT, START_TIMEOUT, Pipeline, Run
from tests.support.pipelines.shared_pipelines import SHARED
from tests.support.records.numbered import (
    PARTITIONS,
    Identity,
    consume_numbered,
    write_numbered,
)

pytestmark = [pytest.mark.slow, pytest.mark.timeout(2400)]
_COPIED_S = START_TIMEOUT
# In each drill a run dies in one of its phases; in turn, in each that a run takes part in.
_DEADLY = (
    (DrillPhase.LAG, DrillPhase.DRAIN),
    (DrillPhase.MOVE_TOPICS, DrillPhase.STOP_CONSUMERS),
    (DrillPhase.VERIFY, DrillPhase.MOVE_TOPICS),
    (DrillPhase.OPEN_TARGET, DrillPhase.APPLY),
)
OPTIONS = replace(QUICK, wait_s=900.0)


@dataclass
class KillsRuns(Yes):
    """Confirms everything; when one of these phases begins, one run is killed and replaced."""

    phases: Collection[DrillPhase] = ()
    runs: list[Run] = field(default_factory=list)
    begin: Callable[[str], Run] | None = None
    killed_in: list[DrillPhase] = field(default_factory=list)

    def show(self, drill: Drill) -> None:
        super().show(drill)
        for record in drill.phases:
            is_new = record.phase in self.phases and record.phase not in self.killed_in
            if record.status is PhaseStatus.RUNNING and is_new:
                self.killed_in.append(record.phase)
                self._replace(f"{drill.id}-{len(self.killed_in)}")

    def _replace(self, host: str) -> None:
        assert self.begin is not None
        killed = self.runs.pop(0)
        killed.signal(signal.SIGKILL)
        killed.wait(RUN_TIMEOUT)
        self.runs.append(self.begin(host))
        self.runs[-1].expect("started")


@dataclass
class Applications:
    """Producers and consumers of topics that are on ``a`` until they have moved to ``b``."""

    a: KafkaNode
    b: KafkaNode
    topics_of: dict[str, list[str]]
    moved: set[str] = field(default_factory=set)
    read: dict[tuple[str, str], list[Identity]] = field(default_factory=dict)
    _written: Counter[tuple[str, str]] = field(default_factory=Counter)

    def home(self, topic: str) -> KafkaNode:
        return self.b if topic in self.moved else self.a

    def write(self, topic: str, count: int, node: KafkaNode | None = None) -> None:
        node = node or self.home(topic)
        origin = "a" if node is self.a else "b"
        first = self._written[origin, topic]
        self._written[origin, topic] += count
        write_numbered(node, topic, origin, range(first, first + count))

    def consume(self, most: int | None = None, *, moved: bool | None = None) -> None:
        """Let each group read on where its topics are; of moved or other topics only."""
        for group, topics in self.topics_of.items():
            for topic in topics:
                if moved is None or moved is (topic in self.moved):
                    read = consume_numbered(self.home(topic), group, topic, most)
                    self.read.setdefault((group, topic), []).extend(read)


@pytest.mark.rotate("deadly", _DEADLY, ids=" and ".join)
def test_each_application_reads_each_record_once(
    tmp_path: Path, source: KafkaNode, target: KafkaNode, deadly: tuple[DrillPhase, DrillPhase]
) -> None:
    topics = [create_topic(source, partitions=PARTITIONS) for _ in range(4)]
    groups = [unique_name("app") for _ in range(3)]
    # The last group reads topics that move first and last.
    reads = [topics[0:2], topics[2:4], [topics[0], topics[2]]]
    apps = Applications(source, target, dict(zip(groups, reads, strict=True)))
    settings = {**ENABLED, **SHARED, "groups.consumerGroups": "|".join(groups)}
    pipeline = Pipeline(tmp_path, source, target, topics, settings)
    file = pipeline.write()
    config = load_checked((str(file),)).config

    def begin(host: str) -> Run:
        return pipeline.start(env=other_host(host))

    def moved() -> set[str]:
        return {move.topic for move in read_moved(config, target_cluster(config)).all}

    for topic in topics:
        apps.write(topic, 60)
    runs = [begin("first"), begin("second")]
    for run in runs:
        run.expect("started")
    for topic in topics:
        eventually(partial(pipeline.is_caught_up, topic), f"{topic} copied", _COPIED_S)
    apps.consume(10)

    for pair, phase in zip((topics[0:2], topics[2:4]), deadly, strict=True):
        for topic in set(topics) - apps.moved:
            apps.write(topic, 10)
        apps.consume(5, moved=False)
        operator = KillsRuns(phases={phase}, runs=runs, begin=begin)
        options = replace(OPTIONS, topics="|".join(pair))
        drill = start_drill(
            Actor(Flow(config), [str(file)], MAY, operator), DrillKind.PLANNED, options
        )
        assert drill.status is DrillStatus.DONE, drill
        assert operator.killed_in == [phase]
        apps.moved |= set(pair)
        for topic in pair:
            apps.write(topic, 20)
        apps.consume(15, moved=True)
    assert moved() == set(topics)

    left_out = come_back(apps, topics[0], reverse_path([str(file)]))
    assert moved() == set(topics[1:])
    apps.write(topics[0], 10)
    apps.write(topics[1], 10)
    eventually(lambda: pipeline.is_caught_up(topics[0]), "it is copied again", _COPIED_S)
    apps.consume()
    for (group, topic), identities in apps.read.items():
        content = count_records(apps.home(topic), topic)
        assert set(content.values()) == {1}
        read_by_nobody = left_out if topic == topics[0] else set()
        assert Counter(identities) == Counter(set(content) - read_by_nobody), (group, topic)
    (copied, whole) = (set(count_records(node, topics[0])) for node in (target, source))
    assert copied == whole - left_out
    for run in runs:
        assert run.running, run.tail()
        assert run.stop() == 0


def come_back(apps: Applications, topic: str, back: Path) -> set[Identity]:
    """Bring a topic back that was written to on the old source, too; return what is left there."""
    before = set(count_records(apps.a, topic))
    apps.write(topic, 8, apps.a)
    left_out = set(count_records(apps.a, topic)) - before
    log = back.parent / unique_name("back")
    with Run(back, log, ("--until-caught-up",), {}) as run:
        assert run.wait(RUN_TIMEOUT) == 0, run.tail()
    flow = Flow(load_checked((str(back),)).config)
    directory = back.parent / "exported"
    options = replace(OPTIONS, topics=topic, tail=TailChoice.EXPORT, export_to=str(directory))
    drill = start_drill(Actor(flow, [str(back)], MAY, Yes()), DrillKind.FAILBACK, options)
    assert drill.status is DrillStatus.DONE, drill
    lines = [line for file in directory.iterdir() for line in file.read_text().splitlines()]
    rows = [json.loads(line) for line in lines]
    assert {row["topic"] for row in rows} == {topic}
    assert sorted(base64.b64decode(row["key"]) for row in rows) == sorted(n for _, n in left_out)
    apps.moved.discard(topic)
    return left_out
