"""The preflight against real clusters: what passes, what fails with its hint, what is unknown."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AclOperation, ResourcePatternType, ResourceType

from k2ktui.cli.check import check as check_verb
from k2ktui.cli.check import check_text
from k2ktui.cli.check import explain as explain_verb
from k2ktui.config.model import PipelineConfig
from k2ktui.errors import ExitCode
from k2ktui.kafka.clients import Cluster
from k2ktui.kafka.control.specs import control_specs
from k2ktui.kafka.control.topics import ensure_control_topics, ensure_state_topic
from k2ktui.replication.preflight import clusters
from k2ktui.replication.preflight.checks import Check, CheckOutcome, exit_code
from k2ktui.replication.preflight.suite import run_checks
from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.kafka import TIMEOUT, admin, create_topic, unique_name
from tests.support.clusters.secure import SecureNode, make_authority
from tests.support.commands.in_process import invoke
from tests.support.commands.waiting import seconds_waited
from tests.support.pipelines.copied import Copied, only
from tests.support.pipelines.modes import in_mode
from tests.support.pipelines.preflight import named, pipeline, plain

CLOSED = "127.0.0.1:1"
TOPIC_OPERATIONS = (AclOperation.READ, AclOperation.DESCRIBE)


def as_user(secure: SecureNode, user: str) -> dict[str, Any]:
    login = f'username="{user}" password="{secure.passwords[user]}"'
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    return {
        "kafka": {
            "common": {
                "bootstrap.servers": secure.bootstrap,
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": "SCRAM-SHA-512",
                "sasl.jaas.config": f"{module} required {login};",
                "ssl.truststore.type": "PEM",
                "ssl.truststore.location": str(secure.authority.ca_path),
            }
        }
    }


def failures(checks: list[Check]) -> list[str]:
    return [check.name for check in checks if check.outcome is CheckOutcome.FAIL]


def topic_names(node: KafkaNode) -> set[str]:
    # Kafka's own topics come and go with use; ours and the operator's must not.
    return {name for name in admin(node).list_topics(timeout=TIMEOUT).topics if name[:2] != "__"}


def test_all_is_well_and_nothing_is_changed(source: KafkaNode, target: KafkaNode) -> None:
    topic = create_topic(source, partitions=3)
    before = topic_names(source), topic_names(target)

    checks = run_checks(pipeline(source, target, topic))

    assert failures(checks) == []
    assert [check.name for check in checks if check.outcome is CheckOutcome.UNKNOWN] == []
    assert exit_code(checks) is ExitCode.OK
    assert (topic_names(source), topic_names(target)) == before
    assert source.cluster_id in named(checks, "source cluster").detail
    assert "Kafka 4." in named(checks, "target version").detail
    assert named(checks, "source topics").detail == "1 topic, 3 partitions"
    assert named(checks, "target topics").detail == "1 topic as required, 1 of them to be created"
    assert "this machine's" in named(checks, "target clock").detail
    assert not any(check.hint for check in checks)


def test_the_same_cluster_twice(source: KafkaNode) -> None:
    topic = create_topic(source)
    checks = run_checks(pipeline(source, source, topic))

    assert named(checks, "cluster identity").outcome is CheckOutcome.FAIL
    assert named(checks, "cluster identity").fatal
    assert exit_code(checks) is ExitCode.REFUSED


def test_a_fault_of_the_program_in_a_check_is_a_failed_check(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def broken(label: str, bootstrap: str) -> None:
        raise ValueError(label)

    monkeypatch.setattr(clusters, "await_open", broken)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))

    checks = run_checks(pipeline(plain(CLOSED), plain(CLOSED), "t"))

    for side in ("source cluster", "target cluster"):
        result = named(checks, side)
        assert result.outcome is CheckOutcome.FAIL and result.fatal
        assert "internal error in k2ktui (ValueError)" in result.detail
        assert re.search(r"crash-.*\.txt", result.hint)
    assert exit_code(checks) is ExitCode.REFUSED


@pytest.mark.slow
def test_a_cluster_that_does_not_answer(source: KafkaNode) -> None:
    checks: list[Check] = []

    def run() -> None:
        checks[:] = run_checks(pipeline(source, plain(CLOSED), "t"))

    assert seconds_waited(run, 25) < 25
    assert exit_code(checks) is ExitCode.CONNECTION
    assert named(checks, "source cluster").outcome is CheckOutcome.PASS
    assert "connection refused" in named(checks, "target cluster").detail
    assert checks[-1].outcome is CheckOutcome.UNKNOWN
    assert "the target cluster did not respond" in checks[-1].detail


def test_a_login_that_is_refused(secure: SecureNode, target: KafkaNode) -> None:
    side = as_user(secure, "reader")
    common = side["kafka"]["common"]
    common["sasl.jaas.config"] = common["sasl.jaas.config"].replace("reader-3cr3t", "wrong")

    checks = run_checks(pipeline(side, target, "t"))

    assert exit_code(checks) is ExitCode.CONNECTION
    result = named(checks, "source cluster")
    assert "rejected the login: " in result.detail and "sasl.jaas.config" in result.hint
    assert "wrong" not in "".join(check.detail + check.hint for check in checks)


def test_a_certificate_that_is_not_trusted(
    secure: SecureNode, target: KafkaNode, tmp_path: Path
) -> None:
    side = as_user(secure, "reader")
    stranger = make_authority(tmp_path)
    side["kafka"]["common"]["ssl.truststore.location"] = str(stranger.ca_path)

    checks = run_checks(pipeline(side, target, "t"))

    result = named(checks, "source cluster")
    assert "not trusted" in result.detail and "ssl.truststore" in result.hint


@pytest.mark.slow
def test_the_wrong_security_protocol(secure: SecureNode, target: KafkaNode) -> None:
    with_tls = as_user(secure, "reader")
    with_tls["kafka"]["common"]["bootstrap.servers"] = target.bootstrap

    checks = run_checks(pipeline(plain(secure.bootstrap), with_tls, "t"))

    for side in ("source cluster", "target cluster"):
        assert "security.protocol" in named(checks, side).hint


def test_describe_and_read_is_enough_on_the_source(secure: SecureNode, target: KafkaNode) -> None:
    stem = unique_name("whole")
    topic = create_topic(secure.node, f"{stem}-a", partitions=2)
    secure.allow("reader", TOPIC_OPERATIONS, topic)
    create_topic(secure.node, f"{stem}-b")  # not visible, and not missed

    whole = {"source": {"topic": f"{stem}-.*"}}  # other tests let the reader see other topics
    checks = run_checks(pipeline(as_user(secure, "reader"), target, replication=whole))

    assert failures(checks) == []
    assert exit_code(checks) is ExitCode.OK
    assert named(checks, "source consumer rights").outcome is CheckOutcome.PASS
    assert named(checks, "source admin rights").outcome is CheckOutcome.PASS
    assert named(checks, "source topics").detail == "1 topic, 2 partitions"
    assert named(checks, "target topics").detail == "1 topic as required, 1 of them to be created"
    for blind in ("source clock", "target settings"):
        assert named(checks, blind).outcome is CheckOutcome.UNKNOWN
        assert named(checks, blind).hint == "", "no more rights may be asked for on the source"


def test_missing_rights_are_named_with_the_grant(secure: SecureNode, source: KafkaNode) -> None:
    topic = create_topic(source)
    config = pipeline(source, as_user(secure, "stranger"), topic)

    checks = run_checks(config)

    hint = named(checks, "target producer rights").hint
    assert f"--bootstrap-server {secure.bootstrap} --add" in hint and "--operation Write" in hint
    ids = named(checks, "target transactional ids")
    assert f"--transactional-id {config.name}. --resource-pattern-type prefixed" in ids.hint
    assert ids.fatal
    assert exit_code(checks) is ExitCode.REFUSED
    assert topic not in topic_names(secure.node)


def test_granted_rights_pass_on_the_target(secure: SecureNode, source: KafkaNode) -> None:
    topic = create_topic(source)
    config = pipeline(source, as_user(secure, "writer"), topic)
    full = (AclOperation.READ, AclOperation.WRITE, AclOperation.CREATE)
    settings = (AclOperation.DESCRIBE_CONFIGS,)
    for name in (topic, *(spec.name for spec in control_specs(config, {}).values())):
        secure.allow("writer", full + settings, name)
    secure.allow(
        "writer",
        [AclOperation.WRITE],
        f"{config.name}.",
        ResourceType.TRANSACTIONAL_ID,
        ResourcePatternType.PREFIXED,
    )

    checks = run_checks(config)

    assert failures(checks) == []
    assert named(checks, "target transactional ids").outcome is CheckOutcome.PASS
    assert topic not in topic_names(secure.node)


@pytest.mark.parametrize("mode", ["exclusive", "standby", "shared"])
def test_literal_transactional_ids_are_those_of_the_mode(
    secure: SecureNode, source: KafkaNode, mode: str
) -> None:
    """Rules without a pattern, as some platforms have them only."""
    topic = create_topic(source)
    more = {"coordination": {"mode": mode}, "spark": {"slots": 2}}
    config = pipeline(source, as_user(secure, "writer"), topic, **more)
    group = config.coordination.commit.group
    owners = [group, f"{group}.slot-0", f"{group}.slot-1"] if mode == "shared" else [group]
    slots = ["0"] if mode == "shared" else ["0", "1"]
    ids = [f"{owner}.{end}" for owner in owners for end in ("driver", "state", *slots)]

    def allow(name: str) -> None:
        secure.allow("writer", [AclOperation.WRITE], name, ResourceType.TRANSACTIONAL_ID)

    for name in ids[:-1]:
        allow(name)
    check = named(run_checks(config), "target transactional ids")
    assert check.outcome is CheckOutcome.FAIL and check.fatal
    assert check.detail == f"the producer may not use {ids[-1]}"
    allow(ids[-1])
    spare = f"{group}.slot-0.1" if mode == "shared" else f"{group}.2"
    check = named(run_checks(config), "target transactional ids")
    assert check.outcome is CheckOutcome.WARN and f"may not use {spare}, a spare" in check.detail
    allow(spare)
    check = named(run_checks(config), "target transactional ids")
    assert check.outcome is CheckOutcome.PASS, check


def test_a_topic_that_may_not_be_read(secure: SecureNode, target: KafkaNode) -> None:
    topic = create_topic(secure.node)
    secure.allow("stranger", [AclOperation.DESCRIBE], topic)

    checks = run_checks(pipeline(as_user(secure, "stranger"), target, topic))

    rights = named(checks, "source consumer rights")
    assert rights.outcome is CheckOutcome.FAIL and topic in rights.detail
    assert "--operation Read" in rights.hint
    assert named(checks, "source admin rights").outcome is CheckOutcome.PASS


def test_no_right_is_needed_on_topics_that_have_moved(
    secure: SecureNode, target: KafkaNode, tmp_path: Path
) -> None:
    copied = Copied(tmp_path, secure.node, target)
    moves, stays = create_topic(secure.node), create_topic(secure.node)
    secure.allow("reader", TOPIC_OPERATIONS, stays)
    copied.settings = {**only(moves, stays), "source": as_user(secure, "reader")}

    rights = named(run_checks(copied.config), "source consumer rights")
    assert rights.outcome is CheckOutcome.FAIL and moves in rights.detail

    copied.move(moves)
    checks = run_checks(copied.config)
    for name in ("source consumer rights", "source admin rights", "source topics"):
        assert named(checks, name).outcome is CheckOutcome.PASS

    copied.move(stays)
    checks = run_checks(copied.config)
    assert "source consumer rights" not in {check.name for check in checks}
    assert named(checks, "source topics").detail.startswith("every topic was moved")


def test_target_topics_that_would_change_records(source: KafkaNode, target: KafkaNode) -> None:
    future = "message.timestamp.after.max.ms"
    topic = create_topic(source, config={"max.message.bytes": "3000000", future: "604800000"})
    bad = {"message.timestamp.type": "LogAppendTime", "cleanup.policy": "compact"}
    create_topic(target, topic, config=bad)
    narrow = create_topic(source, partitions=2)
    create_topic(target, narrow)

    checks = run_checks(pipeline(source, target, topic, narrow))

    topic_checks = [check for check in checks if check.name == f"target topic {topic}"]
    details = " ".join(check.detail for check in topic_checks)
    for part in (
        "LogAppendTime",
        "max.message.bytes is 1,048,588, and 3,000,000",
        f"{future} is 3,600,000, and 604,800,000 on the source",
        "compact",
    ):
        assert part in details
    hints = " ".join(check.hint for check in topic_checks)
    assert f"--entity-name {topic} --alter --add-config max.message.bytes=3000000" in hints
    assert f"--add-config {future}=604800000" in hints
    assert named(checks, f"topic {narrow}").outcome is CheckOutcome.FAIL
    assert not any(check.fatal for check in checks)
    assert exit_code(checks) is ExitCode.REFUSED


def test_control_topics_missing_and_wrong(source: KafkaNode, target: KafkaNode) -> None:
    topic = create_topic(source)
    config = pipeline(source, target, topic, features={})
    create_topic(target, config.offset_mapping.topic, config={"cleanup.policy": "compact"})

    checks = run_checks(config)

    commit = named(checks, f"control topic {config.coordination.commit.topic}")
    assert "autoCreateControlTopics" in commit.detail and "kafka-topics.sh" in commit.hint
    mapping = named(checks, f"control topic {config.offset_mapping.topic}")
    assert "cleanup.policy=delete" in mapping.hint
    assert commit.fatal and mapping.fatal


def test_topics_made_with_the_commands_of_the_check_are_enough(
    source: KafkaNode, target: KafkaNode
) -> None:
    """By hand, where no program may create topics."""
    topic = create_topic(source)
    config = pipeline(source, target, topic, features={})
    create_topic(target, topic)
    missing = [check for check in run_checks(config) if check.outcome is CheckOutcome.FAIL]
    assert len(missing) == 4 and all(check.fatal for check in missing)
    for check in missing:
        words = shlex.split(check.hint.partition("create it: ")[2])
        assert words[0] == "kafka-topics.sh"
        after = {word: words[n + 1] for n, word in enumerate(words[:-1])}
        pairs = [words[n + 1] for n, word in enumerate(words) if word == "--config"]
        settings = dict(pair.split("=") for pair in pairs)
        create_topic(target, after["--topic"], int(after["--partitions"]), settings)
    assert exit_code(run_checks(config)) is ExitCode.OK
    cluster = Cluster(config.target, "target")
    assert ensure_control_topics(config, cluster, {}).created == ()
    assert ensure_state_topic(config, cluster) == 1


def test_a_run_alone_does_not_need_the_state_topic(source: KafkaNode, target: KafkaNode) -> None:
    config = in_mode(pipeline(source, target, create_topic(source), features={}), "exclusive")
    state = named(run_checks(config), f"control topic {config.coordination.state.topic}")
    assert state.outcome is CheckOutcome.WARN and not state.fatal
    assert f"--create --topic {config.coordination.state.topic}" in state.hint


def test_listed_topics_that_are_missing(source: KafkaNode, target: KafkaNode) -> None:
    name = unique_name("missing")
    checks = run_checks(pipeline(source, target, name))
    assert name in named(checks, "source topics").detail
    assert named(checks, "source topics").outcome is CheckOutcome.FAIL


def test_no_topic_matches_yet(source: KafkaNode, target: KafkaNode) -> None:
    rule = {"source": {"topic": unique_name("later") + ".*"}}
    checks = run_checks(pipeline(source, target, replication=rule))
    assert named(checks, "source topics").outcome is CheckOutcome.UNKNOWN
    assert exit_code(checks) is ExitCode.OK


def yaml_file(directory: Path, config: PipelineConfig) -> str:
    """Write what matters of a pipeline as its file; JSON is YAML."""
    shown = {
        "name": config.name,
        "source": plain(config.source.bootstrap_servers),
        "target": plain(config.target.bootstrap_servers),
        "coordination": {"commit": {"topic": config.coordination.commit.topic}},
        "offsetMapping": {"topic": config.offset_mapping.topic},
        "features": {"autoCreateControlTopics": "enabled"},
        "replication": [
            {"source": {"topic": list(config.topics.names)}},
            {"sink": {"topic": {"prefix": "copy."}}},
        ],
    }
    path = directory / "pipeline.yaml"
    path.write_text(json.dumps(shown))
    return str(path)


def test_the_check_verb(source: KafkaNode, target: KafkaNode, tmp_path: Path) -> None:
    file = yaml_file(tmp_path, pipeline(source, target, create_topic(source)))

    result = invoke(check_verb, "-f", file, "--json")
    shown = json.loads(result.stdout)
    assert result.code == shown["exit_code"] == 0
    assert {"name", "outcome", "detail", "hint"} <= shown["checks"][0].keys()

    result = invoke(check_verb, "-f", file)
    assert "✓ pass  source cluster:" in result.stdout
    assert "0 failed, 0 could not be checked" in result.stdout


def test_the_check_verb_fails(source: KafkaNode, tmp_path: Path) -> None:
    file = yaml_file(tmp_path, pipeline(source, source, create_topic(source)))
    result = invoke(check_verb, "-f", file)
    assert result.code == ExitCode.REFUSED
    assert "✗ FAIL  cluster identity:" in result.stdout
    assert "Correct bootstrap.servers" in result.stdout


def test_hostile_text_does_not_reach_the_terminal() -> None:
    check = Check("topic", CheckOutcome.FAIL, "a\x1b[2Jb\u202ec", "first\nsec\x07ond")
    text = check_text(check)
    assert "\x1b[2J" not in text and "\u202e" not in text and "\x07" not in text
    assert "\n      Fix: first\n      sec" in text


def test_the_explain_verb(source: KafkaNode, target: KafkaNode, tmp_path: Path) -> None:
    topic, internal = create_topic(source), "__consumer_offsets"
    missing = unique_name("missing")
    file = yaml_file(tmp_path, pipeline(source, target, topic, internal, missing))

    result = invoke(explain_verb, "-f", file, "--json")

    rows = {row["topic"]: row for row in json.loads(result.stdout)["topics"]}
    assert set(rows) == {topic, internal, missing}
    assert rows[topic]["target"] == f"copy.{topic}" and rows[topic]["path"] == "verbatim"
    assert "will be created with 1 partition" in rows[topic]["reason"]
    assert rows[missing]["path"] is None and "cannot be described" in rows[missing]["reason"]
    assert rows[internal]["path"] is None

    result = invoke(explain_verb, "-f", file)
    assert "verbatim" in result.stdout and "refused" in result.stdout
    assert f"copy.{topic}" not in topic_names(target)
