"""Pairs of broker versions; each version is the source once and the target once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from k2ktui.runtime.node import KafkaNode
from tests.support.brokers import KINDS, Brokers, Kind
from tests.support.pipeline import Pipeline

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

    def pipeline(self, topics: list[str], **settings: Any) -> Pipeline:
        """Return a pipeline of topics; ``settings`` with ``__`` for the dots of their keys."""
        chosen = {key.replace("__", "."): value for key, value in settings.items()}
        made = Pipeline(self.directory, self.source, self.target, topics, chosen)
        self.pipelines.append(made)
        return made


def _params() -> list[Any]:
    """The pairs. All tests of a pair run in one process, see tests.parallel."""
    names = ["-to-".join(pair) for pair in PAIRS]
    return [
        pytest.param(pair, id=name, marks=pytest.mark.xdist_group(name))
        for pair, name in zip(PAIRS, names, strict=True)
    ]


@pytest.fixture(scope="module", params=_params())
def pair(
    request: pytest.FixtureRequest, brokers: Brokers, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Pair]:
    """Each of the pairs, with both of its clusters running."""
    source, target = request.param
    first, second = brokers(source, target)
    pipelines: list[Pipeline] = []
    kinds, directory = (KINDS[source], KINDS[target]), tmp_path_factory.mktemp("pair")
    yield Pair(first, second, *kinds, directory, pipelines)
    for pipeline in pipelines:
        pipeline.close()
