"""The check of schemas before a start."""

from __future__ import annotations

from pathlib import Path

import pytest

from k2ktui.config.load import load
from k2ktui.replication.preflight.checks import CheckOutcome
from k2ktui.replication.preflight.schemas import check_schemas
from tests.registry.test_schemas_command import Pipeline, fresh_name
from tests.support.cli import k2ktui
from tests.support.kafka import unique_name
from tests.support.registries import Registries, avro_record, call, register

pytestmark = pytest.mark.slow
pytest.importorskip("authlib")


@pytest.fixture
def pipeline(tmp_path: Path, registries: Registries) -> Pipeline:
    return Pipeline(tmp_path, registries, unique_name("pay"))


def test_schemas_that_the_target_lacks_are_a_warning_until_they_are_registered(
    pipeline: Pipeline,
) -> None:
    pipeline.register("-value", avro_record(fresh_name(), "a"))
    found = check_schemas(load([pipeline.file]).config)
    assert found.outcome is CheckOutcome.WARN and "k2ktui schemas apply" in found.hint
    pipeline.write(schemaMapping={"autoRegister": "enabled"})
    found = check_schemas(load([pipeline.file]).config)
    assert found.outcome is CheckOutcome.PASS and "when records need them" in found.detail
    k2ktui("schemas", "apply", "-f", pipeline.file, "--yes")
    pipeline.write()
    found = check_schemas(load([pipeline.file]).config)
    assert found.outcome is CheckOutcome.PASS and "on the target" in found.detail


def test_a_conflict_is_a_failure_that_does_not_stop_other_topics(pipeline: Pipeline) -> None:
    name, subject = fresh_name(), f"dr.{pipeline.topic}-value"
    register(pipeline.registries.target, subject, avro_record(name, "a"))
    call(pipeline.registries.target, f"/config/{subject}", {"compatibility": "FULL"}, "PUT")
    pipeline.register("-value", avro_record(name).replace("[]", '[{"name": "n", "type": "int"}]'))
    found = check_schemas(load([pipeline.file]).config)
    assert found.outcome is CheckOutcome.FAIL and not found.fatal
    assert "1 schema cannot be registered" in found.detail and pipeline.topic in found.detail


def test_a_registry_that_is_away_is_named(pipeline: Pipeline, registries: Registries) -> None:
    registries.source.stop()
    found = check_schemas(load([pipeline.file]).config)
    assert found.outcome is CheckOutcome.FAIL and found.unreachable and not found.fatal
    assert "the source's schema registry" in found.detail
