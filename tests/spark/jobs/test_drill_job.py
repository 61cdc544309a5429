"""A real pipeline, as a job, through a planned switchover and back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from k2ktui.drill.checks.catalog import CATALOG
from k2ktui.jobs import local_jobs
from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.kafka import Out, create_topic, produce, unique_name
from tests.support.commands.cli import k2ktui, k2ktui_json
from tests.support.jobs.jobs import all_ended
from tests.support.oracle.group_offsets import commit_offsets
from tests.support.pipelines.copied import committed
from tests.support.pipelines.pipeline import Pipeline

pytestmark = pytest.mark.slow


@pytest.fixture
def pipe(source: KafkaNode, target: KafkaNode, tmp_path: Path) -> Iterator[Pipeline]:
    topic = create_topic(source)
    produce(source, topic, [Out(b"v%d" % i) for i in range(1000)])
    (tmp_path / "p").mkdir()
    made = Pipeline(tmp_path / "p", source, target, [topic])
    with all_ended():
        yield made
    made.close()


def test_a_job_is_stopped_kept_from_starting_and_started_again_by_an_abort(
    pipe: Pipeline, source: KafkaNode, target: KafkaNode
) -> None:
    file, topic, group = pipe.write(), pipe.topics[0], unique_name("billing")
    commit_offsets(source, group, {(topic, 0): 400})
    k2ktui("jobs", "start", "-f", file)
    pipe.await_more([Out(b"more")] * 100)
    quick = ("--frozen", "1", "--wait", "60", "--accept", ",".join(CATALOG), "--groups", group)
    yes = ("--yes-to", "apply,fence-replicator")
    stopped = k2ktui("drill", "planned", "-f", file, *quick, *yes, code=5)
    assert "open-target must be confirmed" in stopped.stderr
    (job,) = local_jobs.list_jobs()
    assert not job.alive
    assert committed(target, group, [(topic, 0)]) == {(topic, 0): 400}
    refused = k2ktui("jobs", "start", "-f", file, "--force", code=None)
    assert "fenced by drill" in refused.stdout + refused.stderr
    (drill,) = k2ktui_json("drill", "list", "-f", file)["drills"]
    k2ktui("drill", "abort", drill["id"], "-f", file)
    (job,) = local_jobs.list_jobs()
    assert job.alive
    assert committed(target, group, [(topic, 0)]) == {(topic, 0): None}
    pipe.await_more([Out(b"more")] * 100)
    pipe.prove(1200)
