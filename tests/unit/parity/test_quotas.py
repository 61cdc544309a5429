"""Which client quotas differ, and that a drill's fence is never copied."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k2ktui.config.model import ParitySection
from k2ktui.engine.drill.changes import EVERYONE, LOWERED_RATE, Entity
from k2ktui.engine.drill.checks import DrillKind, DrillPhase
from k2ktui.engine.drill.model import Change, ChangeKind, ChangeStatus
from k2ktui.engine.parity.model import Difference, ParityAction, ParityItem, ParityMemory
from k2ktui.engine.parity.quotas import (
    LowerQuota,
    compare_quotas,
    entity_text,
    find_lower,
    rate_text,
    read_entity,
    read_rate,
)
from k2ktui.engine.parity.rules import ParityKind
from k2ktui.engine.strict_json import MalformedRecord
from tests.support.drill.made_drills import new_drill
from tests.support.drill.recorded_changes import dump_rates

ALICE: Entity = (("user", "alice"),)
RATE = "producer_byte_rate"
NAMES = st.none() | st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
ENTITIES = st.lists(
    st.sampled_from(["client-id", "user"]), min_size=1, max_size=2, unique=True
).flatmap(lambda kinds: st.tuples(*(st.tuples(st.just(kind), NAMES) for kind in sorted(kinds))))
RATES = st.floats(min_value=2.0, max_value=1e12)
KEYS = st.sampled_from([RATE, "consumer_byte_rate", "request_percentage"])
QUOTAS = st.dictionaries(ENTITIES, st.dictionaries(KEYS, RATES, max_size=3), max_size=4)


def compare(source: object, target: object, **more: object) -> list[Difference]:
    memory = more.pop("memory", ParityMemory())
    return compare_quotas(source, target, ParitySection().compares, memory, **more)  # type: ignore[arg-type]


@given(ENTITIES)
def test_an_entity_is_read_as_it_was_written(entity: Entity) -> None:
    text = entity_text(entity)
    assert text.isprintable() and read_entity(text) == entity


@given(st.floats(min_value=1e-9, max_value=1e300))
def test_a_rate_is_read_as_it_was_written(rate: float) -> None:
    assert read_rate(rate_text(rate)) == rate


@pytest.mark.parametrize("raw", ["", "user", "user=", "ip=1", "user=a,user=b", "user=a,"])
def test_what_is_no_entity(raw: str) -> None:
    with pytest.raises(MalformedRecord):
        read_entity(raw)


@pytest.mark.parametrize("raw", ["", "x", "nan", "inf", "0", "-1"])
def test_what_is_no_rate(raw: str) -> None:
    with pytest.raises(MalformedRecord):
        read_rate(raw)


def test_the_default_entity_and_a_user_of_that_name_differ() -> None:
    assert entity_text(EVERYONE) == "client-id=<default>,user=<default>"
    assert entity_text((("user", "<default>"),)) != entity_text((("user", None),))


@given(QUOTAS, QUOTAS)
def test_what_is_applied_differs_no_more(
    source: dict[Entity, dict[str, float]], target: dict[Entity, dict[str, float]]
) -> None:
    after = {entity: dict(values) for entity, values in target.items()}
    for row in compare(source, target):
        assert row.action in (ParityAction.SET, ParityAction.REPORT)
        if row.action is ParityAction.SET:
            assert row.wanted is not None
            rate = read_rate(row.wanted)
            after.setdefault(read_entity(row.item.name), {})[row.item.key] = rate
    assert [row for row in compare(source, after) if row.changes] == []
    for entity, values in source.items():
        for key, value in values.items():
            assert after[entity][key] == value


def test_only_what_parity_created_is_removed() -> None:
    item = ParityItem(ParityKind.QUOTA, "user=alice", RATE)
    (row,) = compare({}, {ALICE: {RATE: 5.0}})
    assert row.action is ParityAction.REPORT
    (row,) = compare({}, {ALICE: {RATE: 5.0}}, memory=ParityMemory({item: "5"}))
    assert row.action is ParityAction.REMOVE and row.wanted is None


def test_quotas_of_addresses_are_left_alone() -> None:
    entity: Entity = (("ip", "1.2.3.4"),)
    assert compare({entity: {"connection_creation_rate": 5.0}}, {}) == []


@given(ENTITIES, st.none() | RATES, st.booleans())
def test_a_fence_is_not_copied_by_its_form(
    entity: Entity, other: float | None, on_source: bool
) -> None:
    fenced = {entity: {RATE: LOWERED_RATE}}
    free = {} if other is None else {entity: {RATE: other}}
    (row,) = compare(fenced, free) if on_source else compare(free, fenced)
    assert row.action is ParityAction.REPORT and "a drill" in row.why
    assert ("on the source" in row.why) == on_source


@pytest.mark.parametrize("status", list(ChangeStatus))
def test_a_fence_is_not_copied_by_its_record(status: ChangeStatus) -> None:
    change = Change(
        DrillPhase.FENCE_PRODUCERS,
        ChangeKind.QUOTAS,
        "lower",
        dump_rates([(ALICE, 5.0)]),
        dump_rates([(EVERYONE, LOWERED_RATE), (ALICE, LOWERED_RATE)]),
        "by hand",
        status,
    )
    drill = replace(new_drill(DrillKind.PLANNED), changes=(change,))
    (row,) = compare({ALICE: {RATE: 9.0}}, {ALICE: {RATE: 5.0}}, drills=([drill], []))
    assert (row.action is ParityAction.SET) == (status is ChangeStatus.UNDONE)
    if row.action is ParityAction.REPORT:
        assert drill.id in row.why and "on the source" in row.why
    (row,) = compare({ALICE: {RATE: 9.0}}, {ALICE: {RATE: 5.0}}, drills=([], [drill]))
    assert (row.action is ParityAction.SET) == (status is ChangeStatus.UNDONE)


def test_lower_quotas() -> None:
    ann: Entity = (("user", "ann"),)
    default: Entity = (("user", None),)
    source = {ann: {"producer_byte_rate": 10.0, "consumer_byte_rate": 5.0}}
    target = {
        ann: {"producer_byte_rate": 10.0, "consumer_byte_rate": 4.0},
        default: {"producer_byte_rate": 1.0},
    }
    assert find_lower(source, target) == [
        LowerQuota(ann, "consumer_byte_rate", 5.0, 4.0),
        LowerQuota(default, "producer_byte_rate", None, 1.0),
    ]
    assert find_lower(target, {}) == []
