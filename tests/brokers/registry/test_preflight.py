"""The check of schemas before a start."""

from __future__ import annotations

from pathlib import Path

import pytest

from k2ktui.config.load import load
from k2ktui.replication.preflight.checks import CheckOutcome
from k2ktui.replication.preflight.schemas import check_schemas
from tests.brokers.registry.test_schemas_command import Pipeline, fresh_name
from tests.support.clusters.kafka import unique_name
from tests.support.clusters.registries import Registries, avro_record, call, register
from tests.support.commands.cli import k2ktui

pytestmark = pytest.mark.slow
pytest.importorskip("authlib")


@pytest.fixture
def pipeline(tmp_path: Path, registries: Registries) -> Pipeline:
    return Pipeline(tmp_path, registries, unique_name("pay"))


def test_schemas_that_the_target_lacks_are_a_warning_until_they_are_registered(
    pipeline: Pipeline,
) -> None:
    pipeline.register("-value", avro_record(fresh_name(), "a"))
    result = check_schemas(load([pipeline.file]).config)
    assert result.outcome is CheckOutcome.WARN and "k2ktui schemas apply" in result.hint
    pipeline.write(schemaMapping={"autoRegister": "enabled"})
    result = check_schemas(load([pipeline.file]).config)
    assert result.outcome is CheckOutcome.PASS and "when records need them" in result.detail
    k2ktui("schemas", "apply", "-f", pipeline.file, "--yes")
    pipeline.write()
    result = check_schemas(load([pipeline.file]).config)
    assert result.outcome is CheckOutcome.PASS and "on the target" in result.detail


def test_a_conflict_is_a_failure_that_does_not_stop_other_topics(pipeline: Pipeline) -> None:
    name, subject = fresh_name(), f"dr.{pipeline.topic}-value"
    register(pipeline.registries.target, subject, avro_record(name, "a"))
    call(pipeline.registries.target, f"/config/{subject}", {"compatibility": "FULL"}, "PUT")
    pipeline.register("-value", avro_record(name).replace("[]", '[{"name": "n", "type": "int"}]'))
    result = check_schemas(load([pipeline.file]).config)
    assert result.outcome is CheckOutcome.FAIL and not result.fatal
    assert "1 schema cannot be registered" in result.detail and pipeline.topic in result.detail


def test_a_registry_that_is_away_is_named(pipeline: Pipeline, registries: Registries) -> None:
    pipeline.lose(registries.source.url)
    result = check_schemas(load([pipeline.file]).config)
    assert result.outcome is CheckOutcome.FAIL and result.unreachable and not result.fatal
    assert "the source's schema registry" in result.detail
