from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest
import yaml

from k2ktui.config import load
from k2ktui.config.editor_schema import editor_schema
from k2ktui.config.show import effective, sources, to_json, to_yaml
from k2ktui.config.validate import known_paths
from k2ktui.errors import ConfigError, K2kError
from k2ktui.secret_values import is_secret_key
from tests.unit.config.files import MINIMAL, Files

# standby needs features.exactlyOnce, which the file disables: tests/unit/config/test_unused.py
MODE = ("coordination", "mode")
ONLY_OF_TARGETS = (("source", "kafka", "topicPropsExclusionList"), ("source", "writers"))
# Its other value excludes most keys of the file: tests/unit/config/test_copier.py
COPIER = ("copier",)
# haproxy stands in for them.
BY_COMMAND = [("drill", "redirect", key) for key in ("command", "cut", "restore", "dns")]
FULL = Path(__file__).with_name("full.yaml")


def test_every_key_can_be_set() -> None:
    loaded = load([FULL])
    unset = [path for path, place in sources(loaded).items() if place == "default"]
    assert unset == []


def test_every_key_has_an_effect_on_the_model(files: Files) -> None:
    set_to, default = effective(load([FULL])), effective(files.over_minimal())
    elsewhere = (*ONLY_OF_TARGETS, MODE, COPIER, *BY_COMMAND)
    for path in known_paths():
        if path[0] != "replication" and path[:3] not in elsewhere:
            assert _at(set_to, path) != _at(default, path), path


def _at(value: object, path: tuple[str | int, ...]) -> object:
    for step in path:
        if isinstance(value, list):
            return value
        value = value.get(step) if isinstance(value, dict) else None
    return value


def test_what_is_shown_loads_again_as_the_same(files: Files) -> None:
    loaded = load([FULL])
    again = files.load(to_yaml(loaded))
    assert again.config == loaded.config
    with_sources = files.load(to_yaml(loaded, with_sources=True))
    assert with_sources.config == loaded.config


@pytest.mark.parametrize(
    ("topic", "shown"),
    [
        ("{prefix: ''}", {"prefix": ""}),
        ("{staticMapping: {}}", {"staticMapping": [{}]}),
        # Patterns stay in their order, also where a tool sorts the keys of tables.
        (
            "{staticMapping: [{z.*: one, a.*: two}, {}, {z.*: three}]}",
            {"staticMapping": [{"z.*": "one"}, {"a.*": "two"}, {"z.*": "three"}]},
        ),
    ],
)
def test_a_mapping_of_topics_is_shown_as_it_applies(
    files: Files, topic: str, shown: dict[str, object]
) -> None:
    loaded = files.over_minimal(f"replication: [source: {{topic: a}}, sink: {{topic: {topic}}}]")
    assert effective(loaded)["replication"][-1]["sink"]["topic"] == shown
    sink = files.load(to_yaml(loaded)).config.replication.sink
    assert sink.mapping == loaded.config.replication.sink.mapping


@pytest.mark.parametrize("name", ["true", "1", "null", "a: b", "# x", "ü\u202e", "a\nb", "-", "'"])
def test_awkward_texts_survive(files: Files, name: str) -> None:
    loaded = files.over_minimal(f"name: {json.dumps(name)}")
    assert "\u202e" not in to_yaml(loaded)
    assert yaml.safe_load(to_yaml(loaded))["name"] == name


def test_secrets_are_redacted(files: Files) -> None:
    files.env = {"HOST": "hunter1:9092", "GROUP": "hunter2", "TARGET": "hunter3"}
    jaas = 'org.apache.kafka.PlainLoginModule required username="u" password="hunter4";'
    text = f"""\
source:
  kafka:
    common:
      bootstrap.servers: "${{env:string:HOST}}"
      sasl.jaas.config: '{jaas}'
      ssl.keystore.key: hunter5
      ssl.key.password: hunter6
      ssl.truststore.location: /visible/path
      sasl.oauthbearer.token.endpoint.url: http://visible
  registry:
    config: {{schema.registry.url: "http://user:hunter7@host", basic.auth.user.info: hunter8}}
    headers: {{Authorization: hunter9}}
groups: {{consumerGroups: [a, "${{env:string:GROUP}}"]}}
replication: [sink: {{topic: {{staticMapping: {{a: "${{env:string:TARGET}}"}}}}}}]
spark: {{config: {{spark.hadoop.fs.s3a.secret.key: hunter10, x: [a, "${{env:string:GROUP}}"]}}}}
"""
    loaded = files.over_minimal(text)
    for shown in (to_yaml(loaded), to_yaml(loaded, with_sources=True), to_json(loaded)):
        assert "hunter" not in shown
        assert "/visible/path" in shown and "http://visible" in shown
    assert "hunter" not in repr(loaded.config.source) + str(loaded.config.source)


def test_sources_stand_beside_their_keys(files: Files) -> None:
    shown = to_yaml(files.over_minimal("groups:\n  pollInterval: 1 s\n"), with_sources=True)
    line = next(line for line in shown.splitlines() if "pollInterval" in line)
    assert line.split() == ["pollInterval:", "1", "second", "#", line.split()[-1]]
    assert line.endswith("b.yaml:2")
    assert next(line for line in shown.splitlines() if "exactlyOnce" in line).endswith("# default")


def test_json_of_it(files: Files) -> None:
    shown = json.loads(to_json(files.over_minimal("license: {}"), with_sources=True))
    assert shown["config"]["features"]["exactlyOnce"] == "enabled"
    assert shown["sources"]["name"].endswith("a.yaml:1")
    assert shown["notes"] == ["license is ignored: k2ktui needs none"]


@pytest.mark.parametrize(
    ("key", "secret"),
    [
        ("ssl.keystore.password", True),
        ("ssl.key.password", True),
        ("ssl.keystore.key", True),
        ("sasl.jaas.config", True),
        ("sasl.oauthbearer.client.credentials.client.secret", True),
        ("x-api-key", True),
        ("PGPASS", True),
        ("db.pwd", True),
        ("sas", True),
        ("X-Auth", True),
        ("ssl.passphrase", True),
        ("SharedAccessSignature", True),
        ("sasl.mechanism", False),
        ("bypass.rules", False),
        ("ssl.keystore.location", False),
        ("key.deserializer", False),
        ("sasl.oauthbearer.token.endpoint.url", False),
        ("partitioner.ignore.keys", False),
    ],
)
def test_secret_keys(key: str, secret: bool) -> None:
    assert is_secret_key(key) is secret


def test_json_schema_names_every_section() -> None:
    schema = editor_schema()
    assert set(yaml.safe_load(MINIMAL)) <= set(schema["properties"])
    assert "required" not in schema  # another layer may have it
    json.dumps(schema)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("http://u:p@host", "http://<redacted>@host"),
        ("http://u:p@ss@host/x", "http://<redacted>@host/x"),
        ("http://u:p/s@host", "http://<redacted>@host"),
        ("http://u:my pass@host", "http://<redacted>@host"),
        (
            "http://u:one@a:1,https://u:tw@o@b:2/c",
            "http://<redacted>@a:1,https://<redacted>@b:2/c",
        ),
        ("http://a:1,https://b:2", "http://a:1,https://b:2"),
    ],
)
def test_credentials_of_urls_are_redacted(url: str, shown: str, files: Files) -> None:
    loaded = files.over_minimal(f"source: {{registry: {{config: {{x.url: {json.dumps(url)}}}}}}}")
    assert effective(loaded)["source"]["registry"]["config"]["x.url"] == shown


def test_a_secret_is_hidden_wherever_its_value_stands(files: Files) -> None:
    jaas = 'a.PlainLoginModule required username="ann" password="hunt er/1";'
    loaded = files.over_minimal(f"""\
source: {{kafka: {{common: {{sasl.jaas.config: '{jaas}'}}}}}}
spark: {{config: {{spark.executorEnv.A: "x hunt er/1 y", spark.executorEnv.B: hunt%20er%2F1}}}}
""")
    basic = base64.b64encode(b"ann:hunt er/1").decode()
    assert "hunt" not in to_yaml(loaded)
    error = K2kError(f"got hunt er/1, hunt%20er%2F1, Basic {basic} and ann", hint="not hunt er/1")
    assert error.message == "got <redacted>, <redacted>, Basic <redacted> and ann"
    assert str(error) == f"{error.message}\nFix: not <redacted>"


@pytest.mark.parametrize("value", ["*hunter2", "&hunter2 &hunter2", "!hunter2!x y", "*hun%ter2"])
def test_an_unquoted_value_is_not_quoted_by_the_error(value: str, files: Files) -> None:
    with pytest.raises(ConfigError) as refused:
        files.over_minimal(f"source:\n  kafka:\n    common:\n      ssl.key.password: {value}\n")
    assert "hunter2" not in str(refused.value) and "hun" not in str(refused.value)


def test_a_value_that_begins_like_an_alias_has_its_fix(files: Files) -> None:
    with pytest.raises(ConfigError) as refused:
        files.over_minimal("source: {kafka: {common: {ssl.key.password: *hunter2}}}")
    assert "found undefined alias <redacted>; put a value that begins with * into quotes" in str(
        refused.value
    )
