"""``k2ktui compare`` runs transforms again: what it expects, finds, and says without Spark."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from k2ktui.log.records import Records
from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.kafka import (
    Got,
    Out,
    create_topic,
    end_offsets,
    produce,
    read_all,
    unique_name,
)
from tests.support.clusters.spark_cluster import SparkCluster
from tests.support.commands.cli import k2ktui, k2ktui_json
from tests.support.pipelines.cases import COMPARE_TIMEOUT
from tests.support.pipelines.pipeline import Pipeline
from tests.support.records.damage import Damage, damage_log, flip_byte, remove

pytestmark = pytest.mark.slow
pytest.importorskip("pyarrow")  # of the extra ``transform``

_ITEMS = "order BIGINT, items ARRAY<STRUCT<sku: STRING, n: INT>>"
RULES: dict[str, dict[str, Any]] = {
    "masked": {
        "decode": {"value": {"json": {"schema": "id BIGINT, card STRING"}}},
        "filter": "value.id % 5 <> 0",
        "set": {"value.card": "sha2(value.card, 256)"},
    },
    "headers": {"set": {"headers.k": "hex(key)"}},
    "exploded": {
        "decode": {"value": {"json": {"schema": _ITEMS}}},
        "explode": {"value": "value.items"},
    },
    "skipped": {
        "decode": {"value": {"json": {"schema": "id BIGINT"}}},
        "set": {"value.id": "100 div (value.id % 3)"},
        "onError": "skip",
    },
    "letters": {
        "decode": {"value": {"json": {"schema": "id BIGINT"}}},
        "set": {"key": "concat(key, X'21')"},
        "onError": "deadLetter",
    },
}
COUNT = 240


def value_of(kind: str, number: int) -> bytes:
    if kind == "exploded":
        items = [{"sku": f"s{number}-{n}", "n": n} for n in range(number % 4)]
        return json.dumps({"order": number, "items": items}).encode()
    if kind == "letters" and number % 7 == 0:
        return b"{"
    return json.dumps({"id": number, "card": f"4000-{number}"}).encode()


def written(kind: str, number: int) -> int:
    """How many records the transform makes of one."""
    return {
        "masked": int(number % 5 != 0),
        "exploded": number % 4,
        "skipped": int(number % 3 != 0),
        "letters": int(number % 7 != 0),
    }.get(kind, 1)


class Transformed:
    """A topic for each rule, and one without, copied by a pipeline."""

    def __init__(self, directory: Path, source: KafkaNode, target: KafkaNode) -> None:
        self.pipeline = Pipeline(directory, source, target, [])
        kinds = (*RULES, "plain")
        self.topics = {
            kind: create_topic(source, unique_name(kind), partitions=2) for kind in kinds
        }
        for kind, topic in self.topics.items():
            # The second half in small batches.
            outs = [Out(value_of(kind, n), b"k%d" % n, n % 2) for n in range(COUNT)]
            produce(source, topic, outs[: COUNT // 2])
            for first in range(COUNT // 2, COUNT, 40):
                produce(source, topic, outs[first : first + 40], linger_ms=0)
        self.pipeline.topics = list(self.topics.values())
        self.write_rules(RULES)
        self.pipeline.catch_up()

    def write_rules(self, rules: dict[str, dict[str, Any]]) -> Path:
        self.pipeline.settings = {
            "replication.transform": [
                {"topics": self.topics[kind], **rule} for kind, rule in rules.items()
            ]
        }
        return self.pipeline.write()

    def counts(self, report: dict[str, Any]) -> dict[str, Counter[str]]:
        """What a report counts, by kind."""
        kinds = {topic: kind for kind, topic in self.topics.items()}
        counts: dict[str, Counter[str]] = {kind: Counter() for kind in self.topics}
        for one in report["partitions"]:
            counts[kinds[one["topic"]]].update(one["counts"])
        return counts


def test_what_transforms_make_is_compared(
    source: KafkaNode, target: KafkaNode, tmp_path: Path
) -> None:
    """All of it, by executors of a cluster; a changed transform; damage of every kind."""
    copied = Transformed(tmp_path, source, target)
    with SparkCluster(tmp_path / "spark") as cluster:
        everything_is_equal(copied, cluster)
    changed_transforms_and_damage_are_found(copied)


def everything_is_equal(copied: Transformed, cluster: SparkCluster) -> None:
    pipeline, file = copied.pipeline, copied.pipeline.write()
    # Without Spark, what the transforms change is not compared, and that is said.
    here = k2ktui("compare", "-f", file, "--local", "--no-store")
    assert "the transforms of 5 topics are not run again" in here.stderr
    assert f"{copied.topics['masked']}: the pipeline changes, so not compared: value" in here.stdout

    on_cluster = {"spark.master": cluster.master, "spark.config": cluster.settings}
    pipeline.settings = {**pipeline.settings, **on_cluster}
    report = k2ktui_json("compare", "-f", pipeline.write(), timeout=COMPARE_TIMEOUT)
    assert report["differences"] == report["unproven"] == 0, report["partitions"]
    assert (report["ignored"], report["notes"]) == ({}, [])
    for kind, counts in copied.counts(report).items():
        made = sum(written(kind, n) > 0 for n in range(COUNT))
        assert counts == Counter({"equal": made, "never copied": COUNT - made}), kind
    status = k2ktui_json("status", "-f", file)
    compared = {one["topic"]: one["compared"]["whole"] for one in status["partitions"]}
    assert set(compared.values()) == {True}, compared


def changed_transforms_and_damage_are_found(copied: Transformed) -> None:
    """The transform is that of the file now: a record may be one too many, or be missing.

    One record of each topic is damaged, of those that both transforms make.
    """
    target = copied.pipeline.target
    damages: dict[str, Damage] = dict.fromkeys(copied.topics, flip_byte)
    damages |= {"headers": change_last_header, "skipped": remove}
    places = {kind: damaged_place(copied, kind) for kind in damages}
    target.stop()
    for kind, damage in damages.items():
        damage_log(target, copied.topics[kind], places[kind].offset, damage)
    target.start()
    for kind in damages:
        end_offsets(target, copied.topics[kind])  # it leads its partitions again

    rules = {kind: dict(rule) for kind, rule in RULES.items()}
    rules["masked"]["filter"] = "value.id % 5 <> 1"
    rules["exploded"]["explode"] = {
        "value": "filter(value.items, i -> i.n <> 1 OR value.order % 4 = 2)"
    }
    rules["skipped"]["onError"] = "fail"
    file = copied.write_rules(rules)
    report = k2ktui_json("compare", "-f", file, "--no-store", code=1, timeout=COMPARE_TIMEOUT)
    counts = copied.counts(report)
    fifth, fourth, third = COUNT // 5, COUNT // 4, COUNT // 3
    assert counts["masked"] == Counter(
        {"equal": 3 * fifth - 1, "differs": fifth + 1, "missing on the target": fifth}
    )
    assert counts["exploded"] == Counter(
        {"equal": 2 * fourth - 1, "differs": fourth + 1, "never copied": fourth}
    )
    assert counts["skipped"] == Counter(
        {"equal": 2 * third - 1, "missing on the target": third + 1}
    )
    for kind in copied.topics.keys() - {"masked", "exploded", "skipped"}:
        made = sum(written(kind, n) > 0 for n in range(COUNT))
        expected = Counter({"equal": made - 1, "differs": 1, "never copied": COUNT - made})
        assert counts[kind] == +expected, kind
    reported = {
        (one["target_topic"], one["target_partition"], one["target_offset"], one["outcome"])
        for partition in report["partitions"]
        for one in partition["findings"]
    }
    for kind, got in places.items():
        outcome = "differs" if kind != "skipped" else "missing on the target"
        assert (copied.topics[kind], 0, got.offset, outcome) in reported, kind


def change_last_header(records: Records, row: int) -> Records:
    """Change the last byte of a record's last header by one bit."""
    tails = list(records.tails)
    tails[row] = tails[row][:-1] + bytes([tails[row][-1] ^ 1])
    return Records(records.offsets, records.timestamps, tails)


def damaged_place(copied: Transformed, kind: str) -> Got:
    """Return a record of partition 0 that a changed transform makes, too.

    It is in the middle, but for the topic whose report names the first of many that are missing.
    """

    def stays(got: Got) -> bool:
        value = json.loads(got.value or b"") if kind in ("masked", "exploded") else {}
        if kind == "masked":
            return bool(value["id"] % 5 != 1)
        # Of several, not the first one.
        return kind != "exploded" or re.fullmatch(r"s\d*[02468]-1", value["sku"]) is not None

    records = [
        got
        for got in read_all(copied.pipeline.target, copied.topics[kind])
        if got.partition == 0 and stays(got)
    ]
    return records[1 if kind == "skipped" else len(records) // 2]
