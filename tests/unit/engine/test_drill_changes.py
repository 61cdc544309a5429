"""States before and after a drill's changes: what is written is read, and nothing else is."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from k2ktui.engine.drill import changes as drill_changes
from k2ktui.engine.drill.changes import EVERYONE, MovedPositions, QuotaRates
from k2ktui.engine.drill.checks import DrillPhase
from k2ktui.engine.drill.model import Change, ChangeKind
from k2ktui.engine.drill.tail import TailChoice
from k2ktui.engine.records.state import SourcePartition
from k2ktui.engine.strict_json import MalformedRecord
from tests.support.drill.recorded_changes import CHANGE_READERS, RECORDED, dump_rates

AT, OTHER = SourcePartition("orders", 0), SourcePartition("orders", 1)
LONG = "x" * 40_000


def changed(before: str = "", after: str = "", kind: ChangeKind = ChangeKind.ACLS) -> Change:
    return Change(DrillPhase.FENCE_PRODUCERS, kind, "w", before, after, "u")


def test_what_a_drill_records_is_read_again() -> None:
    topics = drill_changes.dump_names(["a", "b.c"])
    assert drill_changes.read_denied_topics(changed("", topics)) == ["a", "b.c"]
    user = (("user", "CN=ann,O=Ö"),)
    before = dump_rates([(user, 2048.0)])
    after = dump_rates([(EVERYONE, 1.0), (user, 1.0)])
    quota_rates = drill_changes.read_quota_rates(changed(before, after))
    assert quota_rates == QuotaRates({user: 2048.0}, {EVERYONE: 1.0, user: 1.0})
    earlier = {"host": "bastion", "files": ["/etc/orders.yaml"], "telemetry": True, "cwd": ""}
    assert drill_changes.read_host(changed(json.dumps(earlier))) == "bastion"
    assert drill_changes.read_host(changed(drill_changes.dump_host("b"))) == "b"
    states = {"orders.driver": (4711, 3), "orders.0": (4712, 0)}
    fenced = drill_changes.dump_fenced(7, states)
    assert drill_changes.read_fenced(changed("", fenced)) == states
    moves = changed(
        drill_changes.dump_offsets({AT: None, OTHER: 5}),
        drill_changes.dump_offsets({AT: 7, OTHER: 8}),
    )
    expected = MovedPositions({AT: None, OTHER: 5}, {AT: 7, OTHER: 8})
    assert drill_changes.read_moved_positions(moves) == expected
    tail = changed(
        drill_changes.dump_offsets({AT: 5}), drill_changes.dump_tail_choice(TailChoice.EXPORT)
    )
    assert drill_changes.read_tail_choice(tail) is TailChoice.EXPORT
    assert drill_changes.read_tail_starts(tail) == {AT: 5}
    assert drill_changes.read_released(changed(drill_changes.dump_names(["d1"]))) == ["d1"]
    assert drill_changes.read_plans(changed("", drill_changes.dump_names(["p", "p"]))) == ["p", "p"]


def test_epochs_that_are_not_recorded_yet_are_unknown() -> None:
    assert drill_changes.read_fenced(changed("", "")) is None
    assert drill_changes.read_fenced(changed("", '{"term": 7}')) is None, "of an earlier release"
    assert drill_changes.read_fenced(changed("", '{"term": 7, "fenced": {}}')) == {}


def test_the_readers_cover_every_kind_that_records_a_state() -> None:
    # The state of shadow groups is the prefix of their names, which is not read.
    assert {kind for kind, _ in CHANGE_READERS} == set(ChangeKind) - {ChangeKind.SHADOW_GROUPS}
    assert RECORDED.keys() == set(ChangeKind) - {ChangeKind.SHADOW_GROUPS}
    for kind, read in CHANGE_READERS:
        read(changed(*RECORDED[kind], kind))


@pytest.mark.parametrize("hostile", ["[", "{}", "1e999", '[["a"]]', '{"fenced": 1}', "[[1]]", "9"])
@pytest.mark.parametrize(("kind", "read"), CHANGE_READERS)
def test_each_reader_has_one_error(
    kind: ChangeKind, read: Callable[[Change], object], hostile: str
) -> None:
    with pytest.raises(MalformedRecord):
        read(changed(hostile, hostile, kind))


@pytest.mark.parametrize(
    "fenced",
    [
        "[",
        '{"fenced": 1}',
        '{"fenced": {"a": [1, 1]}}',
        '{"term": 7, "fenced": 1}',
        '{"term": 7, "fenced": [[1]]}',
        '{"term": 7, "fenced": {"a": [1e999, 1]}}',
        '{"term": 7, "fenced": {"a": [1.0, 1]}}',
        '{"term": 7, "fenced": {"a": [1, 40000]}}',
        '{"term": 7, "fenced": {"a": [1, 1, 1]}}',
        '{"term": 7, "fenced": {"a": [1, 1], "a": [1, 1]}}',
        '{"term": 1e3, "fenced": {}}',
        json.dumps({"term": 7, "fenced": {LONG: [1, 1]}}),
    ],
)
def test_epochs_are_producer_ids_and_epochs(fenced: str) -> None:
    with pytest.raises(MalformedRecord):
        drill_changes.read_fenced(changed("", fenced))


@pytest.mark.parametrize("topic", ["*", "", ".", "a/b", "ü", "x" * 250, "a\n", "\ud800", 1, None])
def test_writes_are_denied_on_single_topics_only(topic: object) -> None:
    """A rule for the literal topic * concerns every topic."""
    with pytest.raises(MalformedRecord):
        drill_changes.read_denied_topics(changed("", json.dumps([topic])))


USER = [["user", "ann"]]
ALL = [[["client-id", None], ["user", None]], 1.0]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ([], [[[["user", None]], 1.0]]),
        ([], [ALL, [USER, 1.0]]),
        ([[USER, 5.0]], [ALL]),
        ([[USER, 5.0]], [ALL, [USER, 5.0]]),
        ([[USER, 5.0]], [ALL, [USER, None]]),
        ([[USER, None]], [ALL, [USER, 1.0]]),
        ([[USER, 0]], [ALL, [USER, 1.0]]),
        ([[USER, -1]], [ALL, [USER, 1.0]]),
        ([[USER, True]], [ALL, [USER, 1.0]]),
        ([[USER, 1e19]], [ALL, [USER, 1.0]]),
        ([[USER, 5.0], [USER, 6.0]], [ALL, [USER, 1.0]]),
        ([[[], 5.0]], [ALL, [[], 1.0]]),
        ([[[["ip", "a"]], 5.0]], [ALL, [[["ip", "a"]], 1.0]]),
        ([[[["user", ""]], 5.0]], [ALL, [[["user", ""]], 1.0]]),
        ([[[["user", LONG]], 5.0]], [ALL, [[["user", LONG]], 1.0]]),
        ([[USER + USER, 5.0]], [ALL, [USER + USER, 1.0]]),
    ],
)
def test_quotas_are_those_of_users_and_clients_that_were_recorded_before(
    before: object, after: object
) -> None:
    with pytest.raises(MalformedRecord):
        drill_changes.read_quota_rates(changed(json.dumps(before), json.dumps(after)))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ([["a", 0, 1]], []),
        ([["a", 0, 1]], [["a", 1, 1]]),
        ([["a", 0, 1]], [["a", 0, None]]),
        ([["a", 0, -1]], [["a", 0, 1]]),
        ([["a", 1 << 31, 1]], [["a", 1 << 31, 1]]),
        ([["a", 0, 1], ["a", 0, 2]], [["a", 0, 1]]),
        ([["*", 0, 1]], [["*", 0, 1]]),
    ],
)
def test_positions_before_and_after_are_of_the_same_partitions(
    before: object, after: object
) -> None:
    with pytest.raises(MalformedRecord):
        drill_changes.read_moved_positions(changed(json.dumps(before), json.dumps(after)))


def test_no_recorded_choice_stops() -> None:
    for after in ('"stop"', '"replay "', "1", '["replay"]'):
        with pytest.raises(MalformedRecord):
            drill_changes.read_tail_choice(changed("", after))
