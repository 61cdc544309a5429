"""Unmodified clients follow their name to the other cluster, on real clusters behind HAProxy."""

from __future__ import annotations

import shlex
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer

from k2ktui.config.clusters import ClusterConfig, KafkaClients
from k2ktui.drill.checks import clients
from k2ktui.drill.checks.context import CheckContext, CheckLimits
from k2ktui.drill.checks.suite import run_checks
from k2ktui.drill.operations import abort_drill, resume_drill, verify_drill
from k2ktui.drill.operator import Question
from k2ktui.drill.ownership import Actor
from k2ktui.engine.drill.checks import CheckResult, DrillCheckOutcome, DrillKind, DrillPhase
from k2ktui.engine.drill.hooks import HookStatus
from k2ktui.engine.drill.model import DrillOptions, DrillStatus, Fence, PhaseStatus
from k2ktui.errors import Refused
from k2ktui.kafka.admin.active_producers import active_producers
from k2ktui.kafka.clients import Cluster
from k2ktui.runtime.ports import HeldPort
from tests.brokers.drill.test_resume import QUICKLY
from tests.support.clusters.haproxy import Front, FrontedNode, fronted
from tests.support.clusters.kafka import (
    TIMEOUT,
    create_topic,
    eventually,
    produce,
    produce_transaction,
    read_all,
    unique_name,
)
from tests.support.drill.checks import between_readings
from tests.support.drill.hooks import sh
from tests.support.drill.runs import (
    MAY,
    NOBODY_COMES,
    QUICK,
    Pair,
    Yes,
    check_of,
    keep_commits,
    kill_at,
    read_groups,
    settled,
)
from tests.support.oracle.group_offsets import commit_offsets
from tests.support.pipelines.copied import Copied, only

CUT_OFF: DrillOptions = replace(QUICK, fence=Fence.CUT_OFF, watch_s=TIMEOUT)
_OLD, _NEW = 40, 20


class Clients:
    """A producer and a member of a group that only know the name."""

    def __init__(self, name: str, topic: str, group: str, *, idempotent: bool = True) -> None:
        self.topic, self.acknowledged, self.failed = topic, 0, list[str]()
        self.read: Counter[bytes] = Counter()
        self.fatal: list[str] = []
        common = {"bootstrap.servers": name, "log_level": 0, "error_cb": self._note}
        self._settings = {**common, "enable.idempotence": idempotent}
        self._producer = Producer(self._settings)
        self._consumer = Consumer(
            {
                **common,
                "group.id": group,
                "session.timeout.ms": 6000,
                "auto.offset.reset": "error",
                "auto.commit.interval.ms": 200,
            }
        )
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._consume, daemon=True)

    def _note(self, error: object) -> None:
        if getattr(error, "fatal", bool)():
            self.fatal.append(str(error))

    def restart_producer(self) -> None:
        """Let another producer take over, once all is acknowledged."""
        self.flush()
        self._producer = Producer(self._settings)

    def write(self, values: range) -> None:
        """Hand records to the producer, which delivers them when it can."""
        for value in values:
            self._producer.produce(self.topic, b"%d" % value, callback=self._delivered)

    def flush(self) -> None:
        """Wait until all are acknowledged."""
        assert self._producer.flush(TIMEOUT) == 0, "not all were acknowledged"

    def _delivered(self, error: object, _: object) -> None:
        if error is None:
            self.acknowledged += 1
        else:
            self.failed.append(str(error))

    def consume(self) -> None:
        """Join the group, and read on until the end."""
        self._consumer.subscribe([self.topic])
        self._thread.start()

    def _consume(self) -> None:
        while not self._ended.is_set():
            message = self._consumer.poll(0.2)
            if message is not None and message.error() is None:
                self.read[message.value() or b""] += 1

    def close(self) -> None:
        """End both."""
        self._ended.set()
        if self._thread.ident is not None:
            self._thread.join(TIMEOUT)
        self._consumer.close()
        # It refers to these clients, and they to it: it would live on.
        vars(self).pop("_producer", None)


@dataclass
class Followed(Pair):
    """A topic whose records came from clients that only know the name."""

    front: Front = field(kw_only=True)

    def __post_init__(self) -> None:
        topic = unique_name("followed")
        self.topics = [topic]
        settings = {**only(topic), "drill": {"redirect": self.front.section}, **self.settings}
        self.copied = Copied(self.directory, self.source, self.target, settings)
        create_topic(self.source, topic)
        self.groups = [self.copied.group("billing")]
        self.clients = Clients(self.front.name.address, topic, self.groups[0])
        self.clients.write(range(_OLD))
        self.clients.flush()
        self.copied.copy(topic)
        commit_offsets(self.source, self.groups[0], {(topic, 0): 0})
        self.file = self.copied.file


@dataclass
class Writes(Yes):
    """An operator whose clients write while they are cut off."""

    clients: Clients = field(kw_only=True)

    def ask(self, question: Question) -> bool:
        """Write before the target is opened."""
        if question.step == DrillPhase.OPEN_TARGET:
            self.clients.write(range(_OLD, _OLD + _NEW))
        return super().ask(question)


@pytest.fixture(scope="module")
def lab(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[FrontedNode, FrontedNode, Front]]:
    with fronted(tmp_path_factory.mktemp("fronted")) as running:
        yield running


@pytest.mark.slow
def test_clients_follow_their_name_without_a_restart(
    tmp_path: Path, lab: tuple[FrontedNode, FrontedNode, Front]
) -> None:
    east, west, front = lab
    pair = Followed(tmp_path, east, west, front=front)
    running, topic, (group,) = pair.clients, pair.topics[0], pair.groups
    actor = Actor(pair.flow, [str(pair.file)], MAY, Yes())
    try:
        running.consume()
        eventually(
            lambda: read_committed(pair).get((topic, 0)) == _OLD,
            "the group has read and committed all on the source",
        )

        with pytest.raises(Refused, match="open-target was not confirmed"):
            pair.start(DrillKind.PLANNED, CUT_OFF, Yes(frozenset({"open-target"})))
        assert [front.states[server] for server in front.SOURCE] == ["maint", "maint"]
        drill = abort_drill(actor, pair.drills()[0].id)
        assert drill.status is DrillStatus.ABORTED
        assert [front.states[server] for server in front.SOURCE] == ["ready", "ready"]
        assert [front.states[server] for server in front.TARGET] == ["maint", "maint"]
        eventually(
            lambda: not read_groups(pair.flow.config)[group].empty,
            "the group has returned to the source",
        )

        operator = Writes(clients=running)
        drill = pair.start(DrillKind.PLANNED, CUT_OFF, operator)
        assert drill.status is DrillStatus.DONE, drill
        running.flush()
        eventually(lambda: len(running.read) == _OLD + _NEW, "the group has read all")
    finally:
        running.close()

    assert (running.acknowledged, running.failed, running.fatal) == (_OLD + _NEW, [], [])
    assert set(running.read.values()) == {1}, "nothing was read again"
    values = Counter(got.value for got in read_all(west, topic))
    assert {value: values[value] for value in running.read} == dict.fromkeys(running.read, 1)
    asked = dict(operator.asked)
    assert "echo 'set server name/east state maint; " in asked["fence-producers"]
    assert "keep their producer ids" in asked["open-target"]
    assert f"lead clients of {front.name.address} to the target" in asked["redirect"]
    assert check_of(drill, "D51").outcome is DrillCheckOutcome.PASS
    assert check_of(drill, "D52").outcome is DrillCheckOutcome.PASS
    assert check_of(drill, "D53").outcome is DrillCheckOutcome.PASS
    assert all(hook.status is HookStatus.DONE for hook in drill.hooks)
    live = drill.record(DrillPhase.REDIRECT).live
    assert live.endswith(f"all of its 2 addresses answer as cluster {west.cluster_id}")
    assert verify_drill(settled(pair.flow), drill.id)[1] == []


@pytest.mark.slow
def test_a_redirect_that_fails_is_repeated_and_printed(
    tmp_path: Path, lab: tuple[FrontedNode, FrontedNode, Front]
) -> None:
    east, west, front = lab
    front.reset()

    ready, name = tmp_path / "ready", front.name.address
    move = shlex.join(front.send(*front.TARGET, state="ready"))
    section = {
        **front.commands[0],
        "command": sh(f"test -e {ready} || exit 3; {move}"),
        "hosts": [sh("echo unreachable")],
    }
    pair = Pair(tmp_path, east, west, {"drill": {"redirect": section}}, letters="a")
    with pytest.raises(Refused, match="no running client follows it"):
        pair.start(DrillKind.PLANNED)
    drill = pair.start(DrillKind.PLANNED, CUT_OFF)
    record = drill.record(DrillPhase.REDIRECT)
    assert (record.status, record.live) == (PhaseStatus.FAILED, "redirect has failed: exit code 3")
    assert record.findings[0].startswith("By hand: env K2KTUI_DRILL_ACTION=redirect")
    assert f"K2KTUI_DRILL_NAME={name}" in record.findings[0]
    ready.touch()
    drill = resume_drill(Actor(pair.flow, [str(pair.file)], MAY, Yes()), drill.id)
    assert drill.status is DrillStatus.DONE
    assert drill.record(DrillPhase.REDIRECT).status is PhaseStatus.DONE
    assert [hook.attempts for hook in drill.hooks] == [1, 2]


@pytest.mark.slow
def test_killed_beside_its_commands_it_goes_on(
    tmp_path: Path, lab: tuple[FrontedNode, FrontedNode, Front]
) -> None:
    """Each command is done, and not recorded: the cut-off is repeated, the redirect looked at."""
    east, west, front = lab
    front.reset()
    pair = Pair(tmp_path, east, west, {"drill": {"redirect": front.section}}, letters="a")
    arguments = "-f", pair.file, "--yes-to", "all"
    fence = "--fence", "cutoff"
    kill_at("drill-hook-ended", tmp_path / "1", "drill", "planned", *QUICKLY, *fence, *arguments)
    assert front.states["name/east"] == "maint"
    (drill,) = pair.drills()
    resume = "drill", "resume", drill.id, *arguments
    kill_at("drill-redirect-begun", tmp_path / "2", *resume)
    assert set(front.states.values()) == {"maint"}
    kill_at("drill-hook-ended", tmp_path / "3", *resume)
    assert front.states["name/west"] == "ready"
    drill = resume_drill(Actor(pair.flow, [str(pair.file)], MAY, Yes()), drill.id)
    assert drill.status is DrillStatus.DONE
    assert [(hook.attempts, hook.status) for hook in drill.hooks] == [
        (2, HookStatus.DONE),
        (1, HookStatus.DONE),
    ]
    assert drill.hooks[1].result == "not run: the name leads to the target"


@pytest.mark.slow
def test_a_source_that_is_lost_only_for_the_drill(
    tmp_path: Path, lab: tuple[FrontedNode, FrontedNode, Front]
) -> None:
    """Clients still reach it: they are cut off, and a host that is not leaves it to a person."""
    east, west, front = lab
    front.reset()
    gone = tmp_path / "gone"
    section = {**front.section, "hosts": [sh(f"test -e {gone}")]}
    pair = Pair(tmp_path, east, west, {"drill": {"redirect": section}}, letters="a")
    pair.copied.put_run()
    keep_commits(pair.flow.config)
    with closing(HeldPort()) as closed:
        pair.file.write_text(pair.file.read_text().replace(east.bootstrap, closed.address))
        operator = Yes()
        with pytest.raises(Refused, match="redirect was not confirmed"):
            pair.start(DrillKind.DISASTER, NOBODY_COMES, operator)
        asked = dict(operator.asked)
        assert "cut-off, close the clients' way" in asked["source-lost"]
        assert "not proven that clients are cut off" in asked["open-target"]
        assert "test -e" in asked["open-target"] and "test -e" in operator.shown_lines[0][1]
        assert set(front.states.values()) == {"maint"}
        gone.touch()
        (drill,) = pair.drills()
        drill = resume_drill(Actor(pair.flow, [str(pair.file)], MAY, Yes()), drill.id)
        assert drill.status is DrillStatus.DONE
    assert front.states["name/west"] == front.states["west-1/west"] == "ready"
    assert front.states["name/east"] == "maint"


@pytest.mark.slow
def test_what_a_drill_looks_at_before_it_moves_a_name(
    tmp_path: Path, lab: tuple[FrontedNode, FrontedNode, Front]
) -> None:
    east, west, front = lab
    front.reset()
    pair = Followed(tmp_path, east, west, front=front)
    pair.clients.close()
    topic = pair.topics[0]

    def check(check_id: str) -> CheckResult:
        with CheckContext(pair.flow, limits=CheckLimits(sample_s=0.5)) as context:
            (result,) = run_checks(context, [check_id])
        return result

    def ids(node: FrontedNode) -> set[int]:
        config = ClusterConfig(kafka=KafkaClients(common={"bootstrap.servers": node.bootstrap}))
        told = active_producers(Cluster(config, "x"), [(topic, 0)], TIMEOUT)
        return {producer.producer_id for producer in told[topic, 0]}

    assert check("D51").outcome is DrillCheckOutcome.PASS
    assert check("D53").evidence == "0 of 1 producer id of the source known on the target"
    # Each cluster counts ids from 0: sooner or later they are the same.
    while not (both := ids(east) & ids(west)):
        behind = east if max(ids(east)) < max(ids(west), default=-1) else west
        produce(behind, topic, [b"x"], enable_idempotence=True)
    result = check("D53")
    assert result.outcome is DrillCheckOutcome.FAIL
    assert result.evidence.endswith(f"known on the target: {min(both)} of {topic}")
    # With another epoch, too, as of a slot: Java's producer raises its own until they are the same.
    slot = -1
    while slot <= max(ids(east)):
        name = unique_name("slot")
        for _ in range(2):
            produce_transaction(west, topic, [b"x"], transactional_id=name)
        slot = max(ids(west))
    while slot not in ids(east):
        produce(east, topic, [b"x"], enable_idempotence=True)
    assert f"{slot} of {topic}" in check("D53").evidence

    other = create_topic(east)
    with between_readings(clients, lambda: produce(east, other, [b"x"])):
        result = check("D52")
    assert result.outcome is DrillCheckOutcome.FAIL and f"topic {other}" in result.evidence

    pair.file.write_text(pair.file.read_text().replace(east.bootstrap, front.name.address))
    result = check("D51")
    assert result.outcome is DrillCheckOutcome.FAIL
    assert "the pipeline uses the clients' way, too: " in result.evidence
    assert east.way.address in result.evidence
    front.socket.chmod(0o666)
    assert "can be written by everybody" in check("D51").evidence
    front.socket.chmod(0o600)


def read_committed(pair: Pair) -> dict[tuple[str, int], int]:
    """Return what the first group of a pair has committed on its source."""
    offsets = read_groups(pair.flow.config)[pair.groups[0]].offsets
    return {at: commit.offset for at, commit in offsets.items()}
