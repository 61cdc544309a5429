"""What records contain is in no log, state, journal or error of a run with transforms.

Only ``transform preview`` shows it, without ``--mask`` (tests/spark/transforms/test_transforms.py).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.spark.replication.test_secrets import surroundings
from tests.spark.transforms.test_transforms import JSON
from tests.support.clusters.kafka import Out, create_topic, produce, read_all
from tests.support.commands.cli import k2ktui
from tests.support.commands.watch import Watch
from tests.support.oracle.group_offsets import commit_offsets
from tests.support.oracle.judge import COMMIT_TOPIC, MAPPING_TOPIC
from tests.support.pipelines.fixtures import MakePipeline

pytestmark = pytest.mark.slow
pytest.importorskip("pyarrow")  # of the extra ``transform``

MARK = "p4yl04d"
# Spark's own message of each of these errors has the value.
ERRORS: dict[str, dict[str, Any]] = {
    "fail": {"decode": JSON, "set": {"value.id": "CAST(value.card AS BIGINT)"}},
    "skip": {
        "decode": JSON,
        "filter": "value.id < 10 OR raise_error(concat(value.card, key))",
        "onError": "skip",
    },
    "dead": {
        "decode": JSON,
        "set": {"headers.h": "CAST(raise_error(value.card) AS STRING)"},
        "onError": "deadLetter",
    },
}


def test_nothing_shows_what_records_contain(make_pipeline: MakePipeline, tmp_path: Path) -> None:
    pipeline = make_pipeline([])
    pipeline.directory = tmp_path / "run"
    topics = {kind: create_topic(pipeline.source) for kind in ERRORS}
    pipeline.topics = list(topics.values())
    group = f"{pipeline.name}-group"
    pipeline.settings = {
        "replication.transform": [{**ERRORS[k], "topics": topic} for k, topic in topics.items()],
        "groups.consumerGroups": [group],
        "spark.slots": 3,
    }
    headers = (("h", MARK.encode()),)
    values = [json.dumps({"id": n, "card": f"{MARK}-{n}"}).encode() for n in range(20)]
    values += [b'{"id": "' + MARK.encode(), b"\xff" + MARK.encode()]
    outs = [Out(value, MARK.encode(), 0, headers) for value in values]
    env = surroundings(tmp_path / "run")
    for topic in pipeline.topics:
        produce(pipeline.source, topic, outs)
        commit_offsets(pipeline.source, group, {(topic, 0): 1})

    with (
        Watch(tmp_path / "run", [MARK]) as watch,
        pipeline.start("--until-caught-up", env=env) as r,
    ):
        assert r.wait() == 1, r.tail()
    said = r.out.read_text() + r.err.read_text()
    assert "set value.id" in said and "onError: skip)" in said and "onError: deadLetter)" in said
    assert MARK not in said
    assert watch.looked and not watch.shown and not watch.stored
    assert watch.holders() == []
    letters = read_all(pipeline.target, f"{topics['dead']}.dead-letter")
    assert len(letters) == len(values) and letters[0].key == MARK.encode()
    for letter in letters:
        added = [value for name, value in letter.headers if name.startswith("__k2k.error")]
        assert not any(MARK.encode() in (value or b"") for value in added)
    for topic in (COMMIT_TOPIC, MAPPING_TOPIC, "__k2k_state"):
        for record in read_all(pipeline.target, topic):
            assert MARK.encode() not in (record.key or b"") + (record.value or b"")

    file = pipeline.write()
    plan = file.with_suffix(".plan")
    commands: list[tuple[str | Path, ...]] = [
        ("plan", "-f", file, "-o", plan),
        ("apply", "-f", file, plan, "--yes"),
        ("journal", "-f", file, "--json"),
        ("status", "-f", file, "--json"),
        ("explain", "-f", file),
        ("verify", "-f", file, "--sample", "5"),
        ("check", "-f", file),
    ]
    for command in commands:
        done = k2ktui(*command, code=None)
        assert MARK not in done.stdout + done.stderr, command
    assert MARK not in plan.read_text()
    shown = ("transform", "preview", "-f", file, "--topic", topics["fail"], "--mask")
    assert MARK not in k2ktui(*shown).stdout, "nor in the reason why a record fails"
