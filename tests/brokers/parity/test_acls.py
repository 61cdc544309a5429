"""ACLs of two clusters with authorizers: planned, applied, undone, and never a drill's fence."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, Producer

from k2ktui.drill.operator import Question
from k2ktui.engine.acl import (
    ALLOW,
    DENY,
    EVERYONE,
    GROUP,
    LITERAL,
    PREFIXED,
    TOPIC,
    TRANSACTIONAL_ID,
    Acl,
    is_fence,
)
from k2ktui.engine.drill.checks import DrillCheckOutcome, DrillKind, DrillPhase
from k2ktui.engine.drill.model import DrillStatus, Fence
from k2ktui.engine.records.wanted_acls import WantedAclsRecord
from k2ktui.errors import Refused
from k2ktui.kafka.admin.acls import create_acls, delete_acls, read_acls
from k2ktui.kafka.clients import Cluster, source_cluster, target_cluster
from k2ktui.runtime.node import KafkaNode
from k2ktui.sync.store import StateStore
from tests.support.clusters.kafka import (
    START_S,
    TIMEOUT,
    alter_topic,
    create_topic,
    eventually,
    unique_name,
)
from tests.support.clusters.secure import SecureNode, start_secure_node
from tests.support.commands.cli import k2ktui, k2ktui_json
from tests.support.drill.runs import NOBODY_COMES, QUICK, Pair, Yes, check_of, keep_commits
from tests.support.pipelines.copied import Copied, only
from tests.support.pipelines.sync import running_sync

pytestmark = pytest.mark.slow

APP = "app"
USER = f"User:{APP}"


@pytest.fixture(scope="module")
def sites(
    class_archives: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[SecureNode, SecureNode]]:
    """Two clusters with authorizers, on which only these tests grant rights."""

    def start(directory: Path) -> SecureNode:
        return start_secure_node(directory, {APP: "app-3cr3t"})

    data = tmp_path_factory.mktemp("authorizers")
    with ThreadPoolExecutor(2) as pool:
        source, target = pool.map(start, (data / "source", data / "target"))
    yield source, target
    for site in (source, target):
        site.node.close()


class Site:
    """A topic on both clusters, whose ACLs a pipeline with one section ``acls`` compares."""

    def __init__(
        self, directory: Path, sites: tuple[SecureNode, SecureNode], **acls: object
    ) -> None:
        self.secure = sites
        source, target = (site.node for site in sites)
        self.copied = Copied(directory, source, target)
        self.topic = unique_name("acls")
        for node in (source, target):
            create_topic(node, self.topic)
        self.copied.settings = {
            "replication": [
                {"source": {"topic": [self.topic]}},
                {"sink": {"topic": "source", "partition": "source"}},
            ],
            "parity": {
                "topicConfigs": {"mode": "off"},
                "quotas": {"mode": "off"},
                "acls": acls,
            },
        }
        self.file = self.copied.file
        config = self.copied.config
        self.source, self.target = source_cluster(config), target_cluster(config)
        for cluster in (self.source, self.target):
            settle(cluster, delete=read_acls(cluster))
        self.read = Acl(TOPIC, self.topic, LITERAL, USER, "*", "READ", ALLOW)
        self.write = replace(self.read, operation="WRITE")
        self.group = replace(self.read, kind=GROUP, name=self.copied.group("g"))

    def plan(self, path: Path, code: int = 1) -> dict[str, str]:
        """Plan; return the action by ACL."""
        k2ktui("parity", "plan", "-f", self.file, "-o", path, code=code)
        rows = json.loads(path.read_text())["rows"]
        return {f"{row['item']['key']} {row['item']['name']}": row["action"] for row in rows}

    def may_write(self) -> bool:
        """Whether the application may write to the target."""
        return may_write(self.secure[1], self.topic)


def may_write(site: SecureNode, topic: str) -> bool:
    """Whether the application may write to a topic."""
    failed: list[KafkaError] = []
    producer = Producer({**site.client(APP), "enable.idempotence": False})
    producer.produce(topic, b"v", on_delivery=lambda e, _: failed.append(e) if e else None)
    assert producer.flush(TIMEOUT) == 0
    if failed:
        assert failed[0].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    return not failed


def settle(cluster: Cluster, create: Collection[Acl] = (), delete: Collection[Acl] = ()) -> None:
    """Create and delete ACLs, and wait until the cluster shows it."""
    assert create_acls(cluster, create) == {} and delete_acls(cluster, delete) == {}

    def is_settled() -> bool:
        present = read_acls(cluster)
        return set(create) <= present and not set(delete) & present

    eventually(is_settled, "the ACLs are known")


def text(acl: Acl) -> str:
    """The key of an ACL in :meth:`Site.plan`."""
    key = f"{acl.permission} {acl.operation} {acl.host} {acl.principal}"
    return f"{key} {acl.kind} {acl.pattern} {acl.name}"


def test_planned_applied_and_undone(sites: tuple[SecureNode, SecureNode], tmp_path: Path) -> None:
    site, path = Site(tmp_path, sites), tmp_path / "parity.json"
    assert site.plan(path, code=0) == {}
    prefix = replace(site.read, name=site.topic[:-1], pattern=PREFIXED, operation="DESCRIBE")
    denied = replace(site.read, permission=DENY, principal="User:guest")
    transaction = replace(site.write, kind=TRANSACTIONAL_ID, name="tx")
    fence = replace(site.write, permission=DENY, principal=EVERYONE)
    wanted = {site.read, prefix, denied}
    settle(site.source, [*wanted, site.write, site.group, transaction, fence])

    assert site.plan(path) == {
        **dict.fromkeys(map(text, wanted), "set"),
        **dict.fromkeys(map(text, (site.write, site.group, transaction, fence)), "report"),
    }
    shown = k2ktui("parity", "plan", "-f", site.file, code=1).stdout
    assert "it has the form of a fence" in shown and "parity.acls.write is report" in shown
    applied = k2ktui_json("parity", "apply", path, "--yes")
    assert applied["counts"] == {"applied": 3}
    assert read_acls(site.target) == wanted and not site.may_write()
    assert set(site.plan(path).values()) == {"report"}

    # Only what parity has created goes, and only by a plan.
    own = replace(site.read, principal="User:own")
    settle(site.target, [own])
    settle(site.source, delete=[site.read])
    assert site.plan(path)[text(site.read)] == "remove" and text(own) not in site.plan(path)
    removed = k2ktui_json("parity", "apply", path, "--yes")
    assert removed["counts"] == {"applied": 1}
    assert read_acls(site.target) == {prefix, denied, own}
    assert k2ktui_json("parity", "undo", removed["id"], "--yes")["counts"] == {"applied": 1}
    assert read_acls(site.target) == {*wanted, own}
    assert k2ktui_json("parity", "undo", applied["id"], "--yes")["counts"] == {"applied": 3}
    assert read_acls(site.target) == {own}


class Rights:
    """A pipeline whose application has rights on the source, before a failover."""

    def __init__(
        self, directory: Path, sites: tuple[SecureNode, SecureNode], write: str = "afterFailover"
    ) -> None:
        off = {"mode": "off"}
        acls = {"mode": "apply", "write": write}
        parity = {"topicConfigs": off, "quotas": off, "acls": acls}
        self.pair = Pair(directory, sites[0].node, sites[1].node, {"parity": parity})
        self.pair.copied.put_run()
        config = self.pair.flow.config
        self.sites, self.config = sites, config
        self.source, self.target = source_cluster(config), target_cluster(config)
        for cluster in (self.source, self.target):
            settle(cluster, delete=read_acls(cluster))
        topic = self.pair.topics[0]
        self.read = Acl(TOPIC, topic, LITERAL, USER, "*", "READ", ALLOW)
        group = Acl(GROUP, self.pair.groups[0], LITERAL, USER, "*", "READ", ALLOW)
        transaction = Acl(TRANSACTIONAL_ID, "tx", LITERAL, USER, "*", "WRITE", ALLOW)
        self.later = {replace(self.read, operation="WRITE"), group, transaction}
        settle(self.source, [self.read, *self.later])

    def may_write(self, site: SecureNode) -> bool:
        """Whether the application may write to its topic."""
        return may_write(site, self.pair.topics[0])

    def sync(self) -> str:
        """Run one poll of ``k2ktui sync``; return its messages."""
        return k2ktui("sync", "-f", self.pair.file, "--once", code=None).stderr

    def kept(self) -> WantedAclsRecord | None:
        """Return the record of wanted ACLs."""
        store = StateStore(self.config, self.target)
        try:
            return store.read().wanted_acls
        finally:
            store.close()


@dataclass
class Watches(Yes):
    """An operator who looks at the target's ACLs before it is opened."""

    target: Cluster | None = None
    seen: frozenset[Acl] = frozenset()

    def ask(self, question: Question) -> bool:
        """Agree."""
        if question.step == DrillPhase.OPEN_TARGET:
            assert self.target is not None
            self.seen = read_acls(self.target)
        return super().ask(question)


def test_a_fence_is_not_copied_and_applications_get_their_rights(
    sites: tuple[SecureNode, SecureNode], tmp_path: Path
) -> None:
    rights, log = Rights(tmp_path, sites), tmp_path / "log"
    pair, (source, target) = rights.pair, sites
    assert not rights.may_write(target)
    assert pair.start(DrillKind.REHEARSE).status is DrillStatus.DONE
    (rehearsal,) = pair.drills()
    assert check_of(rehearsal, "D29").outcome is DrillCheckOutcome.FAIL  # no record yet

    # Every poll of the running sync sees the fence.
    with running_sync(pair.copied, log):
        eventually(lambda: read_acls(rights.target) == {rights.read}, "reading is copied")
        eventually(rights.kept, "the rights are kept")
        operator = Watches(target=rights.target)
        drill = pair.start(DrillKind.PLANNED, replace(QUICK, fence=Fence.ACL), operator)
        eventually(lambda: "parity is paused" in log.read_text(), "it is paused")
    assert drill.status is DrillStatus.DONE, drill
    assert not rights.may_write(source)
    assert any(is_fence(acl) for acl in read_acls(rights.source))
    assert operator.seen == {rights.read}
    (question,) = [text for phase, text in operator.asked if phase == DrillPhase.OPEN_TARGET]
    assert "Creates 3 ACLs on the target" in question
    assert f"cluster {drill.source_cluster} asked for 4" in question
    assert f"ALLOW {USER} WRITE on TOPIC {pair.topics[0]}\n" in question
    assert read_acls(rights.target) == {rights.read, *rights.later}
    assert rights.may_write(target)
    d29 = check_of(drill, "D29")
    assert d29.outcome is DrillCheckOutcome.PASS
    assert "3 more are created when a drill opens it" in d29.evidence

    # It stays so: what the old primary has now is the past, also for an operator.
    assert "parity is paused" in rights.sync()
    paused = k2ktui("parity", "plan", "-f", pair.file, code=5).stderr
    assert "has opened the target: it is the primary now" in paused
    assert not any(is_fence(acl) for acl in read_acls(rights.target))

    report = k2ktui("drill", "report", drill.id, "-f", pair.file, code=None).stdout
    assert "create 3 ACLs on the target for its applications" in report
    journal = k2ktui_json("journal", "-f", pair.file)["journal"]
    (entry,) = [row["id"] for row in journal if row["operation"] == "parity open-target"]
    undone = k2ktui_json("parity", "undo", entry, "-f", pair.file, "--yes")
    assert undone["counts"] == {"applied": 3}
    assert read_acls(rights.target) == {rights.read} and not rights.may_write(target)


def test_without_the_source(sites: tuple[SecureNode, SecureNode], tmp_path: Path) -> None:
    rights = Rights(tmp_path, sites)
    pair, (source, target) = rights.pair, sites
    rights.sync()
    keep_commits(pair.flow.config)
    kept = rights.kept()
    assert kept is not None and set(kept.after_failover) == rights.later
    source.node.kill()
    try:
        operator = Yes()
        drill = pair.start(DrillKind.DISASTER, NOBODY_COMES, operator)
    finally:
        source.node.start(START_S)
    assert drill.status is DrillStatus.DONE, drill
    question = operator.asked[-1][1]
    assert "Creates 3 ACLs on the target" in question and " ago:" in question
    assert rights.may_write(target)
    d29 = check_of(drill, "D29")
    assert d29.outcome is DrillCheckOutcome.PASS and "3 more are created" in d29.evidence


def test_rights_are_only_reported_by_default(
    sites: tuple[SecureNode, SecureNode], tmp_path: Path
) -> None:
    rights = Rights(tmp_path, sites, write="report")
    said = rights.sync()
    assert read_acls(rights.target) == {rights.read}
    assert "applications need it after a failover" in said
    operator = Yes()
    drill = rights.pair.start(DrillKind.PLANNED, operator=operator)
    assert drill.status is DrillStatus.DONE, drill
    assert "Creates" not in operator.asked[-1][1]
    assert read_acls(rights.target) == {rights.read}
    d29 = check_of(drill, "D29")
    assert d29.outcome is DrillCheckOutcome.FAIL and "3 missing on the target" in d29.evidence


def test_a_refused_declaration_creates_nothing(
    sites: tuple[SecureNode, SecureNode], tmp_path: Path
) -> None:
    rights = Rights(tmp_path, sites)
    rights.sync()
    with pytest.raises(Refused, match="not confirmed"):
        rights.pair.start(DrillKind.PLANNED, operator=Yes(frozenset({DrillPhase.OPEN_TARGET})))
    assert read_acls(rights.target) == {rights.read}


def test_clusters_without_an_authorizer_say_so_once(
    source: KafkaNode, sites: tuple[SecureNode, SecureNode], tmp_path: Path
) -> None:
    copied, topic = Copied(tmp_path, source, sites[1].node), unique_name("said")
    copied.put_run()
    for node in (source, sites[1].node):
        create_topic(node, topic)
    parity = {"topicConfigs": {"mode": "report"}, "quotas": {"mode": "off"}}
    copied.settings = {**only(topic), "parity": parity}
    log = tmp_path / "log"
    with running_sync(copied, log):
        name = "parity: acls: the source cluster has no authorizer"
        eventually(lambda: name in log.read_text(), "it says so")
        for setting in ("retention_ms", "segment_bytes"):  # each shows another poll
            alter_topic(source, topic, **{setting: "3600000"})
            key = f"{topic} {setting.replace('_', '.')}"
            eventually(lambda: key in log.read_text(), "another poll")  # noqa: B023
    assert log.read_text().count("authorizer") == 1
