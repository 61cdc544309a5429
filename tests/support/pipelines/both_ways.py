"""Two pipelines between the same topics of two clusters, and the proof that nothing comes back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.kafka import Got, read_all, unique_name
from tests.support.oracle.judge import Expected, prove
from tests.support.pipelines.pipeline import Pipeline
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

    def catch_up(self) -> None:
        """Let each copy what there is, the first one twice: the second wrote to its source."""
        self.there.catch_up()
        self.back.catch_up()
        self.there.catch_up()

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
