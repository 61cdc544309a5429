"""State records: what is written is read back, and nothing foreign is taken for ours."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k2ktui.engine.records.cluster_pair import ClusterPair
from k2ktui.engine.records.editions import Edition, Editions
from k2ktui.engine.records.producer_registration import (
    ProducerRegistration,
    read_registration,
    registration_key,
    registration_value,
)
from k2ktui.engine.records.run_record import Interruption, SharedLayout, read_run
from k2ktui.engine.records.state import (
    Covers,
    FirstLanded,
    Gap,
    Landed,
    MalformedRecord,
    MappingRange,
    MappingRecord,
    Position,
    Run,
    SourcePartition,
    mapping_key,
    mapping_value,
    position_key,
    position_value,
    read_commit_record,
    read_mapping_record,
    run_key,
    run_value,
)

KEY_OF_A_POSITION = b'{"group":"p","topic":"t","partition":0}'
KEY = b'{"pipeline":"p","topic":"t","partition":0}'
VALUE = {
    "v": 1,
    "term": 1,
    "targetTopic": "t",
    "targetPartition": 0,
    "ranges": [],
    "covers": [0, 9, 0, 1],
}

offsets = st.integers(0, 2**62)
names = st.text(min_size=1, max_size=249)
sources = st.builds(SourcePartition, names, st.integers(0, 10_000))
gaps = st.builds(Gap, offsets, offsets, names)
topic_ids = st.text("0123456789abcdef", max_size=32)
positions = st.builds(
    Position,
    offset=offsets,
    start=offsets,
    leader_epoch=st.integers(-1, 2**31 - 1),
    topic_id=st.text("0123456789abcdef", max_size=32),
    term=st.integers(0, 2**40),
    slot=st.integers(-1, 1000),
    target_topic=names,
    target_partition=st.none() | st.integers(0, 10_000),
    target_topic_id=st.text("0123456789abcdef", max_size=32),
    since=st.integers(0, 2**40),
    at_ms=offsets,
    gaps=st.lists(gaps, max_size=3).map(tuple),
    further_targets=st.lists(st.tuples(names, topic_ids), max_size=2).map(tuple),
    landed=st.lists(
        st.builds(
            lambda topic, partition, first, size: Landed(topic, partition, first, first + size),
            names,
            st.integers(0, 10_000),
            st.integers(0, 2**40),
            st.integers(0, 2**40),
        ),
        max_size=3,
    ).map(tuple),
    first_landed=st.none()
    | st.lists(
        st.builds(FirstLanded, names, st.integers(0, 10_000), offsets, offsets), max_size=3
    ).map(tuple),
)
ranges = st.builds(MappingRange, offsets, offsets, st.integers(1, 2**31))
mappings = st.builds(
    MappingRecord,
    names,
    sources,
    names,
    st.integers(0, 10_000),
    st.integers(0, 2**40),
    st.lists(ranges, max_size=5).map(tuple),
    covers=st.builds(
        lambda first, size, parts: Covers(first, first + size, parts - 1, parts),
        offsets,
        st.integers(1, 2**40),
        st.integers(1, 9),
    ),
    again=st.booleans(),
)


SHARED = SharedLayout("l", 4)


@pytest.mark.parametrize(
    ("run", "version"),
    [
        (Run(3, 2), 1),
        (Run(3, 2, most_shared=4), 1),
        (Run(3, 2, layout=SHARED), 2),
        (Run(3, 2, most_shared=4, alone=SHARED), 2),
        (Run(3, 1, shared_slot=0), 2),
        (Run(3, 2, has_moved=True), 3),
        (Run(3, 2, layout=SHARED, has_moved=True), 3),
        (Run(3, 1, shared_slot=0, has_moved=True), 3),
        (Run(3, 2, interrupts=Interruption(2)), 1),
    ],
)
def test_releases_that_do_not_know_shared_slots_or_moved_topics_cannot_read_their_runs(
    run: Run, version: int
) -> None:
    """They would not fence the slots; such a release does not copy if it cannot read a run."""
    key, value = run_key("g", run.shared_slot), run_value(run)
    assert json.loads(value)["v"] == version
    assert read_commit_record(key, value) == ("g", None, run)
    later = json.dumps({**json.loads(value), "v": 4}).encode()
    with pytest.raises(MalformedRecord, match="version 4, this release reads up to 3"):
        read_commit_record(key, later)
    if run.shared_slot is None:
        assert read_run(key, value) == ("g", run)


def test_a_release_without_alone_divisions_sees_a_pipeline_that_is_not_shared() -> None:
    """It fences the slots, by their largest number; members that a release does not know, it skips.

    That it does was tried with the commit before this field.
    """
    run = Run(3, 2, most_shared=4, alone=SharedLayout("a", 4, ready=True))
    value = json.loads(run_value(run))
    assert value.pop("alone") == {"id": "a", "slots": 4, "ready": True}
    before = read_commit_record(run_key("g"), json.dumps(value).encode())[2]
    assert before == replace(run, alone=None) and value["mostShared"] == 4
    value["later"] = {"id": "a"}
    assert read_commit_record(run_key("g"), json.dumps(value).encode())[2] == before


@given(names, sources, positions, st.integers(0, 9))
def test_positions_survive(
    group: str, source: SourcePartition, position: Position, behind: int
) -> None:
    if behind:
        position = replace(position, end=position.offset + behind)
    read = read_commit_record(position_key(group, source), position_value(position))
    assert read == (group, source, position)


def test_the_end_of_a_log_that_was_copied_is_not_written() -> None:
    """What every transaction writes stays as small as it was."""
    for end in (0, 8, 9):
        assert b'"end"' not in position_value(Position(9, 0, -1, "", 1, 0, "t", 0, end=end))
    assert b'"end":10' in position_value(Position(9, 0, -1, "", 1, 0, "t", 0, end=10))


@given(mappings)
def test_mappings_survive(mapping: MappingRecord) -> None:
    assert read_mapping_record(mapping_key(mapping), mapping_value(mapping)) == mapping


def test_runs_survive_and_tombstones_are_distinguished() -> None:
    run = Run(7, 4, "orders", "bastion", 1_700_000_000_000)
    assert read_commit_record(run_key("g"), run_value(run)) == ("g", None, run)
    assert read_commit_record(run_key("g"), None) == ("g", None, None)
    known = replace(run, pair=ClusterPair("s", "t", "__mappings"))
    assert read_commit_record(run_key("g"), run_value(known)) == ("g", None, known)
    registering = replace(known, registers=True)
    assert read_commit_record(run_key("g"), run_value(registering)) == ("g", None, registering)
    for layout in (SharedLayout("l", 3), SharedLayout("l", 1000, ready=True)):
        divided = replace(registering, layout=layout, most_shared=1000)
        assert read_commit_record(run_key("g"), run_value(divided)) == ("g", None, divided)
    editions = Editions((Edition(7, "b" * 16), Edition(2, "a" * 16)))
    filed = replace(registering, digest="a" * 16, editions=editions)
    assert read_commit_record(run_key("g"), run_value(filed)) == ("g", None, filed)
    for interrupts in (Interruption(6), Interruption(6, is_over=True)):
        moving = replace(registering, has_moved=True, interrupts=interrupts)
        assert read_commit_record(run_key("g"), run_value(moving)) == ("g", None, moving)
    of_slot = replace(registering, shared_slot=3)
    assert read_commit_record(run_key("g", 3), run_value(of_slot)) == ("g", None, of_slot)
    assert read_commit_record(run_key("g", 3), None) == ("g", None, None)
    assert read_run(run_key("g", 3), run_value(of_slot)) is None, "not a run of the pipeline"
    source = SourcePartition("t", 0)
    assert read_commit_record(position_key("g", source), None) == ("g", source, None)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, None),
        (b"", b""),
        (b"\xff\xfe", b"{}"),
        (b"[]", b"{}"),
        (b"{}", b"{}"),
        (b'{"group":"g","topic":"t","partition":"x"}', b"{}"),
        (b'{"group":"g","topic":"t","partition":0}', b"nonsense"),
        (b'{"group":"g","topic":"t","partition":0}', b'{"v":2,"offset":1}'),
        (b'{"group":"g","topic":"t","partition":0}', b'{"v":1}'),
        (b'{"group":"g","producer":"7"}', b'{"v":1,"sourceCluster":"a","targetCluster":"b"}'),
        (b'{"group":"g","producer":7}', b'{"v":1,"sourceCluster":"a"}'),
        (b'{"group":"g","slotRun":"3"}', b'{"v":1,"term":1,"slots":1}'),
        (b'{"group":"g","slotRun":-1}', b'{"v":1,"term":1,"slots":1}'),
        (b'{"group":"g","slotRun":1000}', b'{"v":1,"term":1,"slots":1}'),
        (b'{"group":"g","slotRun":true}', b'{"v":1,"term":1,"slots":1}'),
        (b'{"group":"g","run":true}', b'{"v":1,"term":1,"slots":1,"mostShared":1001}'),
        (b'{"group":"g","run":true}', b'{"v":1,"term":1099511627777,"slots":1}'),
        (b'{"group":"g","run":true}', b'{"v":1,"term":1,"slots":10001}'),
        (b'{"group":"g","run":true}', b'{"v":1,"term":1,"slots":1,"layout":{"id":"l"}}'),
        (
            b'{"group":"g","run":true}',
            b'{"v":1,"term":1,"slots":1,"layout":{"id":"l","slots":1001,"ready":true}}',
        ),
        (
            b'{"group":"g","run":true}',
            b'{"v":1,"term":1,"slots":1,"layout":{"id":"l","slots":0,"ready":true}}',
        ),
        (b'{"group":"g","run":true}', b'{"v":3,"term":1,"slots":1,"moved":1}'),
        (b'{"group":"g","run":true}', b'{"v":1,"term":1,"slots":1,"interrupts":{"term":1}}'),
        (
            b'{"group":"g","run":true}',
            b'{"v":1,"term":1,"slots":1,"interrupts":{"term":-1,"over":true}}',
        ),
        (b'{"group":"g","producer":7}', b'{"v":2,"sourceCluster":"a","targetCluster":"b"}'),
    ],
)
def test_foreign_commit_records_are_malformed(key: bytes | None, value: bytes | None) -> None:
    with pytest.raises(MalformedRecord):
        read_commit_record(key, value)


def test_registrations_are_found_among_other_records() -> None:
    producer_registration = ProducerRegistration(7, "a", "b", 9)
    key, value = registration_key("g", 7), registration_value(producer_registration)
    assert read_registration(key, value) == producer_registration
    assert read_commit_record(key, value) == ("g", None, producer_registration)
    assert read_commit_record(key, value, "other") == ("g", None, None)
    assert read_commit_record(key, None) == ("g", None, None)
    others = [
        (None, None),
        (key, None),
        (run_key("g"), run_value(Run(1, 1))),
        (run_key('g"producer":'), b"{}"),
        (position_key("g", SourcePartition("t", 0)), b"{}"),
    ]
    assert [read_registration(*other) for other in others] == [None] * len(others)


@pytest.mark.parametrize(
    "ranges", [[[0, 0, 0]], [[-1, 0, 1]], [[0, -1, 1]], [[0, 1]], "x", None, [[0, 0, 1, 2]]]
)
def test_damaged_ranges_are_malformed(ranges: object) -> None:
    with pytest.raises(MalformedRecord):
        read_mapping_record(KEY, json.dumps(VALUE | {"ranges": ranges}).encode())


@pytest.mark.parametrize("covers", [[5, 5, 0, 1], [0, 9, 1, 1], [0, 9, 0], [-1, 9, 0, 1], 1, None])
def test_records_that_cover_nothing_are_malformed(covers: object) -> None:
    assert read_mapping_record(KEY, json.dumps(VALUE).encode()).covers == Covers(0, 9)
    with pytest.raises(MalformedRecord):
        read_mapping_record(KEY, json.dumps(VALUE | {"covers": covers}).encode())


@pytest.mark.parametrize("value", [b"[" * 100_000, b'{"v":1,"ranges":[[Infinity,0,1]]}'])
def test_rubbish_made_to_hurt_is_malformed(value: bytes) -> None:
    with pytest.raises(MalformedRecord):
        read_mapping_record(KEY, value)


@given(positions, positions)
def test_a_later_term_wins_even_where_it_goes_back(a: Position, b: Position) -> None:
    assert a.newer_than(None)
    if a.term != b.term:
        assert a.newer_than(b) == (a.term > b.term)
    else:
        assert a.newer_than(b) == (a.offset >= b.offset)


def test_a_position_of_an_earlier_release_says_nothing_of_the_target_log() -> None:
    value = json.loads(position_value(Position(5, 0, -1, "", 1, 0, "t", 0)))
    assert "landed" not in value
    _, _, position = read_commit_record(KEY_OF_A_POSITION, json.dumps(value).encode())
    assert isinstance(position, Position) and position.landed == ()
    assert position.beyond({("t", 0): 0}) is None


def test_a_span_that_ends_before_it_begins_is_malformed() -> None:
    value = json.loads(position_value(Position(5, 0, -1, "", 1, 0, "t", 0)))
    for row in (["t", 0, 2, 1], ["t", 0, 2], ["t", -1, 0, 1], [0, 0, 0, 1]):
        with pytest.raises(MalformedRecord):
            read_commit_record(KEY_OF_A_POSITION, json.dumps(value | {"landed": [row]}).encode())


def test_first_copies_that_are_not_rows_of_four_are_malformed() -> None:
    value = json.loads(position_value(Position(5, 0, -1, "", 1, 0, "t", 0)))
    assert "firstLanded" not in value  # unknown is not none
    assert b'"firstLanded":[]' in position_value(
        Position(5, 0, -1, "", 1, 0, "t", 0, first_landed=())
    )
    damages: tuple[object, ...] = (
        None, {}, [["t", 0, 2]], [["t", -1, 0, 1]], [[0, 0, 0, 1]], [["t", 0, 0, -1]],
    )  # fmt: skip
    for rows in damages:
        damaged = json.dumps(value | {"firstLanded": rows}).encode()
        with pytest.raises(MalformedRecord):
            read_commit_record(KEY_OF_A_POSITION, damaged)


def test_a_log_that_ends_before_what_was_written_is_named() -> None:
    landed = Landed("t", 0, 10, 20), Landed("t", 1, 5, 5)
    position = Position(5, 0, -1, "", 1, 0, "t", None, landed=landed)
    assert position.beyond({("t", 0): 20, ("t", 1): 5, ("u", 0): 0}) is None
    assert position.beyond({("t", 0): 19}) == landed[0]
    assert position.beyond({("t", 1): 4}) == landed[1]
    assert position.beyond({}) is None
