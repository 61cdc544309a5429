"""Groups of topics that another program copies with equal offsets: ``copier: equalOffsets``.

The copy is made as such a program leaves it, byte for byte: the source's log files in the place of
the target's, with transactions, aborted records, compaction and leader epochs.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from k2ktui.engine.records.state import SourcePartition
from k2ktui.kafka.clients import source_cluster, target_cluster
from k2ktui.kafka.properties.translation import load_checked
from k2ktui.runtime.node import KafkaNode
from k2ktui.sync.mapping.equal_offsets import EqualOffsets
from tests.support.clusters.kafka import (
    START_S,
    TIMEOUT,
    create_topic,
    delete_topic,
    end_offsets,
    eventually,
    open_transaction,
    produce,
    produce_transaction,
    read_unread,
    unique_name,
)
from tests.support.commands.verbs import k2ktui
from tests.support.oracle.group_offsets import commit_offsets, committed

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

_LOG_FILES = ("*.log", "*.snapshot", "leader-epoch-checkpoint")


@dataclass(frozen=True)
class Pair:
    """A source, and a target whose logs a test replaces by copies of the source's."""

    source: KafkaNode
    target: KafkaNode

    def make_topic(self, name: str, **config: str) -> None:
        for node in (self.source, self.target):
            create_topic(node, name, partitions=1, config=config)

    def copy(self, *topics: str) -> None:
        """Make the target's logs equal to the source's, byte for byte."""
        for node in (self.source, self.target):
            node.stop()
        for topic in topics:
            place = Path("logs") / f"{topic}-0"
            mine, theirs = self.target.data_dir / place, self.source.data_dir / place
            for old in mine.iterdir():
                if old.name != "partition.metadata":
                    old.unlink()
            for pattern in _LOG_FILES:
                for file in theirs.glob(pattern):
                    shutil.copy(file, mine)
        for node in (self.source, self.target):
            node.start(START_S)
        eventually(
            lambda: all(
                end_offsets(self.target, name) == end_offsets(self.source, name) for name in topics
            ),
            "the logs end equally",
        )


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    directory = tmp_path_factory.mktemp("equal")
    nodes = [KafkaNode(name, directory / name) for name in ("source", "target")]
    try:
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(lambda node: node.start(START_S), nodes))
        yield Pair(*nodes)
    finally:
        for node in nodes:
            node.close()


def write_file(directory: Path, pair: Pair, topics: str) -> Path:
    file = directory / "equal.yaml"
    file.write_text(
        f"""\
name: {unique_name("equal")}
copier: equalOffsets
source: {{kafka: {{common: {{bootstrap.servers: "{pair.source.bootstrap}"}}}}}}
target: {{kafka: {{common: {{bootstrap.servers: "{pair.target.bootstrap}"}}}}}}
features: {{autoCreateControlTopics: enabled}}
replication:
  - source: {{topic: "{topics}"}}
  - sink: {{topic: source, partition: source}}
"""
    )
    return file


def test_groups_move_to_the_same_offsets_once_each_is_proven(pair: Pair, tmp_path: Path) -> None:
    plain, mixed, other = (unique_name(stem) for stem in ("equal-plain", "equal-mixed", "equal-no"))
    for topic in (plain, mixed, other):
        pair.make_topic(topic)
    for n in range(5):
        produce(pair.source, plain, [b"%d.%d" % (n, i) for i in range(20)])
        produce_transaction(pair.source, mixed, [b"c%d.%d" % (n, i) for i in range(10)])
        produce_transaction(
            pair.source, mixed, [b"a%d.%d" % (n, i) for i in range(10)], commit=False
        )
    produce(pair.source, other, [b"%d" % i for i in range(50)])
    pair.copy(plain, mixed)
    produce(pair.target, other, [b"other %d" % i for i in range(50)])
    ends = {topic: end_offsets(pair.source, topic)[0] for topic in (plain, mixed)}
    behind, ended, foreign = (unique_name(stem) for stem in ("behind", "ended", "foreign"))
    commit_offsets(pair.source, behind, {(plain, 0): 33, (mixed, 0): 15})
    commit_offsets(pair.source, ended, {(topic, 0): end for topic, end in ends.items()})
    commit_offsets(pair.source, foreign, {(other, 0): 10})
    file, plan = write_file(tmp_path, pair, "equal-.*"), tmp_path / "plan.json"

    status = k2ktui("status", "-f", file, "--json")
    assert {row["topic"]: row["lag_records"] for row in status.json["partitions"]} == {
        plain: 0,
        mixed: 0,
        other: 0,
    }, status
    watched = k2ktui("watch", "-f", file, "--once")
    assert "another program copies" in watched.out and "no job is running" not in watched.out
    planned = k2ktui("plan", "-f", file, "-o", plan, "--json")
    rows = {(row["group"], row["topic"]): row for row in planned.json["rows"]}
    for group, topic, offset in (
        (behind, plain, 33),
        (behind, mixed, 15),
        *((ended, topic, end) for topic, end in ends.items()),
    ):
        row = rows[group, topic]
        assert (row["proposed"], row["basis"]) == (offset, "exact"), row
    assert rows[foreign, other]["proposed"] is None
    applied = k2ktui("apply", plan, "--yes")
    assert applied.code == 0, applied
    assert committed(pair.target, behind) == {(plain, 0): 33, (mixed, 0): 15}
    assert committed(pair.target, foreign) == {}
    verified = k2ktui("verify", "-f", file)
    assert verified.code == 0, verified
    unread = read_unread(pair.target, behind, plain, [0])
    assert [got.value for got in unread] == [b"%d.%d" % divmod(n, 20) for n in range(33, 100)]

    translated = k2ktui("translate", "-f", file, "--json", f"{plain}:0:44")
    (position,) = translated.json["positions"]
    assert (position["translated_offset"], position["basis"]) == (44, "exact")
    listed = k2ktui("records", "-f", file, "--json", f"{mixed}:0@30")
    records = [one for one in listed.json["records"] if one["source"]["state"] == "record"]
    assert records and {one["outcome"] for one in records} == {"same"}, listed
    commit_offsets(pair.source, behind, {(plain, 0): 60, (mixed, 0): 15})
    assert k2ktui("sync", "-f", file, "--once").code == 0
    assert committed(pair.target, behind) == {(plain, 0): 60, (mixed, 0): 15}

    # After a promotion: what others write on the target is in no copy.
    produce(pair.target, plain, [b"native"])
    again = k2ktui("plan", "-f", file, "--json")
    rows = {(row["group"], row["topic"]): row for row in again.json["rows"]}
    assert rows[ended, plain]["proposed"] is None
    assert "the copy is not equal" in rows[ended, plain]["reason"], again
    assert rows[ended, mixed]["proposed"] == ends[mixed]


def test_what_k2ktui_does_not_copy_it_neither_starts_nor_drills(pair: Pair, tmp_path: Path) -> None:
    file = write_file(tmp_path, pair, "equal-.*")
    for command in (("start",), ("jobs", "start"), ("check",), ("explain",), ("offsets", "show")):
        said = k2ktui(*command, "-f", file)
        assert said.code == 2 and "another program copies these topics" in said.err, said
    drills = (("drill", "check"), ("drill", "rehearse"), ("drill", "planned", "--dry-run"))
    for drill in drills:
        said = k2ktui(*drill, "-f", file)
        assert said.code == 5 and "another program copies" in said.err, said


@pytest.fixture
def mappings(pair: Pair, tmp_path: Path) -> Iterator[EqualOffsets]:
    config = load_checked((str(write_file(tmp_path, pair, "own-.*")),), need_replication=False)
    source, target = source_cluster(config.config), target_cluster(config.config)
    with closing(EqualOffsets(config.config, source, target)) as opened:
        yield opened


def proven(mappings: EqualOffsets, topic: str, offsets: list[int]) -> set[int]:
    """Return which offsets of a topic are proven to be equal now."""
    at = SourcePartition(topic, 0)
    copies = mappings.read(mappings.read_copier(), {at: offsets})
    anchors = copies.replicas[at].anchors
    assert anchors is not None
    return {offset for offset in offsets if anchors.is_compared(offset)}


def test_behind_an_open_transaction_records_are_compared_too(
    pair: Pair, mappings: EqualOffsets
) -> None:
    """A broker tells its last stable offset also to who reads what is not committed."""
    topic = unique_name("own-open")
    pair.make_topic(topic)
    still_open = []
    for node, text in ((pair.source, b"ours"), (pair.target, b"other")):
        produce(node, topic, [b"%d" % n for n in range(5)])
        still_open.append(open_transaction(node, topic, [b"open"]))
        produce(node, topic, [text + b" %d" % n for n in range(60)])
    assert not proven(mappings, topic, [3, 40])
    for producer in still_open:
        producer.abort_transaction(TIMEOUT)


def test_what_was_proven_of_another_log_is_forgotten(pair: Pair, mappings: EqualOffsets) -> None:
    topic = unique_name("own-again")
    pair.make_topic(topic)
    produce(pair.source, topic, [b"%d" % n for n in range(50)])
    pair.copy(topic)
    assert proven(mappings, topic, [10, 50]) == {10, 50}
    delete_topic(pair.target, topic)
    create_topic(pair.target, topic, partitions=1)
    produce(pair.target, topic, [b"%d" % n for n in range(100, 150)])
    assert proven(mappings, topic, [10, 50]) == set()
