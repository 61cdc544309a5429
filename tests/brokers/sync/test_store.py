"""The state topic on a real cluster: newest records, removals, the journal's length, heartbeats."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest

from k2ktui.config.model import PipelineConfig
from k2ktui.engine.moves.groups import CommittedOffset
from k2ktui.engine.moves.journal import (
    BEGUN,
    JOURNAL_ENTRIES,
    CommitSnapshot,
    JournalHeader,
    JournalRow,
    JournalRows,
    Runner,
    RunnerState,
    WrittenKey,
    new_id,
)
from k2ktui.engine.moves.journal_format import read_state_value, state_key, state_value
from k2ktui.engine.moves.written import OffsetWrite, WrittenCommits, announce, find_ours
from k2ktui.engine.records.mapping_version import MappingVersion
from k2ktui.engine.records.state import SourcePartition
from k2ktui.errors import ConnectionFailed, K2kError, Refused
from k2ktui.kafka.clients import Cluster
from k2ktui.kafka.control.keyed_writer import KeyedWriter
from k2ktui.kafka.control.reader import ControlRecord, read_committed
from k2ktui.kafka.control.tail import ControlTail
from k2ktui.replication.copying.slot_task import Fault, FaultKind
from k2ktui.replication.driver import heartbeat
from k2ktui.replication.driver.heartbeat import Heartbeat
from k2ktui.replication.reports.events import Progress, SlotsAssigned
from k2ktui.runtime.node import KafkaNode
from k2ktui.sync.liveness import SETTLE_S, HeartbeatObserver
from k2ktui.sync.store import PipelineState, StateStore
from tests.support.clusters.kafka import (
    TIMEOUT,
    Out,
    create_topic,
    eventually,
    produce,
    read_all,
    unique_name,
)
from tests.support.pipelines.preflight import pipeline, plain

NOW = 1_763_000_000_000
MakeStore = Callable[..., StateStore]


@pytest.fixture
def config(source: KafkaNode, target: KafkaNode) -> PipelineConfig:
    return configured(source, target)


def configured(source: KafkaNode, target: KafkaNode, **sections: Any) -> PipelineConfig:
    coordination = {
        "commit": {"topic": unique_name("commit"), "group": "g"},
        "state": {"topic": unique_name("state")},
    }
    return pipeline(source, target, "t", **({"coordination": coordination} | sections))


@pytest.fixture
def make_store() -> Iterator[MakeStore]:
    made: list[StateStore] = []

    def make(config: PipelineConfig, **options: Any) -> StateStore:
        chosen = {"timeout": TIMEOUT} | options
        made.append(StateStore(config, Cluster(config.target, "target"), **chosen))
        return made[-1]

    yield make
    for store in made:
        store.close()


def snapshot(group: str, offset: int) -> CommitSnapshot:
    return CommitSnapshot(group, "cluster", NOW, "Stable", {("t", 0): CommittedOffset(offset, "m")})


def _offsets(state: PipelineState) -> dict[str, int]:
    return {commit.consumer_group: commit.offsets["t", 0].offset for commit in state.commits}


def _groups(store: StateStore) -> list[str]:
    return [commit.consumer_group for commit in store.read().commits]


def entry(number: int) -> tuple[JournalHeader, JournalRows]:
    entry_id = new_id(NOW + number * 1000, "0000")
    row = JournalRow("t", 0, number, "", number + 1, "", "applied")
    return (
        JournalHeader(entry_id, NOW + number * 1000, "u@h", "apply", counts={"applied": 1}),
        JournalRows(entry_id, "app", (row,)),
    )


def announcing(
    writer: str, offset: int, before: Callable[[], object] = lambda: None
) -> Callable[[Mapping[str, WrittenCommits]], list[WrittenCommits]]:
    """What announces a commit, once ``before`` was called with the record known."""
    calls = [before]
    version = MappingVersion(1, 5)
    write = OffsetWrite("app", "t", 0, None, "", offset, "m", after_version=version)

    def change(known: Mapping[str, WrittenCommits]) -> list[WrittenCommits]:
        while calls:
            calls.pop()()
        record = announce(known.get("app"), "app", [write], writer, NOW)
        return [] if record is None else [record]

    return change


def test_what_two_processes_announce_at_the_same_time_is_kept(
    config: PipelineConfig, make_store: MakeStore, target: KafkaNode
) -> None:
    one, other, reader = (make_store(config) for _ in range(3))
    one.put([WrittenCommits("app", 1, {})])

    def meanwhile() -> None:
        other.put_written(["app"], announcing("other", 7))

    held = one.put_written(["app"], announcing("one", 5, meanwhile))
    for record in (held["app"], *(store.read_written(["app"])["app"] for store in (other, reader))):
        for offset in (5, 7):
            assert find_ours(record, ("t", 0), offset, "m", "k2k_") is not None
    # A single record says so: those that were written at the same time may be compacted away.
    last = read_all(target, config.coordination.state.topic)[-1]
    alone = read_state_value(WrittenKey("app"), last.value)
    assert alone == held["app"]


def test_its_own_records_are_not_read_again(
    config: PipelineConfig, make_store: MakeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What this process wrote is known; what others write in between is not missed."""
    store, other = make_store(config), make_store(config)
    store.put([snapshot("first", 1)])
    store.read()
    read: list[ControlRecord] = []
    take = ControlTail.records

    def noted(tail: ControlTail, timeout: float) -> Iterator[ControlRecord]:
        for record in take(tail, timeout):
            read.append(record)
            yield record

    monkeypatch.setattr(ControlTail, "records", noted)
    store.put([snapshot("app", 5), *entry(0)])
    assert _offsets(store.read())["app"] == 5
    assert not read
    other.put([snapshot("app", 6)])
    store.put([snapshot("last", 7)])
    state = store.read()
    assert (_offsets(state)["app"], len(state.commits)) == (6, 3)
    assert len(read) == 2


def test_what_is_written_is_read(config: PipelineConfig, make_store: MakeStore) -> None:
    store = make_store(config)
    assert store.read() == replace(PipelineState(), rows=store.read().rows), (
        "nothing before the topic"
    )
    runner = Runner("r", "h", "u", 1, NOW, NOW, RunnerState.RUNNING)
    header, rows = entry(0)

    store.put([runner, snapshot("app", 5), snapshot("ä\x1b[2J", 7), header, rows])

    for reader in (store, make_store(config)):
        state = reader.read()
        assert state.runners == (runner,)
        assert state.commits == tuple(map(snapshot, ["app", "ä\x1b[2J"], [5, 7]))
        assert state.journal == {header.id: replace(header, sequence=1)}
        assert state.entry(header.id) == (rows,)
        assert state.entry("another") == ()
        assert state.malformed == 0


def test_the_newest_counts_and_what_is_gone_is_gone(
    config: PipelineConfig, make_store: MakeStore
) -> None:
    store = make_store(config)
    store.put([snapshot("a", 1), snapshot("b", 1), snapshot("a", 2)])
    store.put([snapshot("a", 3)], gone=[snapshot("b", 1).key])

    assert _offsets(store.read()) == {"a": 3}


def test_another_cluster_s_groups_take_nobody_s_place(
    config: PipelineConfig, make_store: MakeStore
) -> None:
    """Before, the group of the same name on a new cluster replaced what was kept of the old one."""
    store = make_store(config)
    other = replace(snapshot("a", 9), cluster="other")
    store.put([snapshot("a", 1), other])
    assert store.read().commits == (snapshot("a", 1), other)
    store.put([], gone=[other.key])
    assert store.read().commits == (snapshot("a", 1),)


def test_commits_that_an_earlier_release_kept_are_read(
    config: PipelineConfig, make_store: MakeStore
) -> None:
    store = make_store(config)
    earlier = replace(snapshot("a", 1), names_cluster=False)
    assert b"cluster" not in state_key("g", earlier.key)
    store.put([earlier])
    assert store.read().commits == (earlier,)
    store.put([snapshot("a", 2)], gone=[earlier.key])
    assert store.read().commits == (snapshot("a", 2),)


def test_other_pipelines_are_passed_over(
    config: PipelineConfig, make_store: MakeStore, target: KafkaNode
) -> None:
    store = make_store(config)
    store.put([snapshot("mine", 1)])
    theirs = snapshot("theirs", 1)
    topic = config.coordination.state.topic
    produce(target, topic, [Out(state_value(theirs), state_key("other", theirs.key))])

    assert _groups(store) == ["mine"]


def test_damaged_records_are_counted_and_passed_over(
    config: PipelineConfig, make_store: MakeStore, target: KafkaNode
) -> None:
    store = make_store(config)
    header, rows = entry(0)
    store.put([snapshot("a", 1), snapshot("b", 1), header, rows])
    state = store.read()
    key_a = state_key("g", snapshot("a", 1).key)
    key_rows = state_key("g", rows.key)
    junk = [Out(b"{", key_a), Out(b"x", b"foreign"), Out(b'{"v":2}', key_rows)]
    produce(target, config.coordination.state.topic, junk)

    damaged = store.read()
    assert _groups(store) == ["b"]
    assert damaged.malformed == 2
    with pytest.raises(Refused, match="damaged record for group app"):
        state.entry(header.id)

    produce(target, config.coordination.state.topic, [Out(None, b"foreign"), Out(None, key_a)])
    assert store.read().malformed == 0, "what was removed does not count"


def test_the_journal_keeps_its_newest_entries(
    config: PipelineConfig, make_store: MakeStore
) -> None:
    old = make_store(config)
    old.put([part for number in range(JOURNAL_ENTRIES) for part in entry(number)])
    first, newest = entry(0)[0].id, entry(JOURNAL_ENTRIES)
    assert len(old.read().journal) == JOURNAL_ENTRIES

    make_store(config).put(newest)

    state = old.read()
    assert len(state.journal) == JOURNAL_ENTRIES
    assert newest[0].id in state.journal and first not in state.journal
    assert state.entry(first) == ()
    old.put(entry(JOURNAL_ENTRIES + 1))
    assert len(old.read().journal) == JOURNAL_ENTRIES


def test_the_order_of_entries_rests_on_no_clock(
    config: PipelineConfig, make_store: MakeStore
) -> None:
    """Two hosts, one an hour ahead; what the other one does later is the newest, and stays."""
    ahead, behind = make_store(config), make_store(config)
    hour = 3600
    ahead.put([part for number in range(JOURNAL_ENTRIES) for part in entry(hour + number)])
    begun, rows = entry(5)
    behind.put([replace(begun, counts={BEGUN: 1}), rows])
    last = entry(hour + JOURNAL_ENTRIES)
    ahead.put(last)
    assert begun.id in ahead.read().journal, "it is being written"
    behind.put([begun, rows])

    entries = [
        (header.id, header.sequence) for header in make_store(config).read().journal.values()
    ]
    assert [name for name, _ in entries[-2:]] == [begun.id, last[0].id]
    numbers = [sequence for _, sequence in entries]
    assert numbers == sorted(set(numbers)), "each has its own number"
    assert behind.read().entry(begun.id) == (rows,)


@pytest.mark.parametrize("skew_s", [-3600, 3600])
def test_a_run_is_alive_if_its_heartbeat_changes(
    config: PipelineConfig,
    make_store: MakeStore,
    monkeypatch: pytest.MonkeyPatch,
    skew_s: int,
) -> None:
    """Its clock is an hour off: judged by it, it was silent, or alive long after its end."""
    now = [0.0]

    def clock() -> float:
        return now[0]

    writer = make_store(config)
    monkeypatch.setattr("k2ktui.sync.store.HeartbeatObserver", lambda: HeartbeatObserver(clock))
    reader = make_store(config)

    def beat(name: str) -> Runner:
        at = int((time.time() + skew_s) * 1000)
        return Runner(name, "h", "u", 1, at, at, RunnerState.RUNNING, term=1)

    def time_passes(_: float) -> None:
        now[0] += SETTLE_S / 3
        writer.put([beat("alive")])

    monkeypatch.setattr("k2ktui.sync.store.sleep", time_passes)
    writer.put([beat("dead"), beat("alive")])
    state = reader.read_settled()
    assert now[0] >= SETTLE_S
    assert [runner.runner for runner in state.alive(int(time.time() * 1000))] == ["alive"]
    assert state.runners[0].runner == "alive"


def test_an_entry_of_many_rows_fits(config: PipelineConfig, make_store: MakeStore) -> None:
    """A group of 20,000 partitions makes a record larger than Kafka's default limit."""
    store = make_store(config)
    rows = tuple(
        JournalRow("topic-name", p, p * 7, "meta", p * 7 + 1, "meta", "applied")
        for p in range(20_000)
    )
    big = JournalRows("i", "app", rows)
    assert len(state_value(big)) > 1 << 20

    store.put([JournalHeader("i", NOW, "u@h", "apply"), big])

    assert store.read().entry("i") == (big,)


def test_a_topic_that_may_not_be_created_is_refused(
    source: KafkaNode, target: KafkaNode, make_store: MakeStore
) -> None:
    store = make_store(configured(source, target, features={}))
    with pytest.raises(Refused, match=r"heartbeats, snapshots and the journal does not exist"):
        store.put([snapshot("a", 1)])
    assert store.read().commits == ()


def test_a_cluster_that_does_not_answer() -> None:
    nowhere = pipeline(plain("127.0.0.1:1"), plain("127.0.0.1:1")).target
    writer = KeyedWriter(Cluster(nowhere, "target"), "any", timeout=1.0)
    with pytest.raises(ConnectionFailed, match="writing to any on the target cluster"):
        writer.put([(b"k", b"v")])


def test_a_writer_continues_after_a_failure(target: KafkaNode, config: PipelineConfig) -> None:
    cluster = Cluster(config.target, "target")
    topic = create_topic(target)
    writer = KeyedWriter(cluster, topic, TIMEOUT)
    with pytest.raises(K2kError):
        writer.put([(b"k", b"x" * (65 << 20))])
    writer.put([(b"k", b"v"), (b"k", None)])
    writer.close()
    assert [got.value for got in read_all(target, topic)] == [b"v", None]


def beat(
    store: StateStore, state: RunnerState, test: Callable[[Runner], object] = lambda runner: True
) -> Runner:
    def reported() -> Runner | None:
        return next((r for r in store.read().runners if r.state is state and test(r)), None)

    runner: Runner = eventually(reported, f"a heartbeat that says {state}")
    return runner


def test_heartbeats_tell_how_a_run_goes(
    config: PipelineConfig, make_store: MakeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        heartbeat, "_WRITE_S", TIMEOUT
    )  # a broker may stand still for eight seconds
    store = make_store(config)
    notes: list[str] = []
    heart = Heartbeat(config, time.time() - 1, notes.append)
    monkeypatch.setattr(heart.status, "_beat_at", -1e6)
    heart.start()
    first = beat(store, RunnerState.STARTING)
    eventually(lambda: heart.status.silent_s < TIMEOUT, "metrics learn of the heartbeat")
    assert first.runner == heart.runner and first.started_ms < first.at_ms
    assert first.lag_records is None and first.version

    source, status = SourcePartition("t", 0), heart.status
    driver = status.add_driver()
    driver.discover([source], {}, {}, lag_records=99)
    driver.start(3, 4)
    status.progress = Progress(7, 1, 1, 1, 0, 1, 0.1, 0.1, 0.1, 1, 0, 5_000)
    driver.stopped.stop(Fault(source, FaultKind.GONE, "t is\x1b[2J gone", ""))
    # One may have been written between two of these events.
    running = beat(store, RunnerState.RUNNING, lambda runner: runner.last_error)
    assert (running.slots, running.lap, running.lag_records) == (4, 7, 99)
    assert running.last_error == r"t is\x1b[2J gone"
    assert running.alive(running.at_ms)

    heart.ending()
    beat(store, RunnerState.STOPPING)
    heart.stop(TIMEOUT)
    assert [r.state for r in store.read().runners] == [RunnerState.STOPPED]
    assert notes == []


@pytest.mark.slow
def test_heartbeats_come_by_themselves(config: PipelineConfig, make_store: MakeStore) -> None:
    store = make_store(config)
    heart = Heartbeat(config, time.time(), print)
    heart.start()
    first = beat(store, RunnerState.STARTING)
    eventually(lambda: store.read().runners[0].at_ms > first.at_ms, "the next")
    heart.stop()


def test_old_runs_are_forgotten(config: PipelineConfig, make_store: MakeStore) -> None:
    store = make_store(config)
    now = int(time.time() * 1000)
    day = 24 * 3_600_000
    recent, old = (
        Runner(name, "h", "u", 1, now, now - age, RunnerState.STOPPED)
        for name, age in (("recent", day // 2), ("old", day + 1))
    )
    store.put([recent, old, snapshot("app", 1)])
    heart = Heartbeat(config, time.time(), print)
    heart.start()

    def names() -> bool:
        return {r.runner for r in store.read().runners} == {"recent", heart.runner}

    eventually(names, "the old one is gone")
    heart.stop()
    assert _groups(store) == ["app"]


def test_heartbeats_go_on_while_old_runs_are_looked_for(
    config: PipelineConfig, make_store: MakeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A large state topic takes seconds to read, and a standby may wait for three."""
    store, reads, may_read = make_store(config), threading.Event(), threading.Event()

    def read(*args: Any) -> Any:
        reads.set()
        assert may_read.wait(TIMEOUT)
        return read_committed(*args)

    monkeypatch.setattr(heartbeat, "read_committed", read)
    heart = Heartbeat(config, time.time(), print, beat_s=0.2)
    heart.start()
    try:
        assert reads.wait(TIMEOUT)
        first = beat(store, RunnerState.STARTING)
        eventually(lambda: store.read().runners[0].at_ms > first.at_ms, "the next")
    finally:
        may_read.set()
        heart.stop()


def test_runs_that_shared_the_pipeline_and_are_gone_are_forgotten(
    config: PipelineConfig, make_store: MakeStore
) -> None:
    """A run that was killed never says that it has stopped, and all of them have the same term."""
    store = make_store(config)
    now = int(time.time() * 1000)
    old = now - 24 * 3_600_000 - 1
    shared = Runner("killed", "h", "u", 1, old, old, RunnerState.RUNNING, term=3, generation=6)
    store.put([shared, replace(shared, runner="same", generation=7)])
    heart = Heartbeat(config, time.time(), print)
    heart.status.report(SlotsAssigned(7, (0, 2)))
    heart.status.add_driver().start(3, 2)
    heart.start()

    def names() -> bool:
        return {r.runner for r in store.read().runners} == {"same", heart.runner}

    eventually(names, "the one that was killed is gone")
    (own,) = (runner for runner in store.read().runners if runner.runner == heart.runner)
    assert (own.generation, own.owned) == (7, (0, 2))
    heart.stop()


def test_a_heart_that_may_not_beat_reports_it_once(source: KafkaNode, target: KafkaNode) -> None:
    notes: list[str] = []
    heart = Heartbeat(configured(source, target, features={}), time.time(), notes.append)
    heart.start()
    eventually(lambda: notes, "a note")
    assert heart.stop(TIMEOUT), "retrying would not help: the thread ends"
    (note,) = notes
    assert "heartbeats cannot be written" in note and "does not exist on the target" in note
    assert "--create --topic" in note


def test_a_heart_that_never_began_can_be_stopped(config: PipelineConfig) -> None:
    assert Heartbeat(config, time.time(), print).stop()  # it would raise, or hang
