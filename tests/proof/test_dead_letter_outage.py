"""A dead-letter topic takes no writes: the partitions whose dead letters it gets wait, alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from k2ktui.runtime.node import KafkaNode
from tests.proof.test_isolation import await_growth
from tests.proof.test_transform_faults import ExplodingPipeline
from tests.support.clusters.brokers import Brokers, TwoBrokers
from tests.support.clusters.kafka import create_topic, unique_name
from tests.support.pipelines.fixtures import MakePipeline
from tests.support.pipelines.pipeline import Pipeline
from tests.support.records.traffic import Traffic

pytestmark = pytest.mark.proof
pytest.importorskip("pyarrow")  # of the extra ``transform``


@pytest.fixture
def two(brokers: Brokers) -> Iterator[TwoBrokers]:
    made = brokers.two_of("3.9")
    yield made
    made.start()


@pytest.fixture
def pipeline(source: KafkaNode, two: TwoBrokers, tmp_path: Path) -> Iterator[Pipeline]:
    """Of two topics, one has its dead letters on broker 2 alone."""
    waiting, healthy = create_topic(source), create_topic(source)
    for topic in (waiting, f"{healthy}.dead-letter", healthy):
        create_topic(two, topic, replicas=[[1, 2]])
    create_topic(two, f"{waiting}.dead-letter", replicas=[[2]])
    settings = {"topicCreation.control.common": {"replication": 2}, "spark.slots": 1}
    make: MakePipeline = ExplodingPipeline
    made = make(tmp_path, source, two, [waiting, healthy], settings)
    made.waits_briefly = True
    while not two.coordinates_first(f"{made.name}.0"):
        made.name = unique_name("pipe")
    yield made
    made.close()


def test_a_dead_letter_topic_without_a_leader(pipeline: Pipeline, two: TwoBrokers) -> None:
    waiting, healthy = list(pipeline.topics)
    with Traffic(pipeline.source, {waiting: 1, healthy: 1}, 1, pause=0.05):
        run = pipeline.start()
        run.expect("firstrecord")
        await_growth(two, f"{waiting}.dead-letter")
        two.stop_second()
        stopped = run.expect("stopped")
        assert stopped["fault"]["kind"] == "unavailable"
        assert stopped["fault"]["source"] == {"topic": waiting, "partition": 0}
        assert f"{waiting}.dead-letter" in str(stopped["fault"])
        await_growth(two, healthy)
        await_growth(two, f"{healthy}.dead-letter")
        two.start()
        run.expect("resumed", lambda event: event["topic"] == waiting)
        await_growth(two, f"{waiting}.dead-letter")
    pipeline.end(run)
    pipeline.prove(100)
