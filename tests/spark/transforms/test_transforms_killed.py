"""Workers that are killed while they transform and route records: SQL on bytes, and Avro."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.proof.test_transform_faults import origin_of, place_of
from tests.spark.transforms.test_by_key import APPENDED, appended
from tests.support.clusters.kafka import Got, read_all, unique_name
from tests.support.oracle.judge import Expected, by_key, prove
from tests.support.pipelines.kills import copy_despite_kills
from tests.support.pipelines.pipeline import Pipeline

pytestmark = [pytest.mark.slow, pytest.mark.proof]
pytest.importorskip("pyarrow")  # of the extra ``transform``
pytest.importorskip("fastavro")  # of the extra ``avro``

#: Values are Avro if their first byte happens to be their length; others are dead letters.
LENGTHENED: dict[str, Any] = {
    "decode": {"value": {"avro": {"schemaFile": "bytes.avsc"}}},
    "set": {"value": "concat(value, X'21')"},
    "onError": "deadLetter",
}


def is_avro(got: Got) -> bool:
    return got.value is None or (got.value != b"" and got.value[0] == 2 * (len(got.value) - 1))


def longer(got: Got) -> bytes | None:
    return got.value and bytes([got.value[0] + 2]) + got.value[1:] + b"!"


def route_of(got: Got) -> int:
    """Return which topic a record of the SQL goes to, as it was changed; the fourth is none."""
    return len(got.value + b"!") % 4 if got.value is not None else 0


def settings(avro: list[str], sql: str, names: list[str]) -> dict[str, Any]:
    """Transform all topics, and route one of them onto three, which all partitions share."""
    chosen = f"array('{names[0]}', '{names[1]}', '{names[2]}')[coalesce(length(value), 0) % 4]"
    return {
        "replication.transform": [
            {"topics": sql, **APPENDED, "onError": "deadLetter"},
            {"topics": "|".join(avro), **LENGTHENED},
        ],
        "replication.sink.topic": {
            "expression": f"IF(topic = '{sql}', {chosen}, topic)",
            "topics": [*names, *avro],
        },
        "replication.sink.partition": "producer",
        "topicCreation.replication.common": {"partitions": 2},
    }


@pytest.mark.seeds(1)
def test_workers_killed_at_every_step_of_a_transform(
    pipeline: Pipeline, topics: dict[str, int], seed: int, tmp_path: Path
) -> None:
    (tmp_path / "bytes.avsc").write_text('"bytes"')
    *avro, sql = topics
    names = [unique_name("routed") for _ in range(3)]
    pipeline.settings = settings(avro, sql, names)
    pipeline.prefixes = (b"\x04", b"\x06", b"\x08")
    pipeline.mode = "shared"
    sent = copy_despite_kills(pipeline, topics, seed)

    changed = appended(sql, targets=tuple(names), partition=by_key(2))
    is_kept = changed.copied
    assert is_kept is not None

    def has_route(got: Got) -> bool:
        return is_kept(got) and route_of(got) < len(names)

    routed = replace(changed, copied=has_route, routed=lambda got: names[route_of(got)])
    others = [Expected(topic, value=longer, copied=is_avro, partition=by_key(2)) for topic in avro]
    proof = prove(pipeline.source, pipeline.target, pipeline.name, routed, *others)
    assert proof.records >= sent // 12
    letters = read_all(pipeline.target, f"{names[0]}.dead-letter")
    failed = {
        topic: [got for got in read_all(pipeline.source, topic) if not is_avro(got)]
        for topic in avro
    }
    unrouted = read_all(pipeline.source, sql)
    failed[sql] = [got for got in unrouted if is_kept(got) and not has_route(got)]
    assert all(failed.values())
    places = [place_of(got) for topic in topics for got in failed[topic]]
    assert sorted(map(origin_of, letters)) == sorted(places)
