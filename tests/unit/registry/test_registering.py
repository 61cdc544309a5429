"""Copying registers schemas as ``schemas apply`` does: in order, with the source's level.

The stand-ins judge by a compatibility level, which registries of different makers do differently.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from k2ktui.engine.schemas.ids import SchemaId, SchemaIdForm, SchemaPart
from k2ktui.registry.mapper import SchemaMapper
from k2ktui.registry.registering import SchemaNotRegistered
from tests.brokers.registry.test_schemas_command import Pipeline, part
from tests.support.clusters.registries import register
from tests.support.clusters.registry_stand_in import StandIns, two_stand_ins
from tests.unit.registry.test_with_stand_in import settings_of

pytest.importorskip("authlib")

SUBJECT, TARGET = "pay-value", "dr.pay-value"


@pytest.fixture
def pair() -> Iterator[StandIns]:
    with two_stand_ins() as pair:
        yield pair


def record(*needed: str) -> str:
    """Return a record whose fields have no default."""
    fields = [{"name": name, "type": "long"} for name in needed]
    return json.dumps({"type": "record", "name": "Pay", "fields": fields})


def fill(pair: StandIns, *schemas: str, level: str = "", subject: str = SUBJECT) -> list[int]:
    """Register versions on the source, then set the level of its subject."""
    ids = [register(pair.source, subject, schema) for schema in schemas]
    if level:
        pair.source.levels[subject] = level
    return ids


def map_ids(pair: StandIns, *ids: int, registers: bool = True) -> list[int | None]:
    with SchemaMapper(replace(settings_of(pair), auto_register=registers)) as mapper:
        return [
            mapper.map_id("pay", SchemaPart.VALUE, SchemaId(SchemaIdForm.PREFIX, id_))
            for id_ in ids
        ]


def texts(pair: StandIns, subject: str = TARGET) -> list[str]:
    """Return the schemas of a subject of the target in the order of their versions."""
    versions = pair.target.subjects[subject]
    return [pair.target.schemas[versions[number]]["schema"] for number in sorted(versions)]


def test_a_later_version_that_comes_first_does_not_keep_out_the_earlier_ones(
    pair: StandIns,
) -> None:
    """A rolling deploy, or a start from the latest records."""
    pair.target.level = "BACKWARD"
    history = [record("a", "b", "c"), record("a", "b"), record("a"), record()]
    ids = fill(pair, *history)
    assert None not in map_ids(pair, ids[2], ids[0], ids[1])
    assert texts(pair) == history[:3], "and no more than records need"
    assert map_ids(pair, ids[3]) and texts(pair) == history


def test_the_subject_of_a_reference_is_registered_in_order(pair: StandIns) -> None:
    pair.target.level = "BACKWARD"
    history = [record("a", "b"), record("a")]
    fill(pair, *history, subject="common")
    reference = {"name": "Pay", "subject": "common", "version": 2}
    text = json.dumps({"type": "record", "name": "Order", "fields": [{"name": "p", "type": "Pay"}]})
    number = register(pair.source, SUBJECT, text, references=[reference])
    assert None not in map_ids(pair, number)
    assert texts(pair, "common") == history


@pytest.mark.parametrize("level", ["NONE", "FORWARD"])
def test_copying_gives_a_new_subject_the_level_of_the_source(pair: StandIns, level: str) -> None:
    """The target's default level would refuse the second version."""
    pair.source.level = pair.target.level = "BACKWARD"
    pair.source.levels[SUBJECT] = level
    ids = fill(pair, record("a"), record("a", "b"), record("a", "b", "c"), level=level)
    assert None not in map_ids(pair, ids[1])
    assert len(texts(pair)) == 2
    assert None not in map_ids(pair, ids[2])
    assert pair.target.levels == {TARGET: level}


def test_a_level_of_today_does_not_keep_out_the_history(pair: StandIns) -> None:
    pair.target.level = "NONE"
    ids = fill(pair, record("a"), record("b"), record("c"), level="FULL")
    assert None not in map_ids(pair, ids[0]) and not pair.target.levels
    assert None not in map_ids(pair, ids[2]) and pair.target.levels == {TARGET: "FULL"}


def test_nothing_is_registered_without_consent(pair: StandIns) -> None:
    pair.source.level = "BACKWARD"
    ids = fill(pair, record("a", "b"), record("a"), level="NONE")
    with pytest.raises(SchemaNotRegistered):
        map_ids(pair, ids[1], registers=False)
    assert not pair.target.subjects and not pair.target.levels


def test_a_plan_has_no_conflict_that_its_own_level_removes(pair: StandIns, tmp_path: Path) -> None:
    """A run of an earlier release has registered a later version before an earlier one."""
    pair.target.level = "BACKWARD"
    pipeline = Pipeline(tmp_path, pair, "pay")
    pipeline.register("-value", record("a", "b"))
    pipeline.register("-value", record("a"))
    pair.source.level, pair.source.levels["pay-value"] = "BACKWARD", "NONE"
    register(pair.target, "dr.pay-value", record("a"))
    planned = pipeline.rows("plan")
    assert part(planned, "action") == {"-value 1": "register", "-value 2": "present"}
    applied = pipeline.rows("apply", "--yes")
    assert part(applied, "outcome") == {"-value 1": "registered", "-value 2": "present"}
    assert pair.target.levels == {"dr.pay-value": "NONE"}


def test_apply_needs_the_level_of_the_source_where_the_default_refuses(
    pair: StandIns, tmp_path: Path
) -> None:
    pair.target.level = "BACKWARD"
    pipeline = Pipeline(tmp_path, pair, "pay")
    pair.source.levels["pay-value"] = "FORWARD"
    for fields in (["a"], ["a", "b"]):
        pipeline.register("-value", record(*fields))
    assert set(part(pipeline.rows("apply", "--yes"), "outcome").values()) == {"registered"}
    assert pair.target.levels == {"dr.pay-value": "FORWARD"}
