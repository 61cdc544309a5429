"""Settings and quotas changed by hand on the source are reported, applied, and undone."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from k2ktui.engine.drill.changes import Entity
from k2ktui.engine.parity.model import MOST_SETS
from k2ktui.kafka.admin.quotas import alter_client_quotas, client_quotas
from k2ktui.kafka.admin.topics import alter_topics, topic_settings
from k2ktui.kafka.clients import Cluster, source_cluster, target_cluster
from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.kafka import create_topic, eventually, unique_name
from tests.support.commands.cli import k2ktui, k2ktui_json
from tests.support.pipelines.copied import Copied
from tests.support.pipelines.sync import running_sync

pytestmark = pytest.mark.slow

RATE = "producer_byte_rate"


class Pair:
    """A topic and a user of a pipeline with one mode for all of parity."""

    def __init__(
        self, copied: Copied, mode: str = "report", **parity: Mapping[str, object]
    ) -> None:
        self.copied = copied
        self.topic, self.user = unique_name("parity"), unique_name("user")
        for node in (copied.source, copied.target):
            create_topic(node, self.topic)
        quotas: dict[str, object] = {"mode": mode, "include": [f"user={self.user}"]}
        section: dict[str, Mapping[str, object]] = {
            "topicConfigs": {"mode": mode},
            "acls": {"mode": "off"},
            "quotas": quotas,
        }
        for kind, given in parity.items():
            section[kind] = {**section[kind], **given}
        copied.settings = {
            "replication": [
                {"source": {"topic": [self.topic]}},
                {"sink": {"topic": "source", "partition": "source"}},
            ],
            "parity": section,
        }
        config = copied.config
        self.source, self.target = source_cluster(config), target_cluster(config)

    @property
    def entity(self) -> Entity:
        return (("user", self.user),)

    def set(self, cluster: Cluster, **settings: str | None) -> None:
        values = {name.replace("_", "."): value for name, value in settings.items()}
        assert alter_topics(cluster, {self.topic: values}) == {}
        eventually(
            lambda: all(own(cluster, self.topic, k) == v for k, v in values.items()),
            "the settings are known",
        )

    def limit(self, cluster: Cluster, rate: float | None, key: str = RATE) -> None:
        assert alter_client_quotas(cluster, {self.entity: {key: rate}}) == {}
        eventually(lambda: self.rate(cluster, key) == rate, "the quota is known")

    def rate(self, cluster: Cluster, key: str = RATE) -> float | None:
        return client_quotas(cluster).get(self.entity, {}).get(key)


def own(cluster: Cluster, topic: str, setting: str) -> str | None:
    """Return the value that is set on a topic itself."""
    settings = topic_settings(cluster, [topic])[topic]
    assert isinstance(settings, dict)
    entry = settings[setting]
    return None if entry.is_default else entry.value


@pytest.fixture
def copied(source: KafkaNode, target: KafkaNode, tmp_path: Path) -> Copied:
    return Copied(tmp_path, source, target)


def test_planned_applied_and_undone(copied: Copied, tmp_path: Path) -> None:
    pair, plan = Pair(copied), tmp_path / "parity.json"
    equal = k2ktui("parity", "plan", "-f", copied.file).stdout
    assert equal.endswith(": no difference.\n") and len(equal.splitlines()) <= 2
    pair.set(pair.source, retention_ms="3600000", segment_bytes="2000000")
    pair.set(pair.target, segment_bytes="3000000", min_insync_replicas="1")
    pair.limit(pair.source, 5e6)

    done = k2ktui("parity", "plan", "-f", copied.file, "-o", plan, code=1)
    assert "3 differences: 3 to set, 0 to remove, 0 only reported." in done.stdout
    rows = json.loads(plan.read_text())["rows"]
    assert {(r["item"]["key"], r["target"], r["before"], r["wanted"]) for r in rows} == {
        ("retention.ms", "604800000", None, "3600000"),
        ("segment.bytes", "3000000", "3000000", "2000000"),
        (RATE, None, None, "5000000"),
    }
    refused = k2ktui("parity", "apply", plan, code=5)  # standard input is no terminal
    assert "confirmation is required" in refused.stderr
    assert own(pair.target, pair.topic, "retention.ms") is None

    applied = k2ktui_json("parity", "apply", plan, "--yes")
    assert applied["counts"] == {"applied": 3}
    assert own(pair.target, pair.topic, "retention.ms") == "3600000"
    assert own(pair.target, pair.topic, "segment.bytes") == "2000000"
    assert pair.rate(pair.target) == 5e6
    k2ktui("parity", "plan", "-f", copied.file)
    journal = k2ktui("journal", "-f", copied.file).stdout
    assert applied["id"] in journal and "parity apply" in journal
    entry = k2ktui("journal", applied["id"], "-f", copied.file).stdout
    assert re.search(rf"{pair.topic} segment\.bytes.*3000000.*2000000.*applied", entry)
    other = k2ktui("undo", applied["id"], "-f", copied.file, "--yes", code=5).stderr
    assert f"k2ktui parity undo {applied['id']}" in other

    again = k2ktui("parity", "apply", plan, "--yes", code=5)
    assert "has changed since" in again.stderr and "no longer differ" in again.stderr

    undone = k2ktui_json("parity", "undo", applied["id"], "--yes")
    assert undone["counts"] == {"applied": 3}
    assert own(pair.target, pair.topic, "retention.ms") is None
    assert own(pair.target, pair.topic, "segment.bytes") == "3000000"
    assert pair.rate(pair.target) is None
    moved = k2ktui("parity", "undo", applied["id"], "--yes", code=5)
    assert "already undone" in moved.stderr and "has changed since" in moved.stderr


def test_what_has_moved_since_the_plan_is_not_changed(copied: Copied, tmp_path: Path) -> None:
    pair, plan = Pair(copied), tmp_path / "parity.json"
    pair.set(pair.source, retention_ms="3600000", segment_bytes="2000000")
    k2ktui("parity", "plan", "-f", copied.file, "-o", plan, code=1)
    pair.set(pair.target, retention_ms="1000000")
    refused = k2ktui("parity", "apply", plan, "--yes", code=5)
    assert "the target has 1000000 instead of 604800000" in refused.stderr
    pair.set(pair.target, retention_ms=None)
    pair.set(pair.source, retention_ms="5000000")
    refused = k2ktui("parity", "apply", plan, "--yes", code=5)
    assert "the wanted value is 5000000 instead of 3600000" in refused.stderr
    assert own(pair.target, pair.topic, "segment.bytes") is None
    k2ktui("parity", "plan", "-f", copied.file, "-o", plan, "--valid", "0", code=1)
    assert "expired" in k2ktui("parity", "apply", plan, "--yes", code=5).stderr


def test_what_the_file_includes_and_excludes(copied: Copied, tmp_path: Path) -> None:
    topics = {"include": ["retention.*", "segment.*"], "exclude": ["segment.bytes"]}
    pair = Pair(copied, topicConfigs=topics, quotas={"exclude": ["user=.*"]})
    pair.set(pair.source, retention_ms="3600000", segment_bytes="2000000", flush_ms="1000")
    pair.limit(pair.source, 5e6)
    plan = k2ktui_json("parity", "plan", "-f", copied.file, code=1)
    assert [row["item"]["key"] for row in plan["rows"]] == ["retention.ms"]
    copied.settings = {**copied.settings, "parity": {"acls": {"mode": "off"}}}
    plan = k2ktui_json("parity", "plan", "-f", copied.file, "--kind", "quotas", code=1)
    assert f"user={pair.user}" in [row["item"]["name"] for row in plan["rows"]]
    off = {kind: {"mode": "off"} for kind in ("topicConfigs", "acls", "quotas")}
    copied.settings = {**copied.settings, "parity": off}
    k2ktui("parity", "plan", "-f", copied.file)


def test_rights_to_change(copied: Copied, tmp_path: Path) -> None:
    pair, plan = Pair(copied), tmp_path / "parity.json"
    pair.set(pair.source, retention_ms="3600000")
    copied.settings = {**copied.settings, "environment": "production"}
    k2ktui("parity", "plan", "-f", copied.file, "-o", plan, code=1)
    assert "unlock" in k2ktui("parity", "apply", plan, "--yes", code=5).stderr
    entry = k2ktui_json("parity", "apply", plan, "--yes", "--unlock")["id"]
    assert "unlock" in k2ktui("parity", "undo", entry, "--yes", code=5).stderr
    copied.settings = {**copied.settings, "readOnly": "enabled"}
    refused = k2ktui("parity", "undo", entry, "-f", copied.file, "--yes", "--unlock", code=5)
    assert "readOnly" in refused.stderr
    assert own(pair.target, pair.topic, "retention.ms") == "3600000"


def test_what_the_target_refuses_is_named_and_not_tried(copied: Copied, tmp_path: Path) -> None:
    pair, plan = Pair(copied, topicConfigs={"mode": "report", "exclude": []}), tmp_path / "p.json"
    pair.set(pair.source, min_insync_replicas="2", retention_ms="3600000")
    pair.set(pair.source, remote_storage_enable="false", local_retention_ms="1000")
    creation = {"replication": {"common": {"config": {"segment.bytes": "1"}}}}
    control = {"control": {"common": {"replication": 1}}}
    copied.settings = {**copied.settings, "topicCreation": {**creation, **control}}
    k2ktui("parity", "plan", "-f", copied.file, "-o", plan, code=1)
    rows = {row["item"]["key"]: row for row in json.loads(plan.read_text())["rows"]}
    assert "has 1 replica:" in rows["min.insync.replicas"]["why"]
    assert "no tiered storage" in rows["local.retention.ms"]["why"]
    assert "the target refuses it" in rows["segment.bytes"]["why"]
    assert [key for key, row in rows.items() if row["action"] == "set"] == ["retention.ms"]
    k2ktui("parity", "apply", plan, "--yes")
    assert own(pair.target, pair.topic, "segment.bytes") is None


def test_only_what_parity_created_is_removed_and_only_by_plan(
    copied: Copied, tmp_path: Path
) -> None:
    pair, plan = Pair(copied, "apply"), tmp_path / "parity.json"
    pair.set(pair.source, retention_ms="3600000")
    pair.limit(pair.source, 5e6)
    pair.limit(pair.target, 7e6, "consumer_byte_rate")
    done = k2ktui("sync", "-f", copied.file, "--once", code=None)
    assert f"parity: set topicConfig {pair.topic} retention.ms" in done.stderr
    assert own(pair.target, pair.topic, "retention.ms") == "3600000"
    assert pair.rate(pair.target) == 5e6
    pair.set(pair.source, retention_ms=None)
    pair.limit(pair.source, None)
    k2ktui("sync", "-f", copied.file, "--once", code=None)
    assert own(pair.target, pair.topic, "retention.ms") == "3600000"
    assert pair.rate(pair.target) == 5e6
    k2ktui("parity", "plan", "-f", copied.file, "-o", plan, code=1)
    rows = {row["item"]["key"]: row["action"] for row in json.loads(plan.read_text())["rows"]}
    assert rows == {"retention.ms": "remove", RATE: "remove", "consumer_byte_rate": "report"}
    k2ktui("parity", "apply", plan, "--yes")
    assert own(pair.target, pair.topic, "retention.ms") is None
    assert pair.rate(pair.target) is None
    assert pair.rate(pair.target, "consumer_byte_rate") == 7e6


def test_sync_reports_and_keeps_in_step(copied: Copied, tmp_path: Path) -> None:
    copied.put_run()
    pair = Pair(copied, "report", quotas={"mode": "apply"})
    pair.limit(pair.source, 5e6)
    log = tmp_path / "log"
    with running_sync(copied, log):
        eventually(lambda: pair.rate(pair.target) == 5e6, "the quota is set")
        pair.set(pair.source, retention_ms="3600000")
        name = f"parity: differs: topicConfig {pair.topic} retention.ms"
        eventually(lambda: name in log.read_text(), "the setting is reported")
        assert own(pair.target, pair.topic, "retention.ms") is None
        pair.limit(pair.source, 6e6)
        eventually(lambda: pair.rate(pair.target) == 6e6, "the quota is kept in step")
        undo = r"to undo: k2ktui parity undo (\S+)\n"
        _, entry = eventually(
            lambda: len(ids := re.findall(undo, log.read_text())) == 2 and ids, "it is reported"
        )
        k2ktui("parity", "undo", entry, "-f", copied.file, "--yes")
        # What an operator has undone stays until the source changes.
        pair.set(pair.source, segment_bytes="2000000")
        name = f"parity: differs: topicConfig {pair.topic} segment.bytes"
        eventually(lambda: name in log.read_text(), "another poll")
        assert pair.rate(pair.target) == 5e6
        pair.limit(pair.source, 8e6)
        eventually(lambda: pair.rate(pair.target) == 8e6, "the source has changed")
        assert log.read_text().count(f"{pair.topic} retention.ms") == 1


def test_what_something_sets_back_is_left_alone(copied: Copied, tmp_path: Path) -> None:
    """Two pipelines of opposite directions could otherwise swap their values for ever."""
    copied.put_run()
    pair, log = Pair(copied, "apply"), tmp_path / "log"
    quota = f"quota user={pair.user} {RATE}"
    pair.limit(pair.source, 5e6)

    def was_set(times: int) -> None:
        eventually(
            lambda: log.read_text().count(f"parity: set {quota}") == times, f"set {times} times"
        )

    with running_sync(copied, log):
        for times in range(1, MOST_SETS + 1):
            was_set(times)
            assert alter_client_quotas(pair.target, {pair.entity: {RATE: 7e6}}) == {}
        eventually(lambda: "something sets it back" in log.read_text(), "it is left alone")
        pair.set(pair.source, retention_ms="3600000")
        setting = f"parity: set topicConfig {pair.topic} retention.ms"
        eventually(lambda: setting in log.read_text(), "another poll")
        was_set(MOST_SETS)
        assert log.read_text().count("something sets it back") == 1
        pair.limit(pair.source, 6e6)
        eventually(lambda: pair.rate(pair.target) == 6e6, "another value is set")
