"""A pipeline with the rights that ``docs/security.md`` grants and no other, on both clusters."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import (
    AclOperation,
    ConfigResource,
    ResourcePatternType,
    ResourceType,
    ScramMechanism,
    UserScramCredentialDeletion,
)

from k2ktui.config.model import ControlTopic, PipelineConfig
from k2ktui.kafka.control.specs import control_specs
from k2ktui.kafka.properties.translation import load_checked
from k2ktui.replication.preflight.checks import Check, CheckOutcome, exit_code
from k2ktui.replication.preflight.suite import run_checks
from tests.spark.replication.test_stuck import is_serious
from tests.support.clusters.acls import Grant, documented, read_command, renamed
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
from tests.support.clusters.secure import SecureNode, create_scram_users, start_secure_node
from tests.support.commands.verbs import k2ktui
from tests.support.oracle.group_offsets import commit_offsets
from tests.support.oracle.judge import Expected, prove
from tests.support.pipelines.both_ways import ENABLED
from tests.support.pipelines.pipeline import Pipeline, Run
from tests.unit.config.files import Files

pytestmark = pytest.mark.slow

PAGE = Path(__file__).parents[3] / "docs" / "security.md"
USER = "copier"
OFFSETS = "__consumer_offsets"
# Rights of the target that are taken away in turn: the user who lacks each.
LACKING = [
    (AclOperation.WRITE, "topic"),
    (AclOperation.CREATE, "topic"),
    (AclOperation.READ, "control"),
    (AclOperation.WRITE, "control"),
    (AclOperation.DESCRIBE_CONFIGS, "control"),
    (AclOperation.CREATE, "control"),
    (AclOperation.WRITE, "transactional"),
]
# Users with all rights; one loses its login.
KEEPS, LOSES = "keeper", "loser"
Sites = tuple[SecureNode, SecureNode]


def lacking(operation: AclOperation, what: str) -> str:
    return f"no-{operation.name.lower()}-{what}"


@pytest.fixture(scope="module")
def sites(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sites]:
    """Source and target, whose users have no rights but those that a test grants."""
    directory = tmp_path_factory.mktemp("rights")
    named = [USER, "reader", "viewer", "partial", "forth", "back", KEEPS, LOSES]
    users = [*named, *(lacking(*right) for right in LACKING)]

    def started(name: str) -> SecureNode:
        return start_secure_node(directory / name, {u: f"{name}-{u}-secret" for u in users})

    with ThreadPoolExecutor(2) as pool:
        source, target = pool.map(started, ("source", "target"))
    yield source, target
    source.node.close()
    target.node.close()


def pipeline(
    sites: Sites, directory: Path, topics: list[str] | str, users: tuple[str, str], **settings: Any
) -> Pipeline:
    source, target = sites
    sides = {
        "source.kafka.common": source.java(users[0]),
        "target.kafka.common": target.java(users[1]),
    }
    return Pipeline(directory, source.node, target.node, topics, {**sides, **settings})


def grant_source(source: SecureNode, user: str, *topics: str) -> None:
    for grant in renamed(documented(PAGE, "source rights"), {"orders": list(topics)}):
        grant.give(source, user)


def target_grants(group: str, *topics: str) -> list[Grant]:
    names = {"orders": list(topics), "orders-dr.": [f"{group}."]}
    return renamed(documented(PAGE, "target rights"), names)


def grant_target(target: SecureNode, user: str, group: str, *topics: str) -> None:
    for grant in target_grants(group, *topics):
        grant.give(target, user)


def filled(secure: SecureNode, partitions: int = 2, count: int = 500, **config: str) -> str:
    settings = {key.replace("_", "."): value for key, value in config.items()}
    topic = create_topic(secure.node, partitions=partitions, config=settings)
    records = [Out(b"v%d" % i, b"k%d" % i, i % partitions) for i in range(count)]
    produce(secure.node, topic, records)
    return topic


def state_of(secure: SecureNode) -> dict[str, Any]:
    """Everything on a cluster that a client could change: topics, settings, groups, commits."""
    with_admin = admin(secure.node)
    topics = with_admin.list_topics(timeout=TIMEOUT).topics
    resources = [ConfigResource(ResourceType.TOPIC, name) for name in topics]
    configs = with_admin.describe_configs(resources)
    groups = with_admin.list_consumer_groups(request_timeout=TIMEOUT).result(TIMEOUT)
    return {
        "topics": {name: len(topic.partitions) for name, topic in topics.items()},
        "settings": {
            resource.name: {key: entry.value for key, entry in future.result(TIMEOUT).items()}
            for resource, future in configs.items()
        },
        "groups": {(group.group_id, str(group.state)) for group in groups.valid},
        "failed groups": len(groups.errors),
        "ends": {name: end_offsets(secure.node, name) for name in topics},
    }


def test_the_source_is_only_read(sites: Sites, tmp_path: Path) -> None:
    source, target = sites
    topic, hidden = filled(source, segment_bytes="10485760"), filled(source)
    assert OFFSETS not in state_of(source)["topics"], "this test must see it before anyone asks"

    # First by the super user: who may do everything shows what is asked for.
    every = {"bootstrap.servers": source.node.bootstrap}
    free = pipeline(sites, tmp_path, [topic], (USER, USER), **{"source.kafka.common": every})
    grant_target(target, USER, free.name, topic)
    before = state_of(source)
    run_first(free)
    produce(source.node, topic, [b"behind"])
    before["ends"][topic][0] += 1
    run_verbs(free, lag=1)
    assert state_of(source) == before
    assert OFFSETS not in before["topics"]

    # Then with the least rights, where groups exist.
    commit_offsets(source.node, "application", {(topic, 0): 10, (hidden, 1): 7})
    grant_source(source, "reader", topic)
    stem = topic.rsplit("-", 1)[0]
    least = pipeline(sites, tmp_path, f"{stem}-.*", ("reader", USER))
    grant_target(target, USER, least.name, f"copy.{topic}")
    least.settings = {**least.settings, "replication.sink.topic": {"prefix": "copy."}}
    before = state_of(source)
    assert before["groups"] and OFFSETS in before["topics"]
    run_first(least)
    least.catch_up()
    assert state_of(source) == before

    prove(source.node, target.node, least.name, Expected(topic, target=f"copy.{topic}"))
    copied = state_of(target)["topics"]
    assert not {hidden, f"copy.{hidden}"} & copied.keys(), "what is not visible is not selected"
    # The target's principal did without any group, too.
    assert state_of(target)["groups"] == set()


def run_first(pipe: Pipeline) -> None:
    """Check, start, and look: with what does not exist yet and with what exists."""
    checked = k2ktui("check", "-f", pipe.write())
    assert checked.code == 0, checked
    pipe.catch_up()
    run_verbs(pipe, lag=0)


def run_verbs(pipe: Pipeline, lag: int) -> None:
    file = pipe.write()
    checked = k2ktui("check", "-f", file, "--json")
    assert checked.code == 0, checked
    explained = k2ktui("explain", "-f", file, "--json")
    assert [topic["path"] for topic in explained.json["topics"]] == ["verbatim"], explained
    status = k2ktui("status", "-f", file, "--json")
    rows = status.json["partitions"]
    assert sum(row["lag_records"] for row in rows) == lag, status
    behind = [row["lag_s"] for row in rows if row["lag_records"]]
    assert len(behind) == lag and all(0 <= seconds < 3600 for seconds in behind), status


def test_who_only_looks_changes_nothing(sites: Sites, tmp_path: Path) -> None:
    """With the rights to watch of the page, on both clusters, every command that reads works."""
    source, target = sites
    topic, group = filled(source), unique_name("application")
    pipe = pipeline(sites, tmp_path, [topic], (KEEPS, KEEPS))
    source.allow_all(KEEPS)
    target.allow_all(KEEPS)
    commit_offsets(source.node, group, {(topic, 0): 10, (topic, 1): 7})
    pipe.catch_up()
    viewed = replace(pipe, directory=tmp_path / "viewer", settings={
        **pipe.settings,
        "source.kafka.common": source.java("viewer"),
        "target.kafka.common": target.java("viewer"),
    })  # fmt: skip
    viewed.directory.mkdir()
    grant_to_watch(source, target, topic)
    file, before = viewed.write(), (state_of(source), state_of(target))
    for command in (
        ("status",),
        ("watch", "--once"),
        ("groups", "--members"),
        ("plan", "-o", tmp_path / "plan.json"),
        ("verify", "--translated"),
        ("journal",),
        ("offsets", "show"),
        ("explain",),
        ("records", f"{topic}:0@5"),
        ("translate", f"{topic}:0:5"),
        ("compare",),
        ("parity", "plan"),
        ("drill", "list"),
        ("jobs", "list"),
    ):
        said = k2ktui(*command, "-f", file, "--json")
        assert said.code == 0 and said.json, (command, said)
        if command == ("compare",):
            assert "not written to the state topic" in said.err
    # Some of its checks ask for a drill's rights.
    checked = k2ktui("drill", "check", "-f", file, "--json")
    assert checked.code == 1 and len(checked.json["checks"]) > 20, checked
    # What changes something keeps a record of it, and refuses without the right to.
    for change in (
        ("apply", tmp_path / "plan.json", "--yes"),
        ("sync", "-f", file, "--once"),
        ("hold", topic, "-f", file, "--yes"),
        ("drill", "rehearse", "-f", file),
    ):
        refused = k2ktui(*change)
        assert refused.code == 5 and "Grant the target principal" in refused.err, refused
        assert "Nothing was changed." in refused.err, refused
    assert (state_of(source), state_of(target)) == before


def grant_to_watch(source: SecureNode, target: SecureNode, topic: str) -> None:
    """Grant what the page's table names in its first row."""
    look = [AclOperation.DESCRIBE, AclOperation.READ]
    source.allow("viewer", look, topic)
    target.allow("viewer", look[1:], topic)
    prefix = ResourcePatternType.PREFIXED
    target.allow("viewer", look[1:], "__k2k_", pattern=prefix)
    for site in (source, target):
        site.allow("viewer", look[:1], "*", ResourceType.GROUP)


def test_topics_that_may_not_be_read_written_or_created(sites: Sites, tmp_path: Path) -> None:
    """Each stops for itself, says why, and the exit code shows; the others are copied."""
    source, target = sites
    good, unread, unseen, unwritten, uncreated = topics = [filled(source) for _ in range(5)]
    create_topic(target.node, unwritten, partitions=2)
    pipe = pipeline(sites, tmp_path, topics, ("partial", "partial"))
    grant_source(source, "partial", good, unwritten, uncreated)
    source.allow("partial", [AclOperation.DESCRIBE], unread)
    grant_target(target, "partial", pipe.name, good, unread, unseen)
    target.allow("partial", [AclOperation.DESCRIBE], unwritten)
    target.allow("partial", [AclOperation.WRITE], uncreated)

    run = pipe.catch_up(code=1)

    stopped = {e["fault"]["source"]["topic"]: e["fault"] for e in run.events("stopped")}
    assert set(stopped) == {unread, unseen, unwritten, uncreated}
    for topic in (unread, unwritten):
        assert stopped[topic]["kind"] == "unauthorized"
    assert f"Grant it Describe and Read on topic {unread}" in stopped[unread]["hint"]
    assert "cannot be described" in stopped[unseen]["message"]
    assert "Describe and Read" in stopped[unseen]["hint"]
    assert f"Grant it Describe and Write on topic {unwritten}" in stopped[unwritten]["hint"]
    hint = stopped[uncreated]["hint"]
    assert "Grant the target principal Create" in hint
    assert "kafka-topics.sh" in hint and f"--create --topic {uncreated}" in hint
    prove(source.node, target.node, pipe.name, good)
    for topic in (unread, unwritten):
        assert read_all(target.node, topic) == []


@pytest.mark.parametrize(
    ("operation", "what"), LACKING, ids=lambda value: str(value).split(".")[-1]
)
def test_no_right_of_the_target_is_too_many(
    sites: Sites, tmp_path: Path, operation: AclOperation, what: str
) -> None:
    """Without it the preflight fails, names the right, and granting what it says is the hint."""
    target = sites[1]
    user = lacking(operation, what)
    config = in_process(sites, tmp_path, user)
    grants = target_grants(config.name, *config.topics.names)
    missing = [g for g in grants if g.operation is operation and _kind(g) == what]
    assert missing, "the page grants it"
    for grant in set(grants) - set(missing):
        grant.give(target, user)
    target_topics = state_of(target)["topics"]

    failed = [c for c in _settled(config, failures=True) if c.outcome is CheckOutcome.FAIL]

    assert operation.name.replace("_", "") in _hints(failed).upper()
    assert all(check.fatal for check in failed) == (what != "topic")
    for grant in _reported(failed):
        grant.give(target, user)
    for grant in missing if operation is AclOperation.CREATE else []:
        grant.give(target, user)  # its hint is a word and a command that makes the topic
    assert exit_code(_settled(config, failures=False)) == 0
    assert state_of(target)["topics"] == target_topics, "checking creates nothing"


def in_process(sites: Sites, directory: Path, user: str) -> PipelineConfig:
    source = sites[0]
    topic = filled(source, count=1)
    grant_source(source, USER, topic)
    names = {
        # Control topics of its own, so that they do not exist yet.
        "coordination.commit.topic": unique_name("__k2k_commit"),
        "offsetMapping.topic": unique_name("__k2k_mapping"),
        "coordination.state.topic": unique_name("__k2k_state"),
    }
    return load_checked([pipeline(sites, directory, [topic], (USER, user), **names).write()]).config


def _kind(grant: Grant) -> str:
    if grant.kind is ResourceType.TRANSACTIONAL_ID:
        return "transactional"
    return "control" if grant.name.startswith("__k2k_") else "topic"


def _settled(config: PipelineConfig, *, failures: bool) -> list[Check]:
    """Return the checks once the broker acts by the rights that were granted last."""
    until = time.monotonic() + TIMEOUT
    while True:
        checks = run_checks(config)
        if (exit_code(checks) != 0) == failures or time.monotonic() > until:
            return checks


def _hints(checks: list[Check]) -> str:
    return "\n".join(check.hint for check in checks)


def _reported(checks: list[Check]) -> list[Grant]:
    """Return the grants that the hints say, as an operator would run them."""
    lines = [line for line in _hints(checks).splitlines() if "kafka-acls.sh" in line]
    return [grant for line in lines for grant in read_command(line.replace("(or ", "# "))]


def test_no_right_to_the_transactional_ids(sites: Sites, tmp_path: Path) -> None:
    """Refused before anything is written."""
    source, target = sites
    topic = filled(source)
    names = {"coordination.commit.topic": unique_name("__k2k_commit")}
    pipe = pipeline(sites, tmp_path, [topic], (USER, USER), **names)
    grant_source(source, USER, topic)
    grant_target(target, USER, "another", topic)

    run = pipe.catch_up(code=5)

    said = run.err.read_text()
    assert f"the producer may not use {pipe.name}." in said
    assert f"--operation Write --transactional-id {pipe.name}. --resource-pattern-type" in said
    assert not {topic, names["coordination.commit.topic"]} & state_of(target)["topics"].keys()


@pytest.mark.parametrize("side", ["source", "target"])
def test_a_wrong_password(sites: Sites, tmp_path: Path, side: str) -> None:
    """Every command reports it in the broker's words; ``test_unreachable`` shows: soon."""
    users = {"source": USER, "target": USER}
    wrong = dict(zip(users, sites, strict=True))[side].java(USER, "not-the-password")
    pipe = pipeline(sites, tmp_path, ["any"], (USER, USER), **{f"{side}.kafka.common": wrong})
    file = pipe.write()
    words = f"the {side} cluster rejected the login: "

    def reported(verb: str, *options: str) -> str:
        said = k2ktui(verb, "-f", file, *options)
        assert said.code == 3, said
        assert "not-the-password" not in said.out + said.err
        return said.out + said.err

    verbs: list[Callable[[], str]] = [
        lambda: reported("check"),
        lambda: reported("explain"),
        lambda: reported("start", "--until-caught-up"),
    ]
    if side == "target":  # without the source, status shows what the target knows
        verbs.append(lambda: reported("status"))
    for verb in verbs:
        said = verb()
        assert words in said.replace("consumer: ", "").replace("producer: ", ""), said


def test_the_control_topics_are_those_of_the_pages(tmp_path: Path) -> None:
    """``check``, ``start`` and both pages have one list; metrics only with their exporter."""
    config = Files(tmp_path).over_minimal().config
    specs = control_specs(config, {})
    roles: list[ControlTopic] = ["commit", "offset_mapping", "state", "assignment"]
    assert specs.keys() == {*roles}
    assert ", ".join(f"`{specs[role].name}`" for role in roles) in PAGE.read_text()
    table = (PAGE.parent / "topics.md").read_text().partition("## Control topics")[2]
    keys = {key.partition("`")[0] for key in table.split("\n| `")[1:6]}
    assert keys == set(_KEYS.values())
    assert control_specs(config, {"OTEL_METRICS_EXPORTER": "kafka"}).keys() == _KEYS.keys()


_KEYS: dict[ControlTopic, str] = {
    "commit": "coordination.commit.topic",
    "offset_mapping": "offsetMapping.topic",
    "state": "coordination.state.topic",
    "assignment": "coordination.assignment.topic",
    "metrics": "metrics.kafka.topic",
}


def test_both_directions(sites: Sites, tmp_path: Path) -> None:
    """Reading what the opposite pipeline writes on the source, and nothing else."""
    forth, back = sites, sites[::-1]
    topic = unique_name("both")
    for secure, origin in zip(sites, "ab", strict=True):
        create_topic(secure.node, topic)
        produce(secure.node, topic, [b"%s-%d" % (origin.encode(), n) for n in range(100)])
    pipes = {}
    for user, (source, target) in (("forth", forth), ("back", back)):
        directory = tmp_path / user
        directory.mkdir()
        pipe = pipeline((source, target), directory, [topic], (user, user), **ENABLED)
        grant_source(source, user, topic)
        grant_target(target, user, pipe.name, topic)
        pipes[user] = pipe
    commits, mappings = documented(PAGE, "both directions")
    refused = pipes["forth"].catch_up(code=5).err.read_text()
    assert commits.name in refused and "Read" in refused, refused
    assert read_all(sites[1].node, topic) and len(read_all(sites[1].node, topic)) == 100

    for user, (source, _) in (("forth", forth), ("back", back)):
        commits.give(source, user)
    for user in ("back", "forth"):  # the second one reads what the first one wrote
        pipes[user].catch_up()
    expected = Counter(b"%s-%d" % (origin, n) for origin in (b"a", b"b") for n in range(100))
    for secure in sites:
        assert Counter(got.value for got in read_all(secure.node, topic)) == expected

    def basis() -> str:
        said = k2ktui("translate", "-f", pipes["forth"].write(), f"{topic}:0:50", "--json")
        return str(said.json["positions"][0]["basis"])

    assert basis() == "unmapped"
    mappings.give(forth[0], "forth")
    eventually(lambda: basis() != "unmapped", "the broker acts by the new right")
    checked = k2ktui("check", "-f", pipes["forth"].write())
    assert checked.code == 0, checked


@pytest.mark.rotate("mode", ["exclusive", "shared"])
def test_the_logins_that_copy_are_revoked(sites: Sites, tmp_path: Path, mode: str) -> None:
    """Those of the admin clients work; the run says so at once, and continues with the logins."""
    roles = dict(zip(("source", "target"), sites, strict=True))
    users: dict[str, Any] = {}
    for side, secure in roles.items():
        secure.allow_all(KEEPS, LOSES)
        role = "consumer" if side == "source" else "producer"
        users[f"{side}.kafka.common"] = with_plain(secure.java(KEEPS))
        users[f"{side}.kafka.{role}"] = secure.java(LOSES)
    topic = filled(sites[0], partitions=1, count=1)
    pipe = pipeline(sites, tmp_path, [topic], (KEEPS, KEEPS), **users)
    pipe.mode = mode
    with pipe.start() as run:
        run.expect("firstrecord")
        for side, secure in roles.items():
            reported = run.reported
            revoke(secure)
            fault = expect_refused(run, side, reported)
            assert "sasl.jaas.config" in fault["hint"]
            assert not [e for e in run.events("note") if DISCOVERY_REFUSED in e["text"]]
            if side == "source":  # heartbeats need the target's login
                file = pipe.write()
                eventually(lambda: is_serious(file, "rejected the login"), "watch says so")  # noqa: B023
            reported = run.reported
            create_scram_users(secure.node, {LOSES: secure.passwords[LOSES]})
            pipe.await_more([Out(b"after")])
            run.expect("resumed", since=reported)
        pipe.end(run)
    pipe.prove()


def expect_refused(run: Run, side: str, since: int) -> Any:
    """Return the fault of a login that is refused; a restart may be one, too."""
    words = f"the {side} cluster rejected the login"
    return run.expect("stopped", lambda e: words in e["fault"]["message"], since=since)["fault"]


DISCOVERY_REFUSED = "new topics: the source cluster rejected the login"


def with_plain(client: dict[str, str]) -> dict[str, str]:
    """A login of the broker's own file, which nothing that happens to SCRAM credentials changes."""
    login = client["sasl.jaas.config"].replace("scram.ScramLogin", "plain.PlainLogin")
    return {**client, "sasl.mechanism": "PLAIN", "sasl.jaas.config": login}


def revoke(secure: SecureNode) -> None:
    """Delete the login of a user, and close all connections."""
    delete = UserScramCredentialDeletion(LOSES, ScramMechanism.SCRAM_SHA_512)
    asking = admin(secure.node)
    for future in asking.alter_user_scram_credentials([delete]).values():
        future.result(TIMEOUT)
    secure.node.restart()
