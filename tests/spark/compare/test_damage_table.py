"""``k2ktui compare`` and its Spark tasks find every damage on every kind of topic, at its place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.kafka import START_S
from tests.support.commands.cli import k2ktui_json
from tests.support.records.damage_table import (
    DAMAGES,
    KINDS,
    RECORDS,
    DamageTable,
    Where,
    by_partition,
    places,
)

pytestmark = pytest.mark.slow

CELLS = [(kind, damage) for kind in KINDS for damage in DAMAGES]


@dataclass(frozen=True, slots=True)
class Compared:
    """The damages, and what was reported of each partition before and after them.

    Attributes:
        by_tasks: what the tasks of a Spark application report, after them.
    """

    table: DamageTable
    intact: Mapping[Where, Any]
    damaged: Mapping[Where, Any]
    by_tasks: Mapping[Where, Any]


@pytest.fixture(scope="module")
def compared(
    clusters: tuple[KafkaNode, KafkaNode], tmp_path_factory: pytest.TempPathFactory
) -> Compared:
    source, target = (node.start(START_S) for node in clusters)
    table = DamageTable(tmp_path_factory.mktemp("damage"), source, target)
    intact = k2ktui_json("compare", "-f", table.copied.file, code=0)
    table.damage()
    damaged, by_tasks = (
        k2ktui_json("compare", "-f", table.copied.file, way, code=1)
        for way in ("--local", "--spark")
    )
    assert by_tasks["counts"] == damaged["counts"]
    return Compared(table, by_partition(intact), by_partition(damaged), by_partition(by_tasks))


@pytest.mark.parametrize(("kind", "damage"), CELLS)
def test_a_damage_is_found_with_its_place(compared: Compared, kind: str, damage: str) -> None:
    at = compared.table.at(kind, damage)
    intact, damaged = compared.intact[at], compared.damaged[at]
    assert compared.by_tasks[at] == damaged
    assert intact["counts"] == {"equal": RECORDS} and intact["differences"] == 0
    expected = compared.table.expected(kind, damage)
    assert places(damaged) == expected
    assert damaged["differences"] == len(expected)
    assert damaged["counts"]["equal"] == RECORDS - sum(
        source is not None for _, source, _ in expected
    )


def test_the_exit_code_is_that_of_what_is_compared(compared: Compared) -> None:
    topic, _ = compared.table.at(KINDS[0], DAMAGES[0])
    file = compared.table.copied.file
    k2ktui_json("compare", "-f", file, "--topics", topic, "--no-store", code=1)
