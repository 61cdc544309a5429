"""Groups of one cluster: set, copied, journaled and undone on real clusters, without a mapping."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from k2ktui.engine.drill.checks import DrillKind
from k2ktui.engine.drill.model import DrillStatus
from k2ktui.runtime.node import KafkaNode
from tests.brokers.sync.test_races import member
from tests.support.clusters.acls import documented, renamed
from tests.support.clusters.kafka import create_topic, produce
from tests.support.clusters.secure import SecureNode
from tests.support.commands.cli import k2ktui, k2ktui_json
from tests.support.commands.terminal import k2ktui_typing
from tests.support.drill.planted import plant, planted
from tests.support.oracle.group_offsets import commit_offsets
from tests.support.pipelines.copied import Copied, committed

pytestmark = pytest.mark.slow

SECURITY = Path(__file__).parents[3] / "docs" / "security.md"
USER = "resetter"


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


def test_a_group_of_the_source_is_reset_with_a_typed_name(
    copied: Copied, topic: str, source: KafkaNode, target: KafkaNode
) -> None:
    group, other, where = copied.group("app"), copied.group("new"), (topic, 0)
    commit_offsets(source, group, {where: 20}, "mine")
    commit_offsets(target, group, {where: 27})
    reset = ("groups", "reset", group, "-f", copied.file, "--side", "source", "--to", "-5")
    planned = json.loads(k2ktui(*reset, "--dry-run", "--json").stdout)
    (row,) = planned["rows"]
    assert (planned["side"], row["current"], row["proposed"]) == ("source", 20, 15)

    assert "--yes does not confirm" in k2ktui(*reset, "--yes", code=5).stderr
    assert "Run it in a terminal" in k2ktui(*reset, code=5).stderr
    assert "did not match" in k2ktui_typing("wrong", *reset, code=5).stderr
    assert committed(source, group, [where]) == {where: 20}
    applied = json.loads(k2ktui_typing(copied.name, *reset, "--json").stdout)
    assert committed(source, group, [where]) == {where: 15}
    assert committed(target, group, [where]) == {where: 27}, "nothing of the target is written"
    (entry,) = [
        one
        for one in k2ktui_json("journal", "-f", copied.file)["journal"]
        if one["id"] == applied["id"]
    ]
    assert entry["operation"] == "source reset"
    undo = ("undo", "-f", copied.file, applied["id"])
    assert "--yes does not confirm" in k2ktui(*undo, "--yes", code=5).stderr

    drill = planted(copied.config, DrillKind.PLANNED)
    plant(copied.config, target, drill)
    for command in (reset, undo):
        assert f"drill {drill.id} of" in k2ktui_typing(copied.name, *command, code=5).stderr
    plant(copied.config, target, replace(drill, status=DrillStatus.ABORTED))

    k2ktui_typing(copied.name, *undo)
    assert committed(source, group, [where]) == {where: 20}
    copy = ("groups", "reset", other, "-f", copied.file, "--side", "source", "--copy-from", group)
    k2ktui_typing(copied.name, *copy)
    assert committed(source, other, [where]) == {where: 20}


def test_a_saved_plan_of_the_source_is_applied_there(
    copied: Copied, topic: str, source: KafkaNode, target: KafkaNode, tmp_path: Path
) -> None:
    group, where = copied.group("app"), (topic, 0)
    commit_offsets(source, group, {where: 20})
    reset = ("groups", "reset", group, "-f", copied.file, "--side", "source", "--to", "latest")
    plan = tmp_path / "plan.json"
    plan.write_text(k2ktui(*reset, "--dry-run", "--json").stdout)
    assert "--yes does not confirm" in k2ktui("apply", plan, "--yes", code=5).stderr
    said = k2ktui_typing(copied.name, "apply", plan)
    assert "commit 1 offset on the source" in said.stderr
    assert committed(source, group, [where]) == {where: 50}
    assert committed(target, group, [where]) == {where: None}


def test_the_documented_rights_are_enough(
    secure: SecureNode, target: KafkaNode, tmp_path: Path
) -> None:
    """Without them, the group cannot be seen, and nothing is written."""
    source = secure.node
    copied = Copied(tmp_path, source, target)
    kafka = {"kafka": {"common": secure.java(USER)}}
    topic = create_topic(source)
    produce(source, topic, [b"%d" % n for n in range(50)])
    copied.copy(topic)
    copied.settings = {"source": kafka}
    group, where = copied.group("app"), (topic, 0)
    commit_offsets(source, group, {where: 20})
    for grant in renamed(documented(SECURITY, "source rights"), {"orders": [topic]}):
        grant.give(secure, USER)
    reset = ("groups", "reset", group, "-f", copied.file, "--side", "source", "--to", "10")
    assert "no committed offset" in k2ktui_typing(copied.name, *reset, code=2).stderr
    assert committed(source, group, [where]) == {where: 20}
    new = copied.group("new")
    names = {"billing": [group, new]}
    for grant in renamed(documented(SECURITY, "source groups"), names):
        grant.give(secure, USER)
    k2ktui_typing(copied.name, *reset)
    assert committed(source, group, [where]) == {where: 10}
    copy = ("groups", "reset", new, "-f", copied.file, "--side", "source", "--copy-from", group)
    entry = json.loads(k2ktui_typing(copied.name, *copy, "--json").stdout)["id"]
    k2ktui_typing(copied.name, "undo", "-f", copied.file, entry)
    assert committed(source, new, [where]) == {where: None}
