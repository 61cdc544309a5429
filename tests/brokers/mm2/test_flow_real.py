"""Groups of a real MirrorMaker 2's flow: watched, translated, synced, audited."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from k2ktui import Pipeline
from k2ktui.mm2.flows.history import TOPIC
from k2ktui.mm2.flows.settings import load_settings
from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.kafka import (
    START_S,
    TIMEOUT,
    Got,
    Out,
    admin,
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
from tests.support.oracle.group_offsets import commit_offsets, committed

pytestmark = pytest.mark.slow
PATIENCE = 200.0
RECORDS = 2000


class Flow:
    """A flow that has copied everything: two partitions, control records, groups at some lags."""

    def __init__(
        self,
        source: KafkaNode,
        target: KafkaNode,
        directory: Path,
        properties: Mapping[str, str] | None = None,
    ) -> None:
        self.source, self.target = source, target
        self.topic = create_topic(source, partitions=2)
        self.stem = unique_name("app")
        for number in (0, 1):
            write_with_marker(source, self.topic, number, RECORDS // 2)
        groups = f"{self.stem}.*"
        self.mirror = MirrorMaker(source, target, directory, self.topic, groups, properties or {})
        self.mirror.start()
        self.copy = load_settings(self.mirror.file).flow().target_topic(self.topic)
        eventually(self.copied, f"the first half is copied; {self.mirror.log()}", PATIENCE)
        for number in (0, 1):
            write_with_marker(source, self.topic, number, RECORDS // 2)
        self.groups: dict[str, dict[tuple[str, int], int]] = {}
        for back in (0, 1, 137, 700, RECORDS):
            name = f"{self.stem}-{back}"
            ends = end_offsets(source, self.topic)
            self.groups[name] = {
                (self.topic, number): max(0, end - back) for number, end in ends.items()
            }
            commit_offsets(source, name, self.groups[name], metadata="app")
        eventually(self.copied, f"everything is copied; {self.mirror.log()}", PATIENCE)

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


@pytest.fixture(scope="module")
def flow(
    clusters: tuple[KafkaNode, KafkaNode], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Flow]:
    made = Flow(*clusters, tmp_path_factory.mktemp("mm2"))
    try:
        yield made
    finally:
        made.mirror.stop()


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


def test_foreign_records_are_reported(flow: Flow) -> None:
    """What is damaged or somebody else's is left out, and said to be."""
    names = load_settings(flow.mirror.file).flow()
    before = k2ktui_json("groups", "-f", flow.mirror.file)["groups"]
    produce(flow.source, names.offset_syncs_topic, [Out(b"\x1b[31m", b"junk"), Out(b"", b"\0\0")])
    produce(flow.target, names.checkpoints_topic, [Out(b"junk", b"\xff\xff")])
    reply = k2ktui_json("mm2", "audit", "-f", flow.mirror.file, code=1)
    reported = [note for note in reply["notes"] if "not in MirrorMaker 2's format" in note]
    assert len(reported) == 2 and "\x1b" not in "".join(reported)
    assert k2ktui_json("groups", "-f", flow.mirror.file)["groups"] == before


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


def test_exactly_once_with_names_kept(
    clusters: tuple[KafkaNode, KafkaNode], tmp_path: Path
) -> None:
    """Markers on the target too, topics without a prefix, offset-syncs on the target."""
    properties = {
        **EXACTLY_ONCE,
        "offset-syncs.topic.location": "target",
        "replication.policy.class": ("org.apache.kafka.connect.mirror.IdentityReplicationPolicy"),
    }
    flow = Flow(*clusters, tmp_path, properties)
    try:
        assert flow.copy == flow.topic
        rows = k2ktui_json("groups", "-f", flow.mirror.file)["groups"]
        assert {row["basis"] for row in rows} == {"exact"}, rows
        for row in rows:
            unread = flow.right()[row["group"], row["partition"]]
            assert flow.read_from(row["translated_offset"], row["partition"]) == unread
    finally:
        flow.mirror.stop()
