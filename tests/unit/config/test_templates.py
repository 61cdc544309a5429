from __future__ import annotations

from pathlib import Path

import pytest

from k2ktui.config import load
from k2ktui.config.load import Loaded
from tests.unit.config.files import MINIMAL, Files


def templated(files: Files, value: str) -> Loaded:
    return files.over_minimal(f"source: {{kafka: {{common: {{x: '{value}'}}}}}}")


@pytest.mark.parametrize(
    ("template", "value"),
    [
        ("${env:string:NAME}", "v:1"),
        ("${env:NAME}", "v:1"),
        ("a-${env:string:NAME}-${env:int:PORT}", "a-v:1-9092"),
        ("${env:string:trim:SPACED}", "s"),
        ("${env:boolean:FLAG}", "true"),
        ("$${env:string:NAME}", "${env:string:NAME}"),
        ("${file:secret.txt}", "from file"),
        ("${file:string:secret.txt}", "from file"),
        ("$plain {x}", "$plain {x}"),
    ],
)
def test_templates(files: Files, template: str, value: str) -> None:
    files.env = {"NAME": "v:1", "PORT": "9092", "SPACED": " s ", "FLAG": "enabled"}
    files.write({"secret.txt": "from file\n"})
    assert templated(files, template).config.source.kafka.common["x"] == value


def test_templates_name_absolute_files(files: Files, tmp_path: Path) -> None:
    files.write({"secret.txt": "from file"})
    loaded = templated(files, f"${{file:{tmp_path}/secret.txt}}")
    assert loaded.config.source.kafka.common["x"] == "from file"


def test_unfilled_templates_are_reported_and_nothing_else(files: Files) -> None:
    files.env = {"WORD": "hunter2"}
    yaml = """\
source: {kafka: {common: {bootstrap.servers: "${env:string:MISSING}"}}}
groups:
  pollInterval: "${env:string:GONE}"
  offsetGuardPrefix: "${env:int:WORD}"
offsetMapping: {topic: "${vault:string:x}"}
metrics: {kafka: {topic: "${file:/no/such}"}}
"""
    errors = files.errors(MINIMAL, yaml)
    assert [line.split(": ", 1)[1] for line in errors] == [
        'source.kafka.common."bootstrap.servers": the environment variable MISSING is not set',
        "groups.pollInterval: the environment variable GONE is not set",
        "groups.offsetGuardPrefix: ${env:int:WORD}: the value is not a valid int",
        "offsetMapping.topic: ${vault:string:x}: expected ${env:string:NAME} or ${file:/path}; "
        "write $${ for a literal ${",
        "metrics.kafka.topic: /no/such cannot be read: No such file or directory",
    ]


def test_a_template_that_a_later_layer_replaces_is_not_filled(files: Files) -> None:
    loaded = files.over_minimal("name: '${env:string:MISSING}'", "name: q")
    assert loaded.config.name == "q"


def test_templated_values_are_not_in_errors(files: Files) -> None:
    files.env = {"NAME": "hunter2"}
    errors = files.errors(MINIMAL, "groups: {pollInterval: '${env:string:NAME}'}")
    assert errors[0].endswith("found <redacted>")


def test_templates_can_be_left_alone(files: Files) -> None:
    paths = files.write({"a.yaml": MINIMAL, "b.yaml": "name: '${env:string:NAME}'"})
    assert load(paths, templates=False).config.name == "${env:string:NAME}"
