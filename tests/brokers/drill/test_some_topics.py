"""Drills over some topics of a pipeline, which goes on with the others."""

from __future__ import annotations

import shlex
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Producer
from confluent_kafka.admin import AclOperation
from kafka import KafkaConsumer

from k2ktui.drill.kept_fences import list_kept_fences
from k2ktui.drill.operations import abort_drill, find_released, release_moved, resume_drill
from k2ktui.drill.ownership import Actor
from k2ktui.engine.acl import DENY, EVERYONE, LITERAL, TOPIC, Acl
from k2ktui.engine.drill.checks import DrillCheckOutcome, DrillKind, DrillPhase
from k2ktui.engine.drill.model import (
    Change,
    ChangeKind,
    ChangeStatus,
    Drill,
    DrillStatus,
    Fence,
    PhaseStatus,
)
from k2ktui.engine.drill.topics import TOPICS_STEP
from k2ktui.errors import ConfigError, Refused
from k2ktui.kafka.admin.acls import allow_writes, denied_topics, read_acls
from k2ktui.kafka.clients import source_cluster, target_cluster
from k2ktui.kafka.properties.translation import wire
from k2ktui.replication.ownership.pipeline import make_ownership
from k2ktui.replication.ownership.topic_moves import read_moved
from k2ktui.runtime import artifacts
from k2ktui.runtime.java import find_java
from k2ktui.runtime.node import KafkaNode
from k2ktui.sync.drill.guard import refuse_fenced
from tests.support.clusters.kafka import (
    TIMEOUT,
    Out,
    admin,
    await_stable,
    client,
    eventually,
    produce,
)
from tests.support.clusters.secure import SecureNode
from tests.support.commands.cli import k2ktui, k2ktui_json
from tests.support.drill.hooks import hook, sh
from tests.support.drill.runs import (
    MAY,
    QUICK,
    Leaves,
    Left,
    Pair,
    Yes,
    check_of,
    kill_at,
)
from tests.support.oracle.group_offsets import commit_offsets


@pytest.fixture
def pair(tmp_path: Path, source: KafkaNode, target: KafkaNode) -> Pair:
    """Four topics; ``billing`` reads all of them, ``search`` the first two."""
    return Pair(tmp_path, source, target, letters="abcd", read=("abcd", "ab"))


def over(pair: Pair, letters: str, **options: object) -> object:
    return replace(QUICK, topics=pair.some(letters), **options)  # type: ignore[arg-type]


def move(pair: Pair, letters: str, operator: Yes | None = None, **options: object) -> Drill:
    return pair.start(DrillKind.PLANNED, over(pair, letters, **options), operator)  # type: ignore[arg-type]


def moved(pair: Pair) -> dict[str, str]:
    """Return the drill of each moved topic, by its letter."""
    config = pair.flow.config
    await_stable(pair.target, pair.copied.commits)
    return {m.topic[-1]: m.drill for m in read_moved(config, target_cluster(config)).all}


def expected(pair: Pair, number: int, letters: str) -> dict[tuple[str, int], int | None]:
    """Return where a group is on the target when these topics have moved."""
    offsets = pair.expected_offsets(number)
    every = {(topic, partition) for topic in pair.topics for partition in range(2)}
    return {at: offsets.get(at) if at[0][-1] in letters else None for at in every}


@contextmanager
def reading(pair: Pair, node: KafkaNode, group: str, letters: str) -> Iterator[None]:
    """A member that reads topics and commits nothing."""
    consumer = Consumer(
        client(node, group_id=group, auto_offset_reset="latest", enable_auto_commit=False)
    )
    consumer.subscribe([topic for topic in pair.topics if topic[-1] in letters])
    ended = threading.Event()

    def poll() -> None:
        while not ended.is_set():
            consumer.poll(0.1)

    thread = threading.Thread(target=poll, daemon=True)
    thread.start()
    try:
        eventually(lambda: _has_partitions(node, group), "it has partitions")
        yield
    finally:
        ended.set()
        thread.join(TIMEOUT)
        consumer.close()


def _has_partitions(node: KafkaNode, group: str) -> bool:
    with_admin = admin(node)  # kept until the answer is there
    (described,) = with_admin.describe_consumer_groups([group]).values()
    members = described.result(TIMEOUT).members
    return any(member.assignment.topic_partitions for member in members)


def test_a_rehearsal_tries_only_the_chosen_topics(pair: Pair) -> None:
    produce(pair.source, pair.topics[3], [Out(b"late", b"k", 0)] * 9)
    drill = pair.start(DrillKind.REHEARSE, over(pair, "ab"))  # type: ignore[arg-type]
    assert drill.status is DrillStatus.DONE
    assert [topic[-1] for topic in drill.topics] == ["a", "b"]
    assert drill.figures.rpo_records == 0  # what the others lack is not theirs
    results = {group.group: group for group in drill.groups}
    assert [results[group].partitions for group in pair.groups] == [4, 4]
    assert all(result.compared and not result.different for result in results.values())
    billing = pair.groups[0]
    assert (
        f"Groups that read other topics, too: {billing} (also"
        in drill.record(DrillPhase.PREFLIGHT).live
    )
    assert moved(pair) == {}


@pytest.mark.slow
def test_topics_move_two_by_two_and_are_released_one_by_one(pair: Pair, target: KafkaNode) -> None:
    billing, search = pair.groups
    operator = Yes()
    drill = move(pair, "ab", operator)
    assert drill.status is DrillStatus.DONE, drill
    assert {phase.status for phase in drill.phases} == {PhaseStatus.DONE}
    asked = dict(operator.asked)
    assert list(asked) == [
        TOPICS_STEP,
        DrillPhase.APPLY,
        DrillPhase.MOVE_TOPICS,
        DrillPhase.OPEN_TARGET,
    ]
    assert "The pipeline goes on with 2 other topics." in asked[TOPICS_STEP]
    assert "the other topics stop for seconds" in asked[TOPICS_STEP]
    assert f"Groups that read other topics, too: {billing} (also" in asked[TOPICS_STEP]
    assert asked[TOPICS_STEP].count(search) == 1, "only as a group of these topics"
    assert "commit 8 offsets of 2 groups" in asked[DrillPhase.APPLY]
    for number, group in enumerate(pair.groups):
        assert pair.target_offsets(group) == expected(pair, number, "ab")
    assert moved(pair) == {"a": drill.id, "b": drill.id}
    assert check_of(drill, "D50").outcome is DrillCheckOutcome.PASS
    assert drill.figures.topics_left == 2

    config, cluster = pair.flow.config, target_cluster(pair.flow.config)
    refuse_fenced(config, cluster)
    later = make_ownership(
        config,
        cluster,
        wire(config.target, "producer"),
        1,
        guard=lambda named: refuse_fenced(config, cluster, named),
    )
    later.take_over(1)
    later.close()
    assert k2ktui_json("status", "-f", pair.file)["pair_state"]["phase"] == "replicating"

    with pytest.raises(Refused, match=rf"1 topic moved already: .*-b \(drill {drill.id}\)"):
        move(pair, "bc")
    with pytest.raises(Refused, match="2 topics of the pipeline moved already"):
        pair.start(DrillKind.PLANNED)

    # A group that runs on the target is waited for.
    waits = f"1 group with members on the target: {billing}"
    with reading(pair, target, billing, "a"):
        operator = Leaves(phase=DrillPhase.APPLY, text=waits)
        with pytest.raises(Left):
            move(pair, "cd", operator)
        said = dict(operator.asked)[TOPICS_STEP]
        assert f"Groups that run on the target already: {billing}: stop them there" in said
    last = next(drill for drill in pair.drills() if not drill.is_over)
    last = resume_drill(Actor(pair.flow, [str(pair.file)], MAY, Yes()), last.id)
    assert last.status is DrillStatus.DONE, last
    for number, group in enumerate(pair.groups):
        assert pair.target_offsets(group) == expected(pair, number, "abcd")
    assert last.figures.topics_left == 0
    said = k2ktui("drill", "report", last.id, "-f", pair.file).stdout
    assert "every topic of the pipeline has moved: it can be retired" in said
    listed = k2ktui_json("drill", "list", "-f", pair.file)["drills"]
    assert [len(row["topics"]) for row in listed] == [2, 2]
    release_one_by_one(pair, drill.id, {"c": last.id, "d": last.id})
    assert move(pair, "ab").status is DrillStatus.DONE, "they were copied again"


def release_one_by_one(pair: Pair, drill_id: str, others: dict[str, str]) -> None:
    """Release the first two topics, which a drill has moved; other drills have moved others."""
    arguments = "drill", "release", "-f", pair.file
    assert "is required, and not both" in k2ktui(*arguments, code=2).stderr
    none = k2ktui(*arguments, "--topics", "no-such-topic", "--yes", code=2).stderr
    assert "no moved topic matches" in none
    released = k2ktui_json(*arguments, "--topics", pair.topics[0], "--yes")
    assert (released["topics"], released["drills"]) == ([pair.topics[0]], [drill_id])
    assert moved(pair) == {"b": drill_id} | others

    def change() -> Change:
        (drill,) = [drill for drill in pair.drills() if drill.id == drill_id]
        (found,) = [c for c in drill.changes if c.kind is ChangeKind.MOVED_TOPICS]
        return found

    assert change().status is ChangeStatus.MADE
    said = k2ktui(*arguments, "--topics", pair.topics[1], "--yes").stderr
    assert f"moved by drill {drill_id}" in said and "copies" in said
    assert moved(pair) == others
    assert change().status is ChangeStatus.UNDONE
    k2ktui("drill", "report", drill_id, "-f", pair.file, "--verify")
    assert "copied again" in k2ktui("drill", "report", drill_id, "-f", pair.file).stdout


@pytest.mark.slow
def test_what_is_chosen_is_refused_before_anything_begins(pair: Pair) -> None:
    for pattern, why in ((".*", "matches all of the pipeline's topics"), ("x", "no topic matches")):
        with pytest.raises(ConfigError, match=why):
            pair.start(DrillKind.PLANNED, replace(QUICK, topics=pattern))
    with pytest.raises(Refused, match="the topics were not confirmed"):
        move(pair, "ab", Yes(frozenset({TOPICS_STEP})))
    arguments = "drill", "planned", "-f", pair.file, "--topics"
    said = k2ktui(*arguments, pair.some("ab"), code=5).stderr
    assert "--yes-to topics" in said and "No drill was begun" in said
    assert "--topics is empty" in k2ktui(*arguments, "", code=2).stderr
    shown = k2ktui_json(*arguments, pair.some("ab"), "--dry-run")
    assert [topic[-1] for topic in shown["topics"]] == ["a", "b"]
    assert "move-topics" in {row["phase"] for row in shown["phases"]}
    assert pair.drills() == []


@contextmanager
def reading_unseen(node: KafkaNode, group: str, topic: str) -> Iterator[None]:
    """A member such as those of Kafka Connect: its brokers do not know what it reads."""
    consumer = KafkaConsumer(
        topic, bootstrap_servers=node.bootstrap, group_id=group, enable_auto_commit=False
    )
    consumer._coordinator.protocol_type = lambda: "connect"  # noqa: SLF001
    ended = threading.Event()

    def poll() -> None:
        while not ended.is_set():
            consumer.poll(100)

    thread = threading.Thread(target=poll, daemon=True)
    thread.start()
    try:
        eventually(consumer.assignment, "it has partitions")
        yield
    finally:
        ended.set()
        thread.join(TIMEOUT)
        consumer.close()


@pytest.mark.slow
def test_members_may_go_on_with_other_topics_of_the_source(pair: Pair, source: KafkaNode) -> None:
    """Where brokers do not say what a member reads, a person does."""
    billing, search = pair.groups
    with reading(pair, source, billing, "cd"):
        with reading(pair, source, search, "bc"):
            text = f"1 group on these topics: {search}"
            with pytest.raises(Left):
                move(pair, "ab", Leaves(phase=DrillPhase.STOP_CONSUMERS, text=text))
        (drill,) = pair.drills()
        with reading_unseen(source, search, pair.topics[2]):
            who = "a person must say that these groups have left"
            with pytest.raises(Refused, match=who) as no:
                resume_drill(Actor(pair.flow, [str(pair.file)], MAY, Yes()), drill.id)
            assert search in no.value.message and billing not in no.value.message
            (drill,) = pair.drills()
            assert drill.record(DrillPhase.STOP_CONSUMERS).status is not PhaseStatus.DONE
            person = Yes(is_person=True)
            done = resume_drill(Actor(pair.flow, [str(pair.file)], MAY, person), drill.id)
            assert done.status is DrillStatus.DONE, done
    (lines,) = (lines for lines in person.shown_lines if "Brokers do not say" in lines[0])
    assert f"  {search}" in lines and f"  {billing}" not in lines
    live = done.record(DrillPhase.STOP_CONSUMERS).live
    assert live.startswith("no member of 2 groups reads these topics"), live
    assert f"by the operator's word: {search}" in live
    assert pair.target_offsets(billing) == expected(pair, 0, "ab")


def try_to_write(secure: SecureNode, topic: str) -> KafkaError | None:
    """Write one record as an application does; return why it was refused."""
    errors: list[KafkaError | None] = []
    producer = Producer(secure.client("writer"))
    producer.produce(topic, b"late", on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(TIMEOUT) == 0
    return errors[0]


def run_kafka_acls(command: str) -> None:
    """Run a command of ``kafka-acls.sh`` with Kafka's own program, without its question."""
    script, *words = shlex.split(command)
    assert script == "kafka-acls.sh"
    jars = artifacts.classpath(f"org.apache.kafka:kafka-tools:{artifacts.KAFKA_VERSION}").argument
    java = [str(find_java().executable), "-cp", jars, "org.apache.kafka.tools.AclCommand"]
    subprocess.run([*java, *words, "--force"], check=True, timeout=TIMEOUT, capture_output=True)


@pytest.mark.slow
def test_access_rules_keep_producers_from_these_topics_only(
    tmp_path: Path, secure: SecureNode, target: KafkaNode
) -> None:
    pair = Pair(tmp_path, secure.node, target, letters="abc", read=("abc", "ab"))
    for topic in pair.topics:
        secure.allow("writer", [AclOperation.WRITE], topic)
    cluster = source_cluster(pair.flow.config)
    before = read_acls(cluster)
    fence = {
        Acl(TOPIC, topic, LITERAL, EVERYONE, "*", "WRITE", DENY)
        for topic in pair.topics
        if topic[-1] in "ab"
    }
    first, _, other = pair.topics
    try:
        with pytest.raises(Refused, match="apply was not confirmed"):
            move(pair, "ab", Yes(frozenset({DrillPhase.APPLY})), fence=Fence.ACL)
        eventually(lambda: read_acls(cluster) - before == fence, "one literal rule for each topic")
        eventually(lambda: try_to_write(secure, first) is not None, "it is refused")
        assert try_to_write(secure, other) is None, "the others are written to"

        (drill,) = pair.drills()
        aborted = abort_drill(Actor(pair.flow, [str(pair.file)], MAY, Yes()), drill.id)
        assert {change.status for change in aborted.changes} == {ChangeStatus.UNDONE}
        eventually(lambda: read_acls(cluster) == before, "the rules are as before")

        done = move(pair, "ab", fence=Fence.ACL)
        assert done.status is DrillStatus.DONE, done
        assert read_acls(cluster) - before == fence, "nobody writes to them on the source again"
        assert list_kept_fences(pair.flow, [], [first], unrecorded=[first, other])[0].startswith(
            "1 topic of the source stays denied"
        ), "also if the drill's record is lost"
        release = "drill", "release", "-f", pair.file, "--yes", "--topics"
        shown = k2ktui_json(*release, first)
        assert "1 topic of the source stay" in shown["notes"][0] and first in shown["notes"][0]
        said = k2ktui(*release, pair.topics[1]).stderr
        (command,) = (line for line in said.splitlines() if "kafka-acls.sh" in line)
        run_kafka_acls(command)
        left = {rule for rule in fence if rule.name == first}
        eventually(lambda: read_acls(cluster) - before == left, "its rule is gone")
        eventually(lambda: try_to_write(secure, pair.topics[1]) is None, "producers may return")
        events = k2ktui_json("drill", "report", done.id, "-f", pair.file)["events"]
        assert command.strip() in {event["text"] for event in events}
    finally:
        allow_writes(cluster, pair.topics)
        eventually(lambda: not denied_topics(cluster, pair.topics), "no rule is left")


@pytest.mark.slow
def test_hooks_get_the_topics_also_in_a_private_file(
    tmp_path: Path, source: KafkaNode, target: KafkaNode
) -> None:
    said, file = tmp_path / "topics", '"$K2KTUI_DRILL_TOPICS_FILE"'
    script = sh(
        f"env | grep ^K2KTUI_DRILL_TOPICS= > {said}; "
        f"test -z {file} || {{ cat {file} > got; stat -c '%a %n' {file} >> got; }}"
    )
    hooks = {"drill": {"hooks": [hook("before", "stop-consumers", script)]}}
    pair = Pair(tmp_path, source, target, hooks, letters="abc", read=("abc", "ab"))
    variable = f"K2KTUI_DRILL_TOPICS={','.join(pair.topics[:2])}\n"
    for options, expected_line in ((over(pair, "ab"), variable), (QUICK, "")):
        with pytest.raises(Refused, match="apply was not confirmed"):
            refuses = Yes(frozenset({DrillPhase.APPLY}))
            pair.start(DrillKind.PLANNED, options, refuses)  # type: ignore[arg-type]
        assert said.read_text() == expected_line
        drill = next(drill for drill in pair.drills() if not drill.is_over)
        abort_drill(Actor(pair.flow, [str(pair.file)], MAY, Yes()), drill.id)
    *names, described = (tmp_path / "got").read_text().splitlines()
    assert names == pair.topics[:2]
    mode, path = described.split(" ")
    assert mode == "600" and not Path(path).parent.exists()


@pytest.mark.slow
def test_a_member_that_returns_keeps_the_target_closed_and_an_abort_lets_topics_be_copied_again(
    pair: Pair, source: KafkaNode, tmp_path: Path
) -> None:
    _, search = pair.groups
    with pytest.raises(Refused, match="move-topics was not confirmed"):
        move(pair, "ab", Yes(frozenset({DrillPhase.MOVE_TOPICS})))
    (drill,) = pair.drills()
    (tmp_path / "other").mkdir()
    other = tmp_path / "other" / pair.file.name
    lines = pair.file.read_text().splitlines(keepends=True)
    other.write_text("".join(line for line in lines if pair.topics[0] not in line))
    with pytest.raises(Refused, match="topics that this file does not copy"):
        resume_drill(Actor(Pair.flow_of(other), [str(other)], MAY, Yes()), drill.id)

    with reading(pair, source, search, "a"):
        held = resume_drill(Actor(pair.flow, [str(pair.file)], MAY, Yes()), drill.id)
    record = held.record(DrillPhase.OPEN_TARGET)
    assert record.status is PhaseStatus.FAILED
    assert f"1 group on these topics of the source again: {search}: " in record.findings[0]
    commit_offsets(source, search, {(pair.topics[0], 0): 15})
    held = resume_drill(Actor(pair.flow, [str(pair.file)], MAY, Yes()), drill.id)
    record = held.record(DrillPhase.OPEN_TARGET)
    assert any(search in text and "was planned" in text for text in record.findings), record

    assert set(moved(pair)) == {"a", "b"}
    with pytest.raises(Refused, match="has not ended"):
        release_moved(
            Actor(pair.flow, [str(pair.file)], MAY, Yes()), find_released(pair.flow, ".*")
        )
    aborted = abort_drill(Actor(pair.flow, [str(pair.file)], MAY, Yes()), drill.id)
    assert aborted.status is DrillStatus.ABORTED
    assert {change.status for change in aborted.changes} == {ChangeStatus.UNDONE}
    assert moved(pair) == {}
    for group in pair.groups:
        assert set(pair.target_offsets(group).values()) == {None}


@pytest.mark.slow
def test_a_drill_that_is_killed_again_and_again_goes_on_with_its_topics(
    pair: Pair, tmp_path: Path
) -> None:
    quick = "--frozen", "1", "--watch", "1", "--accept", ",".join(QUICK.accepted)
    action: tuple[str, ...] = ("planned", "--topics", pair.some("ab"), *quick)
    for step in ("move-topics-intended", "move-topics-made", "open-target-begun"):
        arguments = "drill", *action, "--yes-to", "all"
        kill_at(f"drill-{step}", tmp_path / "crash", *arguments, "-f", pair.file)
        (drill,) = pair.drills()
        action = ("resume", drill.id)
    done = resume_drill(Actor(pair.flow, [str(pair.file)], MAY, Yes()), drill.id)
    assert done.status is DrillStatus.DONE, done
    assert moved(pair) == {"a": drill.id, "b": drill.id}
    assert pair.target_offsets(pair.groups[0]) == expected(pair, 0, "ab")
