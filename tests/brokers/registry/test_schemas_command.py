"""``k2ktui schemas``: what is planned is registered, once; verify finds what differs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.support.clusters.kafka import unique_name
from tests.support.clusters.registries import Registries, RegistryPair, avro_record, call, register
from tests.support.commands.cli import k2ktui, k2ktui_json

pytestmark = pytest.mark.slow
pytest.importorskip("authlib")


class Pipeline:
    """A pipeline's file with both registries, and the rows of its topic."""

    def __init__(self, directory: Path, registries: RegistryPair, topic: str) -> None:
        self.topic = topic
        self.registries = registries
        self.file = directory / "pipeline.yaml"
        self.write()

    def write(self, **more: object) -> None:
        sides = {
            side: {
                "kafka": {"common": {"bootstrap.servers": "127.0.0.1:1"}},
                "registry": {"config": {"schema.registry.url": registry.url}},
            }
            for side, registry in (
                ("source", self.registries.source),
                ("target", self.registries.target),
            )
        }
        self.file.write_text(
            json.dumps(
                {
                    "name": "pay",
                    **sides,
                    "features": {"schemaMapping": "enabled"},
                    "replication": [
                        {"source": {"topic": [self.topic]}},
                        {"sink": {"topic": {"prefix": "dr."}}},
                    ],
                    **more,
                }
            )
        )

    def lose(self, url: str) -> None:
        """Let nothing answer in place of a registry, whose next start would take ten seconds."""
        self.file.write_text(self.file.read_text().replace(url, "http://127.0.0.1:1"))

    def register(self, suffix: str, schema: str, **more: Any) -> int:
        """Register on the source."""
        return register(self.registries.source, f"{self.topic}{suffix}", schema, **more)

    def rows(self, verb: str, *options: str, code: int | None = 0) -> dict[str, dict[str, Any]]:
        """Run a command; return its rows by target subject and version, those of this topic."""
        reply = k2ktui_json("schemas", verb, "-f", self.file, *options, code=code)
        return {
            f"{row['target_subject'].removeprefix(f'dr.{self.topic}')} {row['version']}": row
            for row in reply["schemas"]
            if self.topic in row["target_subject"]
        }


@pytest.fixture
def pipeline(tmp_path: Path, registries: Registries) -> Pipeline:
    return Pipeline(tmp_path, registries, unique_name("pay"))


def part(rows: Mapping[str, Mapping[str, Any]], key: str) -> dict[str, Any]:
    return {name: row[key] for name, row in rows.items()}


def fresh_name() -> str:
    return unique_name("Pay").replace("-", "_")


def test_plan_apply_and_verify(pipeline: Pipeline) -> None:
    """The demo of it all: two versions and a reference; a second time nothing is registered."""
    name, common = fresh_name(), unique_name("common")
    first = pipeline.register("-value", avro_record(name, "a"))
    pipeline.register("-value", avro_record(name, "a", "b"))
    register(pipeline.registries.source, common, avro_record(f"C{name}", "a"))
    fields = [{"name": "c", "type": f"C{name}"}]
    text = json.dumps({"type": "record", "name": f"K{name}", "fields": fields})
    reference = {"name": f"C{name}", "subject": common, "version": 1}
    pipeline.register("-key", text, references=[reference])

    planned = pipeline.rows("plan")
    assert part(planned, "action") == dict.fromkeys(("-key 1", "-value 1", "-value 2"), "register")
    assert planned["-value 1"]["id"] == first and planned["-value 1"]["target_id"] is None
    subjects = call(pipeline.registries.target, "/subjects")
    assert f"dr.{pipeline.topic}-value" not in subjects, "a plan changes nothing"
    assert part(pipeline.rows("verify", code=1), "outcome") == dict.fromkeys(planned, "missing")

    applied = pipeline.rows("apply", "--yes")
    assert part(applied, "outcome") == dict.fromkeys(planned, "registered")
    there = applied["-value 1"]["target_id"]
    assert there != first
    registered = call(pipeline.registries.target, f"/schemas/ids/{there}")
    assert json.loads(registered["schema"])["name"] == name
    assert common in call(pipeline.registries.target, "/subjects")

    assert part(pipeline.rows("verify"), "outcome") == dict.fromkeys(planned, "equal")
    again = k2ktui("schemas", "apply", "-f", pipeline.file, "--yes")
    assert "Nothing to register." in again.stderr
    assert part(pipeline.rows("plan"), "action") == dict.fromkeys(planned, "present")


def test_tables_have_names_ids_and_reasons(pipeline: Pipeline) -> None:
    number = pipeline.register("-value", avro_record(fresh_name(), "a"))
    shown = k2ktui("schemas", "plan", "-f", pipeline.file).stdout
    (line,) = [line for line in shown.splitlines() if pipeline.topic in line]
    assert line.split() == [
        *(f"{pipeline.topic}-value", "1", "AVRO", str(number)),
        *(f"dr.{pipeline.topic}-value", "—", "register"),
    ]
    assert "to register" in shown and "Not mapped: " in shown
    shown = k2ktui("schemas", "apply", "-f", pipeline.file, "--yes").stdout
    assert "registered" in shown
    assert "equal" in k2ktui("schemas", "verify", "-f", pipeline.file).stdout


def test_apply_asks_first_and_respects_locks(pipeline: Pipeline) -> None:
    pipeline.register("-value", avro_record(fresh_name(), "a"))
    refused = k2ktui("schemas", "apply", "-f", pipeline.file, code=5)
    assert "confirmation is required" in refused.stderr
    pipeline.write(environment="production")
    refused = k2ktui("schemas", "apply", "-f", pipeline.file, "--yes", code=5)
    assert "--unlock" in refused.stderr
    assert f"dr.{pipeline.topic}-value" not in call(pipeline.registries.target, "/subjects")
    assert pipeline.rows("apply", "--yes", "--unlock")["-value 1"]["outcome"] == "registered"


def test_an_incompatible_schema_is_a_conflict_and_the_rest_is_applied(pipeline: Pipeline) -> None:
    name = fresh_name()
    other = avro_record(name).replace("[]", '[{"name": "n", "type": "int"}]')
    subject = f"dr.{pipeline.topic}-value"
    register(pipeline.registries.target, subject, avro_record(name, "a"))
    change = {"compatibility": "FULL"}
    call(pipeline.registries.target, f"/config/{subject}", change, method="PUT")
    pipeline.register("-value", other)
    pipeline.register("-key", avro_record(f"K{name}", "a"))
    planned = pipeline.rows("plan", code=1)
    assert part(planned, "action") == {"-key 1": "register", "-value 1": "conflict"}
    assert "not compatible with the latest version" in planned["-value 1"]["reason"]
    assert "(compatibility FULL)" in planned["-value 1"]["reason"]
    applied = pipeline.rows("apply", "--yes", code=6)
    assert part(applied, "outcome") == {"-key 1": "registered", "-value 1": "failed"}
    verified = pipeline.rows("verify", code=1)
    assert part(verified, "outcome") == {"-key 1": "equal", "-value 1": "missing"}
    pipeline.rows("apply", "--yes", code=1)


def test_a_level_that_allows_everything_has_no_conflict(pipeline: Pipeline) -> None:
    subject = f"dr.{pipeline.topic}-value"
    register(pipeline.registries.target, subject, avro_record(fresh_name(), "a"))
    pipeline.register("-value", avro_record(fresh_name(), "a"))
    assert pipeline.rows("plan")["-value 1"]["action"] == "register"
    assert pipeline.rows("apply", "--yes")["-value 1"]["target_version"] == 2


def test_the_level_of_a_new_subject_is_set(pipeline: Pipeline) -> None:
    name = fresh_name()
    pipeline.register("-value", avro_record(name, "a"))
    # A history that today's level would not allow.
    pipeline.register("-value", avro_record(name).replace("[]", '[{"name": "n", "type": "int"}]'))
    change = {"compatibility": "FULL"}
    source = pipeline.registries.source
    call(source, f"/config/{pipeline.topic}-value", change, method="PUT")
    reply = k2ktui_json("schemas", "plan", "-f", pipeline.file)
    assert {"subject": f"dr.{pipeline.topic}-value", "level": "FULL"} in reply["compatibility"]
    assert len(pipeline.rows("apply", "--yes")) == 2
    there = call(pipeline.registries.target, f"/config/dr.{pipeline.topic}-value")
    assert there["compatibilityLevel"] == "FULL"
    assert k2ktui_json("schemas", "plan", "-f", pipeline.file)["compatibility"] == []


def test_rules_of_topics_and_types_choose_what_is_mapped(pipeline: Pipeline) -> None:
    name = fresh_name()
    for suffix in ("-key", "-value"):
        pipeline.register(suffix, avro_record(name, "a"))
    keys = {"topics": [{"pattern": "pay.*", "value": "disabled"}]}
    pipeline.write(schemaMapping=keys)
    assert list(pipeline.rows("plan")) == ["-key 1"]
    pipeline.write(schemaMapping={"supportedTypes": ["JSON"]})
    reply = k2ktui_json("schemas", "plan", "-f", pipeline.file)
    reasons = {unmapped["subject"]: unmapped["reason"] for unmapped in reply["unmapped"]}
    assert "supportedTypes does not include AVRO" in reasons[f"{pipeline.topic}-key"]


def test_deleted_versions_are_included_on_request(pipeline: Pipeline) -> None:
    name = fresh_name()
    for fields in (["a"], ["a", "b"]):
        pipeline.register("-value", avro_record(name, *fields))
    subject = f"/subjects/{pipeline.topic}-value/versions/1"
    call(pipeline.registries.source, subject, method="DELETE")
    assert list(pipeline.rows("plan")) == ["-value 2"]
    assert list(pipeline.rows("plan", "--deleted")) == ["-value 1", "-value 2"]


def test_a_registry_that_chooses_its_own_ids_in_import_mode_is_reported(
    pipeline: Pipeline,
) -> None:
    """Apicurio accepts the mode, and still gives schemas other ids."""
    target = pipeline.registries.target
    number = pipeline.register("-value", avro_record(fresh_name(), "a"))
    call(target, "/mode", {"mode": "IMPORT"}, method="PUT")
    try:
        planned = pipeline.rows("plan", code=None)["-value 1"]
        assert planned["action"] in ("import", "conflict")
        if planned["action"] == "import":
            assert planned["target_id"] == number
            applied = pipeline.rows("apply", "--yes", code=None)["-value 1"]
            assert applied["target_id"] != number
            assert "although the subject's mode is IMPORT" in applied["reason"]
        else:
            assert planned["reason"] == f"id {number} belongs to another schema on the target"
    finally:
        call(target, "/mode", {"mode": "READWRITE"}, method="PUT")


def test_a_registry_that_is_away(pipeline: Pipeline, registries: Registries) -> None:
    pipeline.lose(registries.target.url)
    reply = k2ktui("schemas", "plan", "-f", pipeline.file, code=3)
    assert "the target's schema registry" in reply.stderr and "Fix: " in reply.stderr
