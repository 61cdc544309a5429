"""Twenty clients follow their name through drills, on real clusters behind HAProxy.

Ten are librdkafka's, ten are Java's; nobody restarts them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from k2ktui.drill.operations import abort_drill, list_drills, start_drill
from k2ktui.drill.ownership import Actor
from k2ktui.engine.drill.checks import DrillKind
from k2ktui.engine.drill.model import Drill, DrillOptions, DrillStatus, Fence
from k2ktui.errors import Refused
from k2ktui.kafka.clients import target_cluster
from k2ktui.kafka.properties.translation import load_checked
from k2ktui.sync.commit_snapshots import read_known_commits
from k2ktui.sync.flow import Flow
from k2ktui.sync.store import StateStore
from tests.support.clusters.haproxy import Front, FrontedNode, fronted
from tests.support.clusters.kafka import (
    TIMEOUT,
    Got,
    Out,
    create_topic,
    eventually,
    produce,
    read_all,
    unique_name,
)
from tests.support.drill.runs import MAY, QUICK, Yes, read_groups, settled
from tests.support.named.fleet import Fleet, Read, require_compiler
from tests.support.oracle.group_offsets import committed
from tests.support.pipelines.pipeline import RUN_TIMEOUT, Pipeline

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]

_PARTITIONS = 4
# Records of others that are on the target before: an offset tells the cluster of its record.
_PRIOR = 20_000
# Members of the new protocol are gone from the source after their session timeout, which is the
# broker's, and at least 45 seconds by default.
SESSIONS = {
    "group.consumer.session.timeout.ms": "6000",
    "group.consumer.min.session.timeout.ms": "6000",
    "group.consumer.heartbeat.interval.ms": "1000",
    "group.consumer.min.heartbeat.interval.ms": "1000",
}
OPTIONS: DrillOptions = replace(QUICK, fence=Fence.CUT_OFF, watch_s=TIMEOUT, wait_s=2 * TIMEOUT)
Commits = dict[str, dict[tuple[str, int], int]]


@dataclass
class Lab:
    """A running pipeline of a topic whose twenty clients only know the name."""

    directory: Path
    source: FrontedNode
    target: FrontedNode
    front: Front

    def __post_init__(self) -> None:
        stem = self.stem = unique_name("named")
        self.topic = create_topic(self.source, unique_name("named"), _PARTITIONS)
        create_topic(self.target, self.topic, _PARTITIONS)
        # A broker that has given an id takes a new block of them when it starts: none is on both
        # clusters.
        produce(self.source, create_topic(self.source), [b"x"], enable_idempotence=True)
        self.source.restart(TIMEOUT)
        natives = [Out(b"native", partition=p) for p in range(_PARTITIONS) for _ in range(_PRIOR)]
        produce(self.target, self.topic, natives)
        settings = {
            "groups": {"pollInterval": "1 second", "consumerGroups": f"{stem}-.*"},
            "drill": {"redirect": self.front.section},
        }
        self.pipeline = Pipeline(self.directory, self.source, self.target, [self.topic], settings)
        self.file = self.pipeline.write()
        self.fleet = Fleet(self.front.name.address, self.topic, self.directory / "fleet", stem)

    def begin(self) -> None:
        """Let the clients work, and the pipeline copy what they write."""
        self.fleet.write()
        self.pipeline.start()
        self.fleet.await_more()
        self.pipeline.await_copying()
        self.await_members()

    def await_members(self) -> None:
        """Wait until all consumers are members of their groups on the source."""

        def counts() -> dict[str, int | None]:
            return {name: view.members for name, view in read_groups(self.flow.config).items()}

        expected = {group: len(members) for group, members in self.fleet.groups.items()}
        eventually(lambda: counts() == expected, lambda: f"{counts()}\n{self.fleet.tail()}")

    @property
    def flow(self) -> Flow:
        """The pipeline."""
        return Flow(load_checked((str(self.file),)).config)

    @property
    def named(self) -> str:
        """How a question names the transactional producers."""
        return f"{self.stem}-java, {self.stem}-librdkafka"

    def actor(self, operator: Yes) -> Actor:
        """Who acts in this process."""
        return Actor(self.flow, [str(self.file)], MAY, operator)

    def await_quiet(self) -> Commits:
        """Wait until all is copied, read, committed, and known on the target; return the commits.

        Nothing is lost then with the source.
        """
        self.fleet.await_idle()
        self.fleet.await_read()
        ends = {(self.topic, g.partition): g.offset + 1 for g in read_all(self.source, self.topic)}

        def behind() -> list[object]:
            return [
                (group, at, end)
                for group, offsets in commits_on_source(self).items()
                for at, end in ends.items()
                if offsets.get(at, -1) < end
            ]

        eventually(lambda: not behind(), lambda: f"committed: {behind()}\n{self.fleet.tail()}")
        eventually(lambda: self.pipeline.is_caught_up(self.topic), "all is copied", RUN_TIMEOUT)
        commits = commits_on_source(self)
        eventually(lambda: self._read_kept() == commits, lambda: f"{self._read_kept()} {commits}")
        return commits

    def _read_kept(self) -> Commits:
        """Return the commits that the target has of the source."""
        flow = self.flow
        with closing(StateStore(flow.config, target_cluster(flow.config))) as store:
            known = read_known_commits(store.read().commits, self.source.cluster_id, ())
        return {
            group: {at: commit.offset for at, commit in view.offsets.items()}
            for group, view in (known.groups if known else {}).items()
        }

    def start(self, kind: DrillKind, options: DrillOptions, operator: Yes) -> Drill:
        """Run a drill in this process."""
        flow = self.flow
        try:
            return start_drill(Actor(flow, [str(self.file)], MAY, operator), kind, options)
        finally:
            settled(flow)

    def close(self) -> None:
        """End the clients and the pipeline."""
        with closing(self.pipeline):
            self.fleet.close()


@dataclass(frozen=True)
class Outcome:
    """What became of records, by name of group where groups differ.

    Attributes:
        lost: acknowledged values that are not on the target.
        twice: values that are there more than once.
        unread: values of a group that it has read nowhere.
        again: values that a group has read on the target though it had committed them on the
            source; without those that are there twice.
        beyond: number of values that it has read on both, beyond its last commit on the source.
        strays: number of records of others that it was given on the target, before its commit.
    """

    lost: list[str]
    twice: list[str]
    unread: dict[str, list[str]]
    again: dict[str, list[str]]
    beyond: dict[str, int]
    strays: dict[str, int]


def judge(lab: Lab, commits: Commits, written: list[Got]) -> Outcome:
    """Compare what the clients were told with both clusters.

    Args:
        lab: the lab, whose clients have ended.
        commits: the last commits of each group on the source.
        written: the records of the source.
    """
    told = lab.fleet.told
    on_source = {(got.partition, got.offset): value(got) for got in written}
    assert max(offset for _, offset in on_source) < _PRIOR
    on_target = Counter(map(value, read_all(lab.target, lab.topic)))
    del on_target["native"]
    acknowledged = told.acknowledged
    # One that was in flight at the cut-off was sent again: it is another record.
    twice = {text for text, times in on_target.items() if times > 1}
    unread, again, beyond, strays = {}, {}, {}, {}
    for group, members in lab.fleet.groups.items():
        read = [one for one in told.read if one.client in members]
        here = {one.value for one in read if is_on_source(one)}
        there = [one for one in read if not is_on_source(one)]
        done = {
            text
            for (partition, offset), text in on_source.items()
            if offset < commits[group].get((lab.topic, partition), 0)
        }
        copied = [one.value for one in there if one.value != "native"]
        unread[group] = sorted(acknowledged.keys() - here - set(copied))
        again[group] = sorted(done & set(copied) - twice)
        beyond[group] = len(here & set(copied) - done)
        strays[group] = len(there) - len(copied)
    return Outcome(
        sorted(acknowledged.keys() - on_target.keys()),
        sorted(twice),
        *(unread, again, beyond, strays),
    )


def is_on_source(one: Read) -> bool:
    return one.offset < _PRIOR and one.value != "native"


def value(got: Got) -> str:
    return (got.value or b"").decode()


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    require_compiler()
    with fronted(tmp_path / "fronted", properties=SESSIONS) as (east, west, front):
        running = Lab(tmp_path, east, west, front)
        try:
            yield running
        finally:
            running.close()


def prove(lab: Lab, drill: Drill, commits: Commits, written: list[Got]) -> Outcome:
    """Let the clients work on the target, end them, and judge; print what is only measured."""
    lab.fleet.await_more()
    lab.fleet.await_idle()
    lab.fleet.await_read()
    lab.fleet.end()
    print_phases(drill)
    outcome = judge(lab, commits, written)
    print(f"twice {outcome.twice}, beyond {outcome.beyond}, strays {outcome.strays}")
    print(lab.fleet.tail(log=False))
    assert_unharmed(lab)
    assert outcome.lost == []
    assert not any(outcome.unread.values()), outcome.unread
    assert not any(outcome.again.values()), outcome.again
    return outcome


def assert_unharmed(lab: Lab) -> None:
    """Nobody has ended, and only those were made anew that the drill's questions name."""
    told = lab.fleet.told
    assert told.of("died") == told.of("fatal") == [], lab.fleet.tail()
    named = {client.name for client in lab.fleet.clients if client.role == "transact"}
    assert {name for name, _ in told.of("restarted")} <= named, lab.fleet.tail()


def print_phases(drill: Drill) -> None:
    """Print how long each phase took."""
    for record in drill.phases:
        if record.began_ms and record.ended_ms:
            print(f"{record.phase}: {(record.ended_ms - record.began_ms) / 1000:.1f} s")


def print_gaps(drill: Drill) -> None:
    """Print the gap of each consumer, and the time since the target is open."""
    opened = drill.figures.opened_ms or 0
    for client in (client for group in drill.groups for client in group.clients):
        if client.gap_s is None or client.came_ms is None:
            print(f"{client.client_id}: it came later than the drill waits")
            continue
        after = (client.came_ms - opened) / 1000
        print(f"{client.client_id}: gap {client.gap_s:.1f} s, {after:.1f} s after open-target")


def commits_on_source(lab: Lab) -> Commits:
    return {group: committed(lab.source, group) for group in lab.fleet.groups}


def test_planned(lab: Lab) -> None:
    lab.begin()
    operator = Yes()
    drill = lab.start(DrillKind.PLANNED, OPTIONS, operator)
    assert drill.status is DrillStatus.DONE, drill
    asked = dict(operator.asked)["open-target"]
    assert lab.named in asked and "InvalidPidMappingException" in asked
    clients = [client for group in drill.groups for client in group.clients]
    readers = {client.name for client in lab.fleet.clients if client.role == "read"}
    assert {client.client_id for client in clients} == readers, "the report has each of them"
    print_gaps(drill)
    prove(lab, drill, commits_on_source(lab), read_all(lab.source, lab.topic))


def test_disaster(lab: Lab) -> None:
    """All is copied and committed when the source is lost; nobody has known of it before."""
    lab.begin()
    commits = lab.await_quiet()
    written = read_all(lab.source, lab.topic)
    lab.source.kill()
    lab.fleet.write()
    drill = lab.start(DrillKind.DISASTER, OPTIONS, Yes())
    assert drill.status is DrillStatus.DONE, drill
    prove(lab, drill, commits, written)


def test_abort(lab: Lab) -> None:
    """The cut-off is taken back once transactions have ended by it: all go on where they were."""
    lab.begin()
    operator = Yes(frozenset({"open-target"}))
    with pytest.raises(Refused, match="open-target was not confirmed"):
        lab.start(DrillKind.PLANNED, OPTIONS, operator)
    asked = dict(operator.asked)["fence-producers"]
    assert lab.named in asked and "also if the drill is aborted" in asked
    flow = lab.flow
    (drill,) = list_drills(settled(flow))
    print_phases(drill)
    drill = abort_drill(Actor(flow, [str(lab.file)], MAY, Yes()), drill.id)
    settled(flow)
    assert drill.status is DrillStatus.ABORTED, drill
    lab.await_members()
    lab.fleet.await_more()
    lab.fleet.await_idle()
    lab.fleet.await_read()
    lab.fleet.end()
    print(lab.fleet.tail(log=False))
    assert_unharmed(lab)
    written = Counter(map(value, read_all(lab.source, lab.topic)))
    assert lab.fleet.told.acknowledged.keys() <= written.keys(), "nothing is lost"
    # Plain producers send again what was in flight at the cut-off.
    plain = {
        client.name
        for client in lab.fleet.clients
        if client.own.get("enable.idempotence") == "false"
    }
    twice = [text for text, times in written.items() if times > 1]
    assert {text.split()[0] for text in twice} <= plain, twice
