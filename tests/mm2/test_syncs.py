"""Offset-syncs in the order of their topic: what still holds of them."""

from __future__ import annotations

from k2ktui.engine.state import SourcePartition
from k2ktui.mm2.formats import OffsetSync
from k2ktui.mm2.matching import safe_pairs
from k2ktui.mm2.syncs import _take

AT = SourcePartition("t", 0)


def told(*pairs: tuple[int, int]) -> list[tuple[int, int]]:
    known: dict[int, int] = {}
    for upstream, downstream in pairs:
        _take(known, OffsetSync(AT, upstream, downstream))
    return safe_pairs(list(known.items()))


def test_syncs_that_go_on_all_hold() -> None:
    assert told((0, 5), (100, 105), (250, 260)) == [(0, 5), (100, 105), (250, 260)]


def test_a_copy_that_began_again_replaces_what_it_copied_before() -> None:
    assert told((0, 0), (100, 100), (200, 200), (100, 300), (150, 350)) == [
        (0, 0),
        (100, 300),
        (150, 350),
    ]


def test_a_target_that_was_created_anew_replaces_all() -> None:
    assert told((0, 500), (100, 600), (40, 10), (90, 60)) == [(40, 10), (90, 60)]
