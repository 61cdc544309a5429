from __future__ import annotations

import json
import os
import subprocess

import pytest

from tests.support.commands.commands import run_command
from tests.unit.config.files import MINIMAL, Files


def k2ktui(*arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    return run_command(["config", *arguments], {**os.environ, **env}, 90)


def test_validate_says_ok(files: Files) -> None:
    (path,) = files.write({"a.yaml": MINIMAL + "license: {}\n"})
    done = k2ktui("validate", "-f", path)
    assert (done.returncode, done.stdout) == (0, "OK: pipeline p\n")
    assert done.stderr == "note: license is ignored: k2ktui needs none\n"


def test_validate_reports_the_files_and_the_clients_errors_together(files: Files) -> None:
    yaml = "features: {exactlyOnce: maybe}\ntarget: {kafka: {producer: {ack: all}}}\n"
    paths = files.write({"a.yaml": MINIMAL, "b.yaml": yaml})
    done = k2ktui("validate", "-f", paths[0], "-f", paths[1])
    assert done.returncode == 2
    assert "b.yaml:1: features.exactlyOnce" in done.stderr
    assert (
        "b.yaml:2: target.kafka.producer.ack: unknown property; did you mean acks?" in done.stderr
    )
    shown = json.loads(k2ktui("validate", "--json", "-f", ",".join(paths)).stdout)
    assert shown["ok"] is False and len(shown["errors"]) == 2


def test_show_redacts(files: Files) -> None:
    yaml = "source: {kafka: {common: {bootstrap.servers: '${env:string:HOST}'}}}"
    paths = files.write({"a.yaml": MINIMAL, "b.yaml": yaml})
    done = k2ktui("show", "--sources", "-f", ",".join(paths), HOST="hunter2:1")
    assert done.returncode == 0
    assert "hunter2" not in done.stdout + done.stderr
    assert "b.yaml:1" in done.stdout


def test_schema_is_json() -> None:
    schema = json.loads(k2ktui("schema").stdout)
    assert schema["title"] == "PipelineConfig"
    # Editors show the descriptions to operators: no notes for maintainers.
    texts = [
        definition["description"]
        for definition in schema["$defs"].values()
        if "description" in definition
    ]
    assert [text for text in texts if "``" in text or "\n" in text] == []


def test_clusters_have_names(files: Files) -> None:
    yaml = "source: {name: east}\ntarget: {name: west}\n"
    paths = ",".join(files.write({"a.yaml": MINIMAL, "b.yaml": yaml}))
    assert k2ktui("validate", "-f", paths).returncode == 0
    shown = json.loads(k2ktui("show", "--json", "-f", paths).stdout)["config"]
    assert (shown["source"]["name"], shown["target"]["name"]) == ("east", "west")


@pytest.mark.parametrize(
    ("yaml", "error"),
    [
        (
            "source: {name: west}\ntarget: {name: west}\n",
            ": target: expected a name that differs from the source's",
        ),
        (f"source: {{name: {'x' * 41}}}\n", "b.yaml:1: source.name"),
        ('source: {name: "a\\e[2Jb"}\n', "b.yaml:1: source.name"),
    ],
)
def test_a_cluster_name_that_cannot_be_shown_is_refused(
    files: Files, yaml: str, error: str
) -> None:
    paths = ",".join(files.write({"a.yaml": MINIMAL, "b.yaml": yaml}))
    done = k2ktui("validate", "-f", paths)
    assert done.returncode == 2
    assert error in done.stderr
    assert "\x1b" not in done.stderr
