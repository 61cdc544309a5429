"""Groups of a real MirrorMaker 2's flows: watched, translated, synced, audited.

One process has all flows: that of most tests, one that copies exactly once, two of a transactional
source, and one of a compacted topic. They are stopped together, in the middle of the module.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pytest
from confluent_kafka import Producer

from k2ktui import Pipeline
from k2ktui.engine.records.state import SourcePartition
from k2ktui.mm2.flows import formats
from k2ktui.mm2.flows.history import TOPIC
from k2ktui.mm2.flows.settings import load_settings
from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.kafka import (
    START_S,
    TIMEOUT,
    Got,
    Out,
    admin,
    await_stable,
    client,
    create_topic,
    delete_topic,
    end_offsets,
    eventually,
    produce,
    read_all,
    unique_name,
)
from tests.support.clusters.mirrormaker import (
    EXACTLY_ONCE,
    MirrorMaker,
    values_from,
    write_with_marker,
)
from tests.support.commands.cli import k2ktui, k2ktui_json
from tests.support.commands.without_spark import Installed, without_packages
from tests.support.drill.pages import Page
from tests.support.oracle.group_offsets import commit_offsets, committed

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
PATIENCE = 200.0
RECORDS = 2000
# Markers on the target too, topics without a prefix, offset-syncs on the target.
NAMES_KEPT = {
    **EXACTLY_ONCE,
    "{source}->{target}.offset-syncs.topic.location": "target",
    "{source}->{target}.replication.policy.class": (
        "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"
    ),
}
COMPACTED = {
    "cleanup.policy": "compact",
    "segment.ms": "200",
    "min.cleanable.dirty.ratio": "0.01",
    "min.compaction.lag.ms": "0",
}
ISOLATIONS = ("read_uncommitted", "read_committed")
T = TypeVar("T")


class Flow:
    """A flow of two partitions with control records, and groups at some lags."""

    def __init__(
        self,
        source: KafkaNode,
        target: KafkaNode,
        directory: Path,
        properties: Mapping[str, str] | None = None,
        also: tuple[MirrorMaker, ...] = (),
    ) -> None:
        self.source, self.target = source, target
        self.topic = create_topic(source, partitions=2)
        self.stem = unique_name("app")
        for number in (0, 1):
            write_with_marker(source, self.topic, number, RECORDS // 2)
        groups = f"{self.stem}.*"
        self.mirror = MirrorMaker(
            source, target, directory, self.topic, groups, properties or {}, also=also
        )
        self.copy = load_settings(self.mirror.file).flow().target_topic(self.topic)
        self.groups: dict[str, dict[tuple[str, int], int]] = {}

    def copy_all(self, log: Callable[[], str]) -> None:
        """Write the second half when the first one is copied; return when everything is copied."""
        eventually(self.copied, lambda: f"the first half is copied; {log()}", PATIENCE)
        for number in (0, 1):
            write_with_marker(self.source, self.topic, number, RECORDS // 2)
        for back in (0, 1, 137, 700, RECORDS):
            name = f"{self.stem}-{back}"
            ends = end_offsets(self.source, self.topic)
            self.groups[name] = {
                (self.topic, number): max(0, end - back) for number, end in ends.items()
            }
            commit_offsets(self.source, name, self.groups[name], metadata="app")
        eventually(self.copied, lambda: f"everything is copied; {log()}", PATIENCE)

    def copied(self) -> bool:
        """Whether the last record of each partition is on the target."""
        there = _values(read_all(self.target, self.copy)) if self._exists() else {}
        return there == _values(read_all(self.source, self.topic))

    def _exists(self) -> bool:
        return self.copy in admin(self.target).list_topics(timeout=TIMEOUT).topics

    def right(self) -> dict[tuple[str, int], list[bytes | None]]:
        """Values that each group has not read yet, by group and partition."""
        return {
            (name, number): values_from(self.source, self.topic, number, offset)
            for name, offsets in self.groups.items()
            for (_, number), offset in offsets.items()
        }

    def read_from(self, offset: int, number: int) -> list[bytes | None]:
        """Values on the target from an offset on."""
        return values_from(self.target, self.copy, number, offset)


def _values(copies: list[Got]) -> Mapping[int, list[bytes | None]]:
    by_number: dict[int, list[bytes | None]] = {}
    for got in copies:
        by_number.setdefault(got.partition, []).append(got.value)
    return by_number


class Transactions:
    """A topic for transactions, copied as a consumer of an isolation level reads it."""

    COUNT, GROUPS, LONG, PARTITIONS = 150, 40, 300, 2

    def __init__(
        self, source: KafkaNode, target: KafkaNode, directory: Path, isolation: str
    ) -> None:
        self.source, self.target, self.isolation = source, target, isolation
        self.dice = random.Random(isolation)
        self.topic, self.stem = create_topic(source, partitions=self.PARTITIONS), unique_name("app")
        properties = {"{source}.consumer.isolation.level": isolation}
        self.mirror = MirrorMaker(
            source, target, directory, self.topic, f"{self.stem}.*", properties
        )
        self.copy = load_settings(self.mirror.file).flow().target_topic(self.topic)

    def write(self) -> None:
        """Write transactions of a few records, a third of them aborted; the long ones are, too."""
        producer = Producer(client(self.source) | {"transactional.id": unique_name("tx")})
        producer.init_transactions(TIMEOUT)
        for number in range(self.COUNT):
            is_long = number % 50 == 20
            producer.begin_transaction()
            for _ in range(2 * self.LONG if is_long else self.dice.randint(1, 5)):
                value = b"%d" % self.dice.getrandbits(40)
                partition = self.dice.randrange(self.PARTITIONS)
                producer.produce(self.topic, value, b"k", partition=partition)
            producer.flush(TIMEOUT)
            if is_long or self.dice.random() < 1 / 3:
                producer.abort_transaction(TIMEOUT)
            else:
                producer.commit_transaction(TIMEOUT)
        await_stable(self.source, self.topic)

    def copied(self) -> bool:
        """Whether the target has what a consumer of the source reads."""
        there = self.copy in admin(self.target).list_topics(timeout=TIMEOUT).topics
        return there and self._values(self.target, self.copy) == self._values(
            self.source, self.topic
        )

    def _values(self, node: KafkaNode, name: str) -> list[tuple[int, bytes | None]]:
        return [(got.partition, got.value) for got in read_all(node, name, self.isolation)]


class Compacted:
    """A topic of which compaction deletes most records once they are copied."""

    COUNT = 400

    def __init__(self, source: KafkaNode, target: KafkaNode, directory: Path) -> None:
        self.source, self.target = source, target
        self.topic, self.stem = create_topic(source, config=COMPACTED), unique_name("app")
        keys = [b"own %d" % n if self.stays(n) else b"shared" for n in range(self.COUNT)]
        self.where = produce(
            source, self.topic, [Out(b"%d" % n, key) for n, key in enumerate(keys)]
        )
        self.mirror = MirrorMaker(source, target, directory, self.topic, f"{self.stem}.*")
        self.copy = load_settings(self.mirror.file).flow().target_topic(self.topic)

    @staticmethod
    def stays(number: int) -> bool:
        """Of five records two have keys of their own, so that compaction leaves them."""
        return number % 5 < 2

    def copied(self) -> bool:
        """Whether the last record is on the target."""
        if self.copy not in admin(self.target).list_topics(timeout=TIMEOUT).topics:
            return False
        return _last(read_all(self.target, self.copy)) == _last(read_all(self.source, self.topic))

    def compact(self) -> None:
        """Wait until compaction has deleted what it deletes, after MirrorMaker 2 was stopped."""

        def compacted() -> bool:
            # A segment is closed when something is appended and it is old enough.
            produce(self.source, self.topic, [Out(b"end", unique_name("end").encode())])
            return len(read_all(self.source, self.topic)) < self.COUNT * 0.6

        eventually(compacted, "the source is compacted")


def _last(copies: list[Got]) -> bytes | None:
    return copies[-1].value if copies else None


@dataclass(frozen=True)
class Flows:
    """All flows of one MirrorMaker 2."""

    usual: Flow
    names_kept: Flow
    transactions: Mapping[str, Transactions]
    compacted: Compacted


@pytest.fixture(scope="module")
def flows(
    clusters: tuple[KafkaNode, KafkaNode], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Flows]:
    directory = tmp_path_factory.mktemp("mm2")
    names_kept = Flow(*clusters, directory, NAMES_KEPT)
    transactions = {level: Transactions(*clusters, directory, level) for level in ISOLATIONS}
    compacted = Compacted(*clusters, directory)
    transactional = (flow.mirror for flow in transactions.values())
    usual = Flow(*clusters, directory, also=(names_kept.mirror, *transactional, compacted.mirror))
    usual.mirror.start()
    try:
        usual.copy_all(usual.mirror.log)
        eventually(compacted.copied, lambda: f"it is copied; {usual.mirror.log()}", PATIENCE)
        yield Flows(usual, names_kept, transactions, compacted)
    finally:
        usual.mirror.stop()


@pytest.fixture(scope="module")
def flow(flows: Flows) -> Flow:
    """The flow of most tests."""
    return flows.usual


def test_groups_are_exact_by_comparing(flow: Flow) -> None:
    """Every position is where the first unread record is; the reason says how that is known."""
    listed = k2ktui_json("groups", "-f", flow.mirror.file)["groups"]
    rows = {(row["group"], row["partition"]): row for row in listed}
    assert rows.keys() == flow.right().keys()
    for at, unread in flow.right().items():
        row = rows[at]
        assert row["basis"] == "exact", row
        assert (row["reread"], row["skipped"]) == (0, 0), row
        assert flow.read_from(row["translated_offset"], at[1]) == unread, row
    assert any("compared" in row["reason"] for row in listed)
    with Pipeline.open(flow.mirror.file) as pipeline:
        known = [
            (row.group, row.partition, row.translated_offset) for row in pipeline.groups().rows
        ]
    assert known == [(row["group"], row["partition"], row["translated_offset"]) for row in listed]


def test_status_and_watch(flow: Flow) -> None:
    """Lag from its positions and the source's ends; heartbeats and checkpoints in the notes."""

    def lags() -> bool:
        status = k2ktui_json("status", "-f", flow.mirror.file, code=None)["partitions"]
        # The end of a log is behind a control record, which is not copied.
        return len(status) == 2 and all(
            row["lag_records"] in (0, 1) and 0 < (row["coverage"] or 0) < 1 for row in status
        )

    eventually(lags, "its positions are written", PATIENCE)

    def seen() -> str:
        done = k2ktui("watch", "-f", flow.mirror.file, "--once", "--json")
        view = json.loads(done.stdout)
        notes = " ".join(view["notes"])
        return notes if "heartbeat was" in notes and "checkpoints of" in notes else ""

    assert "commits them on the target" in eventually(seen, "heartbeats and checkpoints", PATIENCE)


def test_audit(flow: Flow) -> None:
    """Its checkpoints are set beside the truth, and never skip; ours is exact."""
    audited: dict[str, Any] = {}

    def complete() -> bool:
        nonlocal audited
        audited = k2ktui_json("mm2", "audit", "-f", flow.mirror.file, code=1)
        return audited["totals"]["unknown"] == 0 and len(audited["rows"]) == 2 * len(flow.groups)

    eventually(complete, "all groups are known", PATIENCE)
    right = flow.right()
    for row in audited["rows"]:
        unread = right[row["group"], row["partition"]]
        if row["checkpoint_offset"] is None:
            continue
        would_read = flow.read_from(row["checkpoint_offset"], row["partition"])
        assert would_read[len(would_read) - len(unread) :] == unread
        assert row["checkpoint_skipped"] == 0
        assert row["checkpoint_reread"] == len(would_read) - len(unread)
        assert row["checkpoint_age_s"] < 600
    assert audited["totals"]["checkpoint_reread"] > 0


def _own_topics(flow: Flow) -> list[set[str]]:
    """The topics of k2ktui on both clusters; MirrorMaker 2 runs, and may make more of its own."""
    nodes = (flow.source, flow.target)
    topics = [admin(node).list_topics(timeout=TIMEOUT).topics for node in nodes]
    return [{name for name in names if "k2k" in name} for names in topics]


def test_audit_as_a_page(flow: Flow, tmp_path: Path) -> None:
    """On a bastion, without Spark, Java and pipeline; the file and the flow are all it needs."""
    bastion = without_packages(tmp_path)
    program = Installed(bastion.command, {**bastion.env, "PATH": "", "JAVA_HOME": ""})
    page = tmp_path / "audit.html"
    command = ("mm2", "audit", "-f", f"{flow.mirror.file}#{flow.mirror.flow}", "--html", page)
    before = _own_topics(flow)
    said = program(*command, code=1)
    assert f"The page is in {page}." in said.err
    text = "".join(Page(page.read_text()).texts)
    (sentence,) = (line for line in said.out.splitlines() if "After a failover now, " in line)
    assert sentence in text
    for name in flow.groups:
        assert name in text
    assert _own_topics(flow) == before
    kept = page.read_bytes()
    assert "already exists" in program(*command, code=5).err and page.read_bytes() == kept


def test_views_hold_what_the_audit_says(flow: Flow) -> None:
    """What the console and recordings show of checkpoints is what the command prints."""
    wanted = ("group", "partition", "checkpoint_offset", "checkpoint_reread", "right_offset")

    def same() -> bool:
        view = json.loads(k2ktui("watch", "-f", flow.mirror.file, "--once", "--json").stdout)
        table = view["audit"]["rows"]
        shown = [dict(zip(table["columns"], row, strict=True)) for row in table["rows"]]
        audited = k2ktui_json("mm2", "audit", "-f", flow.mirror.file, code=1)["rows"]
        assert view["pair"]["mirror"]
        assert sum(summary["theirs"]["records"] for summary in view["summaries"]) == sum(
            row["checkpoint_reread"] or 0 for row in shown
        )
        return view["heartbeat_at"] is not None and [
            [row[name] for name in wanted] for row in shown
        ] == [[row[name] for name in wanted] for row in audited]

    eventually(same, "both were read while no checkpoint was written", PATIENCE)


def test_exactly_once_with_names_kept(flows: Flows) -> None:
    flow = flows.names_kept
    flow.copy_all(flows.usual.mirror.log)
    assert flow.copy == flow.topic
    rows = k2ktui_json("groups", "-f", flow.mirror.file)["groups"]
    assert {row["basis"] for row in rows} == {"exact"}, rows
    assert len(rows) == 2 * len(flow.groups)
    for row in rows:
        unread = flow.right()[row["group"], row["partition"]]
        assert flow.read_from(row["translated_offset"], row["partition"]) == unread


@pytest.mark.parametrize("isolation", ISOLATIONS)
def test_every_group_of_a_transactional_source_is_exact(flows: Flows, isolation: str) -> None:
    """By default MirrorMaker 2 copies what aborted transactions left, too."""
    flow = flows.transactions[isolation]
    source, topic = flow.source, flow.topic
    for _ in range(2):
        flow.write()
        eventually(flow.copied, lambda: f"all is copied; {flows.usual.mirror.log()}", PATIENCE)
    ends = end_offsets(source, topic)
    wanted = {
        f"{flow.stem}-{n}": {(topic, p): flow.dice.randint(0, end) for p, end in ends.items()}
        for n in range(flow.GROUPS)
    }
    for group, offsets in wanted.items():
        commit_offsets(source, group, offsets)
    rows = k2ktui_json("groups", "-f", flow.mirror.file)["groups"]
    assert len(rows) == flow.GROUPS * flow.PARTITIONS
    here, there = read_all(source, topic, isolation), read_all(flow.target, flow.copy, isolation)
    for row in rows:
        number, at = row["partition"], row["translated_offset"]
        offset = wanted[row["group"]][topic, number]
        assert row["basis"] in ("exact", "end"), row
        assert [got.value for got in there if got.partition == number and got.offset >= at] == [
            got.value for got in here if got.partition == number and got.offset >= offset
        ]


def records(
    node: KafkaNode, topic: str, read: Callable[[bytes | None, bytes | None], T]
) -> list[tuple[bytes | None, bytes | None, T]]:
    """All records of an internal topic, raw and read; none while there is no such topic."""
    if topic not in admin(node).list_topics(timeout=TIMEOUT).topics:
        return []
    return [(got.key, got.value, read(got.key, got.value)) for got in read_all(node, topic)]


def test_every_record_that_it_writes_is_read_and_has_the_same_bytes_written_again(
    flow: Flow,
) -> None:
    names = load_settings(flow.mirror.file).flow()
    group = f"{flow.stem}-0"
    ends = end_offsets(flow.source, flow.topic)
    committed_at = {number: flow.groups[group][flow.topic, number] for number in (0, 1)}
    assert committed_at == ends
    at = formats.GroupPartition(group, flow.copy, 0)

    def checkpoint() -> Any:
        checkpoints = records(flow.target, names.checkpoints_topic, formats.read_checkpoint)
        return [found for found in checkpoints if found[2][0] == at]

    last = eventually(checkpoint, lambda: f"a checkpoint; {flow.mirror.log()}", PATIENCE)[-1]
    read = last[2][1]
    assert read.upstream == ends[0] and 0 < read.downstream <= ends[0]
    # This client ends what it commits with a NUL.
    assert read.metadata.rstrip("\0") == "app"
    assert (formats.checkpoint_key(at), formats.checkpoint_value(read)) == last[:2]

    def stored() -> Any:
        # Of the heartbeats of other flows on this source, too, which may come first.
        found = records(flow.target, names.connect_offsets_topic, formats.read_connect_offset)
        return [p for p in found if p[2] is not None and p[2][0].source.topic == flow.topic] and [
            p for p in found if p[2] is not None
        ]

    positions = eventually(stored, "positions", PATIENCE)
    sources = {position[2][0].source for position in positions}
    assert sources >= {SourcePartition(flow.topic, 0), SourcePartition(flow.topic, 1)}
    assert {position[2][0].connector for position in positions} == {formats.SOURCE_CONNECTOR}
    for key, value, (where, offset) in positions:
        again = formats.connect_offset_key(where), formats.connect_offset_value(offset)
        assert again == (key, value)

    syncs = records(flow.source, names.offset_syncs_topic, formats.read_offset_sync)
    own = [sync for _, _, (where, sync) in syncs if where == SourcePartition(flow.topic, 0)]
    here, there = (
        {got.offset: got.value for got in read_all(node, topic) if got.partition == 0}
        for node, topic in ((flow.source, flow.topic), (flow.target, flow.copy))
    )
    assert own and len(here) == len(set(here.values())) == RECORDS
    for sync in own:
        assert sync is not None
        assert here[sync.upstream] == there[sync.downstream]
    for key, value, (where, sync) in syncs:
        assert sync is not None
        assert (formats.offset_sync_key(where), formats.offset_sync_value(sync)) == (key, value)

    # Flows of other tests may still have left theirs on this source.
    aliases = (flow.mirror.target, flow.mirror.source)

    def beating() -> Any:
        heartbeats = records(flow.target, names.heartbeats_topic, formats.read_heartbeat)
        return heartbeats if aliases in {found for _, _, (found, _) in heartbeats} else []

    for key, value, (_, beat) in eventually(beating, "heartbeats", PATIENCE):
        assert (formats.heartbeat_key(beat), formats.heartbeat_value(beat)) == (key, value)


def test_plan_apply_and_undo(flow: Flow, tmp_path: Path) -> None:
    """What was MirrorMaker 2's own commit is put right exactly, and put back."""
    flow.mirror.stop()
    before = {name: committed(flow.target, name) for name in flow.groups}
    plan = tmp_path / "plan.json"
    k2ktui("plan", "-f", flow.mirror.file, "-o", plan, "--rewind", "follow")
    k2ktui("apply", plan, "--yes")
    for (name, number), unread in flow.right().items():
        offset = committed(flow.target, name)[flow.copy, number]
        assert flow.read_from(offset, number) == unread, (name, number)
    entry = k2ktui_json("journal", "-f", flow.mirror.file)["journal"][0]["id"]
    k2ktui("undo", "-f", flow.mirror.file, entry, "--yes")
    assert {name: committed(flow.target, name) for name in flow.groups} == before


def test_exact_where_neighbours_of_a_compacted_topic_are_left(flows: Flows) -> None:
    """Between the records that tell where they landed, compaction has deleted most others."""
    flow = flows.compacted
    wanted = {f"{flow.stem}-{n}": n for n in range(7, flow.COUNT, 9)}
    for group, number in wanted.items():
        commit_offsets(flow.source, group, {(flow.topic, 0): flow.where[number]})
    flow.compact()

    listed = k2ktui_json("groups", "-f", flow.mirror.file)["groups"]

    rows = {row["group"]: row for row in listed}
    values = ((got.value or b"", got.offset) for got in read_all(flow.target, flow.copy))
    there = {int(value): offset for value, offset in values if value.isdigit()}
    assert rows.keys() == wanted.keys()
    for group, number in wanted.items():
        row = rows[group]
        begin = row["translated_offset"]
        read_again = [n for n, at in there.items() if n < number and at >= begin]
        assert row["skipped"] == 0
        assert not [n for n, at in there.items() if n >= number and at < begin], "skipped"
        if row["basis"] == "exact":
            assert read_again == [], row
        if flow.stays(number - 1) and flow.stays(number):
            assert row["basis"] == "exact", row
    compared = [row for row in rows.values() if "compared" in row["reason"]]
    assert len(compared) > len(wanted) // 5


def _rows_of_groups(flow: Flow) -> list[dict[str, Any]]:
    """What ``groups`` shows, without how old the first unread records are: the clock goes on."""
    rows = k2ktui_json("groups", "-f", flow.mirror.file)["groups"]
    return [{name: value for name, value in row.items() if name != "lag_s"} for row in rows]


def test_foreign_records_are_reported(flow: Flow) -> None:
    """What is damaged or somebody else's is left out, and said to be."""
    names = load_settings(flow.mirror.file).flow()
    before = _rows_of_groups(flow)
    produce(flow.source, names.offset_syncs_topic, [Out(b"\x1b[31m", b"junk"), Out(b"", b"\0\0")])
    produce(flow.target, names.checkpoints_topic, [Out(b"junk", b"\xff\xff")])
    reply = k2ktui_json("mm2", "audit", "-f", flow.mirror.file, code=1)
    reported = [note for note in reply["notes"] if "not in MirrorMaker 2's format" in note]
    assert len(reported) == 2 and "\x1b" not in "".join(reported)
    assert _rows_of_groups(flow) == before


def test_sync_keeps_the_history(flow: Flow) -> None:
    """Groups follow, and what MirrorMaker 2's compacted topic loses is kept on the target."""
    done = k2ktui("sync", "-f", flow.mirror.file, "--once", "--rewind", "follow")
    assert "committed" in done.stdout
    right = flow.right()
    for (name, number), unread in right.items():
        offset = committed(flow.target, name)[flow.copy, number]
        assert flow.read_from(offset, number) == unread, (name, number)
    proof = k2ktui_json("verify", "-f", flow.mirror.file)
    assert proof["positions"]["same"] == len(right), proof
    kept = [
        json.loads(got.value or b"").get("syncs", ())
        for got in read_all(flow.target, TOPIC)
        if json.loads(got.key or b"")["flow"] == flow.mirror.flow
    ]
    assert sum(map(len, kept)) > 10
    delete_topic(flow.source, load_settings(flow.mirror.file).flow().offset_syncs_topic)
    rows = k2ktui_json("groups", "-f", flow.mirror.file)["groups"]
    assert {row["basis"] for row in rows} == {"exact"}
    k2ktui("sync", "-f", flow.mirror.file, "--once")


def test_the_source_is_gone(flow: Flow) -> None:
    """What sync kept on the target is enough: positions stay exact without the source."""
    k2ktui("sync", "-f", flow.mirror.file, "--once")
    flow.source.stop()
    try:
        reply = k2ktui_json("groups", "-f", flow.mirror.file, timeout=200)
    finally:
        flow.source.start(START_S)
    assert reply["source_down"]
    for row in reply["groups"]:
        unread = flow.right()[row["group"], row["partition"]]
        assert row["basis"] == "exact", row
        assert flow.read_from(row["translated_offset"], row["partition"]) == unread
