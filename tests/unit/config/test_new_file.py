"""The text of a new pipeline's file: no secrets, and names that mean nothing but themselves."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k2ktui.config.load import Loaded
from k2ktui.config.new_file import (
    NewPipeline,
    escape_name,
    login_properties,
    name_of_file,
    propose_name,
    propose_topics,
    read_client_properties,
    secret_template,
    trusted,
    with_address,
)
from k2ktui.config.templates import variables_of
from k2ktui.errors import ConfigError
from k2ktui.kafka.auth.jaas import parse_jaas
from k2ktui.kafka.properties.translation import findings, load_checked

PLAIN = {"bootstrap.servers": "dst:9092"}
HOSTILE = [
    '": {}',
    "a: [b",
    "# c",
    "${env:string:HOME}",
    "o|.*",
    "new\nline",
    "tab\t",
    "é\u202e",
    "*",
]
NAMES = st.text(
    st.sampled_from("ab01._-|*+?()[]{}\\$^#&~:,'\" \n\tQEpzG<é"), min_size=1, max_size=8
)


def load(folder: Path, pipeline: NewPipeline) -> Loaded:
    file = folder / "p.yaml"
    file.write_text(pipeline.text, encoding="utf-8")
    return load_checked([file])


def test_the_file_is_a_pipeline_with_comments_and_nothing_else(tmp_path: Path) -> None:
    pipeline = NewPipeline("orders", {"bootstrap.servers": "src:9092"}, PLAIN, r"orders\..*")
    assert len(pipeline.text.splitlines()) < 20
    loaded = load(tmp_path, pipeline)
    assert not loaded.notes
    config = loaded.config
    assert (config.name, config.source.bootstrap_servers) == ("orders", "src:9092")
    assert config.topics.matches("orders.eu") and not config.topics.matches("orders")
    assert config.features.auto_create_control_topics and config.topic_mapping.kind == "source"


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_name_is_itself_in_the_expression_and_in_yaml(name: str, tmp_path: Path) -> None:
    pipeline = NewPipeline("p", PLAIN, PLAIN, escape_name(name))
    topics = load(tmp_path, pipeline).config.topics
    assert topics.matches(name)
    assert not any(topics.matches(other) for other in ("", "orders", *HOSTILE) if other != name)


@given(st.sets(NAMES, max_size=12))
def test_each_proposal_selects_as_many_topics_as_it_says(names: set[str]) -> None:
    (everything, count), *others = propose_topics(names, 50)
    assert (everything, count) == (".*", len(names))
    for pattern, count in others:
        assert sum(re.fullmatch(pattern, name) is not None for name in names) == count > 0


def test_topics_with_the_same_beginning_are_one_proposal() -> None:
    names = ["orders.eu", "orders.us", "orders", "web-clicks", "web-views", "web_x", "alone.one"]
    assert propose_topics(names, 9) == [
        (".*", 7),
        (r"orders\..*", 2),
        ("web-.*", 2),
        (r"alone\.one", 1),
        ("orders", 1),
        ("web_x", 1),
    ]
    assert len(propose_topics(names, 3)) == 3
    assert propose_topics([], 3) == [(".*", 0)]


@pytest.mark.parametrize("user", ["ops", 'o"ps', "a\\b", "${env:string:HOME}", "é; }"])
def test_a_login_has_the_user_and_where_the_password_is(
    user: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOURCE_PASSWORD", "s3cret; = variable")
    (tmp_path / "password").write_text("s3cret-file\n")
    source = login_properties("PLAIN", user, secret_template("SOURCE_PASSWORD"))
    target = login_properties("SCRAM-SHA-512", user, secret_template(str(tmp_path / "password")))
    pipeline = NewPipeline("p", with_address("src:9092", source), {**PLAIN, **target})
    assert variables_of(pipeline.text) == ["SOURCE_PASSWORD"]
    assert "s3cret" not in pipeline.text
    config = load(tmp_path, pipeline).config
    for cluster, password in (
        (config.source, "s3cret; = variable"),
        (config.target, "s3cret-file"),
    ):
        login = parse_jaas(cluster.kafka.common["sasl.jaas.config"])
        assert login.options == {"username": user, "password": password}


def test_secrets_of_client_properties_stay_in_their_file(tmp_path: Path) -> None:
    """With the providers that the file declares; what does not connect is left out."""
    file = tmp_path / "client.properties"
    file.write_text(
        "bootstrap.servers=src:9092\nsecurity.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
        "sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required \\\n"
        '  username="ops" password="of-the-file";\n'
        "ssl.truststore.password=${env::STORE}\nconfig.providers=env\n"
        "config.providers.env.class="
        "org.apache.kafka.common.config.provider.EnvVarConfigProvider\n"
        "acks=all\ngroup.id=g\n"
    )
    properties, left_out = read_client_properties(file.read_bytes(), str(file))
    assert left_out == ["acks", "group.id"]
    assert properties["config.providers"] == "env,properties"
    assert properties["ssl.truststore.password"] == "${env::STORE}"
    del properties["ssl.truststore.password"]
    pipeline = NewPipeline("p", properties, PLAIN)
    assert "of-the-file" not in pipeline.text
    config = load(tmp_path, pipeline).config
    login = parse_jaas(config.source.kafka.common["sasl.jaas.config"])
    assert login.options == {"username": "ops", "password": "of-the-file"}
    assert not [finding for finding in findings(config.source) if finding.refused]


LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule required "


@pytest.mark.parametrize(
    ("key", "value", "stays"),
    [
        ("sasl.jaas.config", f'{LOGIN}username="ops" password="${{env::P}}";', False),
        ("sasl.jaas.config", f'{LOGIN}username="ops" password="a${{b";', True),
        ("ssl.key.password", "${env::P}", False),
        ("sasl.oauthbearer.token.endpoint.url", "https://ops:of-the-file@sso/token", True),
        ("sasl.oauthbearer.token.endpoint.url", "https://${env::P}@sso/token", False),
    ],
)
def test_only_values_with_a_secret_stay_in_their_file(key: str, value: str, stays: bool) -> None:
    properties, _ = read_client_properties(f"{key}={value}\n".encode(), "/a/file")
    assert properties[key] == (f"${{properties:/a/file:{key}}}" if stays else value)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("sasl.jaas.config", f'{LOGIN}username="${{env::U}}" password="of-the-file";'),
        ("ssl.key.password", "${env::P}of-the-file"),
    ],
)
def test_a_secret_beside_a_variable_is_refused(key: str, value: str) -> None:
    with pytest.raises(ConfigError, match="a variable and a secret") as refused:
        read_client_properties(f"{key}={value}\n".encode(), "/a/file")
    assert "of-the-file" not in str(refused.value)


def test_a_provider_of_the_file_keeps_its_name() -> None:
    kind = "org.apache.kafka.common.config.provider.DirectoryConfigProvider"
    text = f"config.providers=properties\nconfig.providers.properties.class={kind}\n"
    properties, _ = read_client_properties(f"{text}ssl.key.password=x\n".encode(), "/a/file")
    assert properties["config.providers"] == "properties,k2ktui"
    assert properties["config.providers.properties.class"] == kind
    assert properties["ssl.key.password"] == "${k2ktui:/a/file:ssl.key.password}"


def test_certificates_are_named_by_their_whole_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert trusted("ca.pem")["ssl.truststore.location"] == str(tmp_path / "ca.pem")
    assert secret_template("./password") == f"${{file:string:{tmp_path}/password}}"


@pytest.mark.parametrize(
    ("source", "target", "name"),
    [
        ("kafka-a.example.org:9092,x:1", "kafka-b.example.org:9092", "kafka-a-to-kafka-b"),
        ("localhost:9092", "localhost:9093", "localhost_9092-to-localhost_9093"),
        ("10.0.0.1:9092", "10.0.0.2:9092", "10.0.0.1-to-10.0.0.2"),
        ("[::1]:9092", "b:9092", "_1_-to-b"),
        ("b-1.x.example:1", "b-1.y.example:1", "x-to-y"),
        ("b-1.x:1", "b-1.x.y:1", "b-1.x_1-to-b-1.x.y_1"),
    ],
)
def test_a_name_is_made_of_the_addresses(source: str, target: str, name: str) -> None:
    assert propose_name(source, target) == name


def test_the_file_names_the_pipeline() -> None:
    assert name_of_file("orders-eu") == "orders-eu"
    assert name_of_file('my "orders"\n') == "my_orders_"
