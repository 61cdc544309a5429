"""Checks of a drill, asked about a copy that the test made itself."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType

import pytest
from confluent_kafka import Consumer

from k2ktui.config.model import PipelineConfig
from k2ktui.drill.checks.context import CheckContext, CheckLimits, DrillFacts
from k2ktui.drill.checks.suite import run_checks
from k2ktui.engine.drill.checks import CheckResult, DrillCheckOutcome
from k2ktui.engine.moves.journal import RunKind, Runner, RunnerState
from k2ktui.kafka.properties.translation import load_checked
from k2ktui.runtime.node import KafkaNode
from k2ktui.sync.flow import Flow
from k2ktui.sync.store import StateStore
from tests.support.clusters.kafka import (
    Got,
    Out,
    client,
    create_topic,
    eventually,
    produce,
    read_all,
    unique_name,
)
from tests.support.clusters.registries import HasUrl, RegistryPair
from tests.support.commands.acting import repeatedly
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
        run: name of the run whose heartbeats :meth:`beat` writes.
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
    run: str = field(default_factory=lambda: unique_name("run"))

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
        """Write a heartbeat of its run, which counts as alive for 15 s."""
        now_ms = int(time.time() * 1000)
        at_ms = now_ms - int(age_s * 1000)
        run = Runner(self.run, "host", "ann", 7, now_ms - 60_000, at_ms, state, kind=kind)
        store = StateStore(self.pipeline, self.copied.cluster)
        try:
            store.ensure()
            store.put([run])
        finally:
            store.close()

    def running(self) -> contextlib.AbstractContextManager[None]:
        """Let its run live: a heartbeat counts for 15 s, and a check may take longer."""
        return repeatedly(self.beat, 2.0)

    @property
    def pipeline(self) -> PipelineConfig:
        """Its settings."""
        return load_checked((str(self.copied.file),)).config

    @property
    def flow(self) -> Flow:
        """What is checked."""
        return Flow(self.pipeline)

    def check(
        self,
        check_id: str,
        facts: DrillFacts = NO_FACTS,
        limits: CheckLimits = QUICK,
    ) -> CheckResult:
        """Return the result of one check."""
        return run_check(self.flow, check_id, facts, limits)


def run_check(
    flow: Flow, check_id: str, facts: DrillFacts = NO_FACTS, limits: CheckLimits = QUICK
) -> CheckResult:
    """Return the result of one check, after looking at its form."""
    with CheckContext(flow, facts, limits) as context:
        (result,) = run_checks(context, [check_id])
    assert "internal error" not in result.evidence, result
    assert result.evidence and "\n" not in result.evidence and ";;" not in result.evidence, result
    assert result.hint if result.outcome is FAIL else result.outcome is UNKNOWN or not result.hint
    return result


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
def between_readings(check: ModuleType, act: Callable[[], object]) -> Iterator[None]:
    """Let checks of a module act where they would wait between two readings that they compare.

    What happens beside them may happen before the first reading, or after the last one.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(check, "sleep", lambda _: act())
        yield
