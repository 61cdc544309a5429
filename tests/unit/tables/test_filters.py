"""Filters that are pushed to tables: as SQL says, and the rest stays with Spark."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringEndsWith,
    StringStartsWith,
)

from k2ktui.tables.filters import passes, takes

TOPIC, PARTITION = ("topic",), ("partition",)


@pytest.mark.parametrize(
    ("pushed", "topics"),
    [
        (EqualTo(TOPIC, "a.b"), {"a.b"}),
        (Not(EqualTo(TOPIC, "a.b")), {"a.c", "z"}),
        (EqualNullSafe(TOPIC, "z"), {"z"}),
        (GreaterThan(TOPIC, "a.b"), {"a.c", "z"}),
        (GreaterThanOrEqual(TOPIC, "a.c"), {"a.c", "z"}),
        (LessThan(TOPIC, "a.c"), {"a.b"}),
        (LessThanOrEqual(TOPIC, "a.c"), {"a.b", "a.c"}),
        (In(TOPIC, ("z", "y")), {"z"}),
        (Not(In(TOPIC, ("z", "y"))), {"a.b", "a.c"}),
        (Not(In(TOPIC, ("z", None))), set()),
        (IsNull(TOPIC), {None}),
        (IsNotNull(TOPIC), {"a.b", "a.c", "z"}),
        (StringStartsWith(TOPIC, "a."), {"a.b", "a.c"}),
        (StringEndsWith(TOPIC, ".c"), {"a.c"}),
        (StringContains(TOPIC, "."), {"a.b", "a.c"}),
        (EqualTo(TOPIC, None), set()),
        (Not(EqualTo(TOPIC, None)), set()),
    ],
)
def test_a_filter_on_topic(pushed: Filter, topics: set[str | None]) -> None:
    assert takes(pushed)
    known = ("a.b", "a.c", "z", None)
    assert {topic for topic in known if passes([pushed], topic, 0)} == topics


@given(st.integers(0, 9), st.integers(0, 9), st.integers(0, 9))
def test_filters_on_partition_hold_together(low: int, high: int, partition: int) -> None:
    filters = [GreaterThan(PARTITION, low), Not(GreaterThan(PARTITION, high))]
    assert all(map(takes, filters))
    assert passes(filters, "t", partition) == (low < partition <= high)


@pytest.mark.parametrize(
    "pushed",
    [
        EqualTo(("offset",), 1),
        EqualTo(("topic", "x"), "a"),
        Not(LessThan(("lag",), 3)),
        IsNotNull(("group",)),
    ],
)
def test_other_filters_are_left_to_spark(pushed: Any) -> None:
    assert not takes(pushed)
