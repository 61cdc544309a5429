"""A workload that is failed over and comes back, with its pipelines in both directions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from k2ktui.config.reverse import reverse_file
from k2ktui.drill.files import reverse_path
from k2ktui.drill.operations import list_drills, resume_drill, start_drill
from k2ktui.drill.ownership import Actor
from k2ktui.engine.drill.checks import DrillKind
from k2ktui.engine.drill.model import Drill, DrillOptions, ResumeOptions
from k2ktui.kafka.properties.translation import load_checked
from k2ktui.runtime.node import KafkaNode
from k2ktui.sync.flow import Flow
from tests.support.clusters.kafka import create_topic, unique_name
from tests.support.drill.runs import MAY, NOBODY_COMES, QUICK, Yes, settled
from tests.support.pipelines.both_ways import ENABLED, count_records
from tests.support.pipelines.pipeline import RUN_TIMEOUT, Pipeline, Run
from tests.support.records.numbered import PARTITIONS, Identity, consume_numbered, write_numbered


@dataclass
class Workload:
    """A topic with producers and groups on ``a``, which move to ``b`` and back.

    Attributes:
        more: how many other topics the pipelines copy.
        read: what each group has read so far, wherever it read.
    """

    directory: Path
    a: KafkaNode
    b: KafkaNode
    settings: Mapping[str, Any] = field(default_factory=dict)
    read: dict[str, list[Identity]] = field(default_factory=dict)
    more: int = 0

    def __post_init__(self) -> None:
        self.topic = unique_name("failback")
        create_topic(self.a, self.topic, PARTITIONS)
        self.others = [create_topic(self.a, partitions=PARTITIONS) for _ in range(self.more)]
        self.groups = [unique_name("fast"), unique_name("slow")]
        names = {"groups.consumerGroups": "|".join(self.groups)}
        settings = {**ENABLED, **names, **self.settings}
        self.forward = Pipeline(
            self.directory, self.a, self.b, [self.topic, *self.others], settings
        )
        self.file = self.forward.write()
        self.back = reverse_path([str(self.file)])
        self._written: Counter[str] = Counter()
        self._runs: list[Run] = []

    def close(self) -> None:
        """End what still runs."""
        self.forward.close()
        for run in self._runs:
            run.close()

    def write(self, node: KafkaNode, count: int) -> None:
        """Write so many records, the next ones of that cluster."""
        origin = "a" if node is self.a else "b"
        first = self._written[origin]
        self._written[origin] += count
        write_numbered(node, self.topic, origin, range(first, first + count))

    def written(self, node: KafkaNode) -> int:
        """Return how many records were written to a cluster."""
        return self._written["a" if node is self.a else "b"]

    def copy_back(self) -> None:
        """Let the reverse pipeline copy what there is."""
        log = self.directory / f"back-{len(self._runs)}"
        with Run(self.back, log, ("--until-caught-up",), {}) as run:
            assert run.wait(RUN_TIMEOUT) == 0, run.tail()
        self._runs.append(run)

    def write_reverse(self) -> None:
        """Write the reverse pipeline's file, as ``k2ktui config reverse`` does."""
        self.back.write_text(reverse_file([str(self.file)]).text)

    def consume(self, node: KafkaNode, group: str, most: int | None = None) -> None:
        """Read with a plain consumer from the committed offsets, and commit.

        Args:
            node: the cluster.
            group: the group.
            most: records of each partition; all that there are without it.
        """
        identities = consume_numbered(node, group, self.topic, most)
        self.read.setdefault(group, []).extend(identities)

    def content(self, node: KafkaNode) -> Counter[Identity]:
        """Return how often each record is on a cluster."""
        return count_records(node, self.topic)

    @property
    def flow(self) -> Flow:
        """The forward pipeline."""
        return Flow(load_checked((str(self.file),)).config)

    @property
    def reverse_flow(self) -> Flow:
        """The reverse pipeline."""
        return Flow(load_checked((str(self.back),)).config)

    def fail_over(self, kind: DrillKind = DrillKind.PLANNED) -> Drill:
        """Move the groups to ``b`` with a drill."""
        drill = start_drill(Actor(self.flow, [str(self.file)], MAY, Yes()), kind, NOBODY_COMES)
        assert drill.is_over, drill
        return drill

    def fail_back(self, operator: Yes | None = None, **options: Any) -> Drill:
        """Move the groups back with a drill."""
        chosen: DrillOptions = replace(QUICK, **options)
        files = [str(self.back)]
        yes = operator or Yes()
        return start_drill(Actor(self.reverse_flow, files, MAY, yes), DrillKind.FAILBACK, chosen)

    def resume(self, drill: Drill, operator: Yes | None = None, **chosen: Any) -> Drill:
        """Continue a failback."""
        return resume_drill(
            Actor(self.reverse_flow, [str(self.back)], MAY, operator or Yes()),
            drill.id,
            ResumeOptions(chosen=chosen),
        )

    def failbacks(self) -> list[Drill]:
        """Return the failbacks as any host reads them."""
        return list_drills(settled(self.reverse_flow))
