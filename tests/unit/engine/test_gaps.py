"""Gaps of a position: in order, disjoint, and few enough for its record."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from k2ktui.engine.records.gaps import MAX_GAPS, with_gap
from k2ktui.engine.records.state import Gap, Position, position_value

_REASONS = st.sampled_from(["truncated", "diverged", "skipped by operator"])
_GAPS = st.lists(st.tuples(st.integers(0, 400), st.integers(0, 30), _REASONS), max_size=40)


@given(_GAPS)
def test_gaps_cover_what_was_added_and_the_last_reason_holds(
    added: list[tuple[int, int, str]],
) -> None:
    gaps: tuple[Gap, ...] = ()
    model: dict[int, str] = {}
    for first, count, reason in added:
        gaps = with_gap(gaps, Gap(first, first + count, reason))
        model |= dict.fromkeys(range(first, first + count), reason)
    assert {at: gap.reason for gap in gaps for at in range(gap.first, gap.end)} == model
    assert all(gap.first < gap.end for gap in gaps)
    pairs = list(itertools.pairwise(gaps))
    assert all(
        one.end < two.first or (one.end == two.first and one.reason != two.reason)
        for one, two in pairs
    )


def test_a_position_with_gaps_without_end_fits_its_record() -> None:
    gaps: tuple[Gap, ...] = ()
    top = 1 << 62
    for index in range(3 * MAX_GAPS):
        gaps = with_gap(gaps, Gap(top + 2 * index, top + 2 * index + 1, "skipped by operator"))
    assert len(gaps) == MAX_GAPS
    assert gaps[-1].first == top + 2 * (3 * MAX_GAPS - 1)
    position = Position(top, 0, 1, "f" * 32, 1, 0, "t" * 249, 0, "f" * 32, gaps=gaps)
    assert len(position_value(position)) < 16_000
