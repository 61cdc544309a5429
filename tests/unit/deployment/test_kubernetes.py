"""The manifests of docs/deployment/kubernetes, and the Dockerfile, fit each other and k2ktui."""

from __future__ import annotations

import re
from copy import deepcopy
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from k2ktui.cli.main import cli
from k2ktui.config.load import load
from k2ktui.runtime.http_server import LIVE, METRICS, READY

ROOT = Path(__file__).parents[3]
FILES = sorted((ROOT / "docs" / "deployment" / "kubernetes").glob("*.yaml"))
MANIFESTS: dict[str, dict[str, Any]] = {
    manifest["kind"]: manifest
    for file in FILES
    for manifest in yaml.safe_load_all(file.read_text())
}
POD = MANIFESTS["Deployment"]["spec"]["template"]["spec"]
(CONTAINER,) = POD["containers"]
DOCKERFILE = (ROOT / "Dockerfile").read_text()


@pytest.mark.parametrize("kind", ["ConfigMap", "Secret", "Deployment", "NetworkPolicy"])
def test_kubernetes_accepts_it(kind: str) -> None:
    validate = pytest.importorskip("kubernetes_validate")
    validate.validate(MANIFESTS[kind], validate.latest_version(), strict=True)


def test_a_key_that_kubernetes_does_not_have_is_found() -> None:
    validate = pytest.importorskip("kubernetes_validate")
    wrong = deepcopy(MANIFESTS["Deployment"])
    wrong["spec"]["template"]["spec"]["containers"][0]["livnessProbe"] = {}
    with pytest.raises(validate.ValidationError):
        validate.validate(wrong, validate.latest_version(), strict=True)


def test_they_name_each_other() -> None:
    assert len(MANIFESTS) == len(FILES) == 4
    labels = MANIFESTS["Deployment"]["spec"]["template"]["metadata"]["labels"]
    for manifest in MANIFESTS.values():
        assert manifest["metadata"]["labels"] == labels
    assert MANIFESTS["Deployment"]["spec"]["selector"]["matchLabels"] == labels
    assert MANIFESTS["NetworkPolicy"]["spec"]["podSelector"]["matchLabels"] == labels
    volumes = {volume["name"]: volume for volume in POD["volumes"]}
    assert {mount["name"] for mount in CONTAINER["volumeMounts"]} == volumes.keys()
    assert volumes["pipeline"]["configMap"]["name"] == MANIFESTS["ConfigMap"]["metadata"]["name"]
    assert volumes["secrets"]["secret"]["secretName"] == MANIFESTS["Secret"]["metadata"]["name"]


def test_the_command_line_and_the_port() -> None:
    command, *arguments = CONTAINER["args"]
    subcommand = cli.get_command(click.Context(cli), command)
    assert subcommand is not None
    options = {name for option in subcommand.params for name in option.opts}
    assert {argument.partition("=")[0] for argument in arguments} <= options
    given = dict(argument.split("=", 1) for argument in arguments)
    (port,) = CONTAINER["ports"]
    assert given["--http"] == f"0.0.0.0:{port['containerPort']}"
    assert CONTAINER["livenessProbe"]["httpGet"] == {"path": LIVE, "port": port["name"]}
    assert CONTAINER["readinessProbe"]["httpGet"] == {"path": READY, "port": port["name"]}
    annotations = MANIFESTS["Deployment"]["spec"]["template"]["metadata"]["annotations"]
    assert annotations["prometheus.io/port"] == str(port["containerPort"])
    assert annotations["prometheus.io/path"] == METRICS
    (rule,) = MANIFESTS["NetworkPolicy"]["spec"]["ingress"]
    assert [port["port"] for port in rule["ports"]] == [port["containerPort"]]


def test_the_pipeline_file(tmp_path: Path) -> None:
    """It is valid where the secrets are mounted, and they are all there."""
    secrets = next(m["mountPath"] for m in CONTAINER["volumeMounts"] if m["name"] == "secrets")
    for name, text in MANIFESTS["Secret"]["stringData"].items():
        (tmp_path / name).write_text(text)
    (name,) = MANIFESTS["ConfigMap"]["data"]
    mounted = next(m["mountPath"] for m in CONTAINER["volumeMounts"] if m["name"] == "pipeline")
    assert f"--file={mounted}/{name}" in CONTAINER["args"]
    file = tmp_path / name
    file.write_text(MANIFESTS["ConfigMap"]["data"][name].replace(secrets, str(tmp_path)))
    config = load([file]).config
    assert config.coordination.mode == "shared"
    assert not config.features.check_kafka_connection_on_startup
    for side in (config.source, config.target):
        assert "password=" in side.kafka.common["sasl.jaas.config"]
    cores = int(CONTAINER["resources"]["requests"]["cpu"])
    assert config.spark.master == f"local[{cores}]"
    assert config.spark.slots == cores * MANIFESTS["Deployment"]["spec"]["replicas"]


def test_nothing_runs_as_root_and_one_directory_is_written() -> None:
    (volume,) = re.findall(r"^VOLUME (\S+)$", DOCKERFILE, re.MULTILINE)
    (user, group) = re.findall(r"^USER (\d+):(\d+)$", DOCKERFILE, re.MULTILINE)[0]
    assert POD["securityContext"]["runAsUser"] == int(user) > 0
    assert POD["securityContext"]["runAsGroup"] == int(group)
    assert CONTAINER["securityContext"]["readOnlyRootFilesystem"]
    writable = [m["mountPath"] for m in CONTAINER["volumeMounts"] if not m.get("readOnly")]
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
