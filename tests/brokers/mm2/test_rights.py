"""Commands for MirrorMaker 2 with the rights that ``docs/security.md`` grants, and with less."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka.admin import AclOperation, ResourceType

from k2ktui.mm2.flows.settings import load_settings
from tests.support.clusters.acls import Grant, documented, renamed
from tests.support.clusters.kafka import (
    TIMEOUT,
    Out,
    admin,
    create_topic,
    end_offsets,
    eventually,
    produce,
    read_all,
    unique_name,
)
from tests.support.clusters.mirrormaker import MirrorMaker
from tests.support.clusters.secure import SecureNode, start_secure_node
from tests.support.commands.verbs import Said, k2ktui
from tests.support.oracle.group_offsets import commit_offsets, committed
from tests.support.pipelines.pipeline import Pipeline

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

PAGE = Path(__file__).parents[3] / "docs" / "security.md"
RECORDS = 300
TOPIC, GROUP, TRANSACTIONS = (
    ResourceType.TOPIC,
    ResourceType.GROUP,
    ResourceType.TRANSACTIONAL_ID,
)
READ, WRITE, DELETE = AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE
# Marks of the page, by what a user may do on the target.
MAY = {
    "look": ("mm2 look",),
    "move": ("mm2 look", "mm2 move"),
    "drill": ("mm2 look", "mm2 move", "mm2 drill"),
    "offsets": ("mm2 look", "mm2 offsets"),
    "take": ("mm2 look", "target rights"),
    "publish": ("target rights", "mm2 publish"),
}


@dataclass(frozen=True)
class Lack:
    """A right that is taken away: who lacks it, where, and what the command says."""

    user: str
    may: str
    side: str
    operation: AclOperation
    kind: ResourceType
    name: str
    command: tuple[str, ...]
    says: str
    code: int = 5


TAKE_OVER = ("mm2", "takeover", "--yes")
APPLY = ("mm2", "apply-checkpoints", "--yes", "--watch", "0", "--json")
# Once a position was set back.
APPLY_ACCEPTED = (*APPLY, "--accept", "everything-replicated")
SET = ("mm2", "offsets", "set", "--yes", "TOPIC:0:5")
PUBLISH = ("mm2", "publish", "--once")
NO_TOPIC, NO_COMMIT = "there is no topic", "lacks Read on the group"
NO_WRITE = "Grant the principal Describe and Write on the topic"
REHEARSE = ("drill", "rehearse")
NO_DRILL, NO_DELETE = "may not use the transactional id", "grant the target principal Delete"
NO_ID = "may not use transactional id"
LACKS = [
    Lack("no-syncs", "look", "source", READ, TOPIC, "SYNCS", ("groups",), NO_TOPIC, 0),
    Lack("no-checks", "look", "target", READ, TOPIC, "CHECKPOINTS", ("mm2", "audit"), NO_TOPIC, 1),
    Lack("no-commit", "move", "target", READ, GROUP, "*", ("sync", "--once"), NO_COMMIT, 1),
    Lack("no-commit", "move", "target", READ, GROUP, "*", APPLY_ACCEPTED, NO_COMMIT, 6),
    Lack(
        "no-set", "offsets", "target", WRITE, TOPIC, "OFFSETS", (*SET[:-1], "TOPIC:0:7"), NO_WRITE
    ),
    Lack("no-ids", "take", "target", WRITE, TRANSACTIONS, "NAME.", TAKE_OVER, NO_ID),
    Lack("no-copies", "take", "target", READ, TOPIC, "COPY", TAKE_OVER, "may not read it"),
    Lack("no-drills", "drill", "target", WRITE, TRANSACTIONS, "FLOW.", REHEARSE, NO_DRILL),
    Lack("no-delete", "drill", "target", DELETE, GROUP, "FLOW.drill.", REHEARSE, NO_DELETE, 1),
    Lack("no-publish", "publish", "target", WRITE, TOPIC, "CHECKPOINTS", PUBLISH, NO_WRITE),
]


class Site:
    """A flow that MirrorMaker 2 copied as the super user and was stopped; users with few rights."""

    def __init__(self, source: SecureNode, target: SecureNode, directory: Path) -> None:
        self.source, self.target, self.directory = source, target, directory
        self.topic, self.group = create_topic(source.node, partitions=2), unique_name("app")
        for number in (0, 1):
            produce(source.node, self.topic, [Out(b"%d" % n, b"k", number) for n in range(RECORDS)])
        commit_offsets(source.node, self.group, {(self.topic, 0): 130, (self.topic, 1): 299})
        self.maker = MirrorMaker(
            source.node,
            target.node,
            directory,
            self.topic,
            self.group,
            properties={"sync.group.offsets.enabled": "false"},
        )
        self.flow = load_settings(self.maker.file).flow()
        self.copy = self.flow.target_topic(self.topic)
        self.name = unique_name("taken")
        self.names = {
            "orders": [self.topic],
            "A.orders": [self.copy],
            "A.checkpoints.internal": [self.flow.checkpoints_topic],
            "mm2-offsets.A.internal": [self.flow.connect_offsets_topic],
            "mm2-offset-syncs.B.internal": [self.flow.offset_syncs_topic],
            "A->B.": [f"{self.flow}."],
            "A->B.drill.": [f"{self.flow}.drill."],
        }
        with self.maker:
            eventually(self._copied, "everything is copied, and checkpoints are written", 300)
        eventually(self._left, "its workers have left")

    def _copied(self) -> bool:
        topics = admin(self.target.node).list_topics(timeout=TIMEOUT).topics
        if not {self.copy, self.flow.checkpoints_topic, self.flow.connect_offsets_topic} <= {
            *topics
        }:
            return False
        checkpoints = read_all(self.target.node, self.flow.checkpoints_topic)
        return len({got.key for got in checkpoints}) >= 2 and end_offsets(
            self.target.node, self.copy
        ) == {0: RECORDS, 1: RECORDS}

    def _left(self) -> bool:
        said = k2ktui("mm2", "offsets", "show", "-f", self.maker.file, "--json")
        return bool(said.json["state"] == "STOPPED")

    def called(self, user: str) -> str:
        """The pipeline of a user; who publishes does so for the one that took over."""
        return f"{self.name}-{'take' if 'publish' in user else user}"

    def grants(self, may: str, side: str, user: str) -> list[Grant]:
        """What the page grants on one side."""
        names = {**self.names, "orders-dr.": [f"{self.called(user)}."]}
        if may in ("take", "publish"):
            names["orders"] = [self.topic] if side == "source" else [self.copy]
        if may == "publish":
            # A pipeline of ours has aliases of its own.
            for name in ("A.checkpoints.internal", "mm2-offset-syncs.A.internal", "A.heartbeats"):
                names[name] = [name.replace("A", "east")]
        marks = ("mm2 source",) if side == "source" else MAY[may]
        return [grant for mark in marks for grant in renamed(documented(PAGE, mark), names)]

    def file(self, user: str) -> Path:
        """Its properties file, with another login."""
        sides = ((self.maker.source, self.source), (self.maker.target, self.target))
        own = {f"{a}.{k}": v for a, node in sides for k, v in node.java(user).items()}
        path = self.directory / f"{user}.properties"
        path.write_text(
            self.maker.file.read_text() + "".join(f"{k} = {v}\n" for k, v in own.items())
        )
        return path

    def pipeline(self, user: str) -> Path:
        """The pipeline that takes over."""
        settings = {
            "source.kafka.common": self.source.java(user),
            "target.kafka.common": self.target.java(user),
            "replication.sink.topic": {"prefix": f"{self.maker.source}."},
            "mm2.sourceAlias": "east",
            "mm2.targetAlias": "west",
        }
        directory = self.directory / user
        directory.mkdir(exist_ok=True)
        nodes = self.source.node, self.target.node
        return Pipeline(directory, *nodes, [self.topic], settings, self.called(user)).write()

    def run(self, user: str, *command: str) -> Said:
        """Run a command as a user."""
        words = [word.replace("TOPIC", self.topic) for word in command]
        if "takeover" in command:
            return k2ktui(*words, "-f", self.pipeline(user), "--from", self.file(user))
        file = self.pipeline(user) if "publish" in command else self.file(user)
        return k2ktui(*words, "-f", file)

    def state(self) -> object:
        """What on the target a command could have changed; our own records of runs aside."""
        topics = admin(self.target.node).list_topics(timeout=TIMEOUT).topics
        chosen = [name for name in topics if not name.startswith("__")]
        commits = committed(self.target.node, self.group)
        return {name: end_offsets(self.target.node, name) for name in chosen}, commits


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    directory = tmp_path_factory.mktemp("rights")
    users = [*MAY, *{lack.user for lack in LACKS}]

    def started(name: str) -> SecureNode:
        return start_secure_node(directory / name, {u: f"{name}-{u}-secret" for u in users})

    with ThreadPoolExecutor(2) as pool:
        source, target = pool.map(started, ("source", "target"))
    try:
        site = Site(source, target, directory)
        sides = (("source", source), ("target", target))
        for may in MAY:
            for side, node in sides:
                for grant in site.grants(may, side, may):
                    grant.give(node, may)
        yield site
    finally:
        source.node.close()
        target.node.close()


def test_looking(site: Site, tmp_path: Path) -> None:
    for command in (("status",), ("watch", "--once"), ("groups",)):
        said = site.run("look", *command)
        assert said.code == 0 and "authoriz" not in said.out + said.err, said
    # MirrorMaker 2 commits nothing here, and it does say so.
    before, page = site.state(), tmp_path / "audit.html"
    audit = site.run("look", "mm2", "audit", "--json", "--html", str(page))
    assert audit.code == 1, audit
    assert [row["basis"] for row in audit.json["rows"]] == ["exact", "exact"], audit
    assert site.group in page.read_text() and "secret" not in page.read_text()
    assert site.state() == before


def test_moving(site: Site) -> None:
    applied = site.run("move", *APPLY)
    assert applied.code == 0, applied
    assert len(committed(site.target.node, site.group)) == 2
    synced = site.run("move", "sync", "--once")
    assert synced.code == 0 and "2 exact" in synced.out, synced
    assert "not written" not in synced.err
    assert set(committed(site.target.node, site.group).values()) == {130, 299}


def test_drills(site: Site) -> None:
    """The shadow groups are tried; that MirrorMaker 2 is stopped is a finding after a while."""
    rehearsed = site.run("drill", *REHEARSE, "--json")
    assert rehearsed.code in (0, 1), rehearsed
    checks = {check["id"]: check for check in rehearsed.json["checks"]}
    assert checks["D27"]["outcome"] == "could-not-check", rehearsed
    assert "authorization failed" in checks["D27"]["evidence"]
    (group,) = rehearsed.json["groups"]
    assert group["compared"] > 0 and group["checkpoints"]["without"] == 0, group
    shadows = [phase for phase in rehearsed.json["phases"] if phase["phase"] == "shadow-groups"]
    assert [phase["findings"] for phase in shadows] == [[]], rehearsed


def test_offsets(site: Site) -> None:
    shown = site.run("offsets", "mm2", "offsets", "show", "--json")
    assert shown.code == 0, shown
    assert {(site.topic, 0), (site.topic, 1)} <= {
        (row["topic"], row["partition"]) for row in shown.json["partitions"]
    }
    changed = site.run("offsets", *SET)
    assert changed.code == 0, changed


def test_taking_over_and_publishing(site: Site) -> None:
    """What was set a moment ago is where it would copy again; the records tell where it is."""
    taken = site.run("take", *TAKE_OVER, "--json")
    assert taken.code == 0, taken
    assert [row["position"] for row in taken.json["partitions"]] == [RECORDS, RECORDS]
    published = site.run("publish", *PUBLISH)
    assert published.code == 0, published
    assert len(read_all(site.target.node, "east.checkpoints.internal")) == 2


@pytest.mark.parametrize("lack", LACKS, ids=lambda lack: f"{lack.user}-{lack.command[0]}")
def test_a_right_that_is_missing_is_reported(site: Site, lack: Lack) -> None:
    """The command says which, and has changed nothing; no traceback."""
    checkpoints = site.flow.checkpoints_topic
    named = {
        "SYNCS": site.flow.offset_syncs_topic,
        "CHECKPOINTS": "east.checkpoints.internal" if lack.may == "publish" else checkpoints,
        "OFFSETS": site.flow.connect_offsets_topic,
        "COPY": site.copy,
        "FLOW.": f"{site.flow}.",
        "FLOW.drill.": f"{site.flow}.drill.",
        "NAME.": f"{site.called(lack.user)}.",
    }.get(lack.name, lack.name)
    taken = False
    for side, node in (("source", site.source), ("target", site.target)):
        for grant in site.grants(lack.may, side, lack.user):
            wanted = (lack.side, lack.operation, lack.kind, named)
            if (side, grant.operation, grant.kind, grant.name) == wanted:
                taken = True
            else:
                grant.give(node, lack.user)
    assert taken, "the page grants it"
    forget_commits(site)
    before = site.state()
    said = site.run(lack.user, *lack.command)
    assert said.code == lack.code, said
    assert lack.says in said.out + said.err, said
    assert "Traceback" not in said.err
    if lack.may != "publish":  # heartbeats concern no group
        assert site.state() == before


def forget_commits(site: Site) -> None:
    """Let there be something to commit on the target again."""
    client = admin(site.target.node)
    if committed(site.target.node, site.group):
        client.delete_consumer_groups([site.group])[site.group].result(TIMEOUT)
