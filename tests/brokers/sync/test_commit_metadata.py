"""The metadata of commits on the target: byte for byte, kept in step, and never a sign of ours."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread

import pytest

from k2ktui.engine.access import access
from k2ktui.engine.moves.apply import WriteOutcome
from k2ktui.engine.moves.journal import WrittenKey
from k2ktui.engine.moves.journal_format import state_key
from k2ktui.engine.moves.plan import Action, Plan, dump_plan
from k2ktui.engine.moves.written import OffsetWrite
from k2ktui.errors import ConnectionFailed
from k2ktui.kafka.properties.translation import wire
from k2ktui.kafka.wire.groups import ConsumerGroupClient, GroupCommit
from k2ktui.runtime.node import KafkaNode
from k2ktui.sync import cluster_readers, operations
from k2ktui.sync.cluster_readers import TargetClusterReader
from k2ktui.sync.flow import Flow
from k2ktui.sync.loop.poll import SyncLoop, SyncPoll
from k2ktui.sync.moves import apply
from k2ktui.sync.moves.plans import make_pipeline_plan, plan_options
from k2ktui.sync.moves.snapshot import take_snapshot
from k2ktui.sync.store import StateStore
from tests.support.clusters.kafka import TIMEOUT, Out, create_topic, produce
from tests.support.commands.cli import k2ktui, k2ktui_json
from tests.support.pipelines.copied import Copied

pytestmark = pytest.mark.slow

Send = Callable[[TargetClusterReader, Sequence[OffsetWrite]], Mapping[OffsetWrite, str]]
COUNT = 100
LONGEST = 4096
# Kafka Streams 2.4 to 3.x: base64 of a version and the partition time. Anything before it is fatal.
STREAMS = "AgAAAZqmZ9L/"


@pytest.fixture
def topic(copied: Copied, source: KafkaNode) -> str:
    """A copied topic; each record lands 7 offsets further on."""
    name = create_topic(source)
    produce(source, name, [Out(b"%d" % n) for n in range(COUNT)])
    copied.copy(name)
    return name


class Side:
    """Commits of one cluster, with metadata exactly as they are; the Java client's are, too."""

    def __init__(self, groups: ConsumerGroupClient, topic: str) -> None:
        self._groups, self._at = groups, (topic, 0)

    def put(self, group: str, offset: int, metadata: str = "") -> None:
        done = self._groups.commit({group: {self._at: GroupCommit(offset, metadata, -1)}})
        assert not any(done[group].values()), done

    def get(self, group: str) -> tuple[int, str] | None:
        commit = self._groups.read_committed([group])[group].offsets.get(self._at)
        return None if commit is None else (commit.offset, commit.metadata)


@contextmanager
def side(copied: Copied, name: str, topic: str) -> Iterator[Side]:
    cluster = copied.config.source if name == "source" else copied.config.target
    with ConsumerGroupClient(wire(cluster, "admin"), "target") as groups:
        groups.open(TIMEOUT)
        yield Side(groups, topic)


@pytest.fixture
def here(copied: Copied, topic: str) -> Iterator[Side]:
    with side(copied, "source", topic) as one_side:
        yield one_side


@pytest.fixture
def there(copied: Copied, topic: str) -> Iterator[Side]:
    with side(copied, "target", topic) as one_side:
        yield one_side


def plan_of(copied: Copied) -> Plan:
    snapshot = take_snapshot(Flow(copied.config))
    return make_pipeline_plan(snapshot, plan_options(copied.config), [str(copied.file)])


def actions(copied: Copied) -> dict[str, Action]:
    return {row.group.rpartition("-")[2]: row.action for row in plan_of(copied).rows}


@pytest.fixture
def loop(copied: Copied, topic: str) -> Iterator[SyncLoop]:
    made = SyncLoop(Flow(copied.config))
    yield made
    made.close()


def turn(loop: SyncLoop) -> SyncPoll:
    poll = loop.turn()
    assert not poll.failed
    return poll


def test_metadata_arrives_byte_for_byte_or_not_at_all(
    copied: Copied, here: Side, there: Side
) -> None:
    texts = {
        "streams": STREAMS,
        "json": '{"processed": [1, 2], "név": "\\u0000\t"}\n',
        "nul": "app\0",
        "longest": "m" * LONGEST,
        "wide": "é" * LONGEST,
        "pairs": "😀" * (LONGEST // 2),
    }
    for name, text in texts.items():
        here.put(copied.group(name), 50, text)
    path = copied.directory / "plan.json"
    k2ktui("plan", "-f", copied.file, "-o", path)
    assert k2ktui_json("apply", path, "--yes")["counts"] == {"applied": len(texts)}
    for name, text in texts.items():
        assert there.get(copied.group(name)) == (57, text), name
    snapshot = take_snapshot(Flow(copied.config))
    assert snapshot.longest_metadata == LONGEST
    assert set(actions(copied).values()) == {Action.KEEP}


def test_the_mark_of_earlier_releases_is_removed(
    copied: Copied, loop: SyncLoop, here: Side, there: Side
) -> None:
    """Also at the same offset; by sync, and by a plan that is applied."""
    same, behind, own = copied.group("same"), copied.group("behind"), copied.group("own")
    for group in (same, behind, own):
        here.put(group, 50, STREAMS)
    there.put(same, 57, f"k2k_1.60;{STREAMS}")
    there.put(behind, 47, f"k2k_1.60;{STREAMS}")
    there.put(own, 57, "its own")
    assert actions(copied) == {
        "same": Action.UPDATE,
        "behind": Action.ADVANCE,
        "own": Action.KEEP,
    }
    plan = k2ktui_json("plan", "-f", copied.file)
    assert "update" in {row["action"] for row in plan["rows"]}
    assert turn(loop).applied == 2
    assert there.get(same) == there.get(behind) == (57, STREAMS)
    assert there.get(own) == (57, "its own")
    there.put(same, 57, f"k2k_1.60;{STREAMS}")
    path = copied.directory / "plan.json"
    k2ktui("plan", "-f", copied.file, "-o", path)
    entry = k2ktui_json("apply", path, "--yes")
    assert entry["counts"] == {"applied": 1}
    assert there.get(same) == (57, STREAMS)
    k2ktui("undo", "-f", copied.file, entry["id"], "--yes")
    assert there.get(same) == (57, STREAMS), "a mark is not put back"


def test_metadata_is_kept_in_step_where_the_commit_is_ours(
    copied: Copied, loop: SyncLoop, here: Side, there: Side
) -> None:
    group = copied.group("g")
    here.put(group, 50, "one")
    assert turn(loop).applied == 1
    here.put(group, 50, "two")
    assert turn(loop).actions == {"update": 1}
    assert there.get(group) == (57, "two")
    assert turn(loop).actions == {"keep": 1}, "and nothing is written again"
    there.put(group, 57, "the application's")
    here.put(group, 50, "three")
    assert turn(loop).actions == {"keep": 1}
    assert there.get(group) == (57, "the application's")


def test_an_update_is_not_written_over_what_the_application_commits_meanwhile(
    copied: Copied, loop: SyncLoop, here: Side, there: Side
) -> None:
    group = copied.group("g")
    here.put(group, 50, "one")
    turn(loop)
    here.put(group, 50, "two")
    plan = plan_of(copied)
    there.put(group, 57, "the application's")
    path = copied.directory / "plan.json"
    path.write_text(dump_plan(plan))
    done = k2ktui("apply", path, "--yes", code=5)
    assert "its commit is now the application's own" in done.stderr
    assert there.get(group) == (57, "the application's")


def test_a_crash_between_the_record_and_the_commit(
    copied: Copied,
    loop: SyncLoop,
    here: Side,
    there: Side,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What was there stays ours, or the application's own; what comes then is known."""
    known, own = copied.group("known"), copied.group("own")
    for group in (known, own):
        here.put(group, 50, "one")
    turn(loop)
    there.put(own, 60, "its own")
    for group in (known, own):
        here.put(group, 80, "two")

    def crash(_: TargetClusterReader, writes: object) -> Mapping[OffsetWrite, str]:
        raise ConnectionFailed("gone")

    with monkeypatch.context() as patched:
        patched.setattr(apply, "_send", crash)
        with pytest.raises(ConnectionFailed):
            loop.turn()
    store = StateStore(copied.config, copied.cluster)
    try:
        written = store.read_written([known, own])
    finally:
        store.close()
    recorded = {
        name: [
            (commit.offset, commit.metadata, commit.pending)
            for (each_of) in written[name].commits.values()
            for commit in each_of
        ]
        for name in written
    }
    assert recorded == {
        known: [(57, "one", False), (87, "two", True)],
        own: [(87, "two", True)],
    }
    here.put(known, 50, "three")
    here.put(own, 50, "three")
    fresh = SyncLoop(Flow(copied.config))
    try:
        poll = turn(fresh)
    finally:
        fresh.close()
    assert poll.actions == {"update": 1, "skip": 1}
    assert there.get(known) == (57, "three")
    assert there.get(own) == (60, "its own")


def test_a_suspended_process_commits_what_an_older_mapping_says(
    copied: Copied,
    topic: str,
    loop: SyncLoop,
    here: Side,
    there: Side,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It announced 97 before it was suspended; the group went back, and sync follows at once."""
    group = copied.group("g")
    here.put(group, 90, "late")
    plan, suspended, resumes = plan_of(copied), Event(), Event()
    send: Send = getattr(apply, "_send")  # noqa: B009

    def wait(
        target: TargetClusterReader, writes: Sequence[OffsetWrite]
    ) -> Mapping[OffsetWrite, str]:
        if writes[0].after_metadata == "late":
            suspended.set()
            assert resumes.wait(120)
        return send(target, writes)

    monkeypatch.setattr(apply, "_send", wait)
    runs = Thread(
        target=lambda: operations.apply_plan(copied.config, plan, [str(copied.file)], access())
    )
    runs.start()
    try:
        assert suspended.wait(120)
        here.put(group, 50, "now")
        copied.term = 2
        copied.put_position(topic, 0, COUNT, 0)
        turn(loop)
        assert there.get(group) == (57, "now")
    finally:
        resumes.set()
        runs.join(120)
    assert there.get(group) == (97, "late")
    assert turn(loop).actions == {"rewind": 1}, "40 records would have been skipped"
    assert there.get(group) == (57, "now")
    there.put(group, 70, "read on the target")
    assert turn(loop).actions == {"skip": 1}
    assert there.get(group) == (70, "read on the target")


def test_a_process_that_stood_still_writes_nothing(
    copied: Copied, topic: str, here: Side, there: Side, monkeypatch: pytest.MonkeyPatch
) -> None:
    here.put(copied.group("g"), 90, "late")
    plan = plan_of(copied)
    monkeypatch.setattr(apply, "_STANDSTILL_S", -1.0)
    done = operations.apply_plan(copied.config, plan, [str(copied.file)], access())
    assert [row.outcome for row in done.rows] == [WriteOutcome.NOT_WRITTEN]
    assert "stood still" in done.rows[0].reason
    assert there.get(copied.group("g")) is None


def test_undo_gives_back_what_was_the_applications(
    copied: Copied, loop: SyncLoop, here: Side, there: Side
) -> None:
    own, ours = copied.group("own"), copied.group("ours")
    there.put(own, 10, "its own")
    here.put(ours, 20, "old")
    turn(loop)
    here.put(own, 50, "new")
    here.put(ours, 50, "new")
    done = operations.apply_plan(copied.config, plan_of(copied), [str(copied.file)], access())
    k2ktui("undo", "-f", copied.file, done.id, "--yes")
    assert (there.get(own), there.get(ours)) == ((10, "its own"), (27, "old"))
    here.put(own, 3, "back")
    here.put(ours, 20, "changed")
    assert turn(loop).actions == {"keep": 1, "update": 1}
    assert (there.get(own), there.get(ours)) == ((10, "its own"), (27, "changed"))


def test_without_a_readable_record_commits_are_the_applications_own(
    copied: Copied, loop: SyncLoop, here: Side, there: Side, target: KafkaNode
) -> None:
    group = copied.group("g")
    here.put(group, 50, "one")
    turn(loop)
    key = state_key(copied.name, WrittenKey(group))
    produce(target, copied.state, [Out(None, key), Out(b"damaged", key)])
    here.put(group, 50, "two")
    assert actions(copied) == {"g": Action.KEEP}
    here.put(group, 60, "three")
    assert turn(loop).actions == {"advance": 1}
    assert there.get(group) == (67, "three")
    here.put(group, 60, "four")
    assert actions(copied) == {"g": Action.UPDATE}


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaNode]:
    """A cluster that takes metadata of 50 characters."""
    settings = {"offset.metadata.max.bytes": "50"}
    with KafkaNode("small", tmp_path_factory.mktemp("small"), settings) as node:
        yield node


def test_metadata_over_the_targets_limit_is_never_cut(
    source: KafkaNode, small: KafkaNode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plan says so, where it may read the limit; else the broker does."""
    copied = Copied(tmp_path, source, small)
    topic = create_topic(source)
    produce(source, topic, [Out(b"%d" % n) for n in range(COUNT)])
    copied.copy(topic)
    fits, long = copied.group("fits"), copied.group("long")
    with side(copied, "source", topic) as here, side(copied, "target", topic) as there:
        here.put(fits, 50, "é" * 50)
        here.put(long, 50, "m" * 51)
        rows = {row.group: row for row in plan_of(copied).rows}
        assert (rows[fits].action, rows[long].action) == (Action.CREATE, Action.BLOCKED)
        assert "51 characters" in rows[long].reason
        assert "accept 50 (offset.metadata.max.bytes)" in rows[long].reason
        monkeypatch.setattr(cluster_readers, "broker_values", lambda *_, **__: None)
        plan = plan_of(copied)
        assert {row.action for row in plan.rows} == {Action.CREATE}
        done = operations.apply_plan(copied.config, plan, [str(copied.file)], access())
        results = {row.write.group: row for row in done.rows}
        assert results[fits].outcome is WriteOutcome.APPLIED
        assert results[long].outcome is WriteOutcome.REFUSED
        assert "offset.metadata.max.bytes" in results[long].reason
        assert (there.get(fits), there.get(long)) == ((57, "é" * 50), None)
