"""What is printed for Strimzi: a ConfigMap that can be applied, and the steps around it."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from k2ktui.engine.moves.positions import PositionPlan
from k2ktui.engine.records.state import SourcePartition
from k2ktui.errors import ConfigError
from k2ktui.mm2.flows.resources import parse_resource
from k2ktui.mm2.offsets.positions import stored_move
from k2ktui.mm2.offsets.strimzi import manifest
from tests.support.commands.cli import k2ktui
from tests.unit.mm2.test_resource_files import CLASS, CONFIG, CONNECTOR, MIRROR_MAKER, SECRETS

CHANGE = PositionPlan(
    "mm2 offsets",
    "east->west.MirrorSourceConnector",
    (
        stored_move(SourcePartition("orders", 0), 100, 40),
        stored_move(SourcePartition("orders", 1), 100, None),
        stored_move(SourcePartition("orders", 2), 100, 100),
    ),
    alias="east",
)
BODY = {
    "offsets": [
        {
            "partition": {"cluster": "east", "partition": 0, "topic": "orders"},
            "offset": {"offset": 39},
        },
        {"partition": {"cluster": "east", "partition": 1, "topic": "orders"}, "offset": None},
        {
            "partition": {"cluster": "east", "partition": 2, "topic": "orders"},
            "offset": {"offset": 99},
        },
    ]
}


def test_the_config_map_of_a_mirror_maker_names_the_connector() -> None:
    text = manifest(parse_resource("KafkaMirrorMaker2/mm", "kafka"), CHANGE)
    config_map = yaml.safe_load(text)
    assert config_map["kind"] == "ConfigMap"
    assert config_map["metadata"] == {"name": "mm-offsets", "namespace": "kafka"}
    assert json.loads(config_map["data"]["east--west.MirrorSourceConnector.json"]) == BODY
    assert "# " + " " * 11 + "state: stopped" in text
    assert "targetCluster: west" in text
    assert (
        "kubectl annotate kafkamirrormaker2 mm -n kafka strimzi.io/connector-offsets=alter "
        "'strimzi.io/mirrormaker-connector=east->west.MirrorSourceConnector'"
    ) in text


def test_a_name_that_would_break_out_of_the_comments_is_refused() -> None:
    hostile = replace(CHANGE, pipeline="a->b.c\napiVersion: v1")
    with pytest.raises(ConfigError, match="is not a connector"):
        manifest(parse_resource("kafkamirrormaker2/mm"), hostile)


def test_the_config_map_of_a_connector() -> None:
    text = manifest(parse_resource("kafkaconnector/c"), CHANGE)
    assert json.loads(yaml.safe_load(text)["data"]["offsets.json"]) == BODY
    assert "mirrormaker-connector" not in text


@pytest.mark.parametrize("text", ["c", "deployment/c", "kafkaconnector/", "kafkaconnector/a b"])
def test_other_resources_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="is not a Strimzi resource"):
        parse_resource(text)


def test_the_command_needs_no_connect_and_changes_nothing() -> None:
    args = ("--strimzi", "kafkamirrormaker2/mm", "--connector", CHANGE.pipeline)
    said = k2ktui("mm2", "offsets", "set", *args, "orders:0:40", "orders:2:100")
    body = yaml.safe_load(said.stdout)["data"]["east--west.MirrorSourceConnector.json"]
    assert json.loads(body)["offsets"] == [BODY["offsets"][0], BODY["offsets"][2]]
    assert "the source cluster was not" in said.stderr
    cleared = yaml.safe_load(k2ktui("mm2", "offsets", "clear", *args, "orders:1").stdout)
    assert json.loads(*cleared["data"].values())["offsets"] == [BODY["offsets"][1]]
    unknown = (*args[:3], "mine", "orders:0:1")
    assert (
        "does not contain the source's alias"
        in k2ktui("mm2", "offsets", "set", *unknown, code=2).stderr
    )


def commands(printed: str, verb: str) -> list[list[str]]:
    """Return the printed commands with this verb of kubectl, split as a shell splits them."""
    lines = [line.removeprefix("#").strip() for line in printed.splitlines()]
    return [shlex.split(line) for line in lines if line.startswith(f"kubectl {verb} ")]


@pytest.fixture
def unreachable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    path = tmp_path / "mm.yaml"
    path.write_text(
        MIRROR_MAKER.replace("east:9093", "127.0.0.1:1").replace("west:9092", "127.0.0.1:1")
    )
    return path


def test_a_mirror_maker_file_prints_the_commands_that_change_its_entry(unreachable: Path) -> None:
    """``spec.state`` is changed by printed commands only; they hold whole JSON patches."""
    said = k2ktui("mm2", "offsets", "set", "-f", unreachable, "orders:0:40")
    stop, resume = commands(said.stdout, "patch")
    assert stop[:7] == ["kubectl", "patch", "kafkamirrormaker2", "mm", "-n", "kafka", "--type=json"]
    entry = "/spec/mirrors/0"
    test = {"op": "test", "path": f"{entry}/sourceCluster", "value": "east"}
    state = f"{entry}/sourceConnector/state"
    alter = f"{entry}/sourceConnector/alterOffsets"
    assert json.loads(stop[8]) == [
        test,
        {"op": "add", "path": state, "value": "stopped"},
        {"op": "add", "path": alter, "value": {"fromConfigMap": {"name": "mm-offsets"}}},
    ]
    assert json.loads(resume[8]) == [
        test,
        {"op": "add", "path": state, "value": "running"},
        {"op": "remove", "path": alter},
    ]
    (shown,) = commands(said.stdout, "exec")
    url = "http://localhost:8083/connectors/east-%3Ewest.MirrorSourceConnector/offsets"
    pod = "mm-mirrormaker2-0"
    assert shown == ["kubectl", "exec", pod, "-n", "kafka", "--", "curl", "-sS", url]
    first, second = shlex.split(said.stdout.split("step 3:\n#")[1].splitlines()[0]), shown[2:5]
    assert first[first.index("|") + 1 :][3:6] == second
    assert first[-1] == url and "@-" in first
    entry = "east--west.MirrorSourceConnector.json"
    assert f'{{{{index .data "{entry}"}}}}' in first[7]
    assert json.loads(yaml.safe_load(said.stdout)["data"][entry])["offsets"] == [BODY["offsets"][0]]
    assert "the current positions were not read" in said.stderr


def test_a_connector_file_of_any_name(tmp_path: Path) -> None:
    """The alias of the source comes from the file, and the pod from the connector's label."""
    path = tmp_path / "connector.yaml"
    config = {**CONFIG, "source.consumer.auto.offset.reset": "latest"}
    for side in ("source", "target"):
        config[f"{side}.cluster.bootstrap.servers"] = "127.0.0.1:1"
    spec = {"class": CLASS, "config": config}
    path.write_text(yaml.safe_dump({**CONNECTOR, "spec": spec}))
    said = k2ktui("mm2", "offsets", "clear", "-f", path, "orders:0", "--namespace", "ns")
    stop, resume = commands(said.stdout, "patch")
    assert stop[2:6] == ["kafkaconnector", "any-name", "-n", "ns"]
    change = {"state": "stopped", "alterOffsets": {"fromConfigMap": {"name": "any-name-offsets"}}}
    assert json.loads(stop[8]) == {"spec": change}
    assert json.loads(resume[8]) == {"spec": {"state": "running", "alterOffsets": None}}
    body = json.loads(*yaml.safe_load(said.stdout)["data"].values())
    assert body["offsets"][0]["partition"]["cluster"] == "east"
    assert commands(said.stdout, "exec")[0][2] == "workers-connect-0"
    assert "violates at-least-once" in said.stderr
    refused = k2ktui("mm2", "offsets", "show", "-f", path, code=2).stderr
    assert "does not name the offset.storage.topic" in refused
    assert "kubectl port-forward service/workers-connect-api 8083" in refused
    assert "kubectl exec workers-connect-0 -- curl" in refused
    idle = k2ktui("mm2", "offsets", "show", "-f", path, "--connector", "x", code=2).stderr
    assert "the file already names its connector" in idle


def test_a_connectors_json_is_changed_through_connect_only(tmp_path: Path) -> None:
    path = tmp_path / "connector.json"
    path.write_text(json.dumps({"name": "n", "config": {**CONFIG, "connector.class": CLASS}}))
    refused = k2ktui("mm2", "offsets", "set", "-f", path, "orders:0:1", code=2).stderr
    assert "Give --connect URL" in refused and "Nothing was changed" in refused
