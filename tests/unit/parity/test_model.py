"""Differences, plans, journal and memory of parity: properties of the pure part."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k2ktui.config.model import ParitySection
from k2ktui.engine.moves.apply import WriteOutcome
from k2ktui.engine.moves.journal_format import (
    read_state_key,
    read_state_value,
    state_key,
    state_value,
)
from k2ktui.engine.moves.plan import UnusablePlan
from k2ktui.engine.parity.journal import begun, journal_rows, read_results
from k2ktui.engine.parity.model import (
    Difference,
    ParityAction,
    ParityItem,
    ParityMemory,
    ParityWrite,
    check_written,
    find_moved,
    find_moved_writes,
    is_contested,
    remember,
    reverse,
    select_for_sync,
)
from k2ktui.engine.parity.plan import ParityPlan, dump_plan, load_plan
from k2ktui.engine.parity.rules import ParityKind
from k2ktui.engine.records.parity_record import ParityRecord
from k2ktui.parity.reader import memory_records, read_memory

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
VALUES = st.none() | TEXTS
ITEMS = st.builds(ParityItem, st.sampled_from(ParityKind), TEXTS, TEXTS)
DIFFERENCES = st.builds(
    Difference, ITEMS, VALUES, VALUES, VALUES, VALUES, st.sampled_from(ParityAction), TEXTS, TEXTS
)
WRITES = st.builds(ParityWrite, ITEMS, VALUES, VALUES)
MEMORIES = st.builds(ParityMemory, st.dictionaries(ITEMS, TEXTS), st.dictionaries(ITEMS, VALUES))


def unique(rows: list[Difference]) -> tuple[Difference, ...]:
    return tuple({row.item: row for row in rows}.values())


def make_plan(rows: tuple[Difference, ...]) -> ParityPlan:
    return ParityPlan("p", "a", "b", 10.0, 20.0, "me@here", rows, ("f.yaml",), "x:y", ("note",))


@given(st.lists(DIFFERENCES, max_size=5))
def test_a_plan_is_read_as_it_was_written(rows: list[Difference]) -> None:
    plan = make_plan(unique(rows))
    assert load_plan(dump_plan(plan), 15.0) == plan


def test_a_plan_that_was_modified_or_has_expired_is_not_used() -> None:
    item = ParityItem(ParityKind.QUOTA, "user=a", "producer_byte_rate")
    row = Difference(item, "2", "1", "1", "2", ParityAction.SET, "the source's value")
    raw = dump_plan(make_plan((row,)))
    with pytest.raises(UnusablePlan, match="modified"):
        load_plan(raw.replace('"wanted": "2"', '"wanted": "3"'), 15.0)
    with pytest.raises(UnusablePlan, match="expired 5 s ago"):
        load_plan(raw, 25.0)
    with pytest.raises(UnusablePlan, match="plan of offsets"):
        load_plan(raw.replace('"kind": "parity"', '"kind": "x"'), 15.0)
    for field in ("v", "rows", "pipeline", "files", "notes"):
        damaged = {k: v for k, v in json.loads(raw).items() if k != field}
        with pytest.raises(UnusablePlan):
            load_plan(json.dumps(damaged), 15.0)


@given(st.lists(DIFFERENCES, max_size=5))
def test_a_plan_applies_only_to_what_it_has_seen(rows: list[Difference]) -> None:
    planned = unique(rows)
    assert find_moved(planned, planned) == {}
    assert find_moved(planned, []).keys() == {row.item for row in planned}
    for row in planned:
        for other in (
            replace(row, before=f"{row.before}x"),
            replace(row, target=f"{row.target}x"),
            replace(row, wanted=f"{row.wanted}x"),
            replace(row, source=f"{row.source}x"),
        ):
            now = [other if r.item == row.item else r for r in planned]
            assert find_moved(planned, now).keys() == {row.item}


@given(st.lists(WRITES, max_size=5), st.sampled_from(WriteOutcome))
def test_the_journal_keeps_the_values_before_and_after(
    writes: list[ParityWrite], outcome: WriteOutcome
) -> None:
    results = [replace(row, result=outcome, why="why") for row in begun(writes)]
    read = read_results(journal_rows(results))
    assert sorted(read, key=repr) == sorted(results, key=repr)
    undone = reverse(read)
    assert {(w.item, w.after, w.before) for w in undone} == (
        {(w.item, w.before, w.after) for w in writes}
        if outcome in (WriteOutcome.APPLIED, WriteOutcome.UNKNOWN)
        else set()
    )


@given(MEMORIES)
def test_the_record_is_read_as_it_was_written(memory: ParityMemory) -> None:
    names = {(i.kind, i.name) for i in (*memory.created, *memory.held)}
    records = memory_records(memory, names)
    read: list[ParityRecord] = []
    for record in records:
        group, key = read_state_key(state_key("group", record.key))
        assert (group, key) == ("group", record.key)
        value = read_state_value(record.key, state_value(record))
        assert value == record and isinstance(value, ParityRecord)
        read.append(value)
    assert read_memory(read) == memory


class Target:
    """Values on the target, and what parity knows of them."""

    def __init__(self, values: dict[ParityItem, str]) -> None:
        self.values, self.memory = dict(values), ParityMemory()
        self.first = dict(values)

    def write(self, item: ParityItem, after: str | None, *, undo: bool = False) -> ParityWrite:
        write = ParityWrite(item, self.values.get(item), after)
        self.set(item, after)
        self.memory = remember(self.memory, [write], undo=undo)
        return write

    def set(self, item: ParityItem, after: str | None) -> None:
        if after is None:
            self.values.pop(item, None)
        else:
            self.values[item] = after


SOME = [ParityItem(ParityKind.TOPIC_CONFIG, "t", key) for key in "ab"]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["set", "hand", "undo"]),
        st.sampled_from(SOME),
        st.sampled_from(["1", "2", "3"]),
    ),
    max_size=12,
)


@given(STEPS, st.dictionaries(st.sampled_from(SOME), st.sampled_from(["1", "8"])))
def test_only_what_parity_alone_has_set_counts_as_created(
    steps: list[tuple[str, ParityItem, str]], values: dict[ParityItem, str]
) -> None:
    """A value that was there before, or that somebody has set by hand, is never to be removed."""
    target = Target(values)
    owned: dict[ParityItem, bool] = dict.fromkeys(values, False)
    done: list[ParityWrite] = []
    for what, item, value in steps:
        if what == "set":
            done.append(target.write(item, value))
            owned[item] = owned.get(item, True)
        elif what == "hand":
            target.set(item, f"by hand {value}")
            owned[item] = False
        elif done:
            last = done.pop()
            if find_moved_writes([last], {last.item: last.before}) or (
                target.values.get(last.item) != last.after
            ):
                continue
            target.write(last.item, last.before, undo=True)
            if last.before is None:
                owned.pop(last.item, None)
        for known in SOME:
            if target.memory.has_created(known, target.values.get(known)):
                assert owned.get(known), (known, steps)


@given(st.lists(DIFFERENCES, max_size=6), MEMORIES)
def test_sync_removes_nothing_and_leaves_alone_what_was_undone(
    rows: list[Difference], memory: ParityMemory
) -> None:
    modes = dict.fromkeys(ParityKind, "apply")
    chosen = select_for_sync(rows, modes, memory)  # type: ignore[arg-type]
    assert all(row.action is ParityAction.SET for row in chosen)
    assert all(memory.held.get(row.item, "never") != row.wanted or not row for row in chosen)
    modes[ParityKind.QUOTA] = "report"
    others = select_for_sync(rows, modes, memory)  # type: ignore[arg-type]
    assert {row.item.kind for row in others} <= {ParityKind.TOPIC_CONFIG, ParityKind.ACL}


def test_what_was_undone_is_set_again_when_the_source_changes() -> None:
    item = SOME[0]
    target = Target({item: "1"})
    row = Difference(item, "2", "1", "1", "2", ParityAction.SET, "")
    modes = dict.fromkeys(ParityKind, "apply")
    target.write(item, "2")
    target.write(item, "1", undo=True)
    assert select_for_sync([row], modes, target.memory) == []  # type: ignore[arg-type]
    newer = replace(row, source="3", wanted="3")
    assert select_for_sync([newer], modes, target.memory) == [newer]  # type: ignore[arg-type]
    target.write(item, "2")  # by a plan: the operator wants it after all
    assert target.memory.held == {}


def test_a_value_that_something_sets_back_is_left_alone() -> None:
    assert not is_contested([0.0] * 4, 10.0)
    assert is_contested([0.0, 1.0, 2.0, 3.0, 4.0], 10.0)
    assert not is_contested([0.0, 1.0, 2.0, 3.0, 4.0], 3601.0)


def test_results_of_writes() -> None:
    one, two, three = (ParityItem(ParityKind.QUOTA, name, "k") for name in "abc")
    writes = [ParityWrite(item, None, "1") for item in (one, two, three)]
    results = check_written(writes, {two: "no"}, {one: "1", two: None, three: "5"})
    assert [row.result for row in results] == [
        WriteOutcome.APPLIED,
        WriteOutcome.REFUSED,
        WriteOutcome.CHANGED,
    ]
    assert results[1].why == "no" and results[2].why == "the target has 5 after it"


def test_rules_include_and_exclude() -> None:
    rules = ParitySection(include=("a.*", "b"), exclude=("ab",))
    assert [name for name in ("a", "ab", "abc", "b", "c") if rules.compares(name)] == [
        "a",
        "abc",
        "b",
    ]
