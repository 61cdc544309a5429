"""Groups that exist on the target only: set, copied, journaled and undone on real clusters."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from k2ktui.runtime.node import KafkaNode
from tests.brokers.sync.test_races import member
from tests.support.clusters.kafka import create_topic, produce
from tests.support.commands.cli import k2ktui, k2ktui_json
from tests.support.oracle.group_offsets import commit_offsets
from tests.support.pipelines.copied import Copied, committed

pytestmark = pytest.mark.slow


@pytest.fixture
def copied(source: KafkaNode, target: KafkaNode, tmp_path: Path) -> Copied:
    return Copied(tmp_path, source, target)


@pytest.fixture
def topic(copied: Copied, source: KafkaNode) -> str:
    """A copied topic; each record lands 7 offsets further on, the last at 56."""
    name = create_topic(source)
    produce(source, name, [b"%d" % n for n in range(50)])
    copied.copy(name)
    return name


def test_a_group_of_the_target_is_set_copied_and_put_back(
    copied: Copied, topic: str, target: KafkaNode
) -> None:
    group, new, where = copied.group("there"), copied.group("new"), (topic, 0)
    commit_offsets(target, group, {where: 20}, "mine")
    reset = ("groups", "reset", group, "-f", copied.file)
    planned = json.loads(k2ktui(*reset, "--to", "-5", "--dry-run", "--json").stdout)
    (row,) = planned["rows"]
    assert (row["proposed"], row["reread"], row["skipped"], row["basis"]) == (15, 5, 0, "chosen")
    assert committed(target, group, [where]) == {where: 20}

    k2ktui(*reset, "--to", "earliest", code=5)  # nobody has confirmed it
    applied = k2ktui_json(*reset, "--to", "earliest", "--yes")
    assert (applied["counts"], committed(target, group, [where])) == ({"applied": 1}, {where: 0})
    (part,) = k2ktui_json("journal", "-f", copied.file, applied["id"])["groups"]
    assert part["rows"][0]["choice"]["value"] == "earliest"
    k2ktui("undo", "-f", copied.file, applied["id"], "--yes")
    assert committed(target, group, [where]) == {where: 20}

    entry = k2ktui_json("groups", "reset", new, "-f", copied.file, "--copy-from", group, "--yes")
    assert committed(target, new, [where]) == {where: 20}
    k2ktui("undo", "-f", copied.file, entry["id"], "--yes")
    assert committed(target, new, [where]) == {where: None}


def test_what_is_not_reset(
    copied: Copied, topic: str, source: KafkaNode, target: KafkaNode
) -> None:
    both, used, where = copied.group("both"), copied.group("used"), (topic, 0)
    commit_offsets(source, both, {where: 3})
    for group in (both, used):
        commit_offsets(target, group, {where: 20})

    def reset(group: str, *options: str, code: int) -> str:
        return k2ktui("groups", "reset", group, "-f", copied.file, *options, code=code).stderr

    assert "plan --set" in reset(both, "--to", "latest", "--yes", code=5)
    assert "outside the target's log" in reset(used, "--to", "58", "--yes", code=2)
    assert "no committed offset" in reset(copied.group("none"), "--to", "1", "--yes", code=2)
    assert "either --to or --copy-from" in reset(used, code=2)
    with member(target, used, topic, "classic"):
        assert "Nothing to apply" in reset(used, "--to", "latest", "--yes", code=1)
    assert committed(target, used, [where]) != {where: 57}, "it has a member"
    assert "go after it" in k2ktui("groups", "-f", copied.file, "reset", used, code=2).stderr
    assert "-f" in k2ktui("groups", code=2).stderr
