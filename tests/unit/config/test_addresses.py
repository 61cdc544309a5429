"""``bootstrap.servers`` as people write it, and what an editor puts into a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from k2ktui.config.clusters import address_problem
from k2ktui.errors import ConfigError
from k2ktui.kafka.properties.translation import librdkafka, load_checked
from k2ktui.mm2.mirror_flow import load_mirror
from tests.unit.config.files import MINIMAL, Files


@pytest.mark.parametrize(
    "written",
    [
        "|\n        a:1\n        b:2\n",
        "|\n        a:1,\n        b:2,\n",
        "[a:1, b:2]",
        '"a:1 , b:2,"',
        ">\n        a:1,\n        b:2\n",
    ],
)
def test_one_address_a_line(written: str, files: Files) -> None:
    text = f"source:\n  kafka:\n    common:\n      bootstrap.servers: {written}\n"
    loaded = load_checked(files.write({"a.yaml": MINIMAL, "b.yaml": text}))
    assert loaded.config.source.bootstrap_servers == "a:1,b:2"
    assert librdkafka(loaded.config.source, "admin")["bootstrap.servers"] == "a:1,b:2"


@pytest.mark.parametrize(
    ("address", "problem"),
    [
        ("a", "a has no port; brokers often have 9092: a:9092"),
        ("a:1,b", "b has no port; brokers often have 9092: b:9092"),
        ("::1", "::1 has no port; brokers often have 9092: [::1]:9092"),
        ("[::1]", "[::1] has no port; brokers often have 9092: [::1]:9092"),
        ("http://a:1", "http://a:1 begins with http://: write a:1"),
        (
            "SASL_SSL://a:1",
            "SASL_SSL://a:1 begins with SASL_SSL://: write a:1; security.protocol chooses it",
        ),
        ("'a:1'", "'a:1' has quotes; without them it is a:1"),
        ("\u201ca:1\u201d", "\u201ca:1\u201d has quotes; without them it is a:1"),
        ("a:abc", "a:abc: expected a port from 1 to 65535 after the host's name"),
        ("a:99999", "a:99999: expected a port from 1 to 65535 after the host's name"),
        ("a:0", "a:0: expected a port from 1 to 65535 after the host's name"),
        ("a:1 b:2", 'a:1 b:2: expected "," or a new line between addresses'),
        ("a:1;b:2", 'a:1;b:2: expected "," or a new line between addresses'),
        (":1", ":1: expected HOST:PORT"),
        ("a b", 'a b: expected "," or a new line between addresses'),
    ],
)
def test_an_address_that_is_none(address: str, problem: str, files: Files) -> None:
    text = MINIMAL.replace('"s:1"', '"' + address.replace('"', '\\"') + '"')
    with pytest.raises(ConfigError) as refused:
        load_checked(files.write({"a.yaml": text}))
    assert f'a.yaml:2: source.kafka.common."bootstrap.servers": {problem}\n' in str(refused.value)


@pytest.mark.parametrize("address", ["a:1", "PLAINTEXT://a:1", "[::1]:9092", "x-1.y_z:65535", ""])
def test_an_address(address: str) -> None:
    assert address_problem(address, "plaintext") == ""


def test_a_login_that_no_protocol_uses(files: Files) -> None:
    text = """\
source:
  kafka:
    common: {ssl.truststore.type: PEM}
    consumer:
      security.protocol: SSL
      sasl.mechanism: PLAIN
target: {kafka: {common: {sasl.mechanism: PLAIN, ssl.keystore.type: PEM}}}
"""
    notes = load_checked(files.write({"a.yaml": MINIMAL, "b.yaml": text})).notes
    said = [note.rpartition("b.yaml:")[2] for note in notes]
    assert said == [
        '6: source.kafka.consumer."sasl.mechanism": has no effect: security.protocol is SSL; '
        "SASL_SSL or SASL_PLAINTEXT uses it",
        '7: target.kafka.common."sasl.mechanism": has no effect: security.protocol is not given '
        "(PLAINTEXT); SASL_SSL or SASL_PLAINTEXT uses it",
        '7: target.kafka.common."ssl.keystore.type": has no effect: security.protocol is not given '
        "(PLAINTEXT); SSL or SASL_SSL uses it",
    ]


def test_typographic_quotes_are_noted(files: Files) -> None:
    text = "environment: \u201cproduction\u201d\n"
    jaas = "x.PlainLoginModule required username=\u201ca\u201d;"
    text += f"source: {{kafka: {{common: {{sasl.jaas.config: '{jaas}'}}}}}}\n"
    notes = files.over_minimal(text).notes
    assert sorted(note.rpartition("b.yaml:")[2].split(": has")[0] for note in notes) == [
        "1: environment",
        '2: source.kafka.common."sasl.jaas.config"',
    ]


MIRROR = """\
clusters = a, b
a.bootstrap.servers = a:1
b.bootstrap.servers = b:2
b.sasl.mechanism = PLAIN
a->b.enabled = true
a->b.topics = \u201corders\u201d
"""


def test_a_file_of_mirror_maker(tmp_path: Path) -> None:
    path = tmp_path / "mm2.properties"
    path.write_text(MIRROR.replace("\u201c", "\\u201c").replace("\u201d", "\\u201d"))
    _, notes = load_mirror(str(path))
    assert "mm2.properties:6: a->b.topics: has typographic quotes" in "\n".join(notes)
    assert "b.sasl.mechanism has no effect: security.protocol is not given" in "\n".join(notes)


@pytest.mark.parametrize(
    ("line", "wrong", "problem"),
    [
        ("a.bootstrap.servers = a:1", "a.bootstrap.servers = a", ":2: a.bootstrap.servers: a has"),
        ("b:2", '"b:2"', ':3: b.bootstrap.servers: "b:2" has quotes'),
        ("clusters", "\ufeffclusters", ":1: begins with a byte order mark"),
    ],
)
def test_a_file_of_mirror_maker_that_is_refused(
    line: str, wrong: str, problem: str, tmp_path: Path
) -> None:
    path = tmp_path / "mm2.properties"
    path.write_text(MIRROR.replace(line, wrong, 1), encoding="utf-8")
    with pytest.raises(ConfigError) as refused:
        load_mirror(str(path))
    assert problem in str(refused.value)
