"""What a cluster refuses is said once, and asked again only after a while."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from confluent_kafka.admin import AclOperation, ResourceType

from k2ktui.engine.parity.model import ParityAction
from k2ktui.errors import ExitCode
from k2ktui.kafka.admin.topics import alter_topics
from k2ktui.kafka.clients import source_cluster
from k2ktui.parity.reader import ParityReader
from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.kafka import create_topic, eventually, unique_name
from tests.support.clusters.secure import SecureNode
from tests.support.commands.cli import k2ktui
from tests.support.pipelines.copied import Copied
from tests.support.pipelines.sync import running_sync

pytestmark = pytest.mark.slow

USER = "copier"
RIGHTS = (AclOperation.READ, AclOperation.WRITE, AclOperation.CREATE, AclOperation.DESCRIBE_CONFIGS)


def test_without_rights_on_the_target(
    source: KafkaNode, secure: SecureNode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copied, topic = Copied(tmp_path, source, secure.node), unique_name("rights")
    copied.put_run()
    for node in (source, secure.node):
        create_topic(node, topic)
    for name in (copied.commits, copied.mappings, copied.state, topic):
        secure.allow(USER, RIGHTS, name)
    secure.allow(USER, [AclOperation.READ], "*", ResourceType.GROUP)
    copied.settings = {
        "target": {"kafka": {"common": secure.java(USER)}},
        "replication": [
            {"source": {"topic": [topic]}},
            {"sink": {"topic": "source", "partition": "source"}},
        ],
        "parity": {"acls": {"mode": "off"}, "topicConfigs": {"mode": "apply"}},
    }
    assert alter_topics(source_cluster(copied.config), {topic: {"retention.ms": "3600000"}}) == {}
    plan = tmp_path / "plan.json"

    def compared() -> bool:
        return make_plan(copied, plan).returncode == ExitCode.FINDINGS

    eventually(compared, lambda: f"the setting is known: {make_plan(copied, plan)}")
    made = json.loads(plan.read_text())
    (row,) = made["rows"]
    assert row["action"] == "report" and "the target refuses it" in row["why"]
    (note,) = made["notes"]
    assert note.startswith("quotas are not compared: ") and "DescribeConfigs" in note

    log = tmp_path / "log"
    with running_sync(copied, log):
        eventually(lambda: "quotas are not compared" in log.read_text(), "it says so")
        # Another setting shows that it has compared again.
        second = {topic: {"segment.bytes": "2000000"}}
        assert alter_topics(source_cluster(copied.config), second) == {}
        eventually(lambda: "segment.bytes" in log.read_text(), "another poll")
    text = log.read_text()
    assert text.count("quotas are not compared") == 1, text
    assert text.count(f"{topic} retention.ms") == 1, text
    assert "parity: set" not in text

    reader = ParityReader(copied.config)
    try:
        assert actions(reader) == {ParityAction.REPORT}
        secure.allow(USER, [AclOperation.ALTER_CONFIGS], topic)
        plan_until_set(copied, plan)
        assert actions(reader) == {ParityAction.REPORT}  # it is not asked again yet
        monkeypatch.setattr("k2ktui.parity.reader.ASK_AGAIN_S", 0.0)
        assert actions(reader) == {ParityAction.SET}
    finally:
        reader.close()


def actions(reader: ParityReader) -> set[ParityAction]:
    return {row.action for row in reader.read().differences}


def make_plan(copied: Copied, plan: Path) -> subprocess.CompletedProcess[str]:
    """Compare; a busy cluster that does not answer in time is a reason to ask again."""
    return k2ktui("parity", "plan", "-f", copied.file, "-o", plan, code=None)


def plan_until_set(copied: Copied, plan: Path) -> None:
    """Plan until the target knows the right."""

    def planned() -> bool:
        make_plan(copied, plan)
        return {row["action"] for row in json.loads(plan.read_text())["rows"]} == {"set"}

    eventually(planned, "the right is known")
