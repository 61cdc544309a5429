"""Two pipelines between the same topics of two clusters, and the proof that nothing comes back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.kafka import Got, end_offsets, eventually, read_all, unique_name
from tests.support.oracle.judge import Expected, prove
from tests.support.pipelines.pipeline import RUN_TIMEOUT, Pipeline, Run
from tests.support.records.traffic import NUMBER, ORIGIN

ENABLED: dict[str, Any] = {"features.bidirectionalReplication": "enabled"}


@dataclass
class BothWays:
    """Pipelines from ``a`` to ``b`` and back, of the same topics; records carry their origin.

    Attributes:
        topics: names, or a pattern.
        settings: of both pipelines.
        name: of both pipelines; "" for a name each.
    """

    directory: Path
    a: KafkaNode
    b: KafkaNode
    topics: list[str] | str
    settings: dict[str, Any] = field(default_factory=dict)
    name: str = ""

    def __post_init__(self) -> None:
        self.there = self._make("there", self.a, self.b)
        self.back = self._make("back", self.b, self.a)

    def _make(self, stem: str, source: KafkaNode, target: KafkaNode) -> Pipeline:
        directory = self.directory / stem
        directory.mkdir()
        settings = {**ENABLED, **self.settings}
        name = self.name or unique_name("pipe")
        return Pipeline(directory, source, target, self.topics, settings, name)

    @property
    def both(self) -> tuple[Pipeline, Pipeline]:
        """The pipelines."""
        return self.there, self.back

    def start(self) -> list[Run]:
        """Start both, at the same time."""
        return [pipeline.start() for pipeline in self.both]

    def end(self, runs: Iterable[Run], topics: Collection[str]) -> None:
        """Let the runs of both copy all that there is, and stop them.

        What one writes is on the other one's source: both have to be there while nothing grows.
        """

        def ends() -> list[dict[int, int]]:
            return [end_offsets(node, name) for node in (self.a, self.b) for name in topics]

        def are_caught_up() -> bool:
            before = ends()
            copied = (pipeline.is_caught_up(name) for pipeline in self.both for name in topics)
            return all(copied) and ends() == before

        runs = list(runs)
        eventually(
            are_caught_up,
            lambda: "\n".join(["both copy all", *(run.tail() for run in runs)]),
            RUN_TIMEOUT,
        )
        for run in runs:
            assert run.stop() == 0, run.tail()
            run.await_gone()

    def catch_up(self, *topics: str) -> None:
        """Run both until they have copied all; ``topics`` where they have a pattern."""
        assert topics or isinstance(self.topics, list)
        runs = self.start()
        for run in runs:
            run.expect("progress")  # what has nothing to copy takes a look, too
        self.end(runs, topics or self.topics)

    def prove(self, topics: Collection[str], least: int = 1, header: str = "") -> None:
        """Compare both clusters, both mappings, both sets of positions.

        Args:
            topics: which topics.
            least: records that each side wrote, at least.
            header: name of the header that marks the origin, by pipelines that add one.
        """
        self.prove_content(topics)
        proofs = [
            prove(
                pipeline.source,
                pipeline.target,
                pipeline.name,
                *(
                    Expected(
                        topic,
                        copied=from_here(own),
                        headers=with_mark(header, pipeline.source) if header else None,
                    )
                    for topic in topics
                ),
                native={topic: natives(pipeline.target, topic, other) for topic in topics},
            )
            for pipeline, own, other in ((self.there, b"a", b"b"), (self.back, b"b", b"a"))
        ]
        assert all(proof.records >= least for proof in proofs), [p.records for p in proofs]

    def prove_content(self, topics: Collection[str]) -> None:
        """Every record is on both sides once: what came back would be there twice."""
        for topic in topics:
            self._prove_content(topic)

    def _prove_content(self, topic: str) -> None:
        one, other = (count_records(node, topic) for node in (self.a, self.b))
        doubled = [identity for identity, times in (one | other).items() if times > 1]
        assert not doubled, f"{topic}: {len(doubled)} came back, as {doubled[:3]}"
        missing = [*(one - other), *(other - one)]
        assert not missing, f"{topic}: {len(missing)} on one side only, as {missing[:3]}"

    def close(self) -> None:
        """End what still runs."""
        for pipeline in self.both:
            pipeline.close()


def header(got: Got, name: str) -> bytes:
    """Return the last header of a name."""
    return next(value or b"" for key, value in reversed(got.headers) if key == name)


def identity(got: Got) -> tuple[bytes, bytes]:
    """Return the cluster that a record was first written to, and its number there."""
    return header(got, ORIGIN), header(got, NUMBER)


def count_records(node: KafkaNode, topic: str) -> Counter[tuple[bytes, bytes]]:
    """Return how often each record of a topic is on a cluster, by its :func:`identity`."""
    return Counter(map(identity, read_all(node, topic)))


def from_here(origin: bytes) -> Any:
    """Return whether a record was first written to that cluster."""
    return lambda got: header(got, ORIGIN).startswith(origin)


def with_mark(name: str, node: KafkaNode) -> Any:
    """Return the headers of a copied record: its own, and the cluster that it comes from."""
    return lambda got: (*got.headers, (name, node.cluster_id.encode()))


def natives(node: KafkaNode, topic: str, origin: bytes) -> Collection[Got]:
    """Return the records of a topic that were first written to that cluster."""
    return [got for got in read_all(node, topic) if header(got, ORIGIN).startswith(origin)]
