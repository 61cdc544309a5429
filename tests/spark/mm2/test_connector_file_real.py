"""Commands that read ``mm2.properties`` read files of real connectors, whatever their names."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from k2ktui.console.session import Session
from k2ktui.kafka.clients import target_cluster
from k2ktui.mm2.flow_files import read_flow
from k2ktui.mm2.flows.connect import Connect
from k2ktui.mm2.flows.connect_settings import ConnectSettings
from k2ktui.mm2.mirror_flow import load_mirror
from k2ktui.runtime.node import KafkaNode
from k2ktui.sync.flow import CopierObservation
from k2ktui.watch.feed import MIN_INTERVAL_S
from k2ktui.watch.pipeline_reader import describe_pair
from k2ktui.watch.poller import open_poller
from tests.support.clusters.kafka import (
    TIMEOUT,
    create_topic,
    end_offsets,
    eventually,
    produce,
    unique_name,
)
from tests.support.clusters.mirrormaker import ConnectWorker, MirrorConnectors
from tests.support.commands.cli import k2ktui, k2ktui_json
from tests.support.console.driver import ConsoleDriver, drive_session
from tests.support.console.tmux import TMUX, Tmux
from tests.support.oracle.group_offsets import commit_offsets
from tests.support.pipelines.pipeline import Pipeline

pytestmark = pytest.mark.slow
PATIENCE = 200.0
RECORDS, COMMITTED = 300, 137


@dataclass
class Site:
    """A topic that connectors on a worker have copied, and files that describe them.

    Attributes:
        json: the answer of Connect, with the workers' settings.
        yaml: the connectors and their KafkaConnect as Strimzi's resources.
    """

    worker: ConnectWorker
    mirror: MirrorConnectors
    source: KafkaNode
    target: KafkaNode
    topic: str
    group: str
    json: Path
    yaml: Path

    @property
    def connect(self) -> Connect:
        return Connect(ConnectSettings(url=self.worker.url, timeout_s=TIMEOUT))

    def resume(self) -> None:
        """Let the connectors that copy and write checkpoints run, and wait until they do."""
        for name in (self.mirror.source_connector, self.mirror.checkpoint_connector):
            self.connect.resume(name)
            eventually(partial(self.worker.runs, name), f"{name} runs")

    def stop(self, connector: str) -> None:
        """Stop a connector, and wait until it has no task."""
        self.connect.stop(connector)
        self.connect.await_stopped(connector)


@pytest.fixture(scope="module")
def site(
    clusters: tuple[KafkaNode, KafkaNode], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Site]:
    source, target = clusters
    directory = tmp_path_factory.mktemp("connectors")
    topic, group = create_topic(source), unique_name("app")
    produce(source, topic, [b"%d" % number for number in range(RECORDS)])
    commit_offsets(source, group, {(topic, 0): COMMITTED})
    with ConnectWorker(target, directory) as worker:
        mirror = worker.create_mirror(source, target, topic, {"groups": f"{group}.*"})
        names = (mirror.source_connector, mirror.checkpoint_connector)
        copy = f"{mirror.source}.{topic}"
        eventually(lambda: end_offsets(target, copy) == {0: RECORDS}, "it is copied", PATIENCE)
        connectors = worker.describe(*names)
        made = Site(
            worker,
            mirror,
            source,
            target,
            topic,
            group,
            directory / "connectors.json",
            directory / "connectors.yaml",
        )
        made.json.write_text(json.dumps(connectors))
        made.yaml.write_text(yaml.safe_dump_all(_resources(connectors)))
        yield made


def _resources(connectors: list[dict[str, Any]]) -> list[dict[str, Any]]:
    spec = {"config": connectors[0]["worker"]}
    resources = [{"kind": "KafkaConnect", "metadata": {"name": "workers"}, "spec": spec}]
    for connector in connectors:
        config = dict(connector["config"])
        name = config.pop("name").lower()
        metadata = {"name": name, "labels": {"strimzi.io/cluster": "workers"}}
        spec = {"class": config.pop("connector.class"), "config": config}
        resources.append({"kind": "KafkaConnector", "metadata": metadata, "spec": spec})
    return resources


def test_commands_read_it(site: Site, tmp_path: Path) -> None:
    """Status, groups, watch, audit, translate, plan, sync and a rehearsal."""
    file = site.json

    def lag() -> Any:
        partitions = k2ktui_json("status", "-f", file, code=None)["partitions"]
        return [row["lag_records"] for row in partitions] == [0]

    eventually(lag, "positions are read from the workers' topic", PATIENCE)
    for form in (site.json, site.yaml):
        (row,) = k2ktui_json("groups", "-f", form)["groups"]
        assert (row["group"], row["basis"], row["translated_offset"]) == (
            site.group,
            "exact",
            COMMITTED,
        )

    def has_beaten() -> bool:
        view = json.loads(k2ktui("watch", "-f", file, "--once", "--json").stdout)
        return any("heartbeat was" in note for note in view["notes"])

    eventually(has_beaten, "its heartbeat is there", PATIENCE)

    def audited() -> bool:
        done = k2ktui("mm2", "audit", "-f", file, "--json", code=1)
        return bool(json.loads(done.stdout)["rows"])

    eventually(audited, "its checkpoint is there", PATIENCE)
    position = f"{site.topic}:0:{COMMITTED}"
    assert str(COMMITTED) in k2ktui("translate", "-f", file, position).stdout
    plan = tmp_path / "plan.json"
    k2ktui("plan", "-f", file, "-o", plan)
    k2ktui("sync", "-f", file, "--once")
    report = k2ktui_json("drill", "rehearse", "-f", file)
    (group,) = report["groups"]
    assert (group["reread"], group["different"]) == (0, 0)
    assert group["checkpoints"]["without"] == group["checkpoints"]["unknown"] == 0


def test_the_console_opens_a_strimzi_file(site: Site) -> None:
    """Lag, groups and MirrorMaker 2's checkpoints; a rehearsal by keyboard."""
    flow, _ = read_flow((str(site.yaml),))
    session = Session(
        open_poller(flow, MIN_INTERVAL_S), describe_pair(flow), flow, (str(site.yaml),)
    )

    async def steps(console: ConsoleDriver) -> None:
        await console.sees("MirrorMaker 2 copies", "Lag", "0 records")
        await console.press("3")
        await console.sees(site.group, "exact", "by MM2")
        await console.press("8")
        await console.press("N")
        await console.sees("New drill")
        await console.press("enter")
        await console.confirm(flow.config.name)
        await console.sees("5 report", "done rehearse")
        await console.press("v")
        await console.sees("Report of drill", "With MirrorMaker 2's checkpoints instead:")

    drive_session(session, steps, (120, 40))


@pytest.mark.skipif(TMUX is None, reason="there is no tmux")
def test_the_console_opens_a_strimzi_file_in_a_terminal(site: Site, tmp_path: Path) -> None:
    env = {"XDG_CONFIG_HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path), "LANG": "C.UTF-8"}
    command = [sys.executable, "-m", "k2ktui", "-f", str(site.yaml), "--interval", "2"]
    with Tmux(command, env, (120, 40)) as tmux:
        tmux.sees("Overview", "MirrorMaker 2", "0 records")
        tmux.press("3")
        tmux.sees(site.group, "exact")
        tmux.press("m")
        tmux.sees("MM2 re-read")
        tmux.press("q", "8")
        tmux.sees("Drill")
        tmux.press("q")
        tmux.sees("ENDED 0")


def test_positions_are_shown_and_changed_through_connect(site: Site) -> None:
    """The file names the connector; its JSON is in the topic under that name."""
    site.resume()

    def position() -> object:
        shown = k2ktui_json("mm2", "offsets", "show", "-f", site.json)
        assert shown["connector"] == site.mirror.source_connector
        rows = {row["topic"]: row for row in shown["partitions"]}
        return site.topic in rows and rows[site.topic]["position"]

    eventually(lambda: position() == RECORDS, "its position is stored", PATIENCE)
    where = ("-f", site.json, "--connect", site.worker.url)
    move = f"{site.topic}:0:{RECORDS - 10}"
    refused = k2ktui("mm2", "offsets", "set", "-f", site.json, move, "--yes", code=2)
    assert "only Connect knows whether it is stopped" in refused.stderr
    done = k2ktui_json("mm2", "offsets", "set", *where, move, "--yes")
    assert done["applied"] and done["connector"] == site.mirror.source_connector
    copy = f"{site.mirror.source}.{site.topic}"
    eventually(lambda: end_offsets(site.target, copy) == {0: RECORDS + 10}, "copied again")


def test_it_is_imported_and_taken_over_from(site: Site, tmp_path: Path) -> None:
    site.resume()
    imported = tmp_path / "pipeline.yaml"
    k2ktui("mm2", "import", site.json, "-o", imported)
    k2ktui("config", "validate", "-f", imported)
    settings = {
        "replication.source.topic": site.topic,
        "replication.sink.topic": {"prefix": f"{site.mirror.source}."},
    }
    pipeline = Pipeline(tmp_path, site.source, site.target, site.topic, settings).write()
    args = ("-f", pipeline, "--from", site.json)
    refused = k2ktui("mm2", "takeover", *args, "--yes", code=2)
    assert "only Connect knows whether it is stopped" in refused.stderr
    where = (*args, "--connect", site.worker.url)
    assert "is RUNNING" in k2ktui("mm2", "takeover", *where, "--yes", code=5).stderr
    site.stop(site.mirror.source_connector)
    rows = k2ktui_json("mm2", "takeover", *where, "--dry-run")["partitions"]
    assert [row["position"] for row in rows] == [RECORDS]


def observe(file: Path) -> CopierObservation:
    flow = load_mirror(str(file))[0]
    return flow.observe_copier(target_cluster(flow.config))


def test_what_shows_that_its_connectors_are_stopped(site: Site, tmp_path: Path) -> None:
    """The workers' status topic; without it, and with another group, nothing is proven."""
    checkpoints = site.mirror.checkpoint_connector
    site.resume()
    signs = "; ".join(observe(site.json).signs)
    assert f"connector {site.mirror.source_connector} is RUNNING" in signs
    assert f"connector {checkpoints} is RUNNING" in signs
    site.stop(site.mirror.source_connector)
    eventually(
        lambda: all(checkpoints in sign for sign in observe(site.json).signs), "one is stopped"
    )
    assert observe(site.json).signs
    site.stop(checkpoints)
    eventually(lambda: not observe(site.json).signs, "both are stopped")
    seen = observe(site.json)
    assert site.worker.status_topic in seen.evidence and not seen.unproven
    assert checkpoints in seen.how_to_stop
    (name,) = {load["name"] for load in json.loads(site.json.read_text())} - {checkpoints}
    bare = tmp_path / "bare.json"
    config = site.worker.ask("GET", f"/connectors/{name}/config")
    bare.write_text(json.dumps({"name": name, "config": config}))
    assert "does not name the status.storage.topic" in observe(bare).unproven
    # The resources have other names than the connectors, as Kubernetes needs them in lower case.
    assert f"{site.worker.status_topic} has no state of" in observe(site.yaml).unproven
