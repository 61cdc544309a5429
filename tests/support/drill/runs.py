"""Drills on real clusters: a copy that the test made, groups on both sides, and the command."""

from __future__ import annotations

import os
import signal
from collections.abc import Collection, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import TypeVar

from confluent_kafka import Consumer

from k2ktui.config.clusters import ClusterConfig, KafkaClients
from k2ktui.config.model import PipelineConfig
from k2ktui.drill.checks.catalog import CATALOG
from k2ktui.drill.operations import list_drills, start_drill
from k2ktui.drill.operator import Question, QuestionKind
from k2ktui.drill.ownership import Actor
from k2ktui.drill.phases.source import run_fence_producers
from k2ktui.drill.runner import Run
from k2ktui.drill.session import PhaseResult, Session
from k2ktui.engine.access import Access
from k2ktui.engine.drill.changes import EVERYONE
from k2ktui.engine.drill.checks import CheckResult, DrillKind, DrillPhase
from k2ktui.engine.drill.model import (
    ChangeKind,
    ChangeStatus,
    Drill,
    DrillOptions,
    PhaseStatus,
)
from k2ktui.engine.moves.groups import GroupView
from k2ktui.kafka.admin.quotas import Quota, producer_quotas, set_producer_quotas
from k2ktui.kafka.clients import Cluster, target_cluster
from k2ktui.kafka.properties.translation import load_checked
from k2ktui.runtime.node import KafkaNode
from k2ktui.sync.cluster_readers import SourceClusterReader
from k2ktui.sync.commit_snapshots import CommitSnapshotWriter
from k2ktui.sync.flow import Flow
from k2ktui.sync.store import StateStore
from tests.support.clusters.kafka import Out, client, create_topic, eventually, produce, unique_name
from tests.support.commands.commands import run_command
from tests.support.drill.recorded_changes import dump_rates
from tests.support.oracle.group_offsets import commit_offsets
from tests.support.pipelines.copied import Copied, committed

# No pipeline runs in these tests: their failures would stop every drill.
# Conditions that hold are awaited for long: the machine may be busy.
QUICK = DrillOptions(frozen_s=0.2, wait_s=120.0, watch_s=20.0, accepted=tuple(CATALOG))
# Without the source it is not known which groups were active: the first that comes is awaited.
NOBODY_COMES = replace(QUICK, watch_s=1.0)
MAY = Access(True)
_Flow = TypeVar("_Flow", bound=Flow)


@dataclass
class Yes:
    """An operator who confirms everything, and remembers what was asked and shown."""

    refuses: frozenset[str] = frozenset()
    asked: list[tuple[str, str]] = field(default_factory=list)
    shown: set[tuple[DrillPhase, str]] = field(default_factory=set)
    is_person: bool = False
    shown_lines: list[tuple[str, ...]] = field(default_factory=list)

    def show(self, drill: Drill) -> None:
        """Remember what each phase shows."""
        self.shown |= {(record.phase, record.live) for record in drill.phases}

    def ask(self, question: Question) -> bool:
        """Agree, except to what is refused; to what is not proven as a person, if it is one."""
        lines = (question.text, *question.lines)
        if question.kind is QuestionKind.PHASE:
            self.asked.append((question.step, "\n".join(lines)))
            return question.step not in self.refuses
        if question.kind is QuestionKind.TAKE_OVER:
            return False
        self.shown_lines.append(lines)
        return self.is_person


class Left(Exception):
    """The operator has left, and with him the process that acts on the drill."""


@dataclass
class Leaves(Yes):
    """An operator who confirms everything, and leaves as soon as a running phase shows a text."""

    phase: DrillPhase = DrillPhase.REPORT
    text: str = ""

    def show(self, drill: Drill) -> None:
        """Leave, where the drill then stays."""
        super().show(drill)
        record = drill.record(self.phase)
        if record.status is PhaseStatus.RUNNING and self.text in record.live:
            raise Left


@dataclass
class Pair:
    """Topics with a copy, and two groups with commits on the source.

    Attributes:
        settings: more of the pipeline's file.
        letters: a topic for each.
        read: the topics of each group, by their letters; by default all.
    """

    directory: Path
    source: KafkaNode
    target: KafkaNode
    settings: Mapping[str, object] = field(default_factory=dict)
    letters: str = "ab"
    read: tuple[str, str] | None = None

    def __post_init__(self) -> None:
        stem = unique_name("drill")
        self.topics = [f"{stem}-{letter}" for letter in self.letters]
        replication = [
            {"source": {"topic": self.topics}},
            {"sink": {"topic": "source", "partition": "source"}},
        ]
        settings = {"replication": replication, **self.settings}
        self.copied = Copied(self.directory, self.source, self.target, settings)
        for topic in self.topics:
            create_topic(self.source, topic, 2)
            outs = [Out(b"v%d" % n, b"k%d" % n, p) for p in range(2) for n in range(20)]
            produce(self.source, topic, outs)
            self.copied.copy(topic)
        self.groups = [self.copied.group("billing"), self.copied.group("search")]
        for number, group in enumerate(self.groups):
            commit_offsets(self.source, group, self.source_offsets(number))
        self.file = self.copied.file

    def source_offsets(self, number: int) -> dict[tuple[str, int], int]:
        """Return what a group has committed on the source."""
        return {
            (topic, partition): 3 + 7 * number + partition
            for topic in self.topics
            if self.read is None or topic[-1] in self.read[number]
            for partition in range(2)
        }

    def expected_offsets(self, number: int) -> dict[tuple[str, int], int | None]:
        """Return where a group must resume on the target."""
        prior = self.copied.prior
        return {at: offset + prior for at, offset in self.source_offsets(number).items()}

    def some(self, letters: str) -> str:
        """Return the pattern of some topics, by their letters."""
        return "|".join(topic for topic in self.topics if topic[-1] in letters)

    def target_offsets(self, group: str) -> dict[tuple[str, int], int | None]:
        """Return what a group has committed on the target."""
        return committed(self.target, group, [(t, p) for t in self.topics for p in range(2)])

    @property
    def flow(self) -> Flow:
        """The pipeline."""
        return Flow(load_checked((str(self.file),)).config)

    @staticmethod
    def flow_of(file: Path) -> Flow:
        """Return the pipeline of another host's file."""
        return Flow(load_checked((str(file),)).config)

    def start(
        self, kind: DrillKind, options: DrillOptions = QUICK, operator: Yes | None = None
    ) -> Drill:
        """Run a drill in this process; what it has written can be read afterwards."""
        flow = self.flow
        try:
            return start_drill(Actor(flow, [str(self.file)], MAY, operator or Yes()), kind, options)
        finally:
            settled(flow)

    def drills(self) -> list[Drill]:
        """Return the drills as any host reads them."""
        return list_drills(settled(self.flow))

    def consumer(self, node: KafkaNode, group: str) -> Consumer:
        """Return a member of a group that commits what it reads."""
        consumer = Consumer(
            client(
                node,
                group_id=group,
                auto_offset_reset="error",
                enable_auto_commit=True,
                auto_commit_interval_ms=100,
            )
        )
        consumer.subscribe(self.topics)
        return consumer


def settled(flow: _Flow) -> _Flow:
    """Wait until what drills of a pipeline have written can be read, and return the pipeline.

    Each write is a transaction, and a coordinator answers a commit before it writes the markers.
    """
    store = StateStore(flow.config, target_cluster(flow.config))
    try:
        store.await_stable()
    finally:
        store.close()
    return flow


def read_groups(config: PipelineConfig) -> Mapping[str, GroupView]:
    """Return the groups of a pipeline on its source."""
    with closing(SourceClusterReader(config)) as reader:
        return reader.read_committed(config.topics.matches).groups


def keep_commits(config: PipelineConfig) -> None:
    """Write the snapshot of commits that a running pipeline keeps."""
    store = StateStore(config, target_cluster(config))
    reader = SourceClusterReader(config)
    view = reader.read_committed(config.topics.matches)
    CommitSnapshotWriter(store).keep(view, config.topics.matches)
    reader.close()
    store.close()


def check_of(drill: Drill, check_id: str) -> CheckResult:
    """Return the last result of a check in a drill."""
    (result,) = [check for check in drill.checks if check.id == check_id]
    return result


def fence_by_quota(before: Collection[Quota] | None = None) -> Run:
    """Return a phase that fences as drills of 675e1d1f did with ``--fence quota``.

    Args:
        before: the quotas before, for members of a site drill: the first one lowered them for all.
    """

    def run(session: Session) -> PhaseResult:
        quotas = producer_quotas(session.source) if before is None else before
        low = [Quota(entity, 1.0) for entity in {EVERYONE, *(quota.entity for quota in quotas)}]
        fence = session.intend_new(
            DrillPhase.FENCE_PRODUCERS,
            ChangeKind.QUOTAS,
            "set the producer quotas of the source to 1 byte per second",
            dump_rates((quota.entity, quota.rate) for quota in quotas),
            dump_rates((quota.entity, quota.rate) for quota in low),
        )
        set_quotas(session.source, *low)
        session.settle(fence, ChangeStatus.MADE)
        return run_fence_producers(session)

    return run


def remove_quotas(node: KafkaNode) -> None:
    """Remove the quota that a drill left behind on a cluster that other tests use."""
    at = Cluster(
        ClusterConfig(kafka=KafkaClients(common={"bootstrap.servers": node.bootstrap})), "x"
    )
    set_quotas(at, Quota(EVERYONE, None))


def set_quotas(at: Cluster, *quotas: Quota) -> None:
    """Set producer quotas, and wait until the broker tells of them: the controller answers first.

    A rate of None removes one.
    """
    set_producer_quotas(at, quotas)

    def has_followed() -> bool:
        rates = {quota.entity: quota.rate for quota in producer_quotas(at)}
        return all(rates.get(quota.entity) == quota.rate for quota in quotas)

    eventually(has_followed, f"the broker has {quotas}")


def kill_at(
    step: str,
    directory: Path,
    *arguments: str | Path,
    environment: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Run a command that is killed at a failpoint; ``environment`` is added to this process's."""
    directory.mkdir(exist_ok=True)
    (directory / step).write_text(str(int(signal.SIGKILL)))
    variables = {**os.environ, "K2KTUI_CRASH_DIR": str(directory), **environment}
    done = run_command([str(argument) for argument in arguments], variables, 300)
    said = f"{done.stdout}\n{done.stderr}"
    assert done.returncode == -signal.SIGKILL, f"not killed at {step}: {done.returncode}: {said}"
