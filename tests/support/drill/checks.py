"""Checks of a drill, asked about a copy that the test made itself."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from confluent_kafka import Consumer
from confluent_kafka.admin import (
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from k2ktui.config.model import PipelineConfig
from k2ktui.drill.checks.context import CheckContext, CheckLimits, DrillFacts
from k2ktui.drill.checks.suite import run_checks
from k2ktui.engine.drill.checks import CheckResult, DrillCheckOutcome
from k2ktui.engine.moves.journal import RunKind, Runner, RunnerState
from k2ktui.kafka.properties.translation import load_checked
from k2ktui.runtime.node import KafkaNode
from k2ktui.sync.flow import PipelineFlow
from k2ktui.sync.store import StateStore
from tests.support.clusters.kafka import (
    TIMEOUT,
    Got,
    Out,
    admin,
    client,
    create_topic,
    eventually,
    produce,
    read_all,
    unique_name,
)
from tests.support.clusters.registries import HasUrl, RegistryPair
from tests.support.oracle.group_offsets import commit_offsets
from tests.support.pipelines.copied import Copied

# Tests change what is compared themselves, and do not wait for it.
QUICK = CheckLimits(sample_s=0.2, frozen_s=0.5)
NO_FACTS = DrillFacts()

PASS, FAIL, UNKNOWN = DrillCheckOutcome


@dataclass
class Drilled:
    """A topic with a copy, and checks of it.

    Attributes:
        settings: of the pipeline's file, beside the topics.
        partitions: of the topic.
        records: records of each partition, all of them copied.
        tampered: source offsets of partition 0 whose copies get another value.
        step: as for :meth:`Copied.copy`.
        prior: records of others on each target partition before the copy.
        isolation: which records are copied; ``read_uncommitted`` copies aborted ones, too.
        config: settings of the source topic.
        outs: its records, by default plain ones.
    """

    directory: Path
    source: KafkaNode
    target: KafkaNode
    settings: Mapping[str, object] = field(default_factory=dict)
    partitions: int = 2
    records: int = 5
    tampered: Sequence[int] = ()
    step: int = 0
    prior: int = 0
    config: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.topic = create_topic(self.source, partitions=self.partitions, config=self.config)
        replication = [
            {"source": {"topic": [self.topic]}},
            {"sink": {"topic": "source", "partition": "source"}},
        ]
        settings = {"replication": replication, **self.settings}
        self.copied = Copied(self.directory, self.source, self.target, settings, prior=self.prior)
        self.write(self.records)
        self.landed = self.copied.copy(self.topic, self._originals(), step=self.step)

    def _originals(self) -> list[Got]:
        return [
            replace(got, value=b"tampered")
            if got.partition == 0 and got.offset in self.tampered
            else got
            for got in read_all(self.source, self.topic)
        ]

    def write(self, records: int) -> None:
        """Write records to each partition of the source's topic."""
        outs = [
            Out(b"v%d" % number, b"k%d" % number, partition)
            for partition in range(self.partitions)
            for number in range(records)
        ]
        produce(self.source, self.topic, outs)

    def map_schemas(self, registries: RegistryPair) -> None:
        """Let the pipeline's file map schema ids between two registries."""

        def side(node: KafkaNode, registry: HasUrl) -> dict[str, object]:
            kafka = {"common": {"bootstrap.servers": node.bootstrap}}
            return {"kafka": kafka, "registry": {"config": {"schema.registry.url": registry.url}}}

        self.copied.settings = {
            **self.copied.settings,
            "features": {"schemaMapping": "enabled"},
            "source": side(self.source, registries.source),
            "target": side(self.target, registries.target),
        }

    def commit(self, stem: str, *offsets: int) -> str:
        """Commit a group's offsets of the first partitions on the source; return its name."""
        group = self.copied.group(stem)
        commit_offsets(self.source, group, {(self.topic, n): at for n, at in enumerate(offsets)})
        return group

    def commit_there(self, group: str, *offsets: int) -> None:
        """Commit a group's offsets of the first partitions on the target."""
        commit_offsets(self.target, group, {(self.topic, n): at for n, at in enumerate(offsets)})

    def beat(
        self,
        age_s: float = 0.0,
        state: RunnerState = RunnerState.RUNNING,
        kind: RunKind = RunKind.COPY,
    ) -> None:
        """Write a heartbeat of a run."""
        now_ms = int(time.time() * 1000)
        at_ms = now_ms - int(age_s * 1000)
        run = Runner(unique_name("run"), "host", "ann", 7, now_ms - 60_000, at_ms, state, kind=kind)
        store = StateStore(self.pipeline, self.copied.cluster)
        try:
            store.ensure()
            store.put([run])
        finally:
            store.close()

    @property
    def pipeline(self) -> PipelineConfig:
        """Its settings."""
        return load_checked((str(self.copied.file),)).config

    @property
    def flow(self) -> PipelineFlow:
        """What is checked."""
        return PipelineFlow(self.pipeline)

    def check(
        self,
        check_id: str,
        facts: DrillFacts = NO_FACTS,
        limits: CheckLimits = QUICK,
    ) -> CheckResult:
        """Return the result of one check."""
        return run_check(self.flow, check_id, facts, limits)


def run_check(
    flow: PipelineFlow, check_id: str, facts: DrillFacts = NO_FACTS, limits: CheckLimits = QUICK
) -> CheckResult:
    """Return the result of one check, after looking at its form."""
    with CheckContext(flow, facts, limits) as context:
        (result,) = run_checks(context, [check_id])
    assert "internal error" not in result.evidence, result
    assert result.evidence and "\n" not in result.evidence and ";;" not in result.evidence, result
    assert result.hint if result.outcome is FAIL else result.outcome is UNKNOWN or not result.hint
    return result


def alter_topic(node: KafkaNode, topic: str, **settings: str) -> None:
    """Change settings of a topic; in keyword names ``_`` stands for ``.``."""
    resource = ConfigResource(
        ResourceType.TOPIC,
        topic,
        incremental_configs=[
            ConfigEntry(name.replace("_", "."), value, incremental_operation=AlterConfigOpType.SET)
            for name, value in settings.items()
        ],
    )
    with_admin = admin(node)
    for future in with_admin.incremental_alter_configs([resource]).values():
        future.result(TIMEOUT)


@contextlib.contextmanager
def member(node: KafkaNode, group: str, topic: str) -> Iterator[None]:
    """A consumer that has joined a group and commits nothing."""
    settings = client(node, group_id=group, enable_auto_commit=False, auto_offset_reset="earliest")
    consumer = Consumer(settings)
    consumer.subscribe([topic])

    def joined() -> bool:
        consumer.poll(0.05)
        return bool(consumer.assignment())

    try:
        eventually(joined, f"{group} has a member")
        yield
    finally:
        consumer.close()


@contextlib.contextmanager
def repeated(action: object, pause_s: float = 0.05) -> Iterator[None]:
    """Call something repeatedly in the background, at least once before the block begins."""
    stop, begun = threading.Event(), threading.Event()
    assert callable(action)

    def run() -> None:
        while not stop.is_set():
            action()
            begun.set()
            stop.wait(pause_s)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    assert begun.wait(TIMEOUT)
    try:
        yield
    finally:
        stop.set()
        thread.join(TIMEOUT)
