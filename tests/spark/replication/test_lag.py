"""The lag of a running pipeline is what is not copied yet, wherever a lap is."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from k2ktui.engine.moves.journal import Runner
from k2ktui.kafka.clients import target_cluster
from k2ktui.kafka.properties.translation import load_checked
from k2ktui.runtime.node import KafkaNode
from k2ktui.sync.store import StateStore
from tests.support.clusters.kafka import Out, create_topic, eventually, produce
from tests.support.commands.verbs import k2ktui
from tests.support.pipelines.pipeline import Pipeline

pytestmark = pytest.mark.slow

COUNT = 2_000


def test_a_heartbeat_shows_no_lag_of_what_a_lap_has_copied_so_far(
    source: KafkaNode, target: KafkaNode, tmp_path: Path
) -> None:
    """One lap lasts for all of the test; its positions are reported when it ends."""
    topic = create_topic(source)
    pipe = Pipeline(tmp_path, source, target, [topic], {"spark.lap": "10 minutes"})
    config = load_checked((str(pipe.write()),)).config
    store = StateStore(config, target_cluster(config))

    def runner() -> Runner | None:
        return next(iter(store.read().runners), None)

    def position() -> object:
        return k2ktui("status", "-f", pipe.write(), "--json").json["partitions"][0]["position"]

    with pipe.start() as run:
        run.expect("started")
        eventually(lambda: (r := runner()) and r.lag_records == 0, "the run has begun")
        produce(source, topic, [Out(b"%d" % n) for n in range(COUNT)])
        eventually(lambda: position() == COUNT, "all is copied")
        # Read by a discovery within 5 s, reported by the next heartbeat; the lap's end is far away.
        # No earlier one counts: it may be of before the records.
        until_ms = time.time() * 1000 + 12_000
        eventually(
            lambda: (r := runner()) and r.at_ms > until_ms and r.lag_records == 0,
            lambda: f"a later heartbeat without a lag: {runner()}",
        )
    store.close()
