"""The brokers of the matrix, and of other tests, are what they are called."""

from __future__ import annotations

import pytest

from tests.matrix.conftest import PAIRS, expect_features
from tests.support.clusters.brokers import KINDS, Brokers
from tests.support.clusters.kafka import Out, create_topic, end_offsets, produce

pytestmark = pytest.mark.slow

OTHERS = sorted(KINDS.keys() - {kind for pair in PAIRS for kind in pair})


@pytest.mark.parametrize("kind", OTHERS)
def test_a_kind_has_its_features(brokers: Brokers, kind: str) -> None:
    """Those of pairs are compared wherever a pair is started."""
    (node,) = brokers(kind)
    expect_features(node, kind)


def test_one_of_two_brokers_stops_and_comes_back(brokers: Brokers) -> None:
    two = brokers.two
    topic = create_topic(two, replicas=[[1, 2], [2, 1]], config={"min.insync.replicas": "2"})
    records = [Out(b"a", partition=0), Out(b"b", partition=1)]
    assert produce(two, topic, records) == [0, 0]
    two.stop_second()
    with pytest.raises(AssertionError, match="TIMED_OUT"):
        produce(two, topic, records, message_timeout_ms=500)
    two.start()
    produce(two, topic, records)
    assert min(end_offsets(two, topic).values()) >= 2
