"""Copies are matched with their source by content: whatever is missing, doubled or foreign."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from k2ktui.engine.records.state import MappingRange
from k2ktui.sync.matching.records import match_records


def prints(contents: str, first: int = 0) -> list[tuple[int, bytes]]:
    return [(first + i, c.encode()) for i, c in enumerate(contents)]


def test_a_plain_copy() -> None:
    matched = match_records(prints("abcdef", 100), prints("abcdef", 7), {})
    assert matched.ranges == (MappingRange(100, 7, 6),)
    assert matched.unmatched == () and matched.repeated == 0


def test_records_that_are_missing_or_foreign() -> None:
    matched = match_records(prints("abcdef"), prints("abXdef"), {})
    assert matched.pairs == ((0, 0), (1, 1), (3, 3), (4, 4), (5, 5))
    assert matched.unmatched == (2,) and matched.copied == {0, 1, 3, 4, 5}


def test_of_what_was_copied_twice_the_last_copy_counts() -> None:
    matched = match_records(prints("abcdef"), prints("abcdbcdef"), {})
    assert matched.pairs == ((0, 0), (1, 4), (2, 5), (3, 6), (4, 7), (5, 8))
    assert matched.repeated == 3 and matched.copied == set(range(6))


def test_a_copier_that_was_cut_short_the_second_time() -> None:
    matched = match_records(prints("abcdef"), prints("abcdb"), {})
    # Who has not read c continues at c, and meets d and b: none is passed by.
    assert matched.pairs == ((0, 0), (2, 2), (3, 3))
    assert max(matched.copied) == 3  # copying continues at e


def test_equal_records_are_identified_by_their_neighbors() -> None:
    matched = match_records(prints("xxxaxxx"), prints("xxxaxxx", 10), {})
    assert matched.ranges == (MappingRange(0, 10, 7),)


def test_equal_records_without_neighbours_need_a_known_one() -> None:
    assert match_records(prints("xxxx"), prints("xx", 5), {}).pairs == ()
    assert match_records(prints("xxxx"), prints("xx", 5), {5: 2}).pairs == ((2, 5), (3, 6))
    assert match_records(prints("xxxy"), prints("xx", 5), {6: 3}).pairs == ()  # 3 is another record


@given(
    st.lists(st.integers(0, 10_000), unique=True, max_size=40),
    st.data(),
)
def test_unique_records_are_always_found(values: list[int], data: st.DataObject) -> None:
    source = [(2 * i, b"%d" % v) for i, v in enumerate(values)]
    copy: list[bytes | None] = []
    position = 0
    while position < len(source):
        step = data.draw(st.sampled_from(["copy", "skip", "foreign", "back"]))
        if step == "copy":
            copy.append(source[position][1])
            position += 1
        elif step == "skip":
            position += 1
        elif step == "foreign":
            copy.append(None)
        elif len(copy) < 200:
            position = data.draw(st.integers(0, position))
    target = [(i, b"foreign %d" % i if c is None else c) for i, c in enumerate(copy)]
    matched = match_records(source, target, {})
    by_content = {digest: offset for offset, digest in source}
    assert matched.copied == {by_content[c] for c in copy if c is not None}
    assert set(matched.unmatched) == {i for i, c in enumerate(copy) if c is None}
    assert all(by_content[target[t][1]] == s for s, t in matched.pairs)
    assert all(a[0] < b[0] and a[1] < b[1] for a, b in pairwise(matched.pairs))
    # A consumer that continues at the translated offset meets every record that it has not read.
    last = {by_content[c]: i for i, c in enumerate(copy) if c is not None}
    for offset, _ in source:
        first = next((t for s, t in matched.pairs if s >= offset), len(copy))
        needed = [i for s, i in last.items() if s >= offset]
        assert not needed or first == min(needed)
