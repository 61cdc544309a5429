"""Checks of a drill, asked about a copy that the test made itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from k2ktui.drill.checks.context import CheckContext, CheckLimits, DrillFacts
from k2ktui.drill.checks.suite import run_checks
from k2ktui.engine.drill_checks import CheckResult, DrillCheckOutcome
from k2ktui.kafka.properties import load_checked
from k2ktui.runtime.node import KafkaNode
from k2ktui.sync.flow import PipelineFlow
from tests.support.copied import Copied
from tests.support.kafka import Out, create_topic, produce

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
        records: copied records of each partition.
    """

    directory: Path
    source: KafkaNode
    target: KafkaNode
    settings: Mapping[str, object] = field(default_factory=dict)
    partitions: int = 2
    records: int = 5

    def __post_init__(self) -> None:
        self.topic = create_topic(self.source, partitions=self.partitions)
        replication = [
            {"source": {"topic": [self.topic]}},
            {"sink": {"topic": "source", "partition": "source"}},
        ]
        settings = {"replication": replication, **self.settings}
        self.copied = Copied(self.directory, self.source, self.target, settings, prior=0)
        self.write(self.records)
        self.landed = self.copied.copy(self.topic)

    def write(self, records: int) -> None:
        """Write records to each partition of the source's topic."""
        outs = [
            Out(b"v%d" % number, b"k%d" % number, partition)
            for partition in range(self.partitions)
            for number in range(records)
        ]
        produce(self.source, self.topic, outs)

    @property
    def flow(self) -> PipelineFlow:
        """What is checked."""
        return PipelineFlow(load_checked((str(self.copied.file),)).config)

    def context(self, facts: DrillFacts = NO_FACTS, limits: CheckLimits = QUICK) -> CheckContext:
        """Return a new context of the checks; the caller closes it."""
        return CheckContext(self.flow, facts, limits)

    def check(
        self, check_id: str, facts: DrillFacts = NO_FACTS, limits: CheckLimits = QUICK
    ) -> CheckResult:
        """Return the result of one check."""
        with self.context(facts, limits) as context:
            (found,) = run_checks(context, [check_id])
        assert (found.outcome is FAIL) == bool(found.hint) or found.outcome is UNKNOWN, found
        return found
