"""``k2ktui compare`` finds each damage on the target, with its place."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.kafka import (
    START_S,
    TIMEOUT,
    Out,
    alter_topic,
    create_topic,
    delete_before,
    eventually,
    open_transaction,
    produce,
    read_all,
    unique_name,
)
from tests.support.commands.cli import k2ktui, k2ktui_json
from tests.support.pipelines.copied import Copied
from tests.support.records.damage import (
    Damage,
    change_header,
    damage_log,
    remove,
    swap,
)

pytestmark = pytest.mark.slow

SECRET = b"card 4111-1111"
# Each with the offsets, relative to the damaged record, where something is found. All damages, on
# topics of every kind, are in tests/spark/compare/test_damage_table.py.
DAMAGES: dict[str, tuple[Damage, dict[int, str]]] = {
    "header": (change_header, {0: "differs"}),
    "removed": (remove, {0: "missing on the target"}),
    "swapped": (swap, {-1: "differs", 0: "differs"}),
}
COMPACTED = {"cleanup.policy": "compact", "min.compaction.lag.ms": "100000000000000"}
KINDS = ("plain", "compacted")


@pytest.fixture
def copied(source: KafkaNode, target: KafkaNode, tmp_path: Path) -> Copied:
    return Copied(tmp_path, source, target, prior=0)


def fill(node: KafkaNode, kind: str, topic: str) -> None:
    records = [Out(SECRET + b"%d" % n, b"k%d" % n) for n in range(30)]
    create_topic(node, topic, 1, COMPACTED if kind == "compacted" else {})
    produce(node, topic, records, linger_ms=100)


def findings(report: dict[str, Any], topic: str) -> dict[int, str]:
    (partition,) = (one for one in report["partitions"] if one["topic"] == topic)
    assert partition["differences"] == len(partition["findings"])
    for finding in partition["findings"]:
        assert finding["target_topic"] == topic and finding["target_partition"] == 0
    return {finding["target_offset"]: finding["outcome"] for finding in partition["findings"]}


def test_damages_are_reported_with_their_places_and_without_contents(
    copied: Copied, source: KafkaNode, target: KafkaNode, tmp_path: Path
) -> None:
    topics, landed, expected = {}, {}, {}
    for kind in KINDS:
        for damage in DAMAGES:
            topic = topics[kind, damage] = unique_name(f"{kind}-{damage}")
            fill(source, kind, topic)
            landed[topic] = copied.copy(topic)[topic, 0]
            if kind == "compacted":
                alter_topic(target, topic, **COMPACTED)
    deleted = unique_name("deleted")
    fill(source, "compacted", deleted)
    produce(source, deleted, [Out(None, b"k5"), Out(SECRET, b"k6")], linger_ms=100)
    copied.copy(deleted)
    alter_topic(target, deleted, **COMPACTED)
    whole = k2ktui_json("compare", "-f", copied.file)
    assert whole["differences"] == whole["unproven"] == 0
    assert whole["counts"] == {"equal": 30 * len(topics) + 32}
    target.stop()
    for (_, damage), topic in topics.items():
        offset = sorted(landed[topic].values())[17]
        make, where = DAMAGES[damage]
        damage_log(target, topic, offset, make)
        expected[topic] = {offset + ahead: outcome for ahead, outcome in where.items()}
    # A tombstone is removed by compaction, too: it is not known to be lost.
    damage_log(target, deleted, 30, remove)
    target.start(START_S)
    stranger = topics["plain", "header"]
    (at,) = produce(target, stranger, [SECRET])
    expected[stranger][at] = "native to the target"
    report = k2ktui_json(
        "compare", "-f", copied.file, "-o", tmp_path / "report.json", code=1, timeout=300
    )
    assert {topic: findings(report, topic) for topic in expected} == expected
    assert report["differences"] == sum(map(len, expected.values()))
    assert report["unproven"] == report["counts"]["compacted or lost on the target"] == 1
    (unproven,) = (one for one in report["partitions"] if one["unproven_findings"])
    (finding,) = unproven["unproven_findings"]
    assert unproven["topic"] == finding["target_topic"] == deleted
    assert finding["source_offset"] == finding["target_offset"] == 30
    # Files for this user alone, and nothing of the contents in them.
    for name in ("report.json", "report.md"):
        path = tmp_path / name
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert "4111" not in path.read_text()
    assert json.loads((tmp_path / "report.json").read_text())["partitions"] == report["partitions"]
    # The digest of a partition changes with the side that has changed.
    before = {one["topic"]: one for one in whole["partitions"]}
    for one in report["partitions"]:
        assert one["source_digest"] == before[one["topic"]]["source_digest"]
        assert one["target_digest"] != before[one["topic"]]["target_digest"]
    shown = k2ktui("compare", "-f", copied.file, "--topics", deleted)
    assert f"unproven: {deleted}-0@30 → {deleted}-0@30: compacted or lost" in shown.stdout
    shown = k2ktui("compare", "-f", copied.file, "--topics", stranger, code=1)
    assert f"{stranger}-0@{at}: native to the target" in shown.stdout
    assert "4111" not in shown.stdout + shown.stderr


def test_retention_compaction_and_what_cannot_be_told(
    copied: Copied, source: KafkaNode, target: KafkaNode
) -> None:
    topic = create_topic(source)
    produce(source, topic, [b"%d" % n for n in range(40)], batch_num_messages=5)
    landed = copied.copy(topic)[topic, 0]
    delete_before(source, topic, 10)
    delete_before(target, topic, landed[20])
    report = k2ktui_json("compare", "-f", copied.file, "--topics", topic)
    assert report["counts"] == {"equal": 20, "deleted by retention on the target": 10}
    assert report["differences"] == 0
    delete_before(source, topic, 30)
    report = k2ktui_json("compare", "-f", copied.file, "--topics", topic)
    assert report["counts"] == {"equal": 10, "deleted by retention on the source": 10}


def test_contents_are_matched_where_the_mapping_has_expired(
    copied: Copied, source: KafkaNode, target: KafkaNode
) -> None:
    topic, changed = create_topic(source), create_topic(source)
    for name in (topic, changed):
        produce(source, name, [b"%d" % n for n in range(20)])
        create_topic(target, name)
        copies = [
            Out(got.value, got.key, timestamp=got.timestamp) for got in read_all(source, name)
        ]
        if name == changed:
            copies[5] = replace(copies[5], value=b"changed")
        pairs = dict(enumerate(produce(target, name, copies)))
        copied.record(name, 0, {at: pairs[at] for at in range(12, 20)}, 20, 0, first=12)
    report = k2ktui_json("compare", "-f", copied.file, code=1)
    counts = {one["topic"]: one["counts"] for one in report["partitions"]}
    assert counts[topic] == {"equal": 20}
    assert counts[changed] == {"equal": 19, "missing on the target": 1, "native to the target": 1}
    (partition,) = (one for one in report["partitions"] if one["topic"] == changed)
    places = [(one["source_offset"], one["target_offset"]) for one in partition["findings"]]
    assert sorted(places, key=str) == [(5, None), (None, 5)]
    # A sample does not read what the contents would have to be found in.
    some = k2ktui_json("compare", "-f", copied.file, "--topics", topic, "--sample", "0.5")
    assert some["unproven"] == 24 and some["counts"]["equal"] == 8


def test_what_cannot_be_compared_is_refused(copied: Copied, source: KafkaNode) -> None:
    topic = create_topic(source)
    produce(source, topic, [b"one"])
    copied.copy(topic)
    for options, said in (
        (("--topics", "nothing-like-it"), "no topic that is copied has a name"),
        (("--since", "yesterday"), "--since: yesterday is not an ISO-8601 instant"),
        (("--rate", "fast"), "--rate: fast is not a number of bytes per second"),
        (("-o", "/nowhere/report"), "-o: /nowhere is not a directory"),
    ):
        assert said in k2ktui("compare", "-f", copied.file, *options, code=2).stderr


def test_of_transformed_topics_is_compared_what_the_transform_keeps(
    source: KafkaNode, target: KafkaNode, tmp_path: Path
) -> None:
    """Without Spark: which records have a copy, and all parts that no step changes."""
    masked, filtered = create_topic(source), create_topic(source)
    rules = [
        {
            "topics": masked,
            "decode": {"value": "string"},
            "filter": "value <> '3'",
            "set": {"value": "upper(value)"},
        },
        {"topics": filtered, "filter": "key IS NOT NULL"},
    ]
    replication = [
        {"source": {"topic": [masked, filtered]}},
        {"transform": rules},
        {"sink": {"topic": "source", "partition": "source"}},
    ]
    copied = Copied(tmp_path, source, target, {"replication": replication}, prior=0)
    for topic in (masked, filtered):
        produce(source, topic, [Out(b"%d" % n, b"k%d" % n) for n in range(10)])
    copies = [
        replace(got, value=b"MASKED", key=b"wrong" if got.offset == 7 else got.key)
        for got in read_all(source, masked)
        if got.offset != 3
    ]
    copied.copy(masked, copies)
    wrong = [
        replace(got, value=b"wrong" if got.offset == 5 else got.value)
        for got in read_all(source, filtered)
        if got.offset != 4
    ]
    copied.copy(filtered, wrong)
    report = k2ktui_json("compare", "-f", copied.file, "--local", code=1)
    found = {
        one["topic"]: (one["counts"], [(f["source_offset"], f["reason"]) for f in one["findings"]])
        for one in report["partitions"]
    }
    counts = {"equal": 8, "differs": 1, "never copied": 1}
    assert found[masked] == (counts, [(7, "key differs")])
    assert found[filtered] == (counts, [(5, "value differs")])
    assert report["ignored"] == {masked: ["value"]} and report["left_out"] == []
    # Values were not compared: that is not the proof of everything.
    assert k2ktui_json("status", "-f", copied.file)["last_comparison"]["whole"] is False


def test_moved_topics_are_left_out_and_named(
    copied: Copied, source: KafkaNode, target: KafkaNode
) -> None:
    """Applications write to them on the target: that is no difference."""
    topic, moved = create_topic(source), create_topic(source, partitions=2)
    for name in (topic, moved):
        produce(source, name, [b"%d" % n for n in range(5)])
        copied.copy(name)
    record = copied.move(moved)
    produce(target, moved, [b"by the application"])
    report = k2ktui_json("compare", "-f", copied.file)
    assert [one["topic"] for one in report["partitions"]] == [topic]
    assert report["counts"] == {"equal": 5} and report["differences"] == 0
    assert report["left_out"] == [
        {"topic": moved, "partition": partition, "reason": record.describe()}
        for partition in (0, 1)
    ]
    # Not everything was compared, and the record in the state topic says so.
    assert k2ktui_json("status", "-f", copied.file)["last_comparison"]["whole"] is False
    shown = k2ktui("compare", "-f", copied.file, "--topics", moved).stdout
    assert f"not compared: {moved}-1: moved by drill {record.drill}" in shown
    assert "0 partitions, 0 different" in shown


def test_since_sample_and_rate(copied: Copied, source: KafkaNode) -> None:
    topic = create_topic(source)
    began_ms = int(time.time() * 1000) - 60_000
    outs = [Out(b"%d" % n, timestamp=began_ms + n) for n in range(9000)]
    produce(source, topic, outs, batch_num_messages=100)
    copied.copy(topic)
    at = str(began_ms + 4000)
    since = k2ktui_json("compare", "-f", copied.file, "--topics", topic, "--since", at)
    (partition,) = since["partitions"]
    assert partition["end"] - partition["first"] == since["counts"]["equal"] == 5000
    # Parts are chosen by lot, by the topic's name as well: of five, all would be once in 100,000.
    some = k2ktui_json("compare", "-f", copied.file, "--topics", topic, "--sample", "0.1")
    assert 0 < some["counts"]["equal"] < 9000
    again = k2ktui_json("compare", "-f", copied.file, "--topics", topic, "--sample", "0.1")
    assert again["partitions"] == some["partitions"] and again["counts"] == some["counts"]
    slow = k2ktui_json("compare", "-f", copied.file, "--topics", topic, "--rate", "100k")
    assert slow["ended_at"] - slow["started_at"] >= slow["read_bytes"] / 100_000
    assert slow["counts"] == {"equal": 9000}


def test_a_stopped_comparison_is_resumed(
    copied: Copied, source: KafkaNode, target: KafkaNode, tmp_path: Path
) -> None:
    topic = create_topic(source, partitions=2)
    for partition in (0, 1):
        outs = (Out(b"%d" % n, partition=partition) for n in range(150_000))
        produce(source, topic, outs, linger_ms=50, queue_buffering_max_messages=200_000)
    copied.copy(topic)
    env = {"XDG_STATE_HOME": str(tmp_path / "state")}
    words = ("compare", "-f", str(copied.file), "--topics", topic, "--json")
    # Each side of a partition has some megabytes: it is slow enough to be stopped.
    slow = subprocess.Popen(
        [sys.executable, "-m", "k2ktui", *words, "--rate", "300k"],
        env={**os.environ, **env},
        stderr=subprocess.PIPE,
    )

    def has_parts() -> bool:
        kept = list((tmp_path / "state").rglob("*.jsonl"))
        return bool(kept) and kept[0].read_bytes().count(b"\n") > 1

    eventually(has_parts, "a part is compared")
    slow.send_signal(signal.SIGSTOP)
    refused = k2ktui(*words, "--resume", code=5, env=env)
    assert "another comparison of the same choice is running" in refused.stderr
    slow.send_signal(signal.SIGINT)
    slow.send_signal(signal.SIGCONT)
    _, said = slow.communicate(timeout=TIMEOUT)
    assert slow.returncode == 130 and b"Traceback" not in said and b"with --resume" in said
    (kept,) = (tmp_path / "state").rglob("*.jsonl")
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    # Nothing of it is discarded by an option that was forgotten.
    before = kept.read_bytes()
    refused = k2ktui(*words, code=5, env=env)
    assert "of 300,000 offsets" in refused.stderr and "--resume" in refused.stderr
    assert kept.read_bytes() == before
    # A line that was cut off is compared again.
    with kept.open("ab") as file:
        file.write(b'{"part":')
    report = k2ktui_json(*words[:-1], "--resume", env=env)
    assert report["counts"] == {"equal": 300_000}
    assert any("parts were compared by an earlier run" in note for note in report["notes"])
    assert not kept.exists()
    again = k2ktui_json(*words[:-1], env=env)
    assert [one["source_digest"] for one in again["partitions"]] == [
        one["source_digest"] for one in report["partitions"]
    ]
    assert again["read_bytes"] > report["read_bytes"]


def test_what_is_compared_is_kept_until_the_report_is_written(
    copied: Copied, source: KafkaNode, tmp_path: Path
) -> None:
    topic = create_topic(source)
    produce(source, topic, [b"%d" % n for n in range(5)])
    copied.copy(topic)
    env = {"XDG_STATE_HOME": str(tmp_path / "state")}
    words = ("compare", "-f", str(copied.file), "--topics", topic)
    in_the_way = tmp_path / "report.json"
    in_the_way.mkdir()
    report = ("-o", str(in_the_way))
    assert "report.json cannot be written" in k2ktui(*words, *report, code=2, env=env).stderr
    in_the_way.rmdir()
    k2ktui(*words, *report, code=5, env=env)
    status = ("status", "-f", copied.file)
    stored = k2ktui_json(*status)["last_comparison"]
    # The record in the state topic cannot be written either.
    alter_topic(copied.target, copied.state, max_message_bytes="100")
    unwritten = k2ktui_json(*words, *report, "--resume", env=env)
    assert unwritten["counts"] == {"equal": 5} and unwritten["read_bytes"] == 0
    assert k2ktui_json(*status)["last_comparison"] == stored
    alter_topic(copied.target, copied.state, max_message_bytes="1000000")
    assert k2ktui_json(*words, "--resume", env=env)["read_bytes"] == 0
    assert k2ktui_json(*status)["last_comparison"]["ended_at"] > stored["ended_at"]
    assert not list((tmp_path / "state").rglob("*.jsonl"))
    assert k2ktui_json(*words, env=env)["read_bytes"] > 0


def test_the_result_is_kept_and_shown(copied: Copied, source: KafkaNode) -> None:
    topic = create_topic(source)
    produce(source, topic, [b"%d" % n for n in range(5)])
    copied.copy(topic)
    assert k2ktui_json("status", "-f", copied.file)["last_comparison"] is None
    k2ktui("compare", "-f", copied.file, "--no-store")
    assert k2ktui_json("status", "-f", copied.file)["last_comparison"] is None
    k2ktui("compare", "-f", copied.file)
    status = k2ktui_json("status", "-f", copied.file)
    kept = status["last_comparison"]
    (partition,) = (row for row in status["partitions"] if row["topic"] == topic)
    assert kept["counts"] == {"equal": 5} and kept["whole"] is True
    assert partition["compared"] == {
        "ended_at": kept["ended_at"],
        "differences": 0,
        "unproven": 0,
        "whole": True,
    }
    said = "Every record compared at "
    assert said in k2ktui("status", "-f", copied.file).stdout
    shown = k2ktui("watch", "-f", copied.file, "--once", code=None).stdout
    assert "every record compared at " in shown and ": 5 equal, 0 different" in shown


def test_an_open_transaction_is_waited_for(
    copied: Copied, source: KafkaNode, target: KafkaNode
) -> None:
    """It holds back copies that another slot has committed; they are not missing."""
    topic = create_topic(source)
    produce(source, topic, [b"%d" % n for n in range(5)])
    create_topic(target, topic)
    holding = open_transaction(target, topic, [b"open"])
    copies = [Out(got.value, got.key, timestamp=got.timestamp) for got in read_all(source, topic)]
    copied.record(topic, 0, dict(enumerate(produce(target, topic, copies))), 5, 0)
    ending = threading.Timer(2, holding.abort_transaction)
    ending.start()
    report = k2ktui_json("compare", "-f", copied.file, "--topics", topic)
    ending.join()
    assert report["counts"] == {"equal": 5}
