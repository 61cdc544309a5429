"""The Helm chart of docs/deployment/chart, rendered with several values."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.clusters.kafka import TIMEOUT
from tests.unit.deployment.test_kubernetes import CHART, MANIFESTS, NAME, OWN_CONFIG_MAP, WRONG

pytestmark = pytest.mark.skipif(shutil.which("helm") is None, reason="helm is not installed")
EXAMPLE = CHART / "example.yaml"

Manifests = dict[tuple[str, str], dict[str, Any]]


class StrictLoader(yaml.SafeLoader):
    """A loader that refuses repeated keys, as the API server does."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> Any:
        keys = [key.value for key, _ in node.value]
        assert len(set(keys)) == len(keys), f"repeated: {keys}"
        return super().construct_mapping(node, deep)


def helm(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["helm", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )


def values_file(tmp_path: Path, over: dict[str, Any]) -> Path:
    file = tmp_path / "values.yaml"
    file.write_text(yaml.safe_dump(over))
    return file


def render(*files: Path) -> Manifests:
    """Render the chart, and check each manifest."""
    validate = pytest.importorskip("kubernetes_validate")
    done = helm("template", NAME, CHART, *(f"--values={file}" for file in files))
    assert done.returncode == 0, done.stderr
    manifests: Manifests = {}
    for manifest in yaml.load_all(done.stdout, StrictLoader):
        key = manifest["kind"], manifest["metadata"]["name"]
        assert key not in manifests
        manifests[key] = manifest
        if manifest["kind"] != "PodMonitor":  # of Prometheus' operator
            validate.validate(manifest, validate.latest_version(), strict=True)
    return manifests


def pod(manifests: Manifests) -> dict[str, Any]:
    spec: dict[str, Any] = manifests["Deployment", NAME]["spec"]["template"]["spec"]
    return spec


def test_lint() -> None:
    done = helm("lint", "--strict", CHART, f"--values={EXAMPLE}")
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_manifests_without_helm_are_those_of_the_example() -> None:
    assert render(EXAMPLE) == MANIFESTS


def test_a_config_map_of_ones_own_on_openshift(tmp_path: Path) -> None:
    over = {**OWN_CONFIG_MAP, "user": None, "metrics": "podMonitor", "secrets": ["a", "b.c"]}
    over["podMonitorLabels"] = {"release": "prometheus"}
    manifests = render(values_file(tmp_path, over))
    kinds = {"Deployment", "NetworkPolicy", "PodMonitor"}
    assert {kind for kind, _ in manifests} == kinds and len(manifests) == len(kinds)
    spec = pod(manifests)
    assert spec["securityContext"].keys() == {"runAsNonRoot", "seccompProfile"}
    assert spec["volumes"][0]["configMap"] == {"name": "own"}
    mounts = [mount["mountPath"] for mount in spec["containers"][0]["volumeMounts"]]
    assert mounts[1:3] == ["/etc/k2ktui/secrets/a", "/etc/k2ktui/secrets/b.c"]
    metadata = manifests["Deployment", NAME]["spec"]["template"]["metadata"]
    assert not metadata["annotations"]
    monitor = manifests["PodMonitor", NAME]
    (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
    (port,) = spec["containers"][0]["ports"]
    assert endpoint == {"port": port["name"], "path": "/metrics"}
    assert monitor["metadata"]["labels"]["release"] == "prometheus"
    assert monitor["spec"]["selector"]["matchLabels"].items() <= metadata["labels"].items()


def test_all_values_at_once(tmp_path: Path) -> None:
    over: dict[str, Any] = {
        "strategy": "Recreate",
        "options": ["--unlock"],
        "sync": {"options": ["--unlock", "--rewind=follow"]},
        "env": {"OTEL_METRICS_EXPORTER": "none", "AWS_REGION": "eu-west-1"},
        "metrics": "none",
        "networkPolicy": {"from": [], "egress": []},
        "podLabels": {"team": "data"},
        "podAnnotations": {"vault.hashicorp.com/agent-inject": "true"},
        "pod": {
            "affinity": {"podAntiAffinity": {}},
            "imagePullSecrets": [{"name": "registry"}],
            "nodeSelector": {"disk": "ssd"},
            "priorityClassName": "high",
            "serviceAccountName": "msk",
            "tolerations": [{"operator": "Exists"}],
        },
    }
    manifests = render(EXAMPLE, values_file(tmp_path, over))
    assert over["pod"].items() <= pod(manifests).items()
    (container,) = pod(manifests)["containers"]
    assert container["args"][-1] == "--unlock"
    assert {"name": "AWS_REGION", "value": "eu-west-1"} in container["env"]
    sync = manifests["Deployment", f"{NAME}-sync"]["spec"]["template"]
    assert sync["spec"]["containers"][0]["args"][-2:] == ["--unlock", "--rewind=follow"]
    assert sync["metadata"]["labels"]["team"] == "data"
    policy = manifests["NetworkPolicy", NAME]["spec"]
    assert policy["ingress"] == [] and policy["policyTypes"] == ["Ingress"]


def test_files_come_as_they_are_and_in_the_given_order(tmp_path: Path) -> None:
    texts = {"b.yaml": "  # indented\nname: ${env:A}\n", "a.yaml": "# {{ .Values }}\nspark: {}"}
    over = {"image": "k2ktui", "pipeline": {"names": ["b.yaml", "a.yaml"], "files": texts}}
    manifests = render(values_file(tmp_path, over))
    assert manifests["ConfigMap", NAME]["data"] == texts
    files = [arg for arg in pod(manifests)["containers"][0]["args"] if arg.startswith("--file=")]
    assert [Path(file).name for file in files] == ["b.yaml", "a.yaml"]


def test_a_change_of_the_files_restarts_the_pods(tmp_path: Path) -> None:
    def checksum(name: str) -> str:
        over = {"image": "i", "pipeline": {"files": {"pipeline.yaml": f"name: {name}"}}}
        template = render(values_file(tmp_path, over))["Deployment", NAME]["spec"]["template"]
        return str(template["metadata"]["annotations"]["checksum/pipeline"])

    assert checksum("a") == checksum("a") != checksum("b")


@pytest.mark.parametrize("over", WRONG.values(), ids=list(WRONG))
def test_wrong_values_are_refused(over: dict[str, Any], tmp_path: Path) -> None:
    done = helm("template", NAME, CHART, f"--values={EXAMPLE}", "-f", values_file(tmp_path, over))
    assert done.returncode and "specifications of the schema" in done.stderr, done.stderr


EXCLUSIVE = {"pipeline.yaml": "coordination: {mode: exclusive}"}


@pytest.mark.parametrize(
    ("over", "said"),
    [
        ({"pipeline": {"files": EXCLUSIVE}}, "set replicas to 1 and strategy to Recreate"),
        ({"pipeline": {"files": EXCLUSIVE}, "replicas": 1}, "strategy to Recreate"),
        ({"pipeline": {"names": ["a.yaml"]}}, "pipeline.files has no a.yaml"),
        ({"pipeline": {"files": {"b.yaml": "name: b"}}}, "does not list each file"),
    ],
)
def test_what_does_not_fit_is_refused(over: dict[str, Any], said: str, tmp_path: Path) -> None:
    done = helm("template", NAME, CHART, f"--values={EXAMPLE}", "-f", values_file(tmp_path, over))
    assert done.returncode and said in done.stderr, done.stderr


def test_a_later_file_decides_the_mode_and_an_empty_section_none(tmp_path: Path) -> None:
    texts = {**EXCLUSIVE, "a.yaml": "coordination: {mode: shared}", "b.yaml": "coordination:"}
    names = ["pipeline.yaml", "a.yaml", "b.yaml"]
    over = {"image": "k2ktui", "pipeline": {"names": names, "files": texts}}
    assert pod(render(values_file(tmp_path, over)))


def test_one_exclusive_run_is_rendered(tmp_path: Path) -> None:
    over: dict[str, Any] = {
        "pipeline": {"files": EXCLUSIVE},
        "replicas": 1,
        "strategy": "Recreate",
    }
    manifests = render(EXAMPLE, values_file(tmp_path, over))
    assert manifests["Deployment", NAME]["spec"]["strategy"] == {"type": "Recreate"}
