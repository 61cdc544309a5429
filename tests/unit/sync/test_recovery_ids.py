"""Which transactional ids of a cluster a pipeline may have used."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k2ktui.replication.ownership.epochs import DRIVER, STATE, transactional_id
from k2ktui.sync.positions.recovery import count_ids


def test_ids_of_both_schemes_count() -> None:
    ids = ["orders.0", "orders.3", "orders.driver", "orders.slot-0.0", "orders.slot-7.2"]
    assert count_ids("orders", ids) == (4, {0: 1, 7: 3})


def test_a_slot_that_has_only_its_lock_is_fenced() -> None:
    assert count_ids("orders", ["orders.slot-2.driver", "orders.slot-4.state"]) == (0, {2: 1, 4: 1})


@pytest.mark.parametrize(
    "other",
    [
        "orders",
        "orders.drill.begin",
        "orders.slot-1",
        "orders.slot-1.x",
        "orders2.4",
        "xorders.4",
        "orders-4",
        "orders.4\n",
        "orders.٤",
        "orders.slot-9999.0",
    ],
)
def test_ids_of_others_do_not_count(other: str) -> None:
    assert count_ids("orders", [other]) == (0, {})


def test_a_group_with_a_dot_is_not_a_pattern() -> None:
    assert count_ids("a.b", ["axb.4", "a.b.1"]) == (2, {})


@given(
    st.text(min_size=1, max_size=20),
    st.lists(st.integers(0, 9_999), max_size=5),
    st.dictionaries(st.integers(0, 999), st.integers(0, 9_999), max_size=5),
)
def test_every_id_that_a_run_uses_is_found(
    group: str, own: list[int], shared: dict[int, int]
) -> None:
    ids = [transactional_id(group, slot) for slot in (DRIVER, STATE, *own)]
    ids += [
        transactional_id(f"{group}.slot-{slot}", number)
        for slot, last in shared.items()
        for number in (DRIVER, STATE, last)
    ]
    found, slots = count_ids(group, ids)
    assert found == max([n + 1 for n in own], default=0)
    assert slots == {slot: last + 1 for slot, last in shared.items()}
