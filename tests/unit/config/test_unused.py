"""Keys without an effect are noted where they are; what exactly-once forbids is refused."""

from __future__ import annotations

import pytest

from k2ktui.config.load import load
from k2ktui.config.notes import OF_SCHEMAS, OF_SHARED, UNUSED
from k2ktui.config.show import to_yaml
from tests.unit.config.files import MINIMAL, Files

EXCLUSIVE = "coordination: {mode: exclusive}"
# Each with a value that differs from the default.
WITHOUT_EFFECT = {
    "schemaMapping.supportedTypes": "[AVRO]",
    "schemaMapping.autoRegister": "enabled",
    "schemaMapping.onUnknownSchema": "deadLetter",
    "schemaMapping.topics": '[{pattern: "a.*", key: disabled, value: disabled}]',
    "source.registry.config": '{schema.registry.url: "http://s"}',
    "source.registry.headers": "{x-team: a}",
    "source.registry.cacheSize": "5",
    "target.registry.config": '{schema.registry.url: "http://s"}',
    "target.registry.headers": "{x-team: a}",
    "target.registry.cacheSize": "5",
    "bidirectional.mode": "pipeline",
    "bidirectional.headers.bidirectional": "h",
    "bidirectional.opposite.commitTopic": "t",
    "coordination.assignment.graceWindow": "1 hour",
    "coordination.assignment.fencingMaxParallelism": "9",
    "topicCreation.control.assignment.partitions": "2",
    "topicCreation.control.assignment.replication": "2",
    "topicCreation.control.assignment.config": "{a: 1}",
    "metrics.prefix.targetConsumer": "m.",
    "source.kafka.producer": "{client.id: x}",
}


def nested(key: str, value: str) -> str:
    """The YAML of one key."""
    *sections, last = key.split(".")
    lines = [f"{'  ' * depth}{section}:" for depth, section in enumerate(sections)]
    return "\n".join([*lines, f"{'  ' * len(sections)}{last}: {value}"]) + "\n"


@pytest.mark.parametrize(("key", "value"), WITHOUT_EFFECT.items())
def test_a_key_without_effect_is_noted(files: Files, key: str, value: str) -> None:
    (note,) = files.over_minimal(EXCLUSIVE, nested(key, value)).notes
    assert "c.yaml:" in note and "has no effect: " in note
    assert key.startswith(note.split(": ")[1]), "the key, or the section whose keys have none"
    assert files.over_minimal(EXCLUSIVE).notes == ()


REGISTRIES = """\
features: {schemaMapping: enabled}
source: {registry: {config: {schema.registry.url: "http://s"}}}
target: {registry: {config: {schema.registry.url: "http://t"}}}
"""


@pytest.mark.parametrize(
    "key", [key for key in WITHOUT_EFFECT if "registry" in key or key.startswith("schemaMapping")]
)
def test_keys_of_schema_mapping_have_an_effect_where_it_is_enabled(files: Files, key: str) -> None:
    assert files.over_minimal(REGISTRIES, nested(key, WITHOUT_EFFECT[key])).notes == ()


def test_a_type_that_registries_do_not_know_is_noted(files: Files) -> None:
    (note,) = files.over_minimal(REGISTRIES, "schemaMapping: {supportedTypes: [AVRO, YANG]}").notes
    assert "schemaMapping.supportedTypes: YANG applies only where both registries know" in note
    assert files.over_minimal(REGISTRIES).notes == ()


def test_a_dead_letter_topic_of_schema_mapping_is_used_and_legal(files: Files) -> None:
    named = "schemaMapping: {onUnknownSchema: %s, deadLetter: {topic: %s}}"
    (error,) = files.errors(MINIMAL, REGISTRIES, named % ("passthrough", "letters"))
    assert "schemaMapping: expected onUnknownSchema: deadLetter for deadLetter" in error
    (error,) = files.errors(MINIMAL, REGISTRIES, named % ("deadLetter", "a/b"))
    assert "schemaMapping.deadLetter.topic: expected the name of a topic" in error
    files.over_minimal(REGISTRIES, named % ("deadLetter", "letters"))


@pytest.mark.parametrize("side", ["source", "target"])
def test_schema_mapping_needs_both_registries(files: Files, side: str) -> None:
    lines = [line for line in REGISTRIES.splitlines() if not line.startswith(side)]
    (error,) = files.errors(MINIMAL, "\n".join(lines))
    assert f'{side}.registry.config."schema.registry.url": missing' in error or (
        f"{side}.registry.config" in error and "features.schemaMapping needs it" in error
    )


AVRO = """\
replication:
  - source: {topic: ".*"}
  - transform:
      - {topics: a, decode: {value: avro}, encode: {value: %s}}
  - sink: {topic: source}
"""


@pytest.mark.parametrize(
    ("encode", "sides"), [("json", ["source"]), ("avro", ["source", "target"])]
)
def test_avro_needs_the_registries_that_it_names(
    files: Files, encode: str, sides: list[str]
) -> None:
    rules = AVRO % encode
    errors = files.errors(MINIMAL, rules)
    assert [error.partition(".registry")[0].rpartition(" ")[2] for error in errors] == sides
    assert all("missing; a schema in replication.transform needs it" in error for error in errors)
    both = "\n".join(REGISTRIES.splitlines()[1:])
    notes = files.over_minimal(rules, both, "schemaMapping: {autoRegister: enabled}").notes
    paths = [note.split(": ")[1] for note in notes]
    assert paths == ([] if encode == "avro" else ["schemaMapping", "target.registry"])
    (note, *_) = files.over_minimal(rules, both, "schemaMapping: {supportedTypes: [AVRO]}").notes
    assert "schemaMapping" in note and "features.schemaMapping is disabled" in note
    letters = "schemaMapping: {onUnknownSchema: deadLetter, deadLetter: {topic: letters}}"
    notes = files.over_minimal(AVRO % "avro", both, letters).notes
    keys = {"schemaMapping.onUnknownSchema", "schemaMapping.deadLetter"}
    assert {note.split(": ")[1] for note in notes} == keys


def test_parallelism_beside_slots_is_noted(files: Files) -> None:
    parallelism = "configuration: {pipelineParallelism: 2, partitionParallelism: 3}\n"
    assert files.over_minimal(parallelism).notes == ()
    notes = files.over_minimal(parallelism + "spark: {slots: 4}\n").notes
    assert [note.split(": ")[1] for note in notes] == [
        "configuration.pipelineParallelism",
        "configuration.partitionParallelism",
    ]


def test_the_header_of_both_directions_has_an_effect_only_with_a_mode_that_uses_it(
    files: Files,
) -> None:
    enabled = "features: {bidirectionalReplication: enabled}\n"
    header = nested("bidirectional.headers.bidirectional", "h")
    (note,) = files.over_minimal(enabled, header).notes
    assert "bidirectional.headers: has no effect: bidirectional.mode is provenance" in note
    assert files.over_minimal(enabled, header + "  mode: cluster\n").notes == ()


def test_prefixes_of_a_file_without_replication_are_noted(files: Files) -> None:
    text = MINIMAL.rpartition("replication:")[0] + "metrics: {prefix: {targetProducer: m.}}\n"
    notes = load(files.write({"a.yaml": text}), need_replication=False).notes
    assert "metrics.prefix.targetProducer: has no effect" in notes[-1]
    assert files.over_minimal("metrics: {prefix: {targetProducer: m.}}\n").notes == ()


@pytest.mark.parametrize("section", ["producer", "common"])
@pytest.mark.parametrize(("key", "value"), [("acks", "1"), ("enable.idempotence", "false")])
def test_exactly_once_needs_strong_writes(files: Files, section: str, key: str, value: str) -> None:
    weak = nested(f"target.kafka.{section}", f"{{{key}: {value}}}")
    (error,) = files.errors(MINIMAL, weak)
    assert error.startswith("b.yaml:3") and f"target.kafka.{section}" in error
    assert "features.exactlyOnce needs" in error
    assert not files.errors(MINIMAL, weak, "features: {exactlyOnce: disabled}")
    strong = nested(f"target.kafka.{section}", "{acks: all, enable.idempotence: true}")
    assert not files.errors(MINIMAL, strong)


def test_compression_of_verbatim_batches_is_noted(files: Files) -> None:
    (note,) = files.over_minimal(nested("target.kafka.producer", "{compression.type: zstd}")).notes
    assert "verbatim batches keep the source's compression" in note


def test_descriptions_are_shown(files: Files) -> None:
    named = "replication: [{source: {name: from-here}}, {sink: {name: to-there}}]\n"
    shown = to_yaml(files.over_minimal(named))
    assert "name: from-here" in shown and "name: to-there" in shown


def test_every_unused_key_is_in_the_list() -> None:
    """A key that is added to the table needs a line here."""
    for path in (*UNUSED, *OF_SHARED, *OF_SCHEMAS):
        assert any(key.startswith(".".join(map(str, path))) for key in WITHOUT_EFFECT), path


STANDBY = "coordination: {mode: standby, assignment: {graceWindow: 20 seconds}}"


def test_the_grace_window_has_an_effect_with_standby(files: Files) -> None:
    loaded = files.over_minimal(STANDBY)
    assert loaded.notes == ()
    assert loaded.config.coordination.mode == "standby"
    assert loaded.config.coordination.assignment.grace_window_s == 20


def test_runs_share_a_pipeline_by_default_where_that_is_possible(files: Files) -> None:
    assert files.over_minimal().config.coordination.mode == "shared"
    without = files.over_minimal("features: {exactlyOnce: disabled}")
    assert without.config.coordination.mode == "exclusive" and not without.notes
    short = files.over_minimal("coordination: {assignment: {graceWindow: 2 seconds}}")
    assert short.config.coordination.mode == "exclusive"
    (note,) = short.notes
    assert "coordination.assignment.graceWindow: has no effect: less than 3 seconds" in note


SHARED = """\
coordination:
  mode: shared
  assignment: {graceWindow: 20 seconds, fencingMaxParallelism: 9, topic: __runs}
topicCreation: {control: {assignment: {partitions: 2, replication: 2, config: {a: "1"}}}}
"""


def test_all_of_coordination_has_an_effect_with_shared(files: Files) -> None:
    loaded = files.over_minimal(SHARED)
    assert loaded.notes == ()
    assert loaded.config.coordination.mode == "shared"
    assert loaded.config.coordination.assignment.fencing_max_parallelism == 9
    one = files.over_minimal(SHARED.replace("shared", "standby"))
    assert len(one.notes) == 2 and all("mode is not shared" in note for note in one.notes)


@pytest.mark.parametrize("mode", ["standby", "shared"])
def test_runs_that_take_over_need_transactions(files: Files, mode: str) -> None:
    disabled = "features: {exactlyOnce: disabled}"
    (error,) = files.errors(MINIMAL, f"coordination: {{mode: {mode}}}", disabled)
    assert f"coordination.mode: {mode} needs features.exactlyOnce" in error


@pytest.mark.parametrize("mode", ["standby", "shared"])
def test_a_grace_window_must_hold_heartbeats(files: Files, mode: str) -> None:
    short = f"coordination: {{mode: {mode}, assignment: {{graceWindow: 2 seconds}}}}"
    (error,) = files.errors(MINIMAL, short)
    assert "coordination.assignment.graceWindow: expected at least 3 seconds" in error
    assert f"with coordination.mode: {mode}" in error
    assert files.over_minimal(short.replace(mode, "exclusive")).config
