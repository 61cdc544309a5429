"""Alias, separator and policy as a real MirrorMaker 2 resolves them, also where they are blank."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from k2ktui.engine.records.state import SourcePartition
from k2ktui.errors import Refused
from k2ktui.kafka.clients import target_cluster
from k2ktui.mm2.checkpoints.reader import read_checkpoints
from k2ktui.mm2.flows import formats
from k2ktui.mm2.flows.settings import parse_settings
from k2ktui.mm2.mirror_flow import load_mirror
from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.kafka import (
    TIMEOUT,
    admin,
    create_topic,
    end_offsets,
    eventually,
    produce,
    read_all,
    unique_name,
)
from tests.support.clusters.mirrormaker import ConnectWorker, MirrorMaker
from tests.support.commands.cli import k2ktui, k2ktui_json
from tests.support.oracle.group_offsets import commit_offsets

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
PATIENCE = 300.0
RECORDS, COMMITTED = 300, 137
IDENTITY = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"
BLANK = {"source.cluster.alias": "", "replication.policy.separator": ""}


@dataclass(frozen=True)
class Form:
    """One way to write a flow.

    Attributes:
        settings: settings of the flow.
        prefix: what its copies have before their names.
        cluster: settings of its source cluster.
    """

    settings: Mapping[str, str]
    prefix: str
    cluster: Mapping[str, str]


# Every flow is under a global source.cluster.alias.
FORMS = {
    "global": Form({}, "dcg.", {}),
    "blank": Form(BLANK, "", {}),
    "alias": Form({"source.cluster.alias": "dc2"}, "dc2.", {}),
    "of-cluster": Form({}, "dc3.", {"alias": "dc3"}),
    "separator": Form(
        {"source.cluster.alias": "dc4", "replication.policy.separator": ""}, "dc4", {}
    ),
    "identity": Form(
        {"replication.policy.class": IDENTITY, "replication.policy.separator": ""}, "", {}
    ),
    "only-alias": Form({"source.cluster.alias": ""}, ".", {}),
}


class Site:
    """One MirrorMaker 2 with a flow of each form; each copies a topic of its own."""

    def __init__(self, source: KafkaNode, target: KafkaNode, directory: Path) -> None:
        self.source, self.target = source, target
        self.stem = unique_name("forms")
        self.alias = {name: unique_name("src") for name in FORMS}
        topics = {name: create_topic(source, f"{self.stem}-{name}") for name in FORMS}
        self.maker = MirrorMaker(source, target, directory, topics["global"], f"{self.stem}.*")
        self.maker.source, target_alias = self.alias["global"], self.maker.target
        settings = {
            "clusters": ", ".join([*self.alias.values(), target_alias]),
            "emit.heartbeats.enabled": "false",
            "source.cluster.alias": "dcg",
        }
        for name, form in FORMS.items():
            alias = self.alias[name]
            flow = {"enabled": "true", "topics": topics[name], "groups": f"{self.stem}.*"}
            settings[f"{alias}.bootstrap.servers"] = source.bootstrap
            settings |= {f"{alias}.{key}": value for key, value in form.cluster.items()}
            settings |= {
                f"{alias}->{target_alias}.{key}": value
                for key, value in {**flow, **form.settings}.items()
            }
            produce(source, topics[name], [b"%d" % number for number in range(RECORDS)])
            commit_offsets(source, self.group(name), {(topics[name], 0): COMMITTED})
        self.maker.properties = settings
        self.maker.write()

    def group(self, form: str) -> str:
        return f"{self.stem}-app-{form}"

    def topic(self, form: str) -> str:
        return f"{self.stem}-{form}"

    def copy(self, form: str) -> str:
        return f"{FORMS[form].prefix}{self.topic(form)}"

    def file(self, form: str) -> str:
        return f"{self.maker.file}#{self.alias[form]}->{self.maker.target}"

    def copied(self, form: str) -> bool:
        copy = self.copy(form)
        there = admin(self.target).list_topics(timeout=TIMEOUT).topics
        return copy in there and end_offsets(self.target, copy) == {0: RECORDS}


@pytest.fixture(scope="module")
def site(
    clusters: tuple[KafkaNode, KafkaNode], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Site]:
    made = Site(*clusters, tmp_path_factory.mktemp("forms"))
    with made.maker:
        for form in FORMS:
            eventually(
                lambda form=form: made.copied(form),  # type: ignore[misc]
                f"MirrorMaker 2 copies to {made.copy(form)}",
                PATIENCE,
            )
        yield made


def has_checkpoint(file: str | Path) -> bool:
    """Whether the audit finds a checkpoint of the only group."""
    done = k2ktui("mm2", "audit", "-f", file, "--json", code=None)
    rows = json.loads(done.stdout)["rows"] if done.stdout else []
    return [row["checkpoint_offset"] is not None for row in rows] == [True]


@pytest.mark.parametrize("form", FORMS)
def test_groups_lag_and_checkpoints(site: Site, form: str) -> None:
    """Positions, offset syncs and checkpoints are found by the names that it gives them."""
    file = site.file(form)

    eventually(lambda: has_checkpoint(file), "its checkpoint is found", PATIENCE)
    (row,) = k2ktui_json("groups", "-f", file)["groups"]
    assert (row["group"], row["topic"], row["target_topic"], row["basis"]) == (
        site.group(form),
        site.topic(form),
        site.copy(form),
        "exact",
    )
    assert row["translated_offset"] == COMMITTED

    def stored() -> bool:
        (part,) = k2ktui_json("status", "-f", file)["partitions"]
        return bool(part["lag_records"] == 0)

    eventually(stored, "its position is found", PATIENCE)
    shown = k2ktui_json("mm2", "offsets", "show", "-f", file)
    # Heartbeats that flows of other tests have left on the source are copied, too.
    own = [row for row in shown["partitions"] if row["topic"] != "heartbeats"]
    assert [(row["topic"], row["position"]) for row in own] == [(site.topic(form), RECORDS)]


def test_a_file_that_leaves_the_alias_out(site: Site, tmp_path: Path) -> None:
    """No topic of the flow has the name that such a file gives it: a finding, for each command."""
    wrong = tmp_path / "mm2.properties"
    flow = f"{site.alias['alias']}->{site.maker.target}"
    lines = site.maker.file.read_text().splitlines()
    left = (f"{flow}.source.cluster.alias", "source.cluster.alias")
    wrong.write_text("\n".join(line for line in lines if not line.startswith(left)))
    file = f"{wrong}#{flow}"
    plan = tmp_path / "plan.json"
    for command in (
        ("groups", "-f", file),
        ("status", "-f", file),
        ("plan", "-f", file, "-o", plan),
        ("verify", "-f", file),
        ("sync", "-f", file, "--once"),
        ("mm2", "audit", "-f", file),
    ):
        done = k2ktui(*command, code=1)
        named = f"{site.alias['alias']}.{site.topic('alias')}"
        assert "none is on the target" in done.stderr and named in done.stderr, command
    assert not plan.exists()
    watched = k2ktui("watch", "-f", file, "--once", code=1)
    assert "none is on the target" in watched.stdout + watched.stderr


def test_takeover_of_each_form(site: Site, tmp_path: Path) -> None:
    """The imported pipeline copies to the same topics, and goes on where it stopped."""
    site.maker.stop()
    for form in FORMS:
        imported = tmp_path / f"{form}.yaml"
        k2ktui("mm2", "import", site.file(form), "-o", imported)
        k2ktui("config", "validate", "-f", imported)
        prefix = FORMS[form].prefix
        sinks = [
            part["sink"]["topic"]
            for part in yaml.safe_load(imported.read_text())["replication"]
            if "sink" in part
        ]
        assert sinks == [{"prefix": prefix} if prefix else "source"]
        rows = k2ktui_json(
            "mm2", "takeover", "-f", imported, "--from", site.file(form), "--dry-run"
        )["partitions"]
        assert [(row["target_topic"], row["position"], row["doubt"]) for row in rows] == [
            (site.copy(form), RECORDS, "")
        ]


@pytest.fixture(scope="module")
def worker(
    clusters: tuple[KafkaNode, KafkaNode], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ConnectWorker]:
    """A Connect worker for the connectors of several flows."""
    with ConnectWorker(clusters[1], tmp_path_factory.mktemp("connect")) as worker:
        yield worker


def test_connectors_with_blank_aliases(
    clusters: tuple[KafkaNode, KafkaNode], worker: ConnectWorker, tmp_path: Path
) -> None:
    """As many guides write a connector, so that topics keep their names."""
    source, target = clusters
    topic, group = create_topic(source), unique_name("app")
    produce(source, topic, [b"%d" % number for number in range(RECORDS)])
    commit_offsets(source, group, {(topic, 0): COMMITTED})
    file = tmp_path / "connectors.json"
    more = {"groups": f"{group}.*", **BLANK, "target.cluster.alias": ""}
    mirror = worker.create_mirror(source, target, topic, more)
    eventually(lambda: end_offsets(target, topic) == {0: RECORDS}, "it is copied", PATIENCE)
    names = (mirror.source_connector, mirror.checkpoint_connector)
    connectors = worker.describe(*names)
    file.write_text(json.dumps(connectors))

    eventually(lambda: has_checkpoint(file), "its checkpoint is found", PATIENCE)
    (row,) = k2ktui_json("groups", "-f", file)["groups"]
    assert (row["target_topic"], row["translated_offset"], row["basis"]) == (
        topic,
        COMMITTED,
        "exact",
    )

    def beats() -> bool:
        view = json.loads(k2ktui("watch", "-f", file, "--once", "--json").stdout)
        return view["heartbeat_at"] is not None

    eventually(beats, "its heartbeat is found", PATIENCE)
    for where in (("-f", file), ("--connect", worker.url, "--connector", names[0])):
        shown = k2ktui_json("mm2", "offsets", "show", *where)
        assert (shown["source_alias"], shown["partitions"][0]["position"]) == ("", RECORDS)


def test_a_policy_of_the_checkpoint_connector_alone(
    clusters: tuple[KafkaNode, KafkaNode], worker: ConnectWorker, tmp_path: Path
) -> None:
    """Copies have the names of the MirrorSourceConnector; checkpoints name topics as their own."""
    source, target = clusters
    topic, group = create_topic(source), unique_name("app")
    produce(source, topic, [b"%d" % number for number in range(RECORDS)])
    commit_offsets(source, group, {(topic, 0): COMMITTED})
    file = tmp_path / "connectors.json"
    own = {"replication.policy.class": IDENTITY}
    mirror = worker.create_mirror(source, target, topic, {"groups": f"{group}.*"}, own)
    copy = f"{mirror.source}.{topic}"
    eventually(
        lambda: (
            copy in admin(target).list_topics(timeout=TIMEOUT).topics
            and end_offsets(target, copy) == {0: RECORDS}
        ),
        "it is copied under the name of the default policy",
        PATIENCE,
    )
    connectors = worker.describe(mirror.source_connector, mirror.checkpoint_connector)
    file.write_text(json.dumps(connectors))

    imported = tmp_path / "imported.yaml"
    said = k2ktui("mm2", "import", file, "-o", imported).stderr
    assert "replication.policy.class is not the same for" in said
    parts = yaml.safe_load(imported.read_text())["replication"]
    assert {"prefix": f"{mirror.source}."} in [p["sink"]["topic"] for p in parts if "sink" in p]
    (row,) = k2ktui_json("groups", "-f", file)["groups"]
    assert (row["target_topic"], row["translated_offset"], row["basis"]) == (
        copy,
        COMMITTED,
        "exact",
    )
    # MirrorMaker 2 checkpoints a topic that it does not write.
    flow = parse_settings(file.read_bytes(), str(file), {}).flow()
    cluster = target_cluster(load_mirror(str(file))[0].config)

    def named() -> set[str]:
        try:
            checkpoints, _ = read_checkpoints(flow, cluster)
        except Refused:
            return set()
        return {checkpoint.at.topic for checkpoint in checkpoints}

    eventually(lambda: named() == {topic}, "its checkpoint names the source's topic", PATIENCE)


def test_positions_in_the_topic_of_a_connect_worker(
    clusters: tuple[KafkaNode, KafkaNode], worker: ConnectWorker
) -> None:
    """The codec reads them there too, those set and cleared through REST among them."""
    source, target = clusters
    topic = create_topic(source)
    produce(source, topic, [b"x"] * 10)
    mirror = worker.create_mirror(source, target, topic)
    name = mirror.source_connector
    at = formats.ConnectorPartition(name, mirror.source, SourcePartition(topic, 0))

    def position() -> Any:
        stored = [
            (got.key, got.value, formats.read_connect_offset(got.key, got.value))
            for got in read_all(target, worker.offsets_topic)
        ]
        mine = [position for position in stored if position[2] is not None and position[2][0] == at]
        return mine[-1] if mine else None

    def await_position(expected: object, patience: float = TIMEOUT) -> Any:
        return eventually(lambda: (p := position()) and p[2] == expected and p, "set", patience)

    await_position((at, 9), PATIENCE)  # the worker may flush before it has copied all
    worker.ask("PUT", f"/connectors/{name}/stop")
    eventually(
        lambda: worker.ask("GET", f"/connectors/{name}/status")["connector"]["state"] == "STOPPED",
        "it is stopped",
    )
    partition = {"topic": topic, "cluster": mirror.source, "partition": 0}
    for offset in ({"offset": 3}, None):
        body = {"offsets": [{"partition": partition, "offset": offset}]}
        worker.ask("PATCH", f"/connectors/{name}/offsets", body)
        expected = (at, offset["offset"] if offset else None)
        last = await_position(expected)
        assert formats.connect_offset_key(at) == last[0]
