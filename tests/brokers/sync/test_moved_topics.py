"""Topics that a drill moved to the target: shown as such, and no forward operation writes them."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from k2ktui.engine.drill.checks import DrillKind
from k2ktui.runtime.node import KafkaNode
from k2ktui.sync.store import StateStore
from tests.brokers.sync.test_races import member
from tests.support.clusters.kafka import (
    Out,
    alter_topic,
    create_topic,
    delete_topic,
    produce,
    unique_name,
)
from tests.support.commands.cli import k2ktui, k2ktui_json
from tests.support.drill.made_drills import new_drill
from tests.support.oracle.group_offsets import commit_offsets
from tests.support.pipelines.copied import Copied, committed

pytestmark = pytest.mark.slow

REFUSED = 5


@dataclass
class Pair:
    """A topic that moves and one that stays, each record 7 offsets further on the target."""

    copied: Copied
    moved: str
    stays: str
    group: str

    @property
    def file(self) -> Path:
        return self.copied.file

    @property
    def where(self) -> tuple[tuple[str, int], tuple[str, int]]:
        return (self.moved, 0), (self.stays, 0)

    def at(self, group: str = "") -> list[int | None]:
        offsets = committed(self.copied.target, group or self.group, self.where)
        return [offsets[where] for where in self.where]


@pytest.fixture
def pair(source: KafkaNode, target: KafkaNode, tmp_path: Path) -> Pair:
    copied = Copied(tmp_path, source, target)
    moved, stays = unique_name("moved"), unique_name("stays")
    for name in (moved, stays):
        create_topic(source, name)
        produce(source, name, [Out(b"%d" % n) for n in range(50)])
        copied.copy(name)
    copied.settings = {
        "replication": [
            {"source": {"topic": [moved, stays]}},
            {"sink": {"topic": "source", "partition": "source"}},
        ],
        "parity": {"topicConfigs": {"mode": "report"}, "quotas": {"mode": "off"}},
    }
    group = copied.group("g")
    commit_offsets(source, group, {(moved, 0): 10, (stays, 0): 20})
    return Pair(copied, moved, stays, group)


def test_views_show_it_as_moved(pair: Pair) -> None:
    """Its lag and its difference count no longer, and it may be deleted on the source."""
    produce(pair.copied.source, pair.moved, [b"after the move"] * 3)
    produce(pair.copied.source, pair.stays, [b"not copied yet"] * 2)
    commit_offsets(pair.copied.target, pair.group, {(pair.moved, 0): 3, (pair.stays, 0): 27})
    drill = pair.copied.move(pair.moved).drill

    value = k2ktui_json("status", "-f", pair.file, "--groups")
    rows = {row["topic"]: row for row in value["partitions"]}
    assert (rows[pair.moved]["state"], rows[pair.moved]["moved_by"]) == ("moved", drill)
    assert rows[pair.moved]["lag_records"] is None and rows[pair.moved]["position"] == 50
    assert (rows[pair.stays]["state"], rows[pair.stays]["lag_records"]) == ("behind", 2)
    assert value["moved_topics"] == {drill: [pair.moved]} and value["can_be_retired"] is False
    assert value["failover"]["rpo_records"] == 2
    said = k2ktui("status", "-f", pair.file).stdout
    assert f"Moved to the target: 1 topic by drill {drill}: {pair.moved}" in said

    groups = {row["topic"]: row for row in k2ktui_json("groups", "-f", pair.file)["groups"]}
    assert groups[pair.moved]["moved_by"] == drill and groups[pair.moved]["divergence"] is None
    assert groups[pair.stays]["divergence"] == 0
    text = k2ktui("groups", "-f", pair.file).stdout
    assert f"moved by {drill}" in text and "0 records skipped, 0 re-read" in text

    checked = {check["name"]: check for check in k2ktui_json("check", "-f", pair.file)["checks"]}
    assert f"{pair.moved} (drill {drill})" in checked["moved topics"]["detail"]
    assert checked["source topics"]["detail"].startswith("1 topic, ")
    explained = k2ktui_json("explain", "-f", pair.file)["topics"]
    assert {row["topic"]: row["moved_by"] for row in explained} == {
        pair.moved: drill,
        pair.stays: "",
    }
    assert " moved " in k2ktui("explain", "-f", pair.file).stdout

    delete_topic(pair.copied.source, pair.moved)
    pair.copied.move(pair.stays)
    value = k2ktui_json("status", "-f", pair.file)
    assert {row["state"] for row in value["partitions"]} == {"moved"} and value["can_be_retired"]
    once = k2ktui("watch", "-f", pair.file, "--once").stdout
    assert "retire the pipeline" in once and "no job is running" not in once


def test_no_forward_operation_writes_it(pair: Pair) -> None:
    file, plan = pair.file, pair.copied.directory / "plan.json"
    early = pair.copied.directory / "early.json"
    k2ktui("plan", "-f", file, "-o", early)
    entry = k2ktui_json("apply", early, "--yes")["id"]
    assert pair.at() == [17, 27]
    commit_offsets(pair.copied.source, pair.group, {(pair.moved, 0): 12, (pair.stays, 0): 22})
    k2ktui("plan", "-f", file, "-o", early)
    drill = pair.copied.move(pair.moved).drill

    said = k2ktui("plan", "-f", file, "-o", plan).stderr
    assert (
        f"left out: 1 committed offset of 1 topic moved to the target: {pair.moved} (drill {drill})"
        in said
    )
    (row,) = json.loads(plan.read_text())["rows"]
    assert (row["topic"], row["proposed"]) == (pair.stays, 29)
    said = k2ktui("plan", "-f", file, "--topic", pair.moved, code=REFUSED).stderr
    assert f"{pair.moved}: moved to the target by drill {drill}" in said
    word = f"{pair.group} {pair.moved}:0=earliest"
    said = k2ktui("plan", "-f", file, "--set", word, code=REFUSED).stderr
    assert "cannot be set" in said and drill in said

    said = k2ktui("apply", early, "--yes", code=REFUSED).stderr
    assert f"{pair.moved}-0: its topic was moved to the target by drill {drill}" in said
    assert pair.at() == [17, 27], "nothing was written"
    said = k2ktui("undo", entry, "-f", file, "--yes", code=REFUSED).stderr
    assert "its topic was moved" in said and pair.at() == [17, 27]
    undone = k2ktui_json("undo", entry, "-f", file, "--yes", "--skip-moved")
    assert undone["counts"] == {"applied": 1} and pair.at() == [17, None]

    proof = k2ktui_json("verify", "-f", file, "--plan", early)
    (left,) = proof["not_compared"]
    assert left["topic"] == pair.moved and drill in left["reason"]
    assert proof["positions"]["same"] == 1
    assert drill in k2ktui_json("verify", "-f", file)["not_compared"][0]["reason"]

    said = k2ktui("sync", "-f", file, "--once").stderr
    assert f"{pair.moved} (drill {drill})" in said
    assert pair.at() == [17, 29], "sync moved the other row only"

    there = pair.copied.group("there")
    commit_offsets(pair.copied.target, there, {(pair.moved, 0): 5})
    reset = ("groups", "reset", there, "-f", file, "--to", "earliest", "--yes")
    assert f"group {there} is not set" in k2ktui(*reset, code=REFUSED).stderr
    commit_offsets(pair.copied.target, there, {(pair.stays, 0): 5})
    assert f"{pair.moved} (drill {drill})" in k2ktui(*reset).stderr
    assert pair.at(there) == [5, 0]


def test_a_group_in_use_there_because_of_it_stops_nothing(pair: Pair) -> None:
    """With ``fail``, a group in use on the target would otherwise end ``sync``."""
    pair.copied.settings = {
        **pair.copied.settings,
        "errorHandling": {"onActiveConsumerGroupCommit": "fail"},
    }
    other = pair.copied.group("other")
    commit_offsets(pair.copied.source, other, {(pair.stays, 0): 5})
    with member(pair.copied.target, pair.group, pair.moved, "classic"):
        said = k2ktui("sync", "-f", pair.file, "--once", code=1).stderr
        assert "in use on the target" in said and pair.at(other) == [None, None]
        pair.copied.move(pair.moved)
        said = k2ktui("sync", "-f", pair.file, "--once").stderr
        assert "for topics that were moved there" in said
    assert pair.at(other) == [None, 12]


def test_parity_leaves_it_alone(pair: Pair) -> None:
    for topic in (pair.moved, pair.stays):
        alter_topic(pair.copied.source, topic, retention_ms="7200000")
    plan = pair.copied.directory / "parity.json"
    k2ktui("parity", "plan", "-f", pair.file, "-o", plan, code=1)
    drill = pair.copied.move(pair.moved).drill
    said = k2ktui("parity", "apply", plan, "--yes", code=REFUSED).stderr
    assert "it is of a topic that was moved to the target" in said
    value = k2ktui_json("parity", "plan", "-f", pair.file, code=1)
    assert [row["item"]["name"] for row in value["rows"]] == [pair.stays]
    assert any(f"{pair.moved} (drill {drill})" in note for note in value["notes"])
    # A drill that is about to move the other one is open.
    opened = replace(new_drill(DrillKind.PLANNED), topics=(pair.stays,))
    store = StateStore(pair.copied.config, pair.copied.cluster)
    try:
        store.put([opened])
    finally:
        store.close()
    value = k2ktui_json("parity", "plan", "-f", pair.file)
    assert value["rows"] == []
    assert any(f"drill {opened.id}, which is open: {pair.stays}" in n for n in value["notes"])
