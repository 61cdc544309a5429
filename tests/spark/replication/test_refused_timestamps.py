"""A target topic that takes no record as old as one of the source's."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.brokers import Brokers
from tests.support.clusters.kafka import Out, create_topic, produce
from tests.support.pipelines.pipeline import Pipeline, Run

pytestmark = pytest.mark.slow
FINDINGS = 1


OLD_MS = 1_600_000_000_000


def too_old(source: KafkaNode, target: KafkaNode, limit: str) -> str:
    """A topic of which the fourth record of a batch is older than its target takes."""
    now = int(time.time() * 1000)
    topic = create_topic(source)
    outs = [Out(b"%d" % n, timestamp=OLD_MS if n == 3 else now) for n in range(6)]
    produce(source, topic, outs, linger_ms=100)
    create_topic(target, topic, config={limit: "3600000"})
    return topic


def expect_named(run: Run, topic: str, limit: str) -> None:
    fault = run.expect("stopped")["fault"]
    assert f"rejected {topic}-0 at offset 3: the timestamp is out of the topic's range" in str(
        fault["message"]
    )
    assert limit in fault["hint"]


def test_the_record_and_the_limit_are_named(
    source: KafkaNode, brokers: Brokers, tmp_path: Path
) -> None:
    (target,) = brokers("2.8")
    limit = "message.timestamp.difference.max.ms"
    topic = too_old(source, target, limit)
    run = Pipeline(tmp_path, source, target, [topic]).catch_up(FINDINGS)
    expect_named(run, topic, limit)


def test_records_of_the_future_are_copied_to_a_new_topic(
    brokers: Brokers, target: KafkaNode, tmp_path: Path
) -> None:
    """Kafka takes them without limit before version 4, and an hour ahead since.

    The limit of the past has another name since then.
    """
    (source,) = brokers("3.9")
    limit = "message.timestamp.before.max.ms"
    topic, past = create_topic(source), too_old(source, target, limit)
    now = int(time.time() * 1000)
    produce(source, topic, [Out(b"%d" % n, timestamp=now + n * 86_400_000) for n in range(6)])
    pipe = Pipeline(tmp_path, source, target, [topic, past])
    expect_named(pipe.catch_up(FINDINGS), past, limit)
    pipe.topics = [topic]
    assert pipe.prove(6)
