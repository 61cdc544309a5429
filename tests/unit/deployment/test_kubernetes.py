"""The manifests that the chart renders, its values, the Dockerfile and k2ktui fit each other."""

from __future__ import annotations

import json
import re
from copy import deepcopy
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from k2ktui import __version__
from k2ktui.cli.main import cli
from k2ktui.config.load import load
from k2ktui.runtime.http_server import LIVE, METRICS, READY

ROOT = Path(__file__).parents[3]
FILES = ROOT / "docs" / "deployment"
CHART = FILES / "chart"
MANIFESTS: dict[tuple[str, str], dict[str, Any]] = {
    (manifest["kind"], manifest["metadata"]["name"]): manifest
    for manifest in yaml.safe_load_all((FILES / "kubernetes.yaml").read_text())
}
NAME = "k2ktui-orders"
CONFIG_MAP = MANIFESTS["ConfigMap", NAME]
RUNS, SYNC = MANIFESTS["Deployment", NAME], MANIFESTS["Deployment", f"{NAME}-sync"]
DEPLOYMENTS = {"start": RUNS, "sync": SYNC}
POLICY = MANIFESTS["NetworkPolicy", NAME]
POD = RUNS["spec"]["template"]["spec"]
(CONTAINER,) = POD["containers"]
DOCKERFILE = (ROOT / "Dockerfile").read_text()
VALUES = yaml.safe_load((CHART / "values.yaml").read_text())
EXAMPLE = yaml.safe_load((CHART / "example.yaml").read_text())
SCHEMA = json.loads((CHART / "values.schema.json").read_text())


@pytest.mark.parametrize("manifest", MANIFESTS.values(), ids=lambda each: each["kind"])
def test_kubernetes_accepts_it(manifest: dict[str, Any]) -> None:
    validate = pytest.importorskip("kubernetes_validate")
    validate.validate(manifest, validate.latest_version(), strict=True)


def test_a_key_that_kubernetes_does_not_have_is_found() -> None:
    validate = pytest.importorskip("kubernetes_validate")
    wrong = deepcopy(RUNS)
    wrong["spec"]["template"]["spec"]["containers"][0]["livnessProbe"] = {}
    with pytest.raises(validate.ValidationError):
        validate.validate(wrong, validate.latest_version(), strict=True)


def test_they_name_each_other() -> None:
    labels = CONFIG_MAP["metadata"]["labels"]
    assert POLICY["metadata"]["labels"] == POLICY["spec"]["podSelector"]["matchLabels"] == labels
    for command, deployment in DEPLOYMENTS.items():
        own = {**labels, "app.kubernetes.io/component": command}
        assert deployment["metadata"]["labels"] == own
        assert deployment["spec"]["selector"]["matchLabels"] == own
        assert deployment["spec"]["template"]["metadata"]["labels"] == own
        (spread,) = deployment["spec"]["template"]["spec"]["topologySpreadConstraints"]
        assert spread["labelSelector"]["matchLabels"] == own
    volumes = {volume["name"]: volume for volume in POD["volumes"]}
    assert {mount["name"] for mount in CONTAINER["volumeMounts"]} == volumes.keys()
    assert volumes["pipeline"]["configMap"]["name"] == CONFIG_MAP["metadata"]["name"]


@pytest.mark.parametrize("command", DEPLOYMENTS)
def test_the_command_line_and_the_port(command: str) -> None:
    template = DEPLOYMENTS[command]["spec"]["template"]
    (container,) = template["spec"]["containers"]
    named, *arguments = container["args"]
    assert named == command
    subcommand = cli.get_command(click.Context(cli), command)
    assert subcommand is not None
    options = {name for option in subcommand.params for name in option.opts}
    assert {argument.partition("=")[0] for argument in arguments} <= options
    given = dict(argument.split("=", 1) for argument in arguments)
    (port,) = container["ports"]
    assert given["--http"] == f"0.0.0.0:{port['containerPort']}"
    assert container["livenessProbe"]["httpGet"] == {"path": LIVE, "port": port["name"]}
    assert container["readinessProbe"]["httpGet"] == {"path": READY, "port": port["name"]}
    annotations = template["metadata"]["annotations"]
    assert annotations["prometheus.io/port"] == str(port["containerPort"])
    assert annotations["prometheus.io/path"] == METRICS
    (rule,) = POLICY["spec"]["ingress"]
    assert [port["port"] for port in rule["ports"]] == [port["containerPort"]]


def test_one_sync_and_never_two_at_a_time() -> None:
    assert SYNC["spec"]["replicas"] == 1 and SYNC["spec"]["strategy"] == {"type": "Recreate"}


def test_the_pipeline_file(tmp_path: Path) -> None:
    """It is valid where the secrets are mounted, and names no other file."""
    (name,) = CONFIG_MAP["data"]
    mounts = {mount["name"]: mount["mountPath"] for mount in CONTAINER["volumeMounts"]}
    assert f"--file={mounts['pipeline']}/{name}" in CONTAINER["args"]
    for entry in ("source.jaas", "target.jaas", "ca.pem"):
        (tmp_path / entry).write_text('password="change-me";')
    file = tmp_path / name
    file.write_text(CONFIG_MAP["data"][name].replace(mounts["secret-0"], str(tmp_path)))
    config = load([file]).config
    assert config.coordination.mode == "shared"
    assert not config.features.check_kafka_connection_on_startup
    for side in (config.source, config.target):
        assert "password=" in side.kafka.common["sasl.jaas.config"]
    cores = int(CONTAINER["resources"]["requests"]["cpu"])
    assert config.spark.master == f"local[{cores}]"
    assert config.spark.slots == cores * RUNS["spec"]["replicas"]


@pytest.mark.parametrize("command", DEPLOYMENTS)
def test_nothing_runs_as_root_and_one_directory_is_written(command: str) -> None:
    pod = DEPLOYMENTS[command]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    (volume,) = re.findall(r"^VOLUME (\S+)$", DOCKERFILE, re.MULTILINE)
    (user, group) = re.findall(r"^USER (\d+):(\d+)$", DOCKERFILE, re.MULTILINE)[0]
    assert pod["securityContext"] == {
        "runAsNonRoot": True,
        "runAsUser": int(user),
        "runAsGroup": int(group),
        "fsGroup": int(user),
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert not pod["automountServiceAccountToken"]
    writable = [m["mountPath"] for m in container["volumeMounts"] if not m.get("readOnly")]
    assert writable == [volume]
    for name in ("HOME", "TMPDIR", "XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME"):
        assert re.search(rf"\b{name}={volume}\b", DOCKERFILE), name


def test_the_image_has_all_that_the_package_is_built_from() -> None:
    ignored = (ROOT / ".dockerignore").read_text().split()
    copied = {path.strip("./") for path in re.findall(r"^COPY (?!--)(.+) \S+$", DOCKERFILE, re.M)}
    names = {name for line in copied for name in line.split()}
    assert {f"!{name}" for name in names} <= set(ignored)
    files = {"pyproject.toml", "hatch_build.py", "README.md", "LICENSE"}
    assert {"k2ktui", "themes"} | files == names


def test_the_chart_is_of_this_version() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["version"] == chart["appVersion"] == __version__
    assert EXAMPLE["image"].endswith(f":{__version__}")
    assert CONTAINER["image"] == EXAMPLE["image"]


def test_every_value_is_in_the_schema_and_none_is_a_secret() -> None:
    assert VALUES.keys() == SCHEMA["properties"].keys() - {"global"}
    for name in ("pipeline", "sync", "networkPolicy", "user"):
        assert VALUES[name].keys() == SCHEMA["properties"][name]["properties"].keys()


def merged(values: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """Return values as Helm merges them."""
    out = dict(values)
    for key, value in over.items():
        both = isinstance(value, dict) and isinstance(out.get(key), dict)
        out[key] = merged(out[key], value) if both else value
    return out


OWN_CONFIG_MAP = {"image": "k2ktui", "pipeline": {"existingConfigMap": "own"}}
WRONG: dict[str, dict[str, Any]] = {
    "no image": {"image": ""},
    "an unknown key": {"replica": 2},
    "a secret": {"sync": {"password": "hunter2"}},
    "both sources of the files": {"pipeline": {"existingConfigMap": "own"}},
    "no file": {"pipeline": {"names": []}},
    "a file in a directory": {"pipeline": {"names": ["../pipeline.yaml"]}},
    "a file that is no text": {"pipeline": {"files": {"pipeline.yaml": {"name": "orders"}}}},
    "a name that no Secret has": {"secrets": ["Source_Login"]},
    "fewer than no replicas": {"replicas": -1},
    "another strategy": {"strategy": "Rolling"},
    "root": {"user": {"runAsUser": 0}},
    "a variable that is no text": {"env": {"A": 1}},
    "a quantity": {"resources": {"limits": {"memory": "2 GB"}}},
    "another way to metrics": {"metrics": "serviceMonitor"},
    "a key of pods that weakens them": {"pod": {"hostNetwork": True}},
}


@pytest.mark.parametrize("over", [{}, OWN_CONFIG_MAP | {"user": None}], ids=["example", "own"])
def test_the_schema_takes_values(over: dict[str, Any]) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    jsonschema.Draft7Validator.check_schema(SCHEMA)
    jsonschema.validate(merged(VALUES, over or EXAMPLE), SCHEMA, jsonschema.Draft7Validator)


@pytest.mark.parametrize("over", WRONG.values(), ids=list(WRONG))
def test_the_schema_refuses(over: dict[str, Any]) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(
            merged(merged(VALUES, EXAMPLE), over), SCHEMA, jsonschema.Draft7Validator
        )
