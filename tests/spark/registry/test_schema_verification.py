"""``verify`` compares objects where schema ids differ: a wrong id on the target is a finding."""

from __future__ import annotations

import pytest

from tests.support.clusters.kafka import Out, create_topic, produce, read_all, unique_name
from tests.support.clusters.registries import Registries, avro_record, register
from tests.support.commands.cli import k2ktui, k2ktui_json
from tests.support.oracle.group_offsets import commit_offsets
from tests.support.pipelines.fixtures import MakePipeline
from tests.support.pipelines.schema_pipeline import mapping
from tests.support.records.schemas import AvroWriter

pytestmark = pytest.mark.slow

_PREFIX = 5


def new_schema() -> str:
    """Return a schema that no registry has."""
    return avro_record(unique_name("Record").replace("-", "_"), "item")


def separate_ids(registries: Registries) -> None:
    """Use up ids of the source until its next ones are above the next ones of the target."""
    highest = register(registries.target, unique_name("filler"), new_schema())
    while register(registries.source, unique_name("filler"), new_schema()) < highest + 2:
        pass


def id_of(data: bytes | None) -> int:
    assert data is not None
    return int.from_bytes(data[1:_PREFIX], "big")


def test_a_record_with_a_wrong_id_is_found(
    make_pipeline: MakePipeline, registries: Registries
) -> None:
    """The last record is copied while schema mapping is off: it keeps the source's ids."""
    pipeline = make_pipeline([])
    topic, group = create_topic(pipeline.source), unique_name("group")
    pipeline.topics = [topic]
    on = {**mapping(registries), "groups.consumerGroups": [group]}
    separate_ids(registries)
    keys = AvroWriter(registries.source, new_schema())
    values = AvroWriter(registries.source, new_schema())
    sent = [
        Out(values(topic, {"item": str(n)}), keys(topic, {"item": str(n)}, "key"))
        for n in range(21)
    ]
    produce(pipeline.source, topic, sent[:20])
    pipeline.settings = on
    pipeline.catch_up()
    pipeline.settings = {**on, "features.schemaMapping": "disabled"}
    produce(pipeline.source, topic, sent[20:])
    pipeline.catch_up()
    pipeline.settings = on
    copies = read_all(pipeline.target, topic)
    right, wrong = copies[0], copies[-1]
    assert (wrong.key, wrong.value) == (sent[20].key, sent[20].value)
    commit_offsets(pipeline.source, group, {(topic, 0): 20})
    file = pipeline.write()
    plan = file.with_suffix(".plan")
    k2ktui("plan", "-f", file, "-o", plan)
    k2ktui("apply", "-f", file, plan, "--yes")

    verified = k2ktui_json("verify", "-f", file, "--sample", "5", code=1)

    assert verified["records"]["different"] == verified["positions"]["different"] == 1
    assert verified["records"]["same"] == 20
    reasons = [check["reason"] for check in verified["checks"] if check["outcome"] == "different"]
    here, expected, there = (id_of(out.key) for out in (sent[20], right, wrong))
    shown = f"key schema id differs ({here} on the source, {expected} expected, {there} found)"
    assert sorted(reasons) == sorted([shown, f"source offset 20: {shown}"])
    printed = k2ktui("verify", "-f", file, "--sample", "5", code=1).stdout
    assert f"{group}: {topic}-0 at 20, {topic}-0 at" in printed and "found)" in printed
