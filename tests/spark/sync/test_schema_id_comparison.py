"""Schema ids of copies, of every form, compared by what real registries have under them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from k2ktui.engine.schemas.ids import SchemaId, SchemaIdForm, encode_schema_id
from k2ktui.log.record import KafkaRecord
from k2ktui.sync.verify.record_comparison import ComparisonOutcome
from k2ktui.sync.verify.schema_id_comparison import SchemaIdComparator
from tests.support.clusters.kafka import unique_name
from tests.support.clusters.registries import (
    HasUrl,
    Registries,
    RegistryPair,
    avro_record,
    call,
    own_ids,
    register,
)
from tests.support.clusters.registry_stand_in import StandIns, two_stand_ins
from tests.support.pipelines.schema_pipeline import mapping
from tests.unit.config.files import Files

pytestmark = pytest.mark.slow
pytest.importorskip("authlib")

DIFFERENT, UNKNOWN = ComparisonOutcome.DIFFERENT, ComparisonOutcome.COULD_NOT_CHECK
SAME = ComparisonOutcome.SAME
HEADERS = {
    SchemaIdForm.ID_HEADER: "__value_schema_id",
    SchemaIdForm.GUID_HEADER: "__value_schema_id",
    SchemaIdForm.GLOBAL_ID_HEADER: "apicurio.value.globalId",
    SchemaIdForm.CONTENT_ID_HEADER: "apicurio.value.contentId",
}
GLOBAL = SchemaIdForm.GLOBAL_ID_HEADER


def record(form: SchemaIdForm, value: int) -> KafkaRecord:
    """Return a record whose value has an id."""
    data = encode_schema_id(SchemaId(form, value))
    if form in HEADERS:
        return KafkaRecord(0, None, b"data", ((HEADERS[form], data),), 0)
    return KafkaRecord(0, None, data + b"data", (), 0)


@dataclass
class Case:
    """A comparator, and two schemas of a topic on both registries."""

    ids: SchemaIdComparator
    topic: str
    pair: RegistryPair

    def compare(self, form: SchemaIdForm, here: int, there: int) -> tuple[ComparisonOutcome, str]:
        compared = self.ids.compare(self.topic, record(form, here), record(form, there))
        return compared.outcome, compared.why

    def register(self, schema: str) -> tuple[int, int]:
        """Register a schema on both sides and return its ids."""
        subject = f"{self.topic}-value"
        return register(self.pair.source, subject, schema), register(
            self.pair.target, subject, schema
        )


@contextmanager
def case(directory: Path, pair: RegistryPair, **rules: Any) -> Iterator[Case]:
    settings = mapping(pair, **rules)
    more = {
        "features": {"schemaMapping": "enabled"},
        "schemaMapping": settings["schemaMapping"],
        "source": {"registry": {"config": settings["source.registry.config"]}},
        "target": {"registry": {"config": settings["target.registry.config"]}},
    }
    topic = unique_name("t")
    more["replication"] = [{"source": {"topic": [topic]}}, {"sink": {"topic": "source"}}]
    config = Files(directory).over_minimal(json.dumps(more)).config
    with SchemaIdComparator(config) as ids:
        yield Case(ids, topic, pair)


def schema() -> str:
    return avro_record("Pay", unique_name("field").replace("-", "_"))


def differs(here: object, expected: object, on_target: object) -> tuple[ComparisonOutcome, str]:
    where = f"{here} on the source, {expected} expected, {on_target} found"
    return DIFFERENT, f"value schema id differs ({where})"


@pytest.mark.parametrize(
    "form", [form for form in SchemaIdForm if form not in (GLOBAL, SchemaIdForm.GUID_HEADER)]
)
def test_ids(tmp_path: Path, registries: Registries, form: SchemaIdForm) -> None:
    with case(tmp_path, registries) as at:
        (here, there), (_, other) = at.register(schema()), at.register(schema())
        assert at.compare(form, here, there) == (SAME, "")
        assert at.compare(form, here, other) == differs(here, there, other)
        assert at.compare(form, here, 4_000_000) == differs(here, there, 4_000_000)
        # Of the source, not mapped.
        assert at.compare(form, here, here) == differs(here, there, here)


def global_id(registry: HasUrl, subject: str, version: int) -> int:
    return own_ids(registry, subject, version)["globalId"]


def test_global_ids(tmp_path: Path, registries: Registries) -> None:
    with case(tmp_path, registries) as at:
        text, subject = schema(), f"{at.topic}-value"
        at.register(text)
        at.register(schema())
        here = global_id(registries.source, subject, 1)
        there, other = (global_id(registries.target, subject, number) for number in (1, 2))
        assert at.compare(GLOBAL, here, there) == (SAME, "")
        assert at.compare(GLOBAL, here, other) == differs(here, there, other)
        # Under another subject the same schema has another global id; its objects are the same.
        again = unique_name("again")
        register(registries.target, again, text)
        assert at.compare(GLOBAL, here, global_id(registries.target, again, 1)) == (SAME, "")


def test_guids(tmp_path: Path) -> None:
    with two_stand_ins() as pair, case(tmp_path, pair) as at:
        (here, there), (_, other) = at.register(schema()), at.register(schema())
        texts = guid(pair, here)[0], guid(pair, there)[1], guid(pair, other)[1]
        numbers = [int(text.replace("-", ""), 16) for text in texts]
        form = SchemaIdForm.GUID_HEADER
        assert at.compare(form, numbers[0], numbers[1]) == (SAME, "")
        assert at.compare(form, numbers[0], numbers[2]) == differs(*texts)


def guid(pair: StandIns, schema_id: int) -> tuple[str, str]:
    return pair.source.guid(schema_id), pair.target.guid(schema_id)


def test_a_schema_that_the_target_lacks(tmp_path: Path, registries: Registries) -> None:
    """Nothing is registered, whatever autoRegister says."""
    form = SchemaIdForm.PREFIX
    with case(tmp_path, registries, autoRegister="enabled") as at:
        here = register(registries.source, f"{at.topic}-value", schema())
        other = register(registries.target, unique_name("other"), schema())
        assert at.compare(form, here, other) == differs(here, "none", other)
        assert f"{at.topic}-value" not in call(registries.target, "/subjects")


def test_ids_that_the_source_does_not_know(tmp_path: Path, registries: Registries) -> None:
    form = SchemaIdForm.PREFIX
    with case(tmp_path, registries, onUnknownSchema="passthrough") as at:
        _, there = at.register(schema())
        assert at.compare(form, 4_000_000, 4_000_000) == (SAME, "")
        outcome, why = at.compare(form, 4_000_000, there)
        assert outcome is UNKNOWN and why.startswith("value schema id 4000000: the source's")


def test_a_registry_that_does_not_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Records are not taken for different, and it is not asked again."""
    asked: list[str] = []

    def fail(_method: str, path: str, *_: object) -> tuple[int, Any]:
        asked.append(path)
        return 500, {"error_code": 50001, "message": "no storage"}

    form = SchemaIdForm.PREFIX
    with two_stand_ins() as pair, case(tmp_path, pair) as at:
        (here, there), (more, _) = at.register(schema()), at.register(schema())
        monkeypatch.setattr(pair.target, "answer", fail)
        outcome, why = at.compare(form, here, there)
        assert outcome is UNKNOWN and why.startswith("the target's schema registry (localhost:")
        count = len(asked)
        assert count and at.compare(form, more, there) == (outcome, why) and len(asked) == count
