"""``config reverse``: a valid file of the opposite direction, or a reason why there is none."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from k2ktui.config.load import load
from k2ktui.config.reverse import reverse_file
from k2ktui.errors import ConfigError, Refused
from tests.unit.config.files import MINIMAL, Files
from tests.unit.config.test_cli import k2ktui

FULL = Path(__file__).with_name("full.yaml")


def reverse(files: Files, *texts: str) -> tuple[Files, str]:
    """Reverse the texts over MINIMAL; the result is o.yaml."""
    names = [f"{number}.yaml" for number in range(len(texts) + 1)]
    paths = files.write(dict(zip(names, (MINIMAL, *texts), strict=True)))
    reversal = reverse_file(paths, env=files.env)
    (path,) = files.write({"o.yaml": reversal.text})
    return files, path


def topics(choice: str, sink: str) -> str:
    return f"replication: [{{source: {{topic: {choice}}}}}, {{sink: {{topic: {sink}}}}}]\n"


def test_clusters_are_swapped_and_the_feature_is_enabled(files: Files) -> None:
    _, path = reverse(files, "source: {name: east}\ntarget: {name: west}\nspark: {slots: 3}\n")
    config = load([path]).config
    assert (config.source.name, config.source.bootstrap_servers) == ("west", "t:1")
    assert (config.target.name, config.target.bootstrap_servers) == ("east", "s:1")
    assert config.bidirectional_mode == "provenance" and config.slots == 3
    assert (config.name, config.coordination.commit.group) == ("p-reverse", "p-reverse")
    assert reverse_file([path]).text.startswith("name: p\n"), "and back"


def test_properties_of_the_connection_go_with_the_cluster(files: Files) -> None:
    files.env = {"JAAS": "hunter2"}
    _, path = reverse(
        files,
        """\
source:
  kafka:
    common: {security.protocol: SASL_SSL, sasl.mechanism: PLAIN}
    consumer: {fetch.max.bytes: 1000, sasl.jaas.config: "${env:string:JAAS}",
               auto.offset.reset: earliest}
target: {kafka: {producer: {acks: all}, topicPropsExclusionList: [a.b]}}
start: {from: earliest}
""",
    )
    tree = yaml.safe_load(Path(path).read_text())
    jaas = {"sasl.jaas.config": "${env:string:JAAS}"}
    assert tree["source"]["kafka"] == {
        "common": {"bootstrap.servers": "t:1"},
        "consumer": {"fetch.max.bytes": "1000"},
    }
    assert tree["target"]["kafka"] == {
        "common": {
            "bootstrap.servers": "s:1",
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "PLAIN",
        },
        "consumer": jaas,
        "producer": {**jaas, "acks": "all"},
        "topicPropsExclusionList": ["a.b"],
    }
    assert "start" not in tree


def test_who_writes_to_the_target_stays_with_the_pipeline(files: Files) -> None:
    _, path = reverse(files, "target: {writers: shared}\n")
    config = load([path]).config
    assert (config.source.writers, config.target.writers) == ("pipeline", "pipeline")
    with pytest.raises(ConfigError, match="writers under target"):
        files.over_minimal("source: {writers: shared}\n")


@pytest.mark.parametrize(
    ("choice", "sink", "back"),
    [
        ('"o.*"', "source", ("o.*", {})),
        ("[a, b.c]", "source", (["a", "b.c"], {})),
        ("[a, b.c]", "{prefix: x., suffix: .y}", (["x.a.y", "x.b.c.y"], {"x.b.c.y": "b.c"})),
        ("[a]", "{static: all}", (["all"], {"all": "a"})),
        ("[a, b]", '{staticMapping: {a: x, "b.*": y}}', (["x", "y"], {"x": "a", "y": "b"})),
        ('".*"', "{staticMapping: [{a: x}, {b: y}]}", (["x", "y"], {"x": "a", "y": "b"})),
    ],
)
def test_the_topic_mapping_is_inverted(
    files: Files, choice: str, sink: str, back: tuple[object, dict[str, str]]
) -> None:
    _, path = reverse(files, topics(choice, sink))
    config = load([path]).config
    wanted, pairs = back
    topic = config.replication.source.topic
    assert (topic if isinstance(topic, str) else list(topic)) == wanted
    for source, target in pairs.items():
        assert config.topic_mapping.target_for(source) == target


@pytest.mark.parametrize(
    ("choice", "sink", "why"),
    [
        ('".*"', "{prefix: x.}", "selected by the pattern"),
        ("[a, b]", "{static: all}", "a and b are both copied to all"),
        ('".*"', '{staticMapping: {"a.*": x}}', "has the pattern a.*"),
        ("[a, b]", "{staticMapping: {a: x}}", "b has no target topic"),
    ],
)
def test_a_mapping_that_cannot_be_inverted_is_refused(
    files: Files, choice: str, sink: str, why: str
) -> None:
    with pytest.raises(Refused) as refused:
        reverse(files, topics(choice, sink))
    assert why in refused.value.message and "Nothing was printed" in refused.value.unchanged


def test_control_topics_of_two_names_are_swapped(files: Files) -> None:
    _, path = reverse(
        files,
        """\
features: {bidirectionalReplication: enabled}
coordination: {commit: {topic: ours, group: g}}
bidirectional: {opposite: {commitTopic: theirs}}
""",
    )
    config = load([path]).config
    assert config.coordination.commit.topic == "theirs"
    assert config.coordination.commit.group == "g-reverse"
    assert config.opposite.commit_topic == "ours"
    assert config.opposite.mapping_topic == config.offset_mapping.topic


def test_secrets_are_not_printed(files: Files) -> None:
    secret = "source: {kafka: {common: {sasl.jaas.config: hunter2}}}\n"
    paths = files.write({"a.yaml": MINIMAL, "b.yaml": secret})
    done = k2ktui("reverse", "-f", ",".join(paths))
    assert done.returncode == 5 and done.stdout == ""
    assert "b.yaml:1: source.kafka.common" in done.stderr and "hunter2" not in done.stderr


def test_the_command_prints_a_valid_file_and_what_to_look_at(files: Files) -> None:
    text = FULL.read_text().replace('"orders-.*"', "[orders-1, orders-2]")
    (path,) = files.write({"full.yaml": text})
    done = k2ktui("reverse", "-f", path)
    assert done.returncode == 0, done.stderr
    assert "note: the principals need other rights than before" in done.stderr
    assert "note: start was left out" in done.stderr and "note: mm2 was left out" in done.stderr
    (reversed_path,) = files.write({"o.yaml": done.stdout})
    valid = k2ktui("validate", "-f", reversed_path)
    assert (valid.returncode, valid.stdout) == (0, "OK: pipeline full-reverse\n"), valid.stderr


def test_registries_and_rules_of_schema_ids_go_with_their_topics(files: Files) -> None:
    _, path = reverse(
        files,
        topics("[a, b, c]", "{suffix: .x}"),
        """\
features: {schemaMapping: enabled}
schemaMapping: {topics: [{pattern: a, key: disabled}, {pattern: b, key: disabled, value: disabled}]}
source: {registry: {config: {schema.registry.url: "http://east"}}}
target: {registry: {config: {schema.registry.url: "http://west"}}}
""",
    )
    config = load([path]).config
    assert config.source.registry.config == {"schema.registry.url": "http://west"}
    assert config.target.registry.config == {"schema.registry.url": "http://east"}
    rules = {name: config.schema_rule_for(name) for name in ("a.x", "b.x", "c.x")}
    assert {name: rule and rule.parts for name, rule in rules.items()} == {
        "a.x": ("value",),
        "b.x": None,
        "c.x": ("key", "value"),
    }
