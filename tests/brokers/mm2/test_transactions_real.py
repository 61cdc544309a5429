"""Groups of a transactional source are exact, whatever MirrorMaker 2 copies of transactions."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from confluent_kafka import Producer

from k2ktui.mm2.flows.settings import load_settings
from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.kafka import (
    TIMEOUT,
    admin,
    await_stable,
    client,
    create_topic,
    end_offsets,
    eventually,
    read_all,
    unique_name,
)
from tests.support.clusters.mirrormaker import MirrorMaker
from tests.support.commands.cli import k2ktui_json
from tests.support.oracle.group_offsets import commit_offsets

pytestmark = pytest.mark.slow
PATIENCE = 200.0
PARTITIONS, TRANSACTIONS, GROUPS, LONG = 2, 150, 40, 300


def write(node: KafkaNode, topic: str, dice: random.Random) -> None:
    """Write transactions of a few records, a third of them aborted; some are long, and aborted."""
    producer = Producer(client(node) | {"transactional.id": unique_name("tx")})
    producer.init_transactions(TIMEOUT)
    for number in range(TRANSACTIONS):
        is_long = number % 50 == 20
        producer.begin_transaction()
        for _ in range(2 * LONG if is_long else dice.randint(1, 5)):
            value = b"%d" % dice.getrandbits(40)
            producer.produce(topic, value, b"k", partition=dice.randrange(PARTITIONS))
        producer.flush(TIMEOUT)
        if is_long or dice.random() < 1 / 3:
            producer.abort_transaction(TIMEOUT)
        else:
            producer.commit_transaction(TIMEOUT)


@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
def test_every_group_is_exact(
    clusters: tuple[KafkaNode, KafkaNode], tmp_path: Path, isolation: str
) -> None:
    """By default MirrorMaker 2 copies what aborted transactions left, too."""
    source, target = clusters
    dice = random.Random(isolation)
    topic, stem = create_topic(source, partitions=PARTITIONS), unique_name("app")
    properties = {"{source}.consumer.isolation.level": isolation}
    mirror = MirrorMaker(source, target, tmp_path, topic, f"{stem}.*", properties)
    copy = load_settings(mirror.file).flow().target_topic(topic)

    def values(node: KafkaNode, name: str) -> list[tuple[int, bytes | None]]:
        return [(got.partition, got.value) for got in read_all(node, name, isolation)]

    def copied() -> bool:
        there = copy in admin(target).list_topics(timeout=TIMEOUT).topics
        return there and values(target, copy) == values(source, topic)

    with mirror:
        for _ in range(2):
            write(source, topic, dice)
            await_stable(source, topic)
            eventually(copied, f"all is copied; {mirror.log()}", PATIENCE)
        ends = end_offsets(source, topic)
        wanted = {
            f"{stem}-{n}": {(topic, p): dice.randint(0, end) for p, end in ends.items()}
            for n in range(GROUPS)
        }
        for group, offsets in wanted.items():
            commit_offsets(source, group, offsets)
        rows = k2ktui_json("groups", "-f", mirror.file)["groups"]
    assert len(rows) == GROUPS * PARTITIONS
    here, there = read_all(source, topic, isolation), read_all(target, copy, isolation)
    for row in rows:
        number, at = row["partition"], row["translated_offset"]
        offset = wanted[row["group"]][topic, number]
        assert row["basis"] in ("exact", "end"), row
        assert [got.value for got in there if got.partition == number and got.offset >= at] == [
            got.value for got in here if got.partition == number and got.offset >= offset
        ]
