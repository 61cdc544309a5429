"""Filters on topic and partition that Spark pushes to a table, applied before anything is read."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

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

#: The columns whose filters are taken.
TAKEN = frozenset({"topic", "partition"})

_COMPARE: Mapping[type[Filter], Callable[[Any, Any], bool]] = {
    EqualTo: operator.eq,
    GreaterThan: operator.gt,
    GreaterThanOrEqual: operator.ge,
    LessThan: operator.lt,
    LessThanOrEqual: operator.le,
    StringStartsWith: str.startswith,
    StringEndsWith: str.endswith,
    StringContains: operator.contains,
}


def takes(pushed: Filter) -> bool:
    """Return whether a filter is on topic or partition alone, and can be evaluated here."""
    if isinstance(pushed, Not):
        return takes(pushed.child)
    known = (*_COMPARE, In, EqualNullSafe, IsNull, IsNotNull)
    return isinstance(pushed, known) and pushed.attribute in {(name,) for name in TAKEN}


def passes(filters: Sequence[Filter], topic: str | None, partition: int | None) -> bool:
    """Return whether a row of this topic and partition passes all filters; None is null."""
    values = {"topic": topic, "partition": partition}
    return all(_evaluate(pushed, values) for pushed in filters)


def _evaluate(pushed: Filter, values: Mapping[str, Any]) -> bool | None:
    """Return what SQL says of a filter; None is neither true nor false."""
    if isinstance(pushed, Not):
        result = _evaluate(pushed.child, values)
        return None if result is None else not result
    (name,) = pushed.attribute
    value = values[name]
    if isinstance(pushed, IsNull):
        return value is None
    if isinstance(pushed, IsNotNull):
        return value is not None
    if isinstance(pushed, EqualNullSafe):
        return bool(value == pushed.value)
    if value is None:
        return None
    if isinstance(pushed, In):
        return True if value in pushed.value else None if None in pushed.value else False
    other = pushed.value
    return None if other is None else _COMPARE[type(pushed)](value, other)
