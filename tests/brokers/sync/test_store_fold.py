"""A state topic that is read repeatedly: what was read before changes nothing of the result."""

from __future__ import annotations

import random
from dataclasses import replace

from k2ktui.engine.moves.journal import SnapshotKey
from k2ktui.engine.moves.journal_format import state_key, state_value
from k2ktui.kafka.clients import Cluster
from k2ktui.runtime.node import KafkaNode
from k2ktui.sync.store import PipelineState, StateStore
from tests.brokers.sync.test_store import configured, entry, snapshot
from tests.support.clusters.kafka import Out, produce


def test_a_store_that_has_read_before_finds_what_a_new_one_finds(
    source: KafkaNode, target: KafkaNode
) -> None:
    """Keys are written, damaged, removed and written again, between the readings of one store."""
    config = configured(source, target)
    chance, topic = random.Random(7), config.coordination.state.topic
    stores = [StateStore(config, Cluster(config.target, "target")) for _ in range(2)]
    store, writer = stores

    def read_at_once() -> PipelineState:
        stores.append(StateStore(config, Cluster(config.target, "target")))
        return stores[-1].read()

    try:
        store.read()
        writer.ensure()
        keys = [state_key("g", SnapshotKey(name)) for name in "abc"]
        keys += [state_key("other", SnapshotKey("a")), b"foreign"]
        for number in range(12):
            outs = []
            for key in chance.sample(keys, 3):
                value = chance.choice([None, b"{", state_value(snapshot("a", number))])
                outs.append(Out(value, key))
            produce(target, topic, outs)
            if number % 4 == 1:
                writer.put(entry(number))
            ours, fresh = store.read(), read_at_once()
            assert replace(ours, rows=fresh.rows) == fresh, number
            assert [ours.entry(name) for name in ours.journal] == [
                fresh.entry(name) for name in fresh.journal
            ]
    finally:
        for opened in stores:
            opened.close()
