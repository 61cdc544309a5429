"""Runs whose commit topic was lost: a lost position is never a first start.

Before, the next start copied every record a second time, with exit code 0, and 300 records became
600. Each loss of each control topic is in ``brokers/ownership/test_lost_control_topics.py``, and of
real runs that share a pipeline or not in ``proof/test_recovered_positions.py``.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.kafka import (
    create_topic,
    delete_before,
    delete_topic,
    end_offsets,
    eventually,
    produce,
    read_all,
    unique_name,
)
from tests.support.commands.cli import k2ktui
from tests.support.pipelines.pipeline import Pipeline

pytestmark = pytest.mark.slow

_REFUSED = 5
_RECORDS = 30


def _pipeline(directory: Path, source: KafkaNode, target: KafkaNode, **settings: str) -> Pipeline:
    name = unique_name("lost")
    suffix = name.replace("-", "_")
    topics = [f"{name}-a", f"{name}-b"]
    for topic in topics:
        create_topic(source, topic, 1)
        produce(source, topic, [b"%d" % number for number in range(_RECORDS)])
    own = {
        "coordination.commit.topic": f"__commits_{suffix}",
        "coordination.state.topic": f"__state_{suffix}",
        "coordination.assignment.topic": f"__assignment_{suffix}",
        "offsetMapping.topic": f"__mappings_{suffix}",
    }
    made = Pipeline(directory, source, target, topics, {**own, **settings}, name)
    made.mode = settings.pop("coordination.mode", "")
    return made


def _copies(pipeline: Pipeline) -> list[int]:
    return [len(read_all(pipeline.target, topic)) for topic in pipeline.topics]


def test_a_deleted_commit_topic_is_no_first_start(
    source: KafkaNode, target: KafkaNode, tmp_path: Path
) -> None:
    """Nor is it without transactions."""
    pipeline = _pipeline(
        tmp_path,
        source,
        target,
        **{"coordination.mode": "exclusive", "features.exactlyOnce": "disabled"},
    )
    pipeline.catch_up()
    assert _copies(pipeline) == [_RECORDS, _RECORDS]
    delete_topic(target, pipeline.commit_topic)
    run = pipeline.catch_up(_REFUSED)
    assert "offsets recover" in run.err.read_text()
    assert _copies(pipeline) == [_RECORDS, _RECORDS]
    file = pipeline.write()
    checked = k2ktui("check", "-f", file, code=_REFUSED).stdout
    assert "has not copied" not in checked and "offsets clear" in checked
    explained = k2ktui("explain", "-f", file).stdout
    assert "the position is lost" in explained
    # It may be wanted: then everything is copied again, in a later term, and once.
    k2ktui("offsets", "clear", "-f", file, "--topic", ".*", "--yes")
    for _ in range(2):
        pipeline.catch_up()
        assert _copies(pipeline) == [2 * _RECORDS, 2 * _RECORDS]


def test_a_commit_topic_cut_at_its_start_stops_some_partitions(
    source: KafkaNode, target: KafkaNode, tmp_path: Path
) -> None:
    pipeline = _pipeline(tmp_path, source, target, **{"coordination.mode": "shared"})
    quiet, busy = list(pipeline.topics)
    with pipeline.start() as run:
        run.expect("started")
        eventually(lambda: all(map(pipeline.is_caught_up, pipeline.topics)), "all is copied")
        end = end_offsets(target, pipeline.commit_topic)[0]
        produce(source, busy, [b"more"])
        pipeline.end(run)
    delete_before(target, pipeline.commit_topic, end)
    produce(source, busy, [b"once more"])
    produce(source, quiet, [b"once more"])
    run = pipeline.catch_up(code=1)
    (stopped,) = run.events("stopped")
    assert stopped["fault"]["kind"] == "position-lost"
    assert f"{quiet}-0 was copied before" in stopped["fault"]["message"]
    assert "offsets recover" in stopped["fault"]["hint"]
    assert _copies(pipeline) == [_RECORDS, _RECORDS + 2]
    file = pipeline.write()
    k2ktui("offsets", "set", "-f", file, f"{quiet}:0:{_RECORDS}", "--yes")
    # Nothing is lost any more: a new topic is a new one.
    later = f"{pipeline.name}-c"
    create_topic(source, later, 1)
    produce(source, later, [b"new"])
    pipeline.topics = [quiet, busy, later]
    pipeline.catch_up()
    assert _copies(pipeline) == [_RECORDS + 1, _RECORDS + 2, 1]


@pytest.mark.rotate(("mode", "role"), [("shared", "commit"), ("exclusive", "offsetMapping")])
def test_a_running_pipeline_stops_if_a_control_topic_was_created_again(
    mode: str, role: str, source: KafkaNode, target: KafkaNode, tmp_path: Path
) -> None:
    pipeline = _pipeline(tmp_path, source, target, **{"coordination.mode": mode})
    topic = {
        "commit": pipeline.commit_topic,
        "offsetMapping": str(pipeline.settings["offsetMapping.topic"]),
    }[role]
    with pipeline.start() as run:
        run.expect("started")
        eventually(lambda: _copies(pipeline) == [_RECORDS, _RECORDS], "all is copied")
        delete_topic(target, topic)
        create_topic(target, topic, 1, {"cleanup.policy": "compact"} if role == "commit" else {})
        assert run.wait() == _REFUSED, run.tail()
    assert topic in run.err.read_text()
    assert _copies(pipeline) == [_RECORDS, _RECORDS]
