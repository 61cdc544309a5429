"""Which file is newer, by the run records of a pipeline."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k2ktui.engine.records.editions import (
    LARGEST_EDITION,
    NO_EDITIONS,
    UNKNOWN_EDITION,
    Edition,
    Editions,
    digest_of,
    edition_of_layout,
    editions_value,
    layout_id,
    merge_editions,
    read_editions,
)
from k2ktui.engine.strict_json import MalformedRecord

DIGESTS = st.integers(0, 5).map(lambda number: f"{number:016x}")
EDITIONS = st.builds(Edition, st.integers(1, 9), DIGESTS)
LISTS = st.lists(EDITIONS, max_size=9).map(lambda e: merge_editions(Editions((o,)) for o in e))
A, B = "a" * 16, "b" * 16


@given(st.lists(DIGESTS, max_size=12))
def test_a_file_is_newer_than_those_that_were_used_before_it_first_was(used: list[str]) -> None:
    """Starts of older files, in any order, change nothing."""
    known, first = NO_EDITIONS, list(dict.fromkeys(used))
    for digest in used:
        known = known.with_edition(known.edition_of(digest))
    assert [edition.digest for edition in known.known] == first[::-1]
    assert [edition.number for edition in known.known] == list(range(len(first), 0, -1))


@given(LISTS, DIGESTS)
def test_a_file_that_is_put_first_is_the_newest(known: Editions, digest: str) -> None:
    first = known.with_edition(known.next(digest))
    assert first.newest.digest == digest
    assert first.with_edition(first.next(digest)) == first, "once"
    others = {edition for edition in known.known if edition.digest != digest}
    assert others == {edition for edition in first.known if edition.digest != digest}


@given(LISTS, LISTS)
def test_of_several_records_the_highest_number_counts(one: Editions, other: Editions) -> None:
    both = merge_editions((one, other))
    assert both == merge_editions((other, one)) == merge_editions((both, one, other))
    for edition in both.known:
        numbers = [e.number for editions in (one, other) if (e := editions.find(edition.digest))]
        assert edition.number == max(numbers)


@given(LISTS)
def test_editions_survive(known: Editions) -> None:
    assert read_editions(editions_value(known)) == known


def test_a_number_that_was_announced_is_kept() -> None:
    known = Editions((Edition(3, A),))
    assert known.edition_of(B, at_least=6) == Edition(6, B)
    assert known.edition_of(A, at_least=5) == Edition(5, A)
    assert known.edition_of(B, at_least=1) == Edition(4, B)


def test_the_oldest_of_very_many_are_forgotten() -> None:
    known = NO_EDITIONS
    for number in range(130):
        known = known.with_edition(known.next(f"{number:016x}"))
    assert len(known.known) == 100 and known.newest == Edition(130, f"{129:016x}")
    assert read_editions(editions_value(known)) == known


@given(st.uuids(), st.integers(1, LARGEST_EDITION), DIGESTS)
def test_the_id_of_a_layout_has_the_edition(unique: object, number: int, digest: str) -> None:
    id_ = layout_id(unique.hex, Edition(number, digest))  # type: ignore[attr-defined]
    assert edition_of_layout(id_) == Edition(number, digest)
    assert len(id_) <= 64, "more cannot be read"


@pytest.mark.parametrize(
    "id_", ["", "l", "5f0c" * 8, "5f-0-a", f"5f--{A}", f"5f-0-{A}", f"5f-{'9' * 13}-{A}", "ü-1-é"]
)
def test_a_layout_of_an_earlier_release_has_none(id_: str) -> None:
    assert edition_of_layout(id_) == UNKNOWN_EDITION
    assert layout_id(id_, UNKNOWN_EDITION) == id_


@pytest.mark.parametrize(
    "value",
    [
        [],
        {"": 1},
        {A: 0},
        {A: LARGEST_EDITION + 1},
        {A: "1"},
        {A: True},
        {A.upper(): 1},
        {"a" * 7: 1},
        {"a" * 65: 1},
        {"g" * 16: 1},
        {f"{number:016x}": 1 for number in range(101)},
    ],
)
def test_damaged_editions(value: object) -> None:
    with pytest.raises(MalformedRecord):
        read_editions(value)


def test_the_digest_is_the_same_in_every_process() -> None:
    assert digest_of({"b": [1, 2], "a": None}) == digest_of({"a": None, "b": [1, 2]})
    assert digest_of({"b": [1, 2], "a": None}) == "ee743f2fa2570a1b"
    assert digest_of({"b": [2, 1], "a": None}) != digest_of({"b": [1, 2], "a": None})
