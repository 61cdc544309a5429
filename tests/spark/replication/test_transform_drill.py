"""A rehearsal with topics whose records are filtered or exploded: its verdict is true."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.spark.transforms.test_explode import RULE as EXPLODE
from tests.spark.transforms.test_explode import order
from tests.spark.transforms.test_transforms import RULE as FILTER
from tests.spark.transforms.test_transforms import payments
from tests.support.clusters.kafka import Out, create_topic, eventually, produce
from tests.support.commands.cli import k2ktui, k2ktui_json
from tests.support.oracle.group_offsets import commit_offsets
from tests.support.pipelines.fixtures import MakePipeline

pytestmark = pytest.mark.slow
pytest.importorskip("pyarrow")  # of the extra ``transform``


def rehearse(file: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the report of a rehearsal, and its checks by id."""
    done = k2ktui("drill", "rehearse", "-f", file, "--json", code=None)
    report = json.loads(done.stdout)
    return report, {check["id"]: check for check in report["checks"]}


def test_a_rehearsal_with_transformed_topics(make_pipeline: MakePipeline) -> None:
    pipeline = make_pipeline([])
    filtered, exploded, plain = (create_topic(pipeline.source) for _ in range(3))
    pipeline.topics = [filtered, exploded, plain]
    group = f"{pipeline.name}-group"
    pipeline.settings = {
        "replication.transform": [
            {**FILTER, "topics": filtered},
            {**EXPLODE, "topics": exploded},
        ],
        "groups.consumerGroups": [group],
        "spark.slots": 3,
    }
    produce(pipeline.source, filtered, payments(100, 1))
    produce(pipeline.source, exploded, [Out(order(n), b"k%d" % n) for n in range(100)])
    produce(pipeline.source, plain, payments(100, 1))
    at = {(filtered, 0): 41, (exploded, 0): 42, (plain, 0): 43}
    commit_offsets(pipeline.source, group, at)
    file = pipeline.write()
    with pipeline.start() as run:
        run.expect("firstrecord")
        eventually(lambda: all(map(pipeline.is_caught_up, pipeline.topics)), "all is copied")
        report, checks = rehearse(file)
        assert run.stop() == 0
    assert report["status"] == "done", report["blockers"]
    assert report["summary"][0] == "A failover now would move every group to its exact position.", (
        report["blockers"]
    )
    (group_result,) = report["groups"]
    assert (group_result["partitions"], group_result["reread"], group_result["skipped"]) == (
        3,
        0,
        0,
    )
    assert (group_result["unmapped"], group_result["different"]) == (0, 0) and group_result[
        "compared"
    ] > 0
    for check in ("D35", "D36", "D37", "D44"):
        assert checks[check]["outcome"] == "pass", checks[check]
    assert "all equal to the next records on the source" in checks["D44"]["evidence"]
    (shadow,) = [phase for phase in report["phases"] if phase["phase"] == "shadow-groups"]
    assert "2 offsets not tried, as a transform may leave records out there" in shadow["live"]
    assert report["figures"]["rpo_records"] == 0
    k2ktui_json("drill", "show", report["id"], "-f", file)

    produce(pipeline.source, exploded, [Out(order(3), b"late")])
    report, _ = rehearse(file)
    assert report["figures"]["rpo_records"] == 1, "what is not copied is seen there, too"
