"""When records were written, against logs whose records' times are known."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k2ktui.engine.log_times import MOST_READ, CommitTimes, LogEnds, LogSpan, ReadRecords

AT = ("orders", 0)


def followed(written: Sequence[float], polls: Sequence[float]) -> LogEnds:
    """Return the ends of a log, whose records were written at these times, at each poll."""
    ends = LogEnds()
    for at in polls:
        ends.add(bisect_right(written, at), at)
    return ends


@given(
    st.lists(st.floats(0, 4000), max_size=60).map(sorted),
    st.lists(st.floats(0.1, 90), min_size=2, max_size=60),
)
def test_a_time_that_is_given_is_right(written: list[float], pauses: list[float]) -> None:
    polls = [sum(pauses[: n + 1]) for n in range(len(pauses))]
    ends, now = followed(written, polls), polls[-1]
    for offset, at in enumerate(written):
        known = ends.written_at(offset, now)
        if known is not None:
            assert abs(known - at) <= max(10.0, 0.1 * (now - known)) + 1e-6


def test_a_steady_log_of_a_day_takes_little_and_stays_within_a_tenth() -> None:
    written = [n / 2 for n in range(2 * 86_400)]
    ends = followed(written, [5.0 * n for n in range(1, 17_280)])
    now = 5.0 * 17_279
    for age in (3, 20, 100, 1_000, 20_000, 80_000):
        offset = bisect_right(written, now - age) - 1
        known = ends.written_at(offset, now)
        assert known is not None and abs(known - written[offset]) <= 0.1 * age
    assert len(ends) <= 256


def test_what_the_ends_do_not_say_is_not_known() -> None:
    ends = followed([], [])
    assert ends.written_at(0, 0.0) is None
    # Between 1,000 s and 1,600 s nothing was read: what came then may be of any moment.
    ends = followed([*range(100), *range(1_000, 1_600)], [10, 20, 1_000, 1_600])
    assert ends.written_at(5, 1_600) is None, "before the first reading"
    assert ends.written_at(15, 1_600) == 14.5
    assert ends.written_at(400, 1_600) is None
    assert ends.written_at(700, 1_600) is None, "beyond the end"
    ends.add(3, 1_605)
    assert ends.written_at(2, 1_605) is None, "the log was made again"


def test_records_are_read_where_the_ends_say_nothing_and_once() -> None:
    times, log = CommitTimes(), LogSpan(0, 100, 100)
    assert times.observe({AT: {40, 100}}, {AT: log}, 0.0) == [(*AT, 40)]
    assert times.times() == {AT: {100: math.inf}}
    times.learn({(*AT, 40): -7200.0})
    for at in range(5, 200, 5):
        assert times.observe({AT: {40, 100}}, {AT: log}, at) == []
        assert times.times() == {AT: {40: -7200.0, 100: math.inf}}


def test_a_group_that_stays_is_proven_by_the_record() -> None:
    times = CommitTimes()
    for at in range(0, 60, 5):
        asked = times.observe({AT: {12}}, {AT: LogSpan(0, 10 + at, 10 + at)}, at)
        # Written between the polls of 0 and 5, as the ends say; after 30 s it is looked at.
        assert bool(asked) is (at >= 35)
        if at:
            assert times.times()[AT][12] == 2.5
    # Behind it are only markers of transactions, until there is a record.
    times.learn({(*AT, 12): math.inf})
    assert times.times()[AT][12] == math.inf
    assert times.observe({AT: {12}}, {AT: LogSpan(0, 65, 65)}, 60) == []
    assert times.observe({AT: {12}}, {AT: LogSpan(0, 66, 66)}, 65) == [(*AT, 12)]


def test_what_retention_deleted_is_not_the_next_record() -> None:
    times = CommitTimes()
    assert times.observe({AT: {40}}, {AT: LogSpan(60, 100, 100)}, 0.0) == [(*AT, 60)]
    times.learn({(*AT, 60): -50.0})
    assert times.times() == {AT: {40: -50.0}}


def test_a_log_that_was_made_again_has_other_records() -> None:
    times = CommitTimes()
    times.observe({AT: {40}}, {AT: LogSpan(0, 100, 100)}, 0.0)
    times.learn({(*AT, 40): -7200.0})
    assert times.observe({AT: {40}}, {AT: LogSpan(0, 50, 50)}, 5.0) == [(*AT, 40)]
    assert times.times() == {AT: {}}


def test_few_records_are_read_at_once_and_each_has_its_turn() -> None:
    times, logs = CommitTimes(), [("orders", number) for number in range(3 * MOST_READ)]
    left = {(*where, 0) for where in logs}
    for at in range(3):
        asked = times.observe(
            {where: {0} for where in logs}, dict.fromkeys(logs, LogSpan(0, 1, 1)), at
        )
        assert len(asked) == MOST_READ
        # The first half of what was asked cannot be read.
        times.learn(dict.fromkeys(asked[MOST_READ // 2 :], 0.0))
        left -= set(asked)
    assert not left


ages = st.floats(-5_000, 90_000, allow_nan=False)


@given(
    st.lists(ages, min_size=3, max_size=80).map(lambda ages: sorted(ages, reverse=True)),
    st.lists(st.integers(0, 79), min_size=2, max_size=40),
)
def test_a_time_between_two_records_is_right_in_a_log_in_order(
    ages: list[float], read: list[int]
) -> None:
    records, now = ReadRecords(), 1e9
    for offset in read:
        place = offset % len(ages)
        records.add(place, now - ages[place], now)
    for offset, age in enumerate(ages):
        known = records.written_at(offset, now)
        assert known is None or abs(now - known - age) <= max(10.0, 0.1 * age) + 1e-3


def test_a_log_that_is_not_in_order_has_only_the_times_of_its_records() -> None:
    records, now = ReadRecords(), 100_000.0
    for offset, written in ((0, 0.0), (100, 1_000.0), (200, 2_000.0)):
        records.add(offset, written, now)
    assert records.written_at(50, now) == 500.0
    records.add(150, 90_000.0, now)
    assert records.written_at(50, now) is None


def test_many_records_of_a_log_take_little_and_still_say_when() -> None:
    records, now = ReadRecords(), 100_000.0
    for offset in range(5_000):
        records.add(offset, 10.0 * offset, now)
    assert len(records) <= 256
    for offset in range(4_000):
        known = records.written_at(offset, now)
        assert known is None or abs(known - 10 * offset) <= max(10.0, 0.1 * (now - 10 * offset))
    before = len(records)
    records.forget_before(4_500)
    assert records.written_at(4_500, now) == 45_000.0 and len(records) < before


@pytest.mark.parametrize(
    ("partitions", "silent_s", "most_asked"), [(50, 3_600.0, 0.3), (1_000, 0.0, 0.7)]
)
def test_groups_that_all_move_through_an_old_backlog_soon_have_ages(
    partitions: int, silent_s: float, most_asked: float
) -> None:
    times, logs = CommitTimes(), [("orders", number) for number in range(partitions)]
    began, records = 1e9, 100_000

    def written_at(offset: int) -> float:
        # A busy hour, a silence, and another busy hour until some hours before.
        since = 3_600.0 * offset / (records / 2)
        return began - 5 * 3_600 + since + (silent_s if offset >= records / 2 else 0.0)

    places = [(logs[n % partitions], 10 * (n // partitions)) for n in range(5_000)]
    asked_in_all, untimed = 0, []
    for poll in range(80):
        now, end = began + 5.0 * poll, records + 20 * poll
        offsets: dict[tuple[str, int], set[int]] = {where: set() for where in logs}
        for where, offset in places:
            offsets[where].add(offset + 900 * poll)
        asked = times.observe(offsets, dict.fromkeys(logs, LogSpan(0, end, end)), now)
        asked_in_all += len(asked)
        times.learn({place: written_at(place[2]) for place in asked})
        ages = times.times()
        for where, of in ages.items():
            for offset, written in of.items():
                age = now - written_at(offset)
                assert abs(now - written - age) <= 0.1 * age, (where, offset, poll)
        untimed.append(5_000 - sum(map(len, ages.values())))
    # A silence that all pass at once takes two polls.
    assert sum(untimed[12:]) <= 0.05 * 5_000 * (80 - 12)
    assert asked_in_all < 80 * MOST_READ * most_asked
