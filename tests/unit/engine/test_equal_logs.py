"""Offsets are called equal only where the batches of both logs are."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k2ktui.engine.mapping.equal_logs import (
    BatchIdentity,
    Equality,
    LogPart,
    around,
    judge,
)

sizes = st.lists(st.tuples(st.integers(1, 4), st.booleans()), min_size=1, max_size=12)


def log_of(parts: list[tuple[int, bool]], first: int = 0) -> LogPart:
    """Return a log of batches of these sizes; compaction has left nothing of some."""
    batches: dict[int, BatchIdentity] = {}
    at = first
    for number, (size, is_left) in enumerate(parts):
        identity = BatchIdentity(at, at + size - 1, hash((at, number)))
        if is_left:
            batches |= dict.fromkeys(range(at, at + size), identity)
        at += size
    return LogPart(first, at, batches)


@given(sizes, st.integers(0, 3))
def test_an_equal_copy_is_proven_where_batches_are_left(
    parts: list[tuple[int, bool]], first: int
) -> None:
    log = log_of(parts, first)
    for offset in range(first, log.end + 1):
        compared = [at for at in around(offset) if first <= at < log.end]
        is_left = all(at in log.batches for at in compared)
        wanted = Equality.PROVEN if is_left else Equality.UNKNOWN
        assert judge(offset, log, log).equality is wanted
    assert judge(log.end + 1, log, log).equality is Equality.UNKNOWN


@given(sizes, sizes)
def test_logs_with_other_records_are_never_equal(
    parts: list[tuple[int, bool]], others: list[tuple[int, bool]]
) -> None:
    """Whatever compaction and deletion have left of them; but for the end of what is empty."""
    log, other = log_of(parts), log_of(others)
    other = replace(
        other,
        batches={at: one._replace(checksum=~one.checksum) for at, one in other.batches.items()},
    )
    for offset in range(1, max(log.end, other.end) + 2):
        assert judge(offset, log, other).equality is not Equality.PROVEN


@given(sizes, st.data())
def test_no_offset_next_to_a_damage_is_proven(
    parts: list[tuple[int, bool]], data: st.DataObject
) -> None:
    log = log_of([(size, True) for size, _ in parts])
    at = data.draw(st.integers(0, log.end - 1))
    damaged = log.batches[at]
    rewritten = damaged._replace(checksum=damaged.checksum + 1)
    shifted = [
        damaged._replace(base_offset=damaged.base_offset - 1),
        damaged._replace(last_offset=damaged.last_offset + 1),
    ]
    other = data.draw(st.sampled_from([rewritten, *shifted]))
    copy = replace(
        log, batches={n: other if one is damaged else one for n, one in log.batches.items()}
    )
    harmed = Equality.UNKNOWN if other is rewritten else Equality.DIFFERENT
    for offset in range(log.end + 1):
        touches = any(log.batches.get(near) is damaged for near in around(offset))
        wanted = harmed if touches else Equality.PROVEN
        assert judge(offset, log, copy).equality is wanted


@given(sizes, st.integers(1, 5))
def test_records_of_others_on_the_target_are_a_difference(
    parts: list[tuple[int, bool]], more: int
) -> None:
    log = log_of(parts)
    native = BatchIdentity(log.end, log.end + more - 1, 0)
    grown = {**log.batches, **dict.fromkeys(range(log.end, log.end + more), native)}
    promoted = LogPart(0, log.end + more, grown)
    for offset in range(log.end + 1):
        assert judge(offset, log, promoted).equality is Equality.DIFFERENT


@given(sizes, sizes)
def test_a_copy_that_has_not_come_so_far_is_proven_up_to_its_end(
    parts: list[tuple[int, bool]], later: list[tuple[int, bool]]
) -> None:
    source = log_of([(size, True) for size, _ in (*parts, *later)])
    end = sum(size for size, _ in parts)
    copy = LogPart(0, end, {at: one for at, one in source.batches.items() if at < end})
    assert judge(end + 1, source, copy).equality is Equality.UNKNOWN
    for offset in range(end + 1):
        assert judge(offset, source, copy).equality is Equality.PROVEN


@pytest.mark.parametrize("side", ["source", "target"])
def test_what_cannot_be_read_proves_nothing(side: str) -> None:
    log = log_of([(3, True)])
    for silent in (LogPart(unread="no answer"), replace(log, batches={}, unread="no answer")):
        judged = judge(1, *((silent, log) if side == "source" else (log, silent)))
        assert judged.equality is Equality.UNKNOWN
        assert side in judged.reason and "no answer" in judged.reason
    late = replace(log, unread="no answer")
    assert judge(1, late, log).equality is Equality.PROVEN, "its batches were read before"


def test_deleted_records_prove_nothing() -> None:
    log = log_of([(3, True), (3, True)])
    cut = LogPart(3, 6, {at: one for at, one in log.batches.items() if at >= 3})
    assert judge(2, log, cut).equality is Equality.UNKNOWN
    assert judge(3, log, cut).equality is Equality.PROVEN
    empty = LogPart(6, 6)
    assert judge(6, empty, empty).equality is Equality.PROVEN
    grown = log_of([(3, True), (3, True), (3, True)])
    assert judge(6, grown, empty).equality is Equality.UNKNOWN
