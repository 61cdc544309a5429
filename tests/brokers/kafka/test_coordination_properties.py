"""Client properties of the ``coordination`` section: its clients are those of the target."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from confluent_kafka.admin import AclOperation

from k2ktui.config.model import PipelineConfig
from k2ktui.errors import ConfigError
from k2ktui.kafka.clients import target_cluster
from k2ktui.kafka.control.keyed_writer import KeyedWriter
from k2ktui.kafka.properties.translation import load_checked
from tests.support.clusters.kafka import TIMEOUT, create_topic, read_all
from tests.support.clusters.secure import SecureNode


def load(tmp_path: Path, target: dict[str, str], coordination: object) -> PipelineConfig:
    tree = {
        "name": "p",
        "source": {"kafka": {"common": {"bootstrap.servers": "127.0.0.1:1"}}},
        "target": {"kafka": {"common": target}},
        "coordination": coordination,
    }
    file = tmp_path / "p.yaml"
    file.write_text(yaml.safe_dump(tree))
    return load_checked((str(file),), need_replication=False).config


@pytest.mark.parametrize("level", ["kafka", ""])
def test_common_properties_reach_readers_and_writers(
    secure: SecureNode, tmp_path: Path, level: str
) -> None:
    """The login is given there only; the address in both places."""
    login = secure.java("writer")
    key = "bootstrap.servers"
    common = {"common": login, "admin": {"client.id": "k2k-coordination"}}
    config = load(tmp_path, {key: login[key]}, {level: common} if level else common)
    target = target_cluster(config)
    assert target.cluster_id() == secure.node.cluster_id
    topic = create_topic(secure.node)
    secure.allow("writer", [AclOperation.ALL], topic)
    writer = KeyedWriter(target, topic, TIMEOUT)
    try:
        writer.put([(b"k", b"v")])
    finally:
        writer.close()
    assert [got.value for got in read_all(secure.node, topic)] == [b"v"]
    assert config.target.properties("admin")["client.id"] == "k2k-coordination"


def test_another_cluster_for_control_topics_is_refused(tmp_path: Path) -> None:
    key = "bootstrap.servers"
    with pytest.raises(ConfigError, match="already given as target"):
        load(tmp_path, {key: "here:1"}, {"kafka": {"common": {key: "elsewhere:1"}}})
