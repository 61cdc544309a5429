"""Spark tasks find the damages that the command's own process finds, at the same places."""

from __future__ import annotations

from pathlib import Path

import pytest

from k2ktui.runtime.node import KafkaNode
from tests.support.commands.cli import k2ktui_json
from tests.support.records.damage_table import DAMAGES, DamageTable, by_partition, places

KINDS = ("plain", "zstd", "compacted", "transactional")


@pytest.mark.slow
def test_each_damage_is_found_by_a_task(
    source: KafkaNode, target: KafkaNode, tmp_path: Path
) -> None:
    table = DamageTable(tmp_path, source, target, KINDS)
    table.damage()
    here, tasks = (
        k2ktui_json("compare", "-f", table.copied.file, way, code=1)
        for way in ("--local", "--spark")
    )
    assert tasks["partitions"] == here["partitions"]
    assert tasks["counts"] == here["counts"]
    reported = by_partition(tasks)
    for kind in KINDS:
        for damage in DAMAGES:
            at = table.at(kind, damage)
            assert places(reported[at]) == table.expected(kind, damage), (kind, damage)
