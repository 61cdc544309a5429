"""Kafka's config providers in client properties: what they fill, may read, and refuse."""

from __future__ import annotations

from pathlib import Path

import pytest

from k2ktui.config.load import Loaded
from k2ktui.config.show import to_json, to_yaml
from k2ktui.config.templates import read_providers
from k2ktui.errors import ConfigError
from k2ktui.kafka.properties.translation import findings, librdkafka, load_checked

CLASSES = "org.apache.kafka.common.config.provider"
REST = "replication: [{source: {topic: a}}, {sink: {topic: source, partition: source}}]\n"


def load(tmp_path: Path, common: dict[str, str], **sections: dict[str, str]) -> Loaded:
    """Load a pipeline whose source has these client properties."""
    lines = ["name: p", "target: {kafka: {common: {bootstrap.servers: 't:1'}}}", "source:"]
    lines += ["  kafka:"]
    for name, properties in {"common": {"bootstrap.servers": "s:1", **common}, **sections}.items():
        lines += [f"    {name}:", *(f"      {key}: '{text}'" for key, text in properties.items())]
    path = tmp_path / "p.yaml"
    path.write_text("\n".join(lines) + "\n" + REST)
    return load_checked([path])


def declared(**kinds: str) -> dict[str, str]:
    """Declare providers: name to class."""
    classes = {f"config.providers.{name}.class": f"{CLASSES}.{kinds[name]}" for name in kinds}
    return {"config.providers": ",".join(kinds), **classes}


ALL = declared(
    file="FileConfigProvider", directory="DirectoryConfigProvider", env="EnvVarConfigProvider"
)


@pytest.fixture
def secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    directory = tmp_path / "secrets"
    directory.mkdir()
    (directory / "login.properties").write_text("password = hunter2ü\n", encoding="utf-8")
    (directory / "one").write_text("hunter2 one")
    (tmp_path / "other").write_text("hunter2")
    monkeypatch.setenv("SECRET", "hunter2 env")
    return directory


def test_client_properties_are_filled(secrets: Path, tmp_path: Path) -> None:
    loaded = load(
        tmp_path,
        ALL | {"client.id": f"${{file:{secrets}/login.properties:password}}, ${{env:SECRET}}"},
        consumer={"client.rack": f"a ${{directory:{secrets}:one}}"},
    )
    source = loaded.config.source
    assert source.properties("consumer")["client.id"] == "hunter2ü, hunter2 env"
    assert source.properties("consumer")["client.rack"] == "a hunter2 one"
    assert librdkafka(source, "consumer")["client.id"] == "hunter2ü, hunter2 env"
    assert findings(source) == [] and loaded.notes == ()
    for shown in (to_yaml(loaded, with_sources=True), to_json(loaded), repr(loaded)):
        assert "hunter2" not in shown
    assert "<redacted>" in to_yaml(loaded)


def test_a_provider_does_not_show_the_environment() -> None:
    declares = declared(env="EnvVarConfigProvider")
    made = read_providers(declares, {"SECRET": "hunter2"}, lambda key, message: None)
    assert made["env"]("", "SECRET") == "hunter2" and "hunter2" not in repr(made)


def test_our_own_templates_keep_their_meaning(secrets: Path, tmp_path: Path) -> None:
    """A mapper distinguishes ``${env:string:NAME}`` from the variable of a provider named env."""
    loaded = load(
        tmp_path,
        ALL
        | {"client.id": f"${{env:string:SECRET}} ${{file:string:{secrets}/one}} $${{env:SECRET}}"},
    )
    assert loaded.config.source.kafka.common["client.id"] == "hunter2 env hunter2 one ${env:SECRET}"
    plain = load(tmp_path, {"client.id": f"${{file:{secrets}/one}} ${{env:SECRET}}"})
    assert plain.config.source.kafka.common["client.id"] == "hunter2 one hunter2 env"


def test_only_the_section_that_declares_them(secrets: Path, tmp_path: Path) -> None:
    loaded = load(
        tmp_path, {}, admin=declared(e="EnvVarConfigProvider") | {"client.id": "${e:SECRET}"}
    )
    assert loaded.config.source.kafka.admin["client.id"] == "hunter2 env"
    with pytest.raises(ConfigError, match=r'common."client.id": \$\{e:SECRET\}: expected'):
        load(tmp_path, {"client.id": "${e:SECRET}"}, admin=declared(e="EnvVarConfigProvider"))


LIMIT = "config.providers.file.param.allowed.paths"


def test_allowed_paths(secrets: Path, tmp_path: Path) -> None:
    limited = ALL | {LIMIT: str(secrets), LIMIT.replace(".file.", ".directory."): str(secrets)}
    inside = limited | {"client.id": f"${{file:{secrets}/./login.properties:password}}"}
    assert load(tmp_path, inside).config.source.kafka.common["client.id"] == "hunter2ü"
    for variable in (
        f"${{file:{tmp_path}/other:k}}",
        f"${{file:{secrets}/../other:k}}",
        f"${{file:{secrets}-2/x:k}}",
        f"${{directory:{tmp_path}:other}}",
        f"${{directory:{secrets}/..:other}}",
    ):
        with pytest.raises(ConfigError, match=r"allowed.paths of this provider does not") as caught:
            load(tmp_path, limited | {"client.id": variable})
        assert "hunter2" not in str(caught.value)


def test_allowlist_of_the_environment(secrets: Path, tmp_path: Path) -> None:
    limited = ALL | {"config.providers.env.param.allowlist.pattern": "SEC.*|X"}
    loaded = load(tmp_path, limited | {"client.id": "${env:SECRET}"})
    assert loaded.config.source.kafka.common["client.id"] == "hunter2 env"
    with pytest.raises(ConfigError, match=r"allowlist.pattern of this provider does not allow"):
        load(tmp_path, limited | {"client.id": "${env:PATH}"})


@pytest.mark.parametrize(
    ("variable", "words"),
    [
        ("${file:%s/login.properties:user}", "the file has no such key"),
        ("${file:%s/login.properties}", "takes a path and a key"),
        ("${file:%s/none:k}", "cannot be read: No such file"),
        ("${file:%s:k}", "cannot be read: Is a directory"),
        ("${file:%s/binary:k}", "not UTF-8"),
        ("${directory:%s:../other}", "expected the name of a file"),
        ("${directory:%s:none}", "cannot be read: No such file"),
        ("${env:ABSENT}", "is not set"),
        ("${env:%s:SECRET}", "takes a name only"),
        ("${vault:%s:k}", "expected ${env:string:NAME}"),
    ],
)
def test_variables_that_cannot_be_filled(
    secrets: Path, tmp_path: Path, variable: str, words: str
) -> None:
    (secrets / "binary").write_bytes(b"k = hunter2\xff\n")
    text = variable % secrets if "%s" in variable else variable
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, ALL | {"client.id": text})
    lines = caught.value.message.splitlines()
    assert len(lines) == 2 and words in lines[1] and 'common."client.id"' in lines[1]
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("properties", "key", "words"),
    [
        ({"config.providers": "v"}, "config.providers.v.class", "expected Kafka's"),
        (
            {"config.providers": "v", "config.providers.v.class": "com.vault.FileConfigProvider"},
            "config.providers.v.class",
            "other providers are not supported",
        ),
        (declared(f="FileConfigProvider") | {"config.providers": "g"}, "f.class", "does not list"),
        (
            declared(f="FileConfigProvider") | {"config.providers.f.param.allowed.path": "/"},
            "allowed.path",
            "unknown; FileConfigProvider has class and param.allowed.paths",
        ),
        (
            declared(f="FileConfigProvider") | {"config.providers.f.param.allowed.paths": "x"},
            "allowed.paths",
            "absolute paths that exist",
        ),
        (
            declared(e="EnvVarConfigProvider")
            | {"config.providers.e.param.allowlist.pattern": "("},
            "allowlist.pattern",
            "regular expression",
        ),
    ],
)
def test_providers_that_are_refused(
    tmp_path: Path, properties: dict[str, str], key: str, words: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, properties)
    assert any(key in line and words in line for line in caught.value.message.splitlines())
