"""On every broker version: batches that become too large on the target are halved, none is lost."""

from __future__ import annotations

import pytest

from tests.matrix.conftest import Pair
from tests.support.clusters.kafka import create_topic, unique_name
from tests.support.oracle.judge import prove
from tests.support.records.sent_batches import CODECS, grown_values, make_batch, send_batches

pytestmark = [pytest.mark.matrix, pytest.mark.timeout(600)]


def test_batches_that_grow_on_the_target(pair: Pair) -> None:
    topics = []
    for kind in ("uncompressed", "lz4", "producer", "gzip"):
        for codec in CODECS:
            topic = unique_name(f"{codec}-to-{kind}")
            create_topic(pair.source, topic)
            config = {"compression.type": kind, "max.message.bytes": "100000"}
            create_topic(pair.target, topic, config=config)
            batches = [make_batch(grown_values(seed), codec) for seed in range(4)]
            send_batches(pair.source, topic, batches)
            topics.append(topic)
    pipeline = pair.pipeline(topics, coordination__mode="exclusive")
    run = pipeline.catch_up()
    assert not run.events("stopped")
    prove(pair.source, pair.target, pipeline.name, *topics)
