"""A plan is applied to what it was made for: the same logs on the same clusters."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from k2ktui.engine.moves.plan import Plan
from k2ktui.errors import Refused
from k2ktui.kafka.properties.translation import load_checked
from k2ktui.runtime.node import KafkaNode
from k2ktui.sync.flow import Flow
from k2ktui.sync.moves.apply import Applied, Applier
from k2ktui.sync.moves.plans import make_pipeline_plan, plan_options
from k2ktui.sync.moves.snapshot import SnapshotReader, take_snapshot
from tests.support.clusters.kafka import (
    TIMEOUT,
    Out,
    admin,
    create_topic,
    delete_before,
    delete_topic,
    eventually,
    produce,
)
from tests.support.oracle.group_offsets import commit_offsets
from tests.support.pipelines.copied import Copied, committed

COUNT = 60


@pytest.fixture
def topic(copied: Copied, source: KafkaNode) -> str:
    """A copied topic; each record lands 7 offsets further on."""
    name = create_topic(source)
    produce(source, name, [Out(b"%d" % n) for n in range(COUNT)])
    copied.copy(name)
    return name


def plan_of(copied: Copied) -> Plan:
    snapshot = take_snapshot(Flow(copied.config))
    return make_pipeline_plan(snapshot, plan_options(copied.config), [str(copied.file)])


def apply(file: Path, plan: Plan) -> Applied:
    config = load_checked([str(file)]).config
    snapshots = SnapshotReader(Flow(config))
    try:
        return Applier(config, snapshots.target_reader, snapshots.store).apply(plan)
    finally:
        snapshots.close()


def recreate(target: KafkaNode, topic: str) -> None:
    delete_topic(target, topic)
    eventually(lambda: topic not in admin(target).list_topics(timeout=TIMEOUT).topics, "it is gone")
    create_topic(target, topic)
    # As long as it was: only its id shows that it is another one.
    produce(target, topic, [Out(b"other %d" % n) for n in range(COUNT + 7)])


def delete_records(target: KafkaNode, topic: str) -> None:
    delete_before(target, topic, 30)


@pytest.mark.parametrize(
    ("change", "why"),
    [(recreate, "was deleted and created again"), (delete_records, "would skip 13 more")],
)
def test_a_log_that_changed_since(
    copied: Copied,
    topic: str,
    source: KafkaNode,
    target: KafkaNode,
    change: Callable[[KafkaNode, str], None],
    why: str,
) -> None:
    """Before, the offset was committed on whatever was there by then."""
    group = copied.group("app")
    commit_offsets(source, group, {(topic, 0): 10})
    plan = plan_of(copied)
    [log] = plan.logs
    assert (log.at, log.start) == ((topic, 0), 0) and log.topic_id and log.end == COUNT + 7
    change(target, topic)
    with pytest.raises(Refused, match=why):
        apply(copied.file, plan)
    assert committed(target, group, [(topic, 0)]) == {(topic, 0): None}


def test_the_source_cluster_too_unless_it_is_gone(
    copied: Copied, topic: str, source: KafkaNode, target: KafkaNode, tmp_path: Path
) -> None:
    group = copied.group("app")
    commit_offsets(source, group, {(topic, 0): 10})
    plan = plan_of(copied)
    other, gone = tmp_path / "other.yaml", tmp_path / "gone.yaml"
    text = copied.file.read_text()
    other.write_text(text.replace(source.bootstrap, target.bootstrap))
    gone.write_text(text.replace(source.bootstrap, "127.0.0.1:1"))
    with pytest.raises(
        Refused, match=f"for source cluster {plan.source_cluster}; the configured cluster is"
    ):
        apply(other, plan)
    assert committed(target, group, [(topic, 0)]) == {(topic, 0): None}
    assert apply(gone, plan).complete, "a failover does without the source"
    assert committed(target, group, [(topic, 0)]) == {(topic, 0): 17}
