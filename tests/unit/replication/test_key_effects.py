"""Keys of the pipeline file whose effect is seen without a broker."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError

from k2ktui.config.model import PipelineConfig
from k2ktui.engine.moves.written import find_ours
from k2ktui.engine.records.run_record import LARGEST_SLOTS
from k2ktui.engine.records.state import Position, Run, SourcePartition
from k2ktui.errors import ConfigError, TimedOut
from k2ktui.kafka.admin import topics
from k2ktui.kafka.admin.topics import TopicSpec
from k2ktui.kafka.admin.transaction_state import TransactionState
from k2ktui.kafka.clients import ConfigEntry, TopicDescription
from k2ktui.kafka.control import findings as control_findings
from k2ktui.kafka.control import topics as control
from k2ktui.kafka.control.specs import control_specs
from k2ktui.kafka.control.topics import ensure_state_topic
from k2ktui.mm2 import publish
from k2ktui.replication.driver.driver import Driver
from k2ktui.replication.ownership.commit_state import CommitState
from k2ktui.replication.ownership.epochs import transactional_id
from k2ktui.replication.ownership.pipeline import commit_topic
from k2ktui.replication.reports.events import Event, Note
from k2ktui.replication.reports.status import RunStatus
from k2ktui.replication.telemetry.metric import full_name
from k2ktui.replication.topics.discovery import TopicSnapshot
from k2ktui.replication.topics.routing import header_rules
from k2ktui.replication.topics.target_settings import target_spec
from k2ktui.sync import commit_snapshots
from k2ktui.sync.commit_snapshots import CommitSnapshotRunner
from k2ktui.sync.loop.metrics import CATALOG
from k2ktui.sync.moves.plans import plan_options
from tests.support.model.run_parts import run_parts
from tests.support.pipelines.modes import in_mode
from tests.unit.replication.test_client_settings import pipeline, task

KAFKA_EXPORTER = {"OTEL_METRICS_EXPORTER": "kafka"}
COORDINATES = ("topic", "partition", "offset", "pipeline")


def under(path: str, value: Any) -> dict[str, Any]:
    """The sections of one key."""
    first, *rest = path.split(".")
    for step in reversed(rest):
        value = {step: value}
    return {first: value}


@pytest.mark.parametrize("what", COORDINATES)
def test_each_tracing_header_has_its_switch_and_its_name(what: str) -> None:
    features = {"tracingHeaders": {what: "enabled"}}
    assert header_rules(pipeline()).added == ()
    assert header_rules(pipeline(features=features)).added == ((what, f"__k2k_{what}"),)
    named = pipeline(features=features, tracing={"headers": {what: "mine"}})
    assert header_rules(named).added == ((what, "mine"),)


def test_the_pipelines_name_is_in_its_transactional_ids_unless_there_is_a_commit_group() -> None:
    def first_id(config: PipelineConfig) -> str:
        return transactional_id(commit_topic(config, 1).group, 0)

    assert first_id(pipeline()).startswith("p")
    assert first_id(pipeline(name="other")).startswith("other")
    grouped = pipeline(coordination={"commit": {"group": "shared"}})
    assert first_id(grouped).startswith("shared")


@pytest.mark.parametrize(
    ("key", "value", "field", "seen"),
    [
        ("coordination.commit.batchSize", 7, "batch_size", 7),
        ("coordination.commit.batchTimeout", "9 seconds", "batch_timeout_s", 9),
        ("spark.lap", "3 seconds", "lap_s", 3),
    ],
)
def test_laps_follow_the_file(key: str, value: Any, field: str, seen: float) -> None:
    assert getattr(task(pipeline(**under(key, value))).policy, field) == seen
    assert getattr(task(pipeline()).policy, field) != seen


@pytest.mark.parametrize(
    ("sections", "slots"),
    [
        ({"configuration": {"pipelineParallelism": 2, "partitionParallelism": 3}}, 6),
        ({"configuration": {"pipelineParallelism": 4}}, 4),
        ({"configuration": {"partitionParallelism": 5}}, 5),
        ({"configuration": {"partitionParallelism": 5}, "spark": {"slots": 7}}, 7),
        ({"spark": {"slots": 7}}, 7),
    ],
)
def test_slots_have_a_commit_partition_each(sections: dict[str, Any], slots: int) -> None:
    features = {"optimizeOffsetCommitPartition": "disabled"}
    spec = control_specs(pipeline(features=features, **sections), {})["commit"]
    assert spec.partitions == slots
    assert control_specs(pipeline(features=features), {})["commit"].partitions == 6


def test_parallelism_makes_no_more_slots_than_there_may_be() -> None:
    both = {"pipelineParallelism": 100_000, "partitionParallelism": 100_000}
    assert in_mode(pipeline(configuration=both), "exclusive").slots == LARGEST_SLOTS


@pytest.mark.parametrize("role", ["common", "commit", "offsetMapping", "metrics"])
@pytest.mark.parametrize(
    ("key", "value", "field", "seen"),
    [
        ("partitions", 9, "partitions", 9),
        ("replication", 2, "replication", 2),
        ("config", {"min.insync.replicas": "2"}, "config", "2"),
    ],
)
def test_control_topics_are_created_as_configured(
    role: str, key: str, value: Any, field: str, seen: Any
) -> None:
    def specs(config: PipelineConfig) -> list[Any]:
        values = [getattr(s, field) for s in control_specs(config, KAFKA_EXPORTER).values()]
        return [
            setting.get("min.insync.replicas") if key == "config" else setting for setting in values
        ]

    changed = specs(pipeline(**under(f"topicCreation.control.{role}.{key}", value)))
    assert changed.count(seen) == (5 if role == "common" else 1)
    assert seen not in specs(pipeline())


@pytest.mark.parametrize(
    ("key", "value"),
    [("partitions", 9), ("replication", 2), ("config", {"min.insync.replicas": "2"})],
)
def test_the_assignment_topic_is_created_as_configured(key: str, value: Any) -> None:
    """Only runs that share a pipeline need it."""
    config = pipeline(**under(f"topicCreation.control.assignment.{key}", value))
    assert "assignment" not in control_specs(in_mode(config, "exclusive"), {})
    spec = control_specs(config, {})["assignment"]
    assert (spec.name, spec.config["cleanup.policy"]) == ("__k2k_assignment", "compact")
    value_made = getattr(spec, key)
    assert value.items() <= value_made.items() if key == "config" else value_made == value


def assigned_in(other: str) -> PipelineConfig:
    """A pipeline whose assignment topic is another control topic too."""
    name = {"topic": f"__{other}"}
    return pipeline(coordination={"assignment": name, other: name})


def test_the_assignment_topic_may_be_the_commit_topic() -> None:
    specs = control_specs(assigned_in("commit"), {}).values()
    assert {spec.name for spec in specs} == {"__commit", "__k2k_offset_mappings", "__k2k_state"}


def test_the_assignment_topic_is_not_the_state_topic() -> None:
    config = assigned_in("state")
    assert control_specs(in_mode(config, "exclusive"), {})
    with pytest.raises(
        ConfigError, match=r"coordination\.assignment\.topic and .* must be different"
    ):
        control_specs(config, {})


class Creating:
    """A target without topics, which takes requests for new ones but never elects leaders."""

    label = "target"

    def __init__(self) -> None:
        self.created: list[TopicSpec] = []
        self.described = 0

    def describe(self, names: Any) -> dict[str, Any]:
        self.described += 1
        return {name: KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART) for name in names}


@pytest.fixture
def creating(monkeypatch: pytest.MonkeyPatch) -> Creating:
    target = Creating()

    def create(_: Any, specs: list[TopicSpec]) -> dict[str, None]:
        target.created += specs
        return {}

    monkeypatch.setattr(control, "create_topics", create)
    monkeypatch.setattr(control_findings, "topic_settings", lambda *_: {})
    return target


def test_creation_is_checked_as_often_as_configured(
    creating: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    paused: list[float] = []
    monkeypatch.setattr(topics, "time", SimpleNamespace(sleep=paused.append))
    waiting = {
        "autoControlTopicCreationMaxAttempts": 4,
        "autoControlTopicCreationCheckDelay": "20 milliseconds",
    }
    config = pipeline(features={"autoCreateControlTopics": "enabled"}, configuration=waiting)
    with pytest.raises(TimedOut, match="without leaders"):
        ensure_state_topic(config, creating)
    assert (creating.described, paused) == (1 + 4, [0.02] * 3)


@pytest.mark.parametrize(
    ("key", "value"),
    [("partitions", 9), ("replication", 2), ("config", {"min.insync.replicas": "2"})],
)
def test_the_state_topic_is_created_as_configured(
    creating: Any, monkeypatch: pytest.MonkeyPatch, key: str, value: Any
) -> None:
    monkeypatch.setattr(topics, "time", SimpleNamespace(sleep=lambda _: None))
    features = {"features": {"autoCreateControlTopics": "enabled"}}
    config = pipeline(**features, **under(f"topicCreation.control.state.{key}", value))
    with pytest.raises(TimedOut):
        ensure_state_topic(config, creating)
    (spec,) = creating.created
    assert spec.name == "__k2k_state"
    value_made = getattr(spec, key)
    assert value.items() <= value_made.items() if key == "config" else value_made == value


@pytest.mark.parametrize("place", ["common", "rules"])
@pytest.mark.parametrize(
    ("key", "value"), [("partitions", 9), ("replication", 2), ("config", {"retention.ms": "5"})]
)
def test_replicated_topics_are_created_as_configured(place: str, key: str, value: Any) -> None:
    def spec(name: str, config: PipelineConfig) -> Any:
        source = TopicDescription(name, "", 3, 1)
        return getattr(target_spec(config, name, [source], {name: {}}, 3)[0], key)

    chosen: Any = {key: value}
    if place == "rules":
        chosen = [{"pattern": "big.*", "properties": chosen}]
    config = pipeline(topicCreation={"replication": {place: chosen}})
    assert spec("big-1", config) == value
    assert (spec("small", config) == value) is (place == "common")
    assert spec("big-1", pipeline()) != value


def test_excluded_topic_settings_are_not_copied() -> None:
    own = {"retention.ms": ConfigEntry("5", is_default=False)}
    source = TopicDescription("t", "", 3, 1)

    def copied(config: PipelineConfig) -> Any:
        return target_spec(config, "t", [source], {"t": own}, 3)[0].config

    kafka = {"common": {"bootstrap.servers": "localhost:1"}}
    excluding = {"kafka": {**kafka, "topicPropsExclusionList": ["retention.ms"]}}
    assert copied(pipeline()) == {"retention.ms": "5"}
    assert copied(pipeline().model_validate({**_tree(), "target": excluding})) == {}
    with pytest.raises(ValueError, match="under target"):
        PipelineConfig.model_validate({**_tree(), "source": excluding})


def _tree() -> dict[str, Any]:
    cluster = {"kafka": {"common": {"bootstrap.servers": "localhost:1"}}}
    return {"name": "p", "source": cluster, "target": cluster}


@pytest.mark.parametrize(
    "key",
    [
        "coordination.assignment.topic",
        "coordination.commit.topic",
        "coordination.state.topic",
        "metrics.kafka.topic",
        "offsetMapping.topic",
    ],
)
def test_a_pattern_selects_no_control_topic(key: str) -> None:
    pattern = {"source": {"topic": ".*"}}
    assert pipeline(replication=pattern).topics.matches("mine")
    assert not pipeline(replication=pattern, **under(key, "mine")).topics.matches("mine")


def test_commits_that_begin_with_the_guards_prefix_are_ours() -> None:
    for config, metadata in (
        (pipeline(), "k2k_1.2;mine"),
        (pipeline(groups={"offsetGuardPrefix": "g_"}), "g_1.2;mine"),
    ):
        prefix = plan_options(config).guard_prefix
        assert find_ours(None, ("t", 0), 5, metadata, prefix) is not None
        assert find_ours(None, ("t", 0), 5, f"x{metadata}", prefix) is None


@pytest.mark.parametrize("keys", [{}, {"separator": "-"}, {"force": "enabled"}])
def test_mm2_separator_and_force(keys: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[tuple[str, bool]] = []

    class Publisher:
        def __init__(self, _: Any, names: publish.MirrorNames, *, force: bool) -> None:
            made.append((names.checkpoints, force))

        def turn(self) -> None:
            """It writes nothing."""

    monkeypatch.setattr(publish, "Publisher", Publisher)
    aliases = {"publish": "enabled", "sourceAlias": "a", "targetAlias": "b"}
    publish.PublisherThread(pipeline(mm2={**aliases, **keys}), lambda _: None).work()
    mark = keys.get("separator", ".")
    assert made == [(f"a{mark}checkpoints{mark}internal", "force" in keys)]


@pytest.mark.parametrize(
    ("runner", "key"),
    [(CommitSnapshotRunner, "groups.pollInterval"), (publish.PublisherThread, "mm2.interval")],
)
def test_work_beside_a_run_repeats_at_its_interval(runner: Any, key: str) -> None:
    assert runner(pipeline(**under(key, "7 seconds")), lambda _: None).interval_s == 7
    assert runner(pipeline(), lambda _: None).interval_s != 7


def test_of_runs_that_share_a_pipeline_one_works_beside_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """It begins from what is on the target; the others disconnect."""
    done: list[str] = []

    class Works:
        def __init__(self, *_: Any, **__: Any) -> None:
            done.append("opened")

        def turn(self) -> None:
            done.append("worked")

        def keep(self, *_: Any) -> None:
            done.append("worked")

        def read_committed(self, *_: Any) -> None:
            """Nothing."""

        def find_gone(self, _: Any) -> set[str]:
            return set()

        def close(self) -> None:
            done.append("closed")

    aliases = {"publish": "enabled", "sourceAlias": "a", "targetAlias": "b"}
    config = pipeline(mm2=aliases)
    monkeypatch.setattr(publish, "Publisher", Works)
    for name in ("SourceClusterReader", "StateStore", "CommitSnapshotWriter"):
        monkeypatch.setattr(commit_snapshots, name, Works)
    wanted: list[bool] = []
    for make, opened, closed in ((publish.PublisherThread, 1, 1), (CommitSnapshotRunner, 3, 2)):
        wanted += [False, True, True, False, False, True]
        runner = make(config, lambda _: None, partial(wanted.pop, 0))
        while wanted:
            runner.work()
        runner.close()
        begun = ["opened"] * opened
        ended = ["closed"] * closed
        assert done == [*begun, "worked", "worked", *ended, *begun, "worked", *ended]
        done.clear()


def test_metrics_of_sync_have_their_prefix() -> None:
    def names(config: PipelineConfig) -> list[str]:
        return [full_name(config.metrics.prefix, m.prefix, m.name) for m in CATALOG]

    prefixed = names(pipeline(metrics={"prefix": {"offsetMappingApp": "m."}}))
    assert prefixed and all(name.startswith("m.") for name in prefixed)
    assert all(name.startswith("k2k.offsetmapping.") for name in names(pipeline()))


class Hanging:
    """A ownership whose commit topic cannot be read in time at first."""

    run, must_take_over, lost_term = Run(1, 1), False, 0
    topic = commit_topic(pipeline(), 1)
    unfinished: Mapping[int, TransactionState] = {}
    retired: frozenset[int] = frozenset()

    def __init__(self, failures: int) -> None:
        self.failures = failures

    def take_over(self, slots: int) -> CommitState:
        self.failures -= 1
        if self.failures >= 0:
            raise TimedOut("reading took more than 30 s")
        return CommitState(self.run, {})


class TakenOver(Exception):
    """The driver has the pipeline, and begins to discover topics."""


class NoDiscovery:
    """Discovers nothing; says which positions the driver has."""

    def discover(
        self,
        positions: Mapping[SourcePartition, Position],
        moved: object = None,
        lost_term: int = 0,
    ) -> TopicSnapshot:
        raise TakenOver(dict(positions))


def driver(config: PipelineConfig, ownership: Any, events: list[Event]) -> Driver:
    spark: Any = SimpleNamespace()
    discovery: Any = NoDiscovery()
    status = RunStatus("p", events.append).add_driver()
    return Driver(run_parts(config, spark), ownership, discovery, status)


def test_a_commit_sync_timeout_ends_a_start_or_is_repeated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("k2ktui.replication.driver.driver._TAKE_OVER_RETRY_S", 0.01)
    events: list[Event] = []
    with pytest.raises(TimedOut):
        driver(pipeline(), Hanging(2), events).run(1)
    ownership = Hanging(2)
    ignoring = pipeline(errorHandling={"onCommitSyncTimeout": "ignore"})
    with pytest.raises(TakenOver):
        driver(ignoring, ownership, events).run(1)
    assert events == [Note("taking over: reading took more than 30 s")]
