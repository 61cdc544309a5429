"""Consumer groups over the wire, against real brokers and real members of both protocols."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from k2ktui.engine.members import GroupMember, make_member
from k2ktui.errors import Refused
from k2ktui.kafka.wire.groups import HAS_MEMBERS, ConsumerGroupClient, GroupCommit, GroupState
from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.brokers import Brokers
from tests.support.clusters.kafka import TIMEOUT, client, create_topic, eventually, unique_name
from tests.support.oracle.group_offsets import commit_offsets, committed

# The protocol that brokers of these releases speak: no batches, no states, no kinds; no kinds; all.
RELEASES = [(2, 5), (3, 6), None]
Connect = Callable[..., ConsumerGroupClient]


def options(node: KafkaNode, release: tuple[int, int] | None = None) -> dict[str, Any]:
    return {"bootstrap_servers": [node.bootstrap]} | ({"api_version": release} if release else {})


@pytest.fixture
def connect() -> Iterator[Connect]:
    with contextlib.ExitStack() as stack:

        def connected(
            node: KafkaNode,
            label: str = "target",
            release: tuple[int, int] | None = None,
            **settings: Any,
        ) -> ConsumerGroupClient:
            groups = stack.enter_context(
                ConsumerGroupClient(options(node, release), label, **settings)
            )
            groups.open(TIMEOUT)
            return groups

        yield connected


@pytest.fixture(params=RELEASES, ids=["2.5", "3.6", "now"])
def groups(
    target: KafkaNode, connect: Connect, request: pytest.FixtureRequest
) -> ConsumerGroupClient:
    """Groups of the target, asked as for a broker of each release."""
    return connect(target, release=request.param)


@contextlib.contextmanager
def member(
    node: KafkaNode, group: str, topic: str, protocol: str = "classic", instance: str = ""
) -> Iterator[Consumer]:
    """A consumer that has joined, and got a partition; a static member with an instance id."""
    settings = client(node, group_id=group, group_protocol=protocol, client_id=f"app-of-{group}")
    settings |= {"group.instance.id": instance} if instance else {}
    consumer = Consumer(settings | {"enable.auto.commit": False})
    consumer.subscribe([topic])

    def joined() -> bool:
        consumer.poll(0.05)
        return bool(consumer.assignment())

    try:
        eventually(joined, f"{group} has a member")
        yield consumer
    finally:
        consumer.close()


@contextlib.contextmanager
def pending_commit(node: KafkaNode, group: str, topic: str, offset: int) -> Iterator[Producer]:
    """A transaction that is about to commit an offset; aborted at the end if it is still open."""
    # The coordinator would end a transaction of the default time-out where the test stands still.
    settings = {"transactional_id": unique_name("tx"), "transaction_timeout_ms": 600_000}
    producer = Producer(client(node, **settings))
    consumer = Consumer(client(node, group_id=group))
    producer.init_transactions(TIMEOUT)
    producer.begin_transaction()
    where = TopicPartition(topic, 0, offset)
    producer.send_offsets_to_transaction([where], consumer.consumer_group_metadata(), TIMEOUT)
    try:
        yield producer
    finally:
        with contextlib.suppress(Exception):
            producer.abort_transaction(TIMEOUT)
        consumer.close()


def test_all_that_was_committed_is_read(target: KafkaNode, groups: ConsumerGroupClient) -> None:
    topics = [create_topic(target, partitions=3), create_topic(target)]
    first, second, missing = unique_name("g"), unique_name("g"), unique_name("g")
    commit_offsets(target, first, {(topics[0], 2): 7, (topics[1], 0): 0}, "mine")
    commit_offsets(target, second, {(topics[0], 1): 1 << 40})
    views = groups.read_committed([first, second, missing])
    assert {where: offset.offset for where, offset in views[first].offsets.items()} == {
        (topics[0], 2): 7,
        (topics[1], 0): 0,
    }
    # The client library commits the terminating zero of its C string too.
    assert {offset.metadata for offset in views[first].offsets.values()} == {"mine\0"}
    assert [offset.offset for offset in views[second].offsets.values()] == [1 << 40]
    assert views[missing].offsets == {}
    assert {view.error for view in views.values()} == {""}


def test_offsets_are_committed_and_deleted(target: KafkaNode, groups: ConsumerGroupClient) -> None:
    topic, group = create_topic(target, partitions=2), unique_name("g")
    wanted = {(topic, 0): GroupCommit(5, "guard|äpp", 3), (topic, 1): GroupCommit(0, "", -1)}
    assert groups.commit({group: wanted}) == {group: {(topic, 0): "", (topic, 1): ""}}
    assert groups.read_committed([group])[group].offsets == wanted
    assert committed(target, group) == {(topic, 0): 5, (topic, 1): 0}

    assert groups.delete_offsets({group: [(topic, 0)]}) == {group: {(topic, 0): ""}}
    assert committed(target, group) == {(topic, 1): 0}
    unused = unique_name("g")
    gone = {group: [(topic, 0)], unused: [(topic, 1)]}
    assert groups.delete_offsets(gone) == {
        group: {(topic, 0): ""},
        unused: {(topic, 1): ""},
    }, "what is not there counts as deleted"
    assert groups.delete([group, unused]) == {group: "", unused: ""}
    assert group not in groups.list()


def test_what_cannot_be_committed_stops_nothing_else(
    target: KafkaNode, groups: ConsumerGroupClient
) -> None:
    topic, first, second = create_topic(target), unique_name("g"), unique_name("g")
    errors = groups.commit(
        {
            first: {(topic, 0): GroupCommit(1), (topic, 9): GroupCommit(1)},
            second: {(topic, 0): GroupCommit(2, "x" * 5000)},
            unique_name("g"): {},
        }
    )
    assert errors[first][(topic, 0)] == ""
    assert "no such topic-partition" in errors[first][(topic, 9)]
    assert "offset.metadata.max.bytes" in errors[second][(topic, 0)]
    assert committed(target, first) == {(topic, 0): 1}
    assert committed(target, second) == {}


def test_many_groups_at_once(target: KafkaNode, groups: ConsumerGroupClient) -> None:
    topic = create_topic(target, partitions=3)
    stem = unique_name("many")
    wanted = {
        f"{stem}-{number}": {(topic, part): GroupCommit(number + part) for part in range(3)}
        for number in range(150)
    }
    done = groups.commit(wanted)
    assert {why for errors in done.values() for why in errors.values()} == {""}
    assert {n: dict(view.offsets) for n, view in groups.read_committed(wanted).items()} == wanted
    assert {state.state for state in groups.describe(wanted).values()} == {"Empty"}
    assert wanted.keys() <= groups.list().keys()


def test_groups_are_listed_with_state_and_kind(target: KafkaNode, connect: Connect) -> None:
    topic = create_topic(target)
    stopped, old, new = unique_name("stopped"), unique_name("old"), unique_name("new")
    commit_offsets(target, stopped, {(topic, 0): 1})
    with member(target, old, topic), member(target, new, topic, "consumer"):
        now, before = connect(target), connect(target, release=(2, 5))
        listed = now.list()
        assert (listed[stopped].state, listed[stopped].kind) == ("Empty", "classic")
        assert (listed[old].state, listed[old].kind) == ("Stable", "classic")
        assert (listed[new].state, listed[new].kind) == ("Stable", "consumer")
        assert before.list()[old].state == "", "brokers before 2.6 do not tell"
    assert now.incomplete_reason == ""


def test_groups_are_described_with_their_members(target: KafkaNode, connect: Connect) -> None:
    topic = create_topic(target)
    stopped, old, new = unique_name("stopped"), unique_name("old"), unique_name("new")
    missing = unique_name("missing")
    commit_offsets(target, stopped, {(topic, 0): 1})
    with member(target, old, topic), member(target, new, topic, "consumer") as consumer:
        states = connect(target).describe([stopped, old, new, missing])
        assert (states[stopped].state, states[stopped].members) == ("Empty", ())
        assert (states[missing].state, states[missing].kind) == ("", "")
        for group, kind in ((old, "classic"), (new, "consumer")):
            assert (states[group].state, states[group].kind) == ("Stable", kind)
            (only,) = states[group].members
            assert only.named.client_id == f"app-of-{group}"
            assert only.named.host == "127.0.0.1"
        assert states[new].members[0].id == consumer.memberid()
        assert {state.error for state in states.values()} == {""}


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
@pytest.mark.parametrize("instance", ["", "static-1"])
def test_members_are_named_with_what_they_read(
    target: KafkaNode, connect: Connect, protocol: str, instance: str
) -> None:
    topic, group = create_topic(target, partitions=3), unique_name("named")
    expected = make_member(f"app-of-{group}", "127.0.0.1", instance, {topic: [0, 1, 2]})
    groups = connect(target)
    with member(target, group, topic, protocol, instance):

        def named() -> list[GroupMember]:
            return [member.named for member in groups.describe([group])[group].members]

        eventually(lambda: named() == [expected], f"{group} is named as {expected}")


@pytest.mark.slow
def test_brokers_without_the_consumer_protocol_describe_missing_groups(
    brokers: Brokers, connect: Connect
) -> None:
    """Kafka 3.9 offers ConsumerGroupDescribe, and refuses it with UNSUPPORTED_VERSION."""
    (node,) = brokers("3.9")
    topic, stopped, missing = create_topic(node), unique_name("stopped"), unique_name("missing")
    commit_offsets(node, stopped, {(topic, 0): 1})
    states = connect(node).describe([stopped, missing])
    assert states[stopped] == GroupState(stopped, "Empty", "classic")
    assert states[missing] == GroupState(missing, "", "")


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_with_members_is_not_written(
    target: KafkaNode, connect: Connect, protocol: str
) -> None:
    topic, live, stopped = create_topic(target), unique_name("live"), unique_name("stopped")
    groups = connect(target)
    with member(target, live, topic, protocol) as consumer:
        consumer.commit(offsets=[TopicPartition(topic, 0, 4)], asynchronous=False)
        wanted = {(topic, 0): GroupCommit(9)}
        errors = groups.commit({live: wanted, stopped: wanted})
        assert errors[live][(topic, 0)].startswith(HAS_MEMBERS + " on the target")
        assert errors[stopped][(topic, 0)] == ""
        deleted = groups.delete_offsets({live: [(topic, 0)], stopped: [(topic, 0)]})
        assert deleted[live][(topic, 0)].startswith(HAS_MEMBERS)
        assert deleted[stopped][(topic, 0)] == ""
        gone = groups.delete([live, stopped])
        assert gone[live].startswith(HAS_MEMBERS) and gone[stopped] == ""
        assert groups.read_committed([live])[live].offsets[(topic, 0)].offset == 4
    eventually(lambda: groups.describe([live])[live].state == "Empty", "its member has left")
    assert groups.commit({live: wanted}) == {live: {(topic, 0): ""}}
    assert committed(target, live) == {(topic, 0): 9}


def test_an_offset_that_a_transaction_is_about_to_commit(
    target: KafkaNode, connect: Connect
) -> None:
    topic, group, other = create_topic(target), unique_name("g"), unique_name("g")
    commit_offsets(target, group, {(topic, 0): 3})
    commit_offsets(target, other, {(topic, 0): 8})
    with pending_commit(target, group, topic, 5):
        views = connect(target, stable_patience=0.3).read_committed([group, other])
        assert views[group].error == ""
        assert views[group].unsettled[(topic, 0)].startswith("a transaction")
        assert views[group].offsets[(topic, 0)].offset == 3
        assert views[other].error == "" and views[other].offsets[(topic, 0)].offset == 8


def test_a_transaction_that_ends_is_waited_for(target: KafkaNode, connect: Connect) -> None:
    topic, group = create_topic(target), unique_name("g")
    commit_offsets(target, group, {(topic, 0): 3})
    groups = connect(target, stable_patience=TIMEOUT)
    with pending_commit(target, group, topic, 5) as producer, ThreadPoolExecutor(1) as pool:
        answer = pool.submit(groups.read_committed, [group])
        # Somebody with less patience gives up in the meantime.
        assert connect(target, stable_patience=0.3).read_committed([group])[group].unsettled
        assert not answer.done()
        producer.commit_transaction(TIMEOUT)
        view = answer.result(TIMEOUT)[group]
    assert (view.offsets[(topic, 0)].offset, view.error, view.unsettled) == (5, "", {})


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["2.8", "4.0.0"])
def test_a_group_that_is_refused_does_not_spoil_its_batch(
    brokers: Brokers, connect: Connect, kind: str
) -> None:
    """4.0.0 answers a description of the empty id with an error for all groups of the request."""
    (node,) = brokers(kind)
    topic, group, missing = create_topic(node), unique_name("g"), unique_name("missing")
    commit_offsets(node, group, {(topic, 0): 3})
    states = connect(node).describe(["", missing, group])
    assert (states[missing].state, states[missing].error) == ("", "")
    assert (states[group].state, states[group].error) == ("Empty", "")
    assert bool(states[""].error) == (kind == "4.0.0")


def test_the_source_is_only_read(source: KafkaNode, connect: Connect) -> None:
    topic, group = create_topic(source), unique_name("g")
    groups = connect(source, "source")
    with pytest.raises(Refused, match="only read"):
        groups.commit({group: {(topic, 0): GroupCommit(1)}})
    with pytest.raises(Refused, match="only read"):
        groups.delete_offsets({group: [(topic, 0)]})
    with pytest.raises(Refused, match="only read"):
        groups.delete([group])
    assert committed(source, group) == {}


def test_a_group_of_commits_becomes_a_consumer_group(target: KafkaNode, connect: Connect) -> None:
    """As its members are that come from another cluster, which end where it is a classic one."""
    topic, group, unknown = create_topic(target), unique_name("g"), unique_name("g")
    commit_offsets(target, group, {(topic, 0): 7})
    groups = connect(target)
    assert groups.list()[group].kind == "classic"
    assert groups.make_consumer_groups({group: topic, unknown: topic}) == {group: "", unknown: ""}
    described = groups.describe([group])[group]
    assert (described.kind, described.state, described.members) == ("consumer", "Empty", ())
    assert committed(target, group) == {(topic, 0): 7}
    assert groups.commit({group: {(topic, 0): GroupCommit(8)}}) == {group: {(topic, 0): ""}}
