"""Batches that wait as rows are those that wait as batches."""

from __future__ import annotations

from collections import deque

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from k2ktui.log.batch import Batch, split_batches
from k2ktui.replication.copying.waiting_batches import WaitingBatches
from tests.support.records.made_batches import Made, Record, log
from tests.support.records.native_library import installed_or_compiled
from tests.support.schedule.examples import examples

ANSWERS = st.lists(
    st.tuples(st.booleans(), st.lists(st.booleans(), min_size=1, max_size=6)), max_size=4
)
STEPS = st.lists(st.tuples(st.sampled_from(("take", "last", "leave out")), st.integers(0, 5)))


def content(batches: WaitingBatches | deque[Batch]) -> list[tuple[int, bytes]]:
    return [(batch.base_offset, bytes(batch.view)) for batch in batches]


@given(ANSWERS, STEPS)
@settings(max_examples=examples(200), deadline=None)
def test_like_a_deque(answers: list[tuple[bool, list[bool]]], steps: list[tuple[str, int]]) -> None:
    core = installed_or_compiled()
    waiting, model = WaitingBatches(), deque[Batch]()
    for as_rows, small in answers:
        data = memoryview(bytearray(b"".join(log([Made((Record(b"k", b"v"),))] * len(small)))))
        batches = list(split_batches(data))
        if as_rows:
            rows = core.scan(data).rows
            rows["mergeable"] = small
            waiting.append_rows(data, rows)
        else:
            for batch in batches:
                waiting.append(batch)
        model += batches
    for step, number in steps:
        if step == "take" and number <= len(model):
            taken = [model.popleft() for _ in range(number)]
            assert waiting.take(number) == sum(len(batch.view) for batch in taken)
        elif step == "last" and model:
            assert content(deque([waiting.take_last()])) == content(deque([model.pop()]))
        elif step == "leave out":
            removed = waiting.leave_out(lambda batch, odd=number: batch.base_offset % 6 == odd)  # type: ignore[misc]
            assert content(deque(removed)) == content(
                deque(batch for batch in model if batch.base_offset % 6 == number)
            )
            model = deque(batch for batch in model if batch.base_offset % 6 != number)
        assert (len(waiting), content(waiting)) == (len(model), content(model))
        if model:
            assert waiting.first is waiting.first
            assert content(deque([waiting.first, waiting.last])) == content(
                deque([model[0], model[-1]])
            )


ONE = Made((Record(b"k", b"v"),))
SIZE = len(log([ONE])[0])


@pytest.mark.parametrize(("small", "most", "expected"), [
    ([1, 1, 1, 0, 1], 9, [3]),
    ([1, 1, 1, 1, 1], 2, [3]),  # each has some bytes more than a header
    ([1, 1, 1, 1, 1], 1, [2]),
    ([0, 1, 1, 1, 1], 9, []),
    ([1, 0, 1, 1, 1], 9, []),
])  # fmt: skip
def test_rows_that_can_be_merged(small: list[int], most: int, expected: list[int]) -> None:
    core = installed_or_compiled()
    data = memoryview(bytearray(b"".join(log([ONE] * len(small)))))
    rows = core.scan(data).rows
    rows["mergeable"] = small
    waiting = WaitingBatches()
    waiting.append_rows(data, rows)
    pieces = waiting.mergeable(core, most * SIZE, lambda _: False)
    assert [len(piece.rows) for piece in pieces] == expected


def test_rows_of_several_answers_can_be_merged_with_batches_that_wait_alone() -> None:
    core = installed_or_compiled()
    waiting = WaitingBatches()
    for number, encoded in enumerate(log([ONE] * 6)):
        data = memoryview(bytearray(encoded))
        if number % 2:
            rows = core.scan(data).rows
            rows["mergeable"] = 1
            waiting.append_rows(data, rows)
        else:
            waiting.append(next(split_batches(data)))
    pieces = waiting.mergeable(core, 9 * SIZE, lambda batch: batch.base_offset < 14)
    assert [piece.rows["base_offset"].tolist() for piece in pieces] == [[10], [11], [12], [13]]
    assert core.coalesce(pieces, 9 * SIZE).batches == 4
