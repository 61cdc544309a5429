"""Pairs of broker versions; each version is the source once and the target once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from kafka.admin import KafkaAdminClient

from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.brokers import KINDS, Brokers, Kind, kind_of
from tests.support.pipelines.pipeline import Pipeline
from tests.support.schedule.rotation import Rotation

# From old to new, from new to old, and between neighbors.
PAIRS = (
    ("2.5", "4-tv2"),
    ("4-tv2", "2.5"),
    ("2.8", "3.9"),
    ("3.9", "4-tv0"),
    ("4-tv0", "2.8"),
)


@dataclass(frozen=True)
class Pair:
    """A source and a target of certain kinds, and the pipelines between them."""

    source: KafkaNode
    target: KafkaNode
    source_kind: Kind
    target_kind: Kind
    directory: Path
    pipelines: list[Pipeline]

    def pipeline(self, topics: list[str] | str, **settings: Any) -> Pipeline:
        """Return a pipeline of topics, or of a pattern.

        ``settings`` are with ``__`` for the dots of their keys.
        """
        chosen = {key.replace("__", "."): value for key, value in settings.items()}
        made = Pipeline(self.directory, self.source, self.target, topics, chosen)
        self.pipelines.append(made)
        return made


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """The pair of this run, out of ``PAIRS`` or the module's, or those of ``--brokers``.

    Tests of a pair share a process, see ``tests/support/schedule/plugin.py``.
    """
    if "pair" in metafunc.fixturenames:
        chosen = [tuple(option.split(",")) for option in metafunc.config.getoption("brokers")]
        rotation = Rotation.of(metafunc.config)
        pairs = chosen or rotation.take(getattr(metafunc.module, "PAIRS", PAIRS))
        names = {"-to-".join(pair): pair for pair in pairs}
        params = [
            pytest.param(pair, id=name, marks=pytest.mark.xdist_group(name))
            for name, pair in names.items()
        ]
        metafunc.parametrize("pair", params, indirect=True, scope="module")


@pytest.fixture(scope="module")
def pair(
    request: pytest.FixtureRequest, brokers: Brokers, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Pair]:
    """Each of the pairs, with both of its clusters running."""
    source, target = request.param
    first, second = brokers(source, target)
    for node, kind in ((first, source), (second, target)):
        if kind in KINDS:
            expect_features(node, kind)
    pipelines: list[Pipeline] = []
    kinds, directory = (kind_of(source), kind_of(target)), tmp_path_factory.mktemp("pair")
    yield Pair(first, second, *kinds, directory, pipelines)
    for pipeline in pipelines:
        pipeline.close()


def expect_features(node: KafkaNode, name: str) -> None:
    """A node has the features of its kind, those of transactions among them."""
    client = KafkaAdminClient(bootstrap_servers=node.bootstrap)
    features = client.describe_features()
    client.close()
    finalized = {
        name: levels["finalized"][1] for name, levels in features.items() if "finalized" in levels
    }
    kind = KINDS[name]
    assert ("metadata.version" in finalized) is not kind.zookeeper
    assert ("group.version" in finalized) is kind.consumer_protocol
    level = kind.features.get("transaction.version", 0)
    assert finalized.get("transaction.version", 0) == level


@pytest.fixture
def source(pair: Pair) -> KafkaNode:
    """The pair's source, for tests of other directories that the matrix repeats."""
    return pair.source


@pytest.fixture
def target(pair: Pair) -> KafkaNode:
    """The pair's target."""
    return pair.target
