"""Offset-syncs in the order of their topic: what still holds of them."""

from __future__ import annotations

import time

from hypothesis import given
from hypothesis import strategies as st

from k2ktui.engine.records.state import SourcePartition
from k2ktui.mm2.flows.formats import OffsetSync
from k2ktui.mm2.flows.topics import add_sync
from k2ktui.sync.matching.records import safe_pairs

AT = SourcePartition("t", 0)


def reported(*pairs: tuple[int, int]) -> list[tuple[int, int]]:
    known: dict[int, int] = {}
    for upstream, downstream in pairs:
        add_sync(known, OffsetSync(AT, upstream, downstream))
    return safe_pairs(list(known.items()))


def test_syncs_that_continue_all_hold() -> None:
    assert reported((0, 5), (100, 105), (250, 260)) == [(0, 5), (100, 105), (250, 260)]


def test_a_copy_that_began_again_replaces_what_it_copied_before() -> None:
    assert reported((0, 0), (100, 100), (200, 200), (100, 300), (150, 350)) == [
        (0, 0),
        (100, 300),
        (150, 350),
    ]


def test_a_target_that_was_created_again_replaces_all() -> None:
    assert reported((0, 500), (100, 600), (40, 10), (90, 60)) == [(40, 10), (90, 60)]


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)), max_size=30))
def test_the_last_entry_stands_for_all(pairs: list[tuple[int, int]]) -> None:
    """The same as comparing each sync with all earlier ones."""
    known, simple = dict[int, int](), dict[int, int]()
    for upstream, downstream in pairs:
        add_sync(known, OffsetSync(AT, upstream, downstream))
        if simple and downstream < max(simple.values()):
            simple.clear()
        simple = {at: to for at, to in simple.items() if at < upstream} | {upstream: downstream}
        assert list(known.items()) == list(simple.items())


def test_many_syncs_take_no_time() -> None:
    """A comparison of each with all earlier ones would take minutes."""
    known: dict[int, int] = {}
    began = time.process_time()
    for number in range(40_000):
        add_sync(known, OffsetSync(AT, number, number))
    assert len(known) == 40_000
    assert time.process_time() - began < 5
