"""Rows of a plan that an operator sets, on real clusters: planned, applied, journaled, undone."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.kafka import Out, create_topic, produce, unique_name
from tests.support.commands.cli import k2ktui, k2ktui_json
from tests.support.oracle.group_offsets import commit_offsets
from tests.support.pipelines.copied import Copied, committed

pytestmark = pytest.mark.slow

PRIOR, COPIED = 7, 30


@pytest.fixture
def copied(source: KafkaNode, target: KafkaNode, tmp_path: Path) -> Copied:
    return Copied(tmp_path, source, target, prior=PRIOR)


@pytest.fixture
def topic(copied: Copied, source: KafkaNode) -> str:
    """Thirty records on each of two partitions; their copies follow seven others."""
    name = create_topic(source, unique_name("t"), 2)
    produce(source, name, [Out(b"%d" % n, b"k", p) for p in (0, 1) for n in range(COPIED)])
    copied.copy(name)
    return name


@pytest.fixture
def group(copied: Copied, topic: str, source: KafkaNode) -> str:
    """Its translated offsets are 17 and 27."""
    name = copied.group("with a space")
    commit_offsets(source, name, {(topic, 0): 10, (topic, 1): 20}, "mine")
    return name


def rows_of(copied: Copied, *options: str, code: int = 0) -> tuple[Path, dict[int, dict[str, Any]]]:
    path = copied.directory / f"{unique_name('plan')}.json"
    k2ktui("plan", "-f", copied.file, "-o", path, *options, code=code)
    return path, {row["partition"]: row for row in json.loads(path.read_text())["rows"]}


def test_a_chosen_row_is_planned_applied_journaled_and_undone(
    copied: Copied, topic: str, group: str, target: KafkaNode
) -> None:
    commit_offsets(target, group, {(topic, 1): 9}, "there before")
    path, rows = rows_of(copied, "--set", f"{group} {topic}:0=earliest")
    assert (rows[0]["basis"], rows[0]["proposed"], rows[0]["action"]) == ("chosen", 0, "create")
    assert (rows[0]["reread"], rows[0]["skipped"]) == (10, 0)
    choice = rows[0]["choice"]
    assert (choice["value"], choice["source"]) == ("earliest", f"{topic}-0@10")
    assert "@" in choice["by"]
    assert (rows[1]["basis"], rows[1]["proposed"], "choice" in rows[1]) == ("exact", 27, False)

    shown = k2ktui("apply", path, "--yes").stdout
    assert "chosen: earliest" in shown
    where = [(topic, 0), (topic, 1)]
    assert committed(target, group, where) == {(topic, 0): 0, (topic, 1): 27}
    entry = k2ktui_json("journal", "-f", copied.file)["journal"][0]["id"]
    (part,) = k2ktui_json("journal", "-f", copied.file, entry)["groups"]
    assert [row["choice"] for row in part["rows"]] == [choice, None]
    assert "applied; chosen: earliest, by" in k2ktui("journal", "-f", copied.file, entry).stdout

    proof = k2ktui_json("verify", "-f", copied.file, "--plan", path)
    assert (proof["positions"]["same"], proof["positions"]["different"]) == (1, 0)
    (left,) = proof["not_compared"]
    assert left["reason"].startswith("chosen: earliest, by")

    k2ktui("undo", "-f", copied.file, entry, "--yes")
    assert committed(target, group, where) == {(topic, 0): None, (topic, 1): 9}


def test_every_kind_of_value_leads_where_kafka_says(
    copied: Copied, topic: str, group: str, target: KafkaNode
) -> None:
    soon = datetime.now(UTC) + timedelta(minutes=30)  # brokers refuse what is an hour ahead
    produce(target, topic, [Out(b"later", b"k", 0, timestamp=int(soon.timestamp() * 1000))])
    end = PRIOR + COPIED
    expected = {
        "latest": (end + 1, 0, 20),
        "+3": (20, 0, 3),
        "-3": (14, 3, 0),
        "0": (0, 10, 0),
        "1990-01-01": (0, 10, 0),
        f"{soon - timedelta(minutes=10):%Y-%m-%dT%H:%M:%SZ}": (end, 0, 20),
        "2290-01-01": (end + 1, 0, 20),
    }
    for value, (offset, reread, skipped) in expected.items():
        (row, _) = rows_of(copied, "--set", f"{group} {topic}:0={value}")[1].values()
        assert (row["proposed"], row["reread"], row["skipped"]) == (offset, reread, skipped), value
        assert row["choice"]["value"] == value


def test_a_row_is_left_out_and_the_others_are_applied(
    copied: Copied, topic: str, group: str, target: KafkaNode
) -> None:
    path, rows = rows_of(copied, "--set", f"{group} {topic}:0=leave-out")
    assert (rows[0]["action"], rows[0]["proposed"]) == ("leave-out", None)
    assert (
        "1 left out"
        in k2ktui("plan", "-f", copied.file, "--set", f"{group} {topic}:0=leave-out").stdout
    )
    k2ktui("apply", path, "--yes")
    assert committed(target, group, [(topic, 0), (topic, 1)]) == {(topic, 0): None, (topic, 1): 27}


def test_what_cannot_be_set_is_refused_and_named(copied: Copied, topic: str, group: str) -> None:
    words = [f"{group} {topic}:0=38", f"{group} {topic}:7=earliest", f"nobody {topic}:0=1"]
    options = [option for word in words for option in ("--set", word)]
    done = k2ktui("plan", "-f", copied.file, *options, code=2)
    assert (
        f"{topic}:0=38: offset 38 is outside the target's log, which holds 0 to 37" in done.stderr
    )
    assert f"{topic}:7=earliest: the plan has no such row" in done.stderr
    assert f"nobody {topic}:0=1: the plan has no such row" in done.stderr
    assert "No plan was made" in done.stderr and done.stdout == ""
    done = k2ktui("plan", "-f", copied.file, "--set", f"{group} {topic}:0=soon", code=2)
    assert "expected an offset, an ISO-8601 time" in done.stderr


def test_a_partition_that_cannot_be_translated_is_set(
    copied: Copied, topic: str, group: str, source: KafkaNode, target: KafkaNode
) -> None:
    commit_offsets(source, group, {(topic, 0): 5000, (topic, 1): 20})
    _, rows = rows_of(copied)
    assert (rows[0]["basis"], rows[0]["action"]) == ("unmapped", "skip")
    path, rows = rows_of(copied, "--set", f"{group} {topic}:0=latest")
    assert (rows[0]["action"], rows[0]["reread"], rows[0]["skipped"]) == ("create", None, None)
    k2ktui("apply", path, "--yes")
    assert committed(target, group, [(topic, 0)]) == {(topic, 0): PRIOR + COPIED}


def sync_once(copied: Copied, *options: str) -> str:
    return k2ktui("sync", "-f", copied.file, "--once", *options).stdout


def rows_shown(copied: Copied) -> dict[int, dict[str, Any]]:
    return {row["partition"]: row for row in k2ktui_json("groups", "-f", copied.file)["groups"]}


def test_a_choice_holds_until_the_source_commit_moves(
    copied: Copied, topic: str, group: str, source: KafkaNode, target: KafkaNode
) -> None:
    """One row is set, one is left out: sync leaves both alone, and views say who chose."""
    words = [f"{group} {topic}:0=earliest", f"{group} {topic}:1=leave-out"]
    path, _ = rows_of(copied, *(part for word in words for part in ("--set", word)))
    entry = k2ktui_json("apply", path, "--yes")["id"]
    where = [(topic, 0), (topic, 1)]
    for _ in range(2):
        sync_once(copied, "--rewind", "follow")
        assert committed(target, group, where) == {(topic, 0): 0, (topic, 1): None}
    shown = rows_shown(copied)
    assert {row["basis"] for row in shown.values()} == {"chosen"}
    assert {row["divergence"] for row in shown.values()} == {None}
    assert all("@" in row["chosen_by"] for row in shown.values())
    assert shown[1]["reason"].endswith(": leave-out")
    text = k2ktui("groups", "-f", copied.file).stdout
    assert text.count(f"chosen by {shown[0]['chosen_by']}") >= 2
    proof = k2ktui_json("verify", "-f", copied.file)
    assert sum(proof["positions"].values()) == 0, "decided, not compared"
    assert [row["reason"] for row in proof["not_compared"]] == [shown[n]["reason"] for n in (0, 1)]
    # A plan of an operator decides anew.
    _, planned = rows_of(copied)
    assert [planned[n]["proposed"] for n in (0, 1)] == [17, 27]
    assert all(row["reason"].startswith("until now chosen by") for row in planned.values())

    # The journal has both, and its first row is moved by the source only.
    (part,) = k2ktui_json("journal", "-f", copied.file, entry)["groups"]
    assert [row["choice"]["value"] for row in part["rows"]] == ["earliest", "leave-out"]
    commit_offsets(source, group, {(topic, 0): 11, (topic, 1): 20}, "mine")
    sync_once(copied)
    assert committed(target, group, where) == {(topic, 0): 18, (topic, 1): None}
    assert [row["basis"] for row in rows_shown(copied).values()] == ["exact", "chosen"]


def test_without_rewind_what_was_chosen_is_left_until_the_source_has_passed_it(
    copied: Copied, topic: str, group: str, source: KafkaNode, target: KafkaNode
) -> None:
    """The source commit moves: the row is translated again, and would have to go back."""
    where, end = [(topic, 0)], PRIOR + COPIED
    path, _ = rows_of(copied, "--set", f"{group} {topic}:0=latest")
    k2ktui("apply", path, "--yes")
    commit_offsets(source, group, {(topic, 0): 11, (topic, 1): 20}, "mine")
    sync_once(copied)
    assert committed(target, group, where) == {(topic, 0): end}
    shown = rows_shown(copied)[0]
    assert (shown["basis"], shown["chosen_by"], shown["divergence"]) == ("exact", "", end - 18)
    _, planned = rows_of(copied, "--rewind", "never")
    assert planned[0]["action"] == "skip" and "the target is ahead" in planned[0]["reason"]
    commit_offsets(source, group, {(topic, 0): COPIED, (topic, 1): 20}, "mine")
    sync_once(copied)
    assert committed(target, group, where) == {(topic, 0): end}
    assert rows_of(copied)[1][0]["action"] == "keep"


def test_an_undo_forgets_what_was_chosen(
    copied: Copied, topic: str, group: str, target: KafkaNode
) -> None:
    where = [(topic, 0), (topic, 1)]
    words = [f"{group} {topic}:0=earliest", f"{group} {topic}:1=leave-out"]
    path, _ = rows_of(copied, *(part for word in words for part in ("--set", word)))
    entry = k2ktui_json("apply", path, "--yes")["id"]
    assert k2ktui_json("undo", "-f", copied.file, entry, "--yes")["counts"] == {"applied": 2}
    assert committed(target, group, where) == {(topic, 0): None, (topic, 1): None}
    assert {row["basis"] for row in rows_shown(copied).values()} == {"exact"}
    sync_once(copied)
    assert committed(target, group, where) == {(topic, 0): 17, (topic, 1): 27}


def test_a_plan_of_rows_left_out_only_is_applied_and_writes_nothing(
    copied: Copied, topic: str, group: str, target: KafkaNode
) -> None:
    commit_offsets(target, group, {(topic, 0): 9, (topic, 1): 9}, "app")
    words = [f"{group} {topic}:{n}=leave-out" for n in (0, 1)]
    path, _ = rows_of(copied, *(part for word in words for part in ("--set", word)))
    assert k2ktui_json("apply", path, "--yes")["counts"] == {"applied": 2}
    sync_once(copied)
    assert committed(target, group, [(topic, 0), (topic, 1)]) == {(topic, 0): 9, (topic, 1): 9}
    # Applied again it says the same; a plan without the choice ends it.
    k2ktui("apply", rows_of(copied)[0], "--yes")
    assert {row["basis"] for row in rows_shown(copied).values()} == {"exact"}
