"""Records that a session of Spark in the test's own process transforms."""

from __future__ import annotations

from typing import Any

from k2ktui.config.transforms import TransformRule
from k2ktui.engine.records.state import SourcePartition
from k2ktui.engine.transforms.model import plan_steps
from k2ktui.log.record import KafkaRecord
from k2ktui.replication.spark.session import SparkRuntime
from k2ktui.replication.transforms.rows import join_records
from k2ktui.replication.transforms.transformed import Transformed


def made(
    spark: SparkRuntime, keys: dict[str, Any], *records: KafkaRecord
) -> tuple[dict[int, bytes | None], dict[int, str], Transformed]:
    """Return the values and the failed steps of records, by offset."""
    transform = TransformRule.model_validate(keys).transform
    assert transform is not None
    previewed = spark.transforms.preview(
        transform, [(SourcePartition("pay", 3), join_records(records))]
    )
    rows = previewed.get(0, Transformed())
    steps = plan_steps(transform)
    failed = {failure.offset: steps[failure.step] for failure in rows.failures}
    return dict(zip(rows.column("offset"), rows.column("value"), strict=True)), failed, rows


def valued(*values: bytes | None, headers: tuple[tuple[str, bytes | None], ...] = ()) -> list[Any]:
    return [KafkaRecord(n, b"k%d" % n, value, headers, 1000 * n) for n, value in enumerate(values)]
