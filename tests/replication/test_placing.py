"""Partitions and slots."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from k2ktui.replication.slot_task import CopyPath
from k2ktui.replication.slots import choose_slot


def placed(partitions: int, slots: int, path: CopyPath, *, spread: bool) -> list[int]:
    loads = [0] * slots
    for _ in range(partitions):
        loads[choose_slot(loads, path, spread=spread)] += 1
    return loads


def test_few_verbatim_partitions_share_a_slot() -> None:
    assert placed(4, 2, CopyPath.VERBATIM, spread=False) == [4, 0]
    assert placed(6, 2, CopyPath.VERBATIM, spread=False) == [4, 2]
    assert placed(64, 2, CopyPath.VERBATIM, spread=False) == [32, 32]


def test_records_that_are_decoded_get_all_cores() -> None:
    assert placed(4, 2, CopyPath.RECORD, spread=False) == [2, 2]


def test_a_number_of_slots_that_was_asked_for_is_used() -> None:
    assert placed(4, 4, CopyPath.VERBATIM, spread=True) == [1, 1, 1, 1]


@given(st.integers(0, 300), st.integers(1, 16), st.sampled_from(CopyPath), st.booleans())
def test_no_slot_has_much_more_than_another(
    partitions: int, slots: int, path: CopyPath, spread: bool
) -> None:
    loads = placed(partitions, slots, path, spread=spread)

    assert sum(loads) == partitions
    assert max(loads) <= max(4, -(-partitions // slots))
