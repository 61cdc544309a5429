"""On every broker version: each kind of topic is copied, on both paths, and groups move with it."""

from __future__ import annotations

import random
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import pytest
from confluent_kafka import Consumer, TopicPartition

from k2ktui.runtime.node import KafkaNode
from tests.matrix.conftest import Pair
from tests.support.clusters.brokers import Kind
from tests.support.clusters.kafka import (
    client,
    create_topic,
    end_offsets,
    eventually,
    produce,
    unique_name,
)
from tests.support.commands.cli import k2ktui, k2ktui_json
from tests.support.oracle.group_offsets import committed
from tests.support.oracle.judge import Expected, Proof, by_key, prove
from tests.support.pipelines.pipeline import Pipeline, catch_up_together
from tests.support.records.kinds import make_all
from tests.support.records.sent_batches import CODECS, grown_values, make_batch, send_batches
from tests.support.records.traffic import mixture

pytestmark = pytest.mark.matrix

_BY_KEY = "by-key."
Where = tuple[str, int]


@dataclass(frozen=True)
class Copy:
    """All kinds of topics of a pair, copied twice: verbatim, and by key."""

    pair: Pair
    kinds: Mapping[str, str]
    verbatim: Pipeline
    by_key: Pipeline
    by_key_mappings: str


@pytest.fixture(scope="module")
def copy(pair: Pair) -> Copy:
    prefix = unique_name("kinds")
    kinds = make_all(pair.source, prefix)
    old = _old_formats(pair.source, prefix) if pair.source_kind.zookeeper else {}
    topics = list(kinds.values())
    # Else the target's own cleaner would continue while we compare.
    kept = {"target__kafka__topicPropsExclusionList": ["cleanup.policy"]}
    verbatim = pair.pipeline([*topics, *old.values(), *_growing_batches(pair)], **kept)
    # In one topic they would be two copies of the same records, and no group could move.
    mappings = unique_name("mappings")
    chosen = pair.pipeline(
        topics,
        **kept,
        offsetMapping__topic=mappings,
        replication__sink__topic={"prefix": _BY_KEY},
        replication__sink__partition="producer",
        topicCreation__replication__common={"partitions": 3},
    )
    for run in catch_up_together(verbatim, chosen):
        assert not run.events("stopped")
    return Copy(pair, kinds, verbatim, chosen, mappings)


def _growing_batches(pair: Pair) -> list[str]:
    """Topics whose batches become too large on the target, until they are halved."""
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
    return topics


def _old_formats(node: KafkaNode, prefix: str) -> dict[str, str]:
    """Topics whose batches are stored as before Kafka 0.11 and 0.10, which Kafka 4 cannot."""
    made = {}
    for version in ("0.10.2", "0.9.0"):
        config = {"message.format.version": version}
        topic = create_topic(node, f"{prefix}.format-{version}", partitions=2, config=config)
        for codec in ("none", "gzip", "lz4"):
            records = [replace(out, headers=()) for out in mixture(11, 200, 2)]
            produce(node, topic, records, compression_type=codec, linger_ms=20)
        made[version] = topic
    return made


def test_every_kind_of_topic_on_both_paths(copy: Copy) -> None:
    topics = copy.kinds.values()
    assert copy.verbatim.prove().records > 24_000
    expected = [Expected(topic, _BY_KEY + topic, partition=by_key(3)) for topic in topics]
    pair = copy.pair
    nodes, mappings = (pair.source, pair.target), copy.by_key_mappings
    proof = prove(*nodes, copy.by_key.name, *expected, mapping_topic=mappings)
    assert proof.records > 24_000


def test_groups_of_every_protocol_move(copy: Copy) -> None:
    """Also onto groups that the target has, of either protocol; all read on at the right record."""
    pair, topics = copy.pair, [copy.kinds[kind] for kind in ("mixed", "transactions", "compacted")]
    groups = {
        f"{copy.verbatim.name}-{ours}-on-{theirs}": (ours, theirs)
        for ours in _protocols(pair.source_kind)
        for theirs in ("none", *_protocols(pair.target_kind))
    }
    dice = random.Random(1)
    left = {group: _anywhere(pair.source, topics, dice) for group in groups}
    with ThreadPoolExecutor(len(groups)) as pool:
        made = [
            pool.submit(_leave_behind, pair.source, group, ours, topics, left[group])
            for group, (ours, _) in groups.items()
        ]
        made += [
            pool.submit(_leave_behind, pair.target, group, theirs, topics, {(topics[0], 0): 0})
            for group, (_, theirs) in groups.items()
            if theirs != "none"
        ]
        for done in made:
            done.result()
    copy.verbatim.settings = {
        **copy.verbatim.settings,
        "groups.consumerGroups": f"{copy.verbatim.name}-.*",
    }
    file = copy.verbatim.write()
    plan = file.with_suffix(".plan")
    k2ktui("plan", "-f", file, "-o", plan)
    k2ktui("apply", plan, "--yes")
    translate = _Translation(copy.verbatim.prove(), pair, topics)
    for group in groups:
        offsets = committed(pair.target, group)
        wanted = {where: translate(where, offset) for where, offset in left[group].items()}
        assert offsets.keys() == wanted.keys()
        wrong = {at: (to, wanted[at]) for at, to in offsets.items() if to not in wanted[at]}
        assert not wrong, f"{group}: {wrong}"
    reported = k2ktui_json("verify", "-f", file)
    assert reported["positions"]["same"] == sum(map(len, left.values())), reported


def _protocols(kind: Kind) -> tuple[str, ...]:
    return ("classic", "consumer") if kind.consumer_protocol else ("classic",)


def _anywhere(node: KafkaNode, topics: list[str], dice: random.Random) -> dict[Where, int]:
    """An offset of every partition, the end and offsets between records among them."""
    return {
        (topic, number): dice.choice((end, dice.randrange(1, end + 1)))
        for topic in topics
        for number, end in end_offsets(node, topic, "read_committed").items()
    }


def _leave_behind(
    node: KafkaNode, group: str, protocol: str, topics: list[str], offsets: Mapping[Where, int]
) -> None:
    """Commit as a member of a group, and leave it."""
    settings = client(node, group_id=group, group_protocol=protocol, auto_offset_reset="earliest")
    consumer = Consumer(settings | {"enable.auto.commit": False})
    try:
        consumer.subscribe(topics)

        def joined() -> bool:
            consumer.poll(0.1)
            return bool(consumer.assignment())

        eventually(joined, f"{group} has a member")
        places = [TopicPartition(topic, number, at) for (topic, number), at in offsets.items()]
        consumer.commit(offsets=places, asynchronous=False)
    finally:
        consumer.close()


class _Translation:
    """Where reading may continue, by the oracle's account of the mapping."""

    def __init__(self, proof: Proof, pair: Pair, topics: list[str]) -> None:
        self._ends = {topic: end_offsets(pair.target, topic) for topic in topics}
        self._lanes: dict[Where, list[tuple[int, int]]] = defaultdict(list)
        for claim in proof.ledger.claims:
            self._lanes[claim.source[:2]].append((claim.source[2], claim.target[2]))
        for lane in self._lanes.values():
            lane.sort()

    def __call__(self, where: Where, offset: int) -> range:
        """The first unread record; behind the last one, anywhere up to the target's end."""
        lane = self._lanes[where]
        index = bisect_left(lane, (offset, 0))
        if index < len(lane):
            return range(lane[index][1], lane[index][1] + 1)
        return range(lane[-1][1] + 1, self._ends[where[0]][where[1]] + 1)
