"""On every broker version: a topic that a pattern selects is deleted on the source."""

from __future__ import annotations

from functools import partial

import pytest

from tests.matrix.conftest import Pair
from tests.support.clusters.kafka import (
    create_topic,
    delete_topic,
    eventually,
    produce,
    read_all,
)
from tests.support.oracle.judge import prove
from tests.support.records.traffic import mixture

pytestmark = pytest.mark.matrix


def has(pair: Pair, topic: str, count: int) -> bool:
    return len(read_all(pair.target, topic)) == count


def test_it_is_noted_and_no_fault(pair: Pair) -> None:
    """Old brokers have no topic ids, and those of ZooKeeper learn of it one after the other."""
    gone, other = (create_topic(pair.source) for _ in range(2))
    for seed, topic in enumerate((gone, other)):
        produce(pair.source, topic, mixture(seed, 200, 1))
    pipeline = pair.pipeline(f"{gone}|{other}", coordination__mode="shared")
    run = pipeline.start()
    run.expect("started")
    for topic in (gone, other):
        eventually(partial(has, pair, topic, 200), "copied")
    delete_topic(pair.source, gone)
    run.expect("note", lambda e: "deleted on the source" in e["text"] and gone in e["text"])
    produce(pair.source, other, mixture(4, 100, 1))
    eventually(partial(has, pair, other, 300), "the other continues")
    assert run.stop() == 0
    assert not run.events("stopped")
    prove(pair.source, pair.target, pipeline.name, other)
