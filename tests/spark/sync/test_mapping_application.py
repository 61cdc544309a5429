"""The offset mapping application's own file: its own name, and no ``replication`` section."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pytest
from confluent_kafka.admin import ConfigResource, ResourceType

from k2ktui.engine.records.cluster_pair import ClusterPair
from k2ktui.kafka.clients import TopicDescription
from k2ktui.runtime.node import KafkaNode
from tests.brokers.sync.test_races import member
from tests.support.clusters.kafka import (
    TIMEOUT,
    admin,
    create_topic,
    produce,
    read_all,
    unique_name,
)
from tests.support.commands.cli import k2ktui, k2ktui_json
from tests.support.oracle.group_offsets import commit_offsets
from tests.support.pipelines.copied import Copied, committed
from tests.support.pipelines.pipeline import Pipeline
from tests.support.records.lenses import OFFSET_MAPPING_APPLICATION

slow = pytest.mark.slow
COUNT, PRIOR = 50, 7

# What the tests of one cluster must not share, and a cluster with one broker cannot have.
COORDINATION = """\
coordination:
  commit:
    topic: "{commits}"
  state:
    topic: "{state}"
"""


@dataclass
class Mapper:
    """The mapping application with its documented file, beside a pipeline of another name.

    Attributes:
        copied: a pipeline between the same clusters, whose topics it uses.
    """

    copied: Copied
    mappings: str = ""
    conflicts: str = "fail"
    active: str = "fail"
    name: str = field(default_factory=lambda: unique_name("offset-mapping"))

    @property
    def file(self) -> Path:
        """Its file."""
        copied = self.copied
        suffix = self.name.replace("-", "_")
        changes = {
            '"offset-mapping-production"': f'"{self.name}"',
            "source-kafka:9092": copied.source.bootstrap,
            "target-kafka:9093": copied.target.bootstrap,
            "^my-app-": f"^{copied.name}-",
            "__k2k_offset_mappings": self.mappings or copied.mappings,
            "__k2k_metrics": f"__metrics_{suffix}",
            "replication: 3": "replication: 1",
            '"min.insync.replicas": "2"': '"min.insync.replicas": "1"',
            "onMultipleTargetCommittedOffsets: fail": (
                f"onMultipleTargetCommittedOffsets: {self.conflicts}"
            ),
            "onActiveConsumerGroupCommit: fail": f"onActiveConsumerGroupCommit: {self.active}",
        }
        text = OFFSET_MAPPING_APPLICATION
        for documented, ours in changes.items():
            assert documented in text
            text = text.replace(documented, ours)
        text += COORDINATION.format(commits=copied.commits, state=f"__state_{suffix}")
        path = copied.directory / f"{self.name}.yaml"
        path.write_text(text)
        return path


@pytest.fixture
def copied(source: KafkaNode, target: KafkaNode, tmp_path: Path) -> Copied:
    return Copied(tmp_path, source, target, prior=PRIOR)


@pytest.fixture
def topic(copied: Copied, source: KafkaNode) -> str:
    """A copied topic; each record lands 7 offsets further on."""
    name = create_topic(source)
    produce(source, name, [b"%d" % n for n in range(COUNT)])
    copied.copy(name)
    return name


def map_again(copied: Copied, topic: str, tmp_path: Path) -> Copied:
    """Copy a topic once more, by a second pipeline that shares the control topics.

    The first one copies another record afterwards: it is not a former name.
    """
    competitor = Copied(tmp_path, copied.source, copied.target, prior=0)
    competitor.mappings, competitor.commits = copied.mappings, copied.commits
    landed = {at: at + PRIOR + COUNT for at in range(COUNT)}
    produce(copied.target, topic, [got.value or b"" for got in read_all(copied.source, topic)])
    competitor.record(topic, 0, landed, COUNT, 0)
    produce(copied.source, topic, [b"%d" % COUNT])
    (last,) = produce(copied.target, topic, [b"%d" % COUNT])
    copied.record(topic, 0, {COUNT: last}, COUNT + 1, 0, COUNT)
    return competitor


def test_commands_find_the_mappings_of_a_pipeline_of_another_name(
    copied: Copied, topic: str, source: KafkaNode, target: KafkaNode
) -> None:
    copied.put_run()
    where, groups = (topic, 0), [copied.group("a"), copied.group("b")]
    for group in groups:
        commit_offsets(source, group, {where: 20})
    file = Mapper(copied).file
    assert {row["translated_offset"] for row in k2ktui_json("groups", "-f", file)["groups"]} == {27}
    (row,) = k2ktui_json("translate", "-f", file, f"{topic}:0:11")["positions"]
    assert (row["translated_offset"], row["basis"]) == (18, "exact")
    plan = copied.directory / "plan.json"
    k2ktui("plan", "-f", file, "--group", groups[0], "-o", plan)
    k2ktui("apply", plan, "--yes")
    assert committed(target, groups[0], [where]) == {where: 27}
    assert "1 committed" in k2ktui("sync", "-f", file, "--once").stdout
    assert committed(target, groups[1], [where]) == {where: 27}
    assert topic in k2ktui("status", "-f", file).stdout
    assert "groups 2: 2 exact" in k2ktui("watch", "-f", file, "--once").stdout
    assert k2ktui_json("verify", "-f", file)["positions"]["same"] == 2


@pytest.mark.parametrize("order", [1, -1])
def test_the_pipelines_file_and_its_own_in_layers(
    copied: Copied, topic: str, source: KafkaNode, target: KafkaNode, order: int
) -> None:
    """Lenses' "Reusing the K2K configuration": the mappings are under the pipeline's name."""
    where, group = (topic, 0), copied.group("g")
    commit_offsets(source, group, {where: 20})
    mapper = Mapper(copied)
    files = [part for file in [copied.file, mapper.file][::order] for part in ("-f", file)]
    done = k2ktui("sync", *files, "--once")
    assert "1 group: 1 create; 1 committed" in done.stdout
    assert f"pipeline, {copied.name}; {mapper.name} names the mapping application" in done.stderr
    assert committed(target, group, [where]) == {where: 27}


@slow
def test_no_pipeline_between_these_clusters_is_an_error(
    copied: Copied, topic: str, source: KafkaNode
) -> None:
    """Runs of an earlier release, of another source and of another topic are not used."""
    commit_offsets(source, copied.group("g"), {(topic, 0): 20})
    ours = ClusterPair(source.cluster_id, copied.target.cluster_id, copied.mappings)
    file = Mapper(copied).file
    commands = (["sync", "--once"], ["groups"], ["plan"], ["status"], ["watch", "--once"])
    for command, *more in (*commands, ["translate", f"{topic}:0:11"]):
        done = k2ktui(command, "-f", file, *more, code=1)
        assert f"pipeline {copied.name}: its clusters are unknown" in done.stdout + done.stderr
    copied.put_run(ClusterPair("elsewhere", ours.target, ours.mapping_topic))
    assert "from cluster elsewhere" in k2ktui("sync", "-f", file, "--once", code=1).stderr
    copied.put_run(ClusterPair(ours.source, ours.target, "__other"))
    assert "mappings in __other" in k2ktui("sync", "-f", file, "--once", code=1).stderr


@slow
@pytest.mark.parametrize("conflicts", ["fail", "skip", "ignore"])
def test_several_pipelines_between_these_clusters(
    copied: Copied,
    topic: str,
    source: KafkaNode,
    target: KafkaNode,
    tmp_path: Path,
    conflicts: str,
) -> None:
    copied.put_run()
    alone = create_topic(source)
    produce(source, alone, [b"%d" % n for n in range(COUNT)])
    copied.copy(alone)
    competitor = map_again(copied, topic, tmp_path)
    competitor.put_run()
    both, one = copied.group("both"), copied.group("one")
    commit_offsets(source, both, {(topic, 0): 20})
    commit_offsets(source, one, {(alone, 0): 20})
    mapper = Mapper(copied, conflicts=conflicts)
    done = k2ktui("sync", "-f", mapper.file, "--once", code=conflicts == "fail")
    assert copied.name in done.stderr and competitor.name in done.stderr
    # The pipeline that was started last counts.
    expected = {"fail": (None, None), "skip": (None, 27), "ignore": (20 + PRIOR + COUNT, 27)}
    offsets = committed(target, both, [(topic, 0)])[topic, 0]
    assert (offsets, committed(target, one, [(alone, 0)])[alone, 0]) == expected[conflicts]
    entries = k2ktui_json("journal", "-f", mapper.file)["journal"]
    assert [entry["counts"] for entry in entries] == {
        "fail": [{"not written": 2}],
        "skip": [{"applied": 1}],
        "ignore": [{"applied": 2}],
    }[conflicts]
    k2ktui("plan", "-f", mapper.file, code=conflicts == "fail")


@slow
def test_pipelines_that_share_only_the_clusters_are_used_together(
    copied: Copied, topic: str, source: KafkaNode, target: KafkaNode, tmp_path: Path
) -> None:
    copied.put_run()
    other = Copied(tmp_path, source, target, prior=3)
    other.mappings, other.commits = copied.mappings, copied.commits
    second = create_topic(source)
    produce(source, second, [b"%d" % n for n in range(COUNT)])
    other.copy(second)
    other.put_run()
    group = copied.group("g")
    commit_offsets(source, group, {(topic, 0): 20, (second, 0): 30})
    k2ktui("sync", "-f", Mapper(copied).file, "--once")
    where = [(topic, 0), (second, 0)]
    assert committed(target, group, where) == {where[0]: 27, where[1]: 33}


@slow
def test_a_pipeline_of_another_source_is_no_competitor(
    copied: Copied, topic: str, source: KafkaNode, target: KafkaNode, tmp_path: Path
) -> None:
    """It maps a topic of the same name in the same mapping topic."""
    copied.put_run()
    competitor = map_again(copied, topic, tmp_path)
    group = copied.group("g")
    commit_offsets(source, group, {(topic, 0): 20})
    mapper = Mapper(copied)
    k2ktui("sync", "-f", mapper.file, "--once", code=1)  # its clusters are unknown
    competitor.put_run(ClusterPair("elsewhere", target.cluster_id, copied.mappings))
    for file in (mapper.file, copied.file):
        (row,) = k2ktui_json("plan", "-f", file)["rows"]
        assert (row["action"], row["proposed"]) == ("create", 27)


@slow
@pytest.mark.parametrize("active", ["fail", "skip", "ignore"])
def test_a_group_in_use_on_the_target(
    copied: Copied, topic: str, source: KafkaNode, target: KafkaNode, active: str
) -> None:
    copied.put_run()
    where, used, idle = (topic, 0), copied.group("used"), copied.group("idle")
    for group in (used, idle):
        commit_offsets(source, group, {where: 20})
    commit_offsets(target, used, {where: PRIOR})
    mapper = Mapper(copied, active=active)
    with member(target, used, topic, "classic"):
        code = 0 if active == "ignore" else 1
        done = k2ktui("sync", "-f", mapper.file, "--once", code=code)
    assert used in done.stderr
    assert committed(target, used, [where]) == {where: PRIOR}
    assert committed(target, idle, [where]) == {where: None if active == "fail" else 27}
    (entry,) = k2ktui_json("journal", "-f", mapper.file)["journal"]
    assert entry["counts"] == ({"not written": 1} if active == "fail" else {"applied": 1})


@slow
def test_sync_creates_its_control_topics(copied: Copied, target: KafkaNode) -> None:
    mapper = Mapper(copied, mappings=unique_name("__mappings"))
    suffix = mapper.name.replace("-", "_")
    names = [f"__state_{suffix}", mapper.mappings, f"__metrics_{suffix}"]
    k2ktui("sync", "-f", mapper.file, "--once", code=1, env={"OTEL_METRICS_EXPORTER": "kafka"})
    described = copied.cluster.describe(names)
    counts = [t.partitions for t in described.values() if isinstance(t, TopicDescription)]
    assert counts == [3, 6, 3]
    resources = [ConfigResource(ResourceType.TOPIC, name) for name in names[1:]]
    client = admin(target)
    settings = [
        described.result(TIMEOUT) for described in client.describe_configs(resources).values()
    ]
    assert [setting["retention.ms"].value for setting in settings] == ["604800000", "2592000000"]


@slow
def test_what_start_copied_is_found(copied: Copied, source: KafkaNode, target: KafkaNode) -> None:
    """The run record of a real run names both clusters and the mapping topic."""
    topic, group = create_topic(source), copied.group("g")
    produce(source, topic, [b"%d" % n for n in range(COUNT)])
    create_topic(target, topic)
    produce(target, topic, [b"native"] * PRIOR)
    control = {
        "coordination.commit.topic": copied.commits,
        "offsetMapping.topic": copied.mappings,
    }
    Pipeline(copied.directory, source, target, [topic], control).catch_up()
    commit_offsets(source, group, {(topic, 0): 20})
    k2ktui("sync", "-f", Mapper(copied).file, "--once")
    at = committed(target, group, [(topic, 0)])[topic, 0]
    assert {got.value for got in read_all(target, topic) if got.offset == at} == {b"20"}


@slow
def test_a_source_that_is_down_is_known_from_the_kept_commits(
    copied: Copied, topic: str, source: KafkaNode
) -> None:
    copied.put_run()
    commit_offsets(source, copied.group("g"), {(topic, 0): 20})
    file = Mapper(copied).file
    k2ktui("sync", "-f", file, "--once")
    source.kill()
    try:
        reply = k2ktui_json("groups", "-f", file)
    finally:
        source.restart()
    assert reply["source_down"]
    assert [row["translated_offset"] for row in reply["groups"]] == [27]
