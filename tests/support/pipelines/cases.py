"""Topics of many cases that one pipeline copies: a start of Spark serves all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.kafka import Got, Out, create_topic, produce, read_all, unique_name
from tests.support.commands.cli import k2ktui
from tests.support.oracle.group_offsets import committed
from tests.support.oracle.judge import Expected, Proof, prove
from tests.support.pipelines.pipeline import RUN_TIMEOUT, Pipeline, Run

# Of a comparison that runs every case's rule again, on a busy machine.
COMPARE_TIMEOUT = 600.0


@dataclass(frozen=True)
class Case:
    """A source topic.

    Attributes:
        records: what it holds before the pipeline starts.
        rule: its entry of ``replication.transform``, without ``topics``; empty for none.
        partitions: how many.
        config: the topic's settings.
    """

    records: Sequence[Out] = ()
    rule: Mapping[str, Any] = field(default_factory=dict)
    partitions: int = 2
    config: Mapping[str, str] = field(default_factory=dict)


class Cases:
    """A pipeline of a topic for each case, named by the case's stem.

    Args:
        directory: of the pipeline's file.
        source: the source cluster.
        target: the target cluster.
        cases: by stem.
        settings: of the pipeline, beside the cases' transforms.
        suffix: of the target topics' names.

    Attributes:
        topics: names of the source topics, by stem.
        settings: of the pipeline, beside transforms; :meth:`write_rules` writes what they are then.
    """

    def __init__(
        self,
        directory: Path,
        source: KafkaNode,
        target: KafkaNode,
        cases: Mapping[str, Case],
        settings: Mapping[str, Any] | None = None,
        suffix: str = "",
    ) -> None:
        self.source, self.target, self.suffix = source, target, suffix
        self.topics = {
            stem: create_topic(source, unique_name(stem), case.partitions, dict(case.config))
            for stem, case in cases.items()
        }
        for stem, case in cases.items():
            produce(source, self.topics[stem], case.records)
        self.pipeline = Pipeline(directory, source, target, list(self.topics.values()))
        self.settings: dict[str, Any] = {
            "groups.consumerGroups": f"{self.pipeline.name}-.*",
            **({"replication.sink.topic": {"suffix": suffix}} if suffix else {}),
            **(settings or {}),
        }
        self.write_rules({stem: case.rule for stem, case in cases.items() if case.rule})

    def write_rules(self, rules: Mapping[str, Mapping[str, Any]]) -> Path:
        """Write the pipeline's file with these transforms, by stem, and return its path."""
        transforms = [{"topics": self.topics[stem], **rule} for stem, rule in rules.items()]
        self.pipeline.settings = {
            **self.settings,
            **({"replication.transform": transforms} if transforms else {}),
        }
        return self.pipeline.write()

    @property
    def file(self) -> Path:
        """The pipeline's file."""
        return self.pipeline.write()

    def copy(self, code: int = 0) -> Run:
        """Run until all is copied, and expect that exit code; Spark plans every case's rule."""
        return self.pipeline.catch_up(code, 3 * RUN_TIMEOUT)

    def copy_of(self, stem: str) -> str:
        """Return the name of a case's target topic."""
        return self.topics[stem] + self.suffix

    def group(self, stem: str) -> str:
        """Return the name of a group that the pipeline looks after."""
        return f"{self.pipeline.name}-{stem}"

    def sent(self, stem: str) -> list[Got]:
        """Return the records of a source topic, by partition and offset."""
        return _in_order(read_all(self.source, self.topics[stem]))

    def copies(self, stem: str) -> list[Got]:
        """Return the records of a target topic, by partition and offset."""
        return _in_order(read_all(self.target, self.copy_of(stem)))

    def letters(self, stem: str) -> list[Got]:
        """Return the dead letters of a case, by partition and offset."""
        return _in_order(read_all(self.target, f"{self.copy_of(stem)}.dead-letter"))

    def prove(self, stem: str, **expected: Any) -> Proof:
        """Let the oracle compare a case's topic; ``expected`` is of :class:`Expected`."""
        wanted = Expected(self.topics[stem], self.copy_of(stem), **expected)
        return prove(self.source, self.target, self.pipeline.name, wanted)

    def move_groups(self) -> None:
        """Plan the groups that have no offsets on the target, and apply the plan."""
        file = self.file
        plan = file.with_suffix(".plan")
        k2ktui("plan", "-f", file, "-o", plan)
        k2ktui("apply", "-f", file, plan, "--yes")

    def unread(self, stem: str, group: str) -> list[Got]:
        """Return the copies that a group reads on the target, by partition and offset."""
        offsets = committed(self.target, group)
        copy = self.copy_of(stem)
        return [got for got in self.copies(stem) if got.offset >= offsets[copy, got.partition]]


def _in_order(records: Sequence[Got]) -> list[Got]:
    return sorted(records, key=lambda got: (got.partition, got.offset))
