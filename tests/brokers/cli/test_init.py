"""``k2ktui init`` between two clusters, one of which wants a login: its file passes its checks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from k2ktui.cli import changes
from k2ktui.config.load import load
from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.kafka import create_topic, unique_name
from tests.support.clusters.secure import SecureNode
from tests.support.commands.cli import k2ktui, k2ktui_json
from tests.support.commands.in_process import run_program

pytestmark = pytest.mark.slow

USER = "starter"


@pytest.fixture
def topic(source: KafkaNode, secure: SecureNode) -> str:
    """A topic of the source with a name like no other; the user may do anything on the target."""
    secure.allow_all(USER)
    return create_topic(source, unique_name("init.topic"), 2)


def test_by_options_with_a_file_of_client_properties(
    source: KafkaNode, secure: SecureNode, topic: str, tmp_path: Path
) -> None:
    properties = tmp_path / "client.properties"
    properties.write_text("".join(f"{key}={text}\n" for key, text in secure.java(USER).items()))
    file = tmp_path / "made.yaml"
    made = k2ktui_json(
        *("init", "--source", source.bootstrap, "--target-config", properties),
        *("--topics", topic.replace(".", r"\."), "-o", file, "--yes"),
    )
    assert made["topics"] == [topic] and made["text"] == file.read_text()
    assert made["source"]["cluster_id"] != made["target"]["cluster_id"]
    assert secure.passwords[USER] not in file.read_text() + json.dumps(made)
    assert f"OK: pipeline {made['pipeline']}" in k2ktui("config", "validate", "-f", file).stdout
    assert " 0 failed" in k2ktui("check", "-f", file).stdout
    again = k2ktui("init", "--source", source.bootstrap, "--target", source.bootstrap,
                   "--topics", ".*", "-o", tmp_path / "same.yaml", "--yes", code=5)  # fmt: skip
    assert "is the source cluster, too" in again.stderr and not (tmp_path / "same.yaml").exists()


def test_asked_by_a_person_who_types_a_wrong_password_first(
    source: KafkaNode,
    secure: SecureNode,
    topic: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(changes, "can_ask", lambda: True)
    monkeypatch.delenv("OF_TARGET", raising=False)
    password, file = secure.passwords[USER], tmp_path / "asked.yaml"
    login = ["SASL_SSL", str(secure.authority.ca_path), "SCRAM-SHA-256", USER, "OF_TARGET"]
    typed = [
        *(source.bootstrap, "PLAINTEXT", secure.bootstrap, *login, "wrong-password"),
        *("", "", "", "", "", "", "", password),
        *(topic.replace(".", r"\."), str(file), "y"),
    ]
    done = run_program(["init"], "".join(f"{answer}\n" for answer in typed))
    assert done.error is None and done.code == 0, f"{done.error}\n{done.stdout}\n{done.stderr}"
    assert "the target cluster rejected the login" in done.stderr
    assert " 0 failed" in done.stdout and f"k2ktui jobs start -f {file}" in done.stderr
    for secret in (password, "wrong-password"):
        assert secret not in file.read_text() + done.stdout + done.stderr
    monkeypatch.setenv("OF_TARGET", password)
    config = load([file]).config
    assert config.topics.matches(topic) and config.name == "asked"
