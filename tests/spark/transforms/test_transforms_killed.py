"""Workers that are killed while they transform records: SQL on bytes, and Avro."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.proof.test_transform_faults import origin_of, place_of
from tests.spark.transforms.test_by_key import APPENDED, appended
from tests.support.clusters.kafka import Got, read_all
from tests.support.oracle.judge import Expected, prove
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


@pytest.mark.seeds(1)
def test_workers_killed_at_every_step_of_a_transform(
    pipeline: Pipeline, topics: dict[str, int], seed: int, tmp_path: Path
) -> None:
    (tmp_path / "bytes.avsc").write_text('"bytes"')
    *avro, sql = topics
    pipeline.settings = {
        "replication.transform": [
            {"topics": sql, **APPENDED},
            {"topics": "|".join(avro), **LENGTHENED},
        ]
    }
    pipeline.prefixes = (b"\x04", b"\x06", b"\x08")
    pipeline.mode = "shared"
    sent = copy_despite_kills(pipeline, topics, seed)

    expected = [Expected(topic, value=longer, copied=is_avro) for topic in avro]
    proof = prove(pipeline.source, pipeline.target, pipeline.name, appended(sql), *expected)
    assert proof.records >= sent // 10
    dead = 0
    for topic in avro:
        failed = [got for got in read_all(pipeline.source, topic) if not is_avro(got)]
        letters = read_all(pipeline.target, f"{topic}.dead-letter")
        assert sorted(map(origin_of, letters)) == sorted(map(place_of, failed))
        dead += len(letters)
    assert dead
