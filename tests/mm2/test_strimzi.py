"""What is printed for Strimzi: a ConfigMap that can be applied, and the steps around it."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import yaml

from k2ktui.engine.state import SourcePartition
from k2ktui.errors import ConfigError
from k2ktui.mm2.positions import StoredChange, StoredMove
from k2ktui.mm2.strimzi import manifest, parse_resource
from tests.support.cli import k2ktui

CHANGE = StoredChange(
    "east->west.MirrorSourceConnector",
    "east",
    (
        StoredMove(SourcePartition("orders", 0), 100, 40),
        StoredMove(SourcePartition("orders", 1), 100, None),
        StoredMove(SourcePartition("orders", 2), 100, 100),
    ),
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
    found = yaml.safe_load(text)
    assert found["kind"] == "ConfigMap"
    assert found["metadata"] == {"name": "mm-offsets", "namespace": "kafka"}
    assert json.loads(found["data"]["east--west.MirrorSourceConnector.json"]) == BODY
    assert "# " + " " * 11 + "state: stopped" in text
    assert "targetCluster: west" in text
    assert (
        "kubectl annotate kafkamirrormaker2 mm -n kafka strimzi.io/connector-offsets=alter "
        "'strimzi.io/mirrormaker-connector=east->west.MirrorSourceConnector'"
    ) in text


def test_a_name_that_would_break_out_of_the_comments_is_refused() -> None:
    hostile = replace(CHANGE, connector="a->b.c\napiVersion: v1")
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
    args = ("--strimzi", "kafkamirrormaker2/mm", "--connector", CHANGE.connector)
    said = k2ktui("mm2", "offsets", "set", *args, "orders:0:40", "orders:2:100")
    found = yaml.safe_load(said.stdout)["data"]["east--west.MirrorSourceConnector.json"]
    assert json.loads(found)["offsets"] == [BODY["offsets"][0], BODY["offsets"][2]]
    assert "the source cluster was not" in said.stderr
    cleared = yaml.safe_load(k2ktui("mm2", "offsets", "clear", *args, "orders:1").stdout)
    assert json.loads(*cleared["data"].values())["offsets"] == [BODY["offsets"][1]]
    unknown = (*args[:3], "mine", "orders:0:1")
    assert (
        "does not contain the source's alias"
        in k2ktui("mm2", "offsets", "set", *unknown, code=2).stderr
    )
