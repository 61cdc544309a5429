"""Groups of the target: deleted whole and in part, journaled and undone on real clusters."""

from __future__ import annotations

import json

import pytest

from k2ktui.runtime.node import KafkaNode
from tests.brokers.sync.test_races import member
from tests.support.clusters.kafka import admin, create_topic, eventually
from tests.support.commands.cli import k2ktui, k2ktui_json
from tests.support.oracle.group_offsets import commit_offsets
from tests.support.pipelines.copied import Copied, committed

pytestmark = pytest.mark.slow


def exists(node: KafkaNode, group: str) -> bool:
    listed = admin(node).list_consumer_groups().result().valid
    return any(one.group_id == group for one in listed)


def test_a_group_of_the_target_is_deleted_and_committed_again(
    copied: Copied, topic: str, target: KafkaNode
) -> None:
    group, other = copied.group("gone"), create_topic(target)
    where = [(topic, 0), (other, 0)]
    commit_offsets(target, group, {where[0]: 20, where[1]: 0}, "mine")
    delete = ("groups", "delete", group, "-f", copied.file)
    shown = json.loads(k2ktui(*delete, "--dry-run", "--json").stdout)
    assert (shown["whole_group"], len(shown["rows"])) == (True, 2)
    k2ktui(*delete, code=5)  # nobody has confirmed it
    assert committed(target, group, where) == {where[0]: 20, where[1]: 0}

    part = k2ktui_json(*delete, "--topic", other, "--yes")
    assert part["counts"] == {"applied": 1}
    assert committed(target, group, where) == {where[0]: 20, where[1]: None}
    whole = k2ktui_json(*delete, "--yes")
    eventually(lambda: not exists(target, group), "the group is gone")
    assert "delete" in k2ktui("journal", "-f", copied.file).stdout
    for entry in (whole, part):
        k2ktui("undo", "-f", copied.file, entry["id"], "--yes")
    assert committed(target, group, where) == {where[0]: 20, where[1]: 0}


def test_a_group_that_is_used_stays(copied: Copied, topic: str, target: KafkaNode) -> None:
    used, where = copied.group("used"), (topic, 0)
    commit_offsets(target, used, {where: 20})
    with member(target, used, topic, "classic"):
        refused = k2ktui("groups", "delete", used, "-f", copied.file, "--yes", code=5)
    assert "in use on the target" in refused.stderr
    assert committed(target, used, [where]) == {where: 20}
    missing = copied.group("none")
    k2ktui("groups", "delete", missing, "-f", copied.file, "--yes", code=2)
