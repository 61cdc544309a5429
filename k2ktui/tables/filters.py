"""Filters on topic and partition that Spark pushes to a table, applied before anything is read."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql.datasource import Filter

#: The columns whose filters are taken.
TAKEN = frozenset({"topic", "partition"})

# By the names of PySpark's classes: none is needed where no filter is pushed.
_COMPARE: Mapping[str, Callable[[Any, Any], bool]] = {
    "EqualTo": operator.eq,
    "GreaterThan": operator.gt,
    "GreaterThanOrEqual": operator.ge,
    "LessThan": operator.lt,
    "LessThanOrEqual": operator.le,
    "StringStartsWith": str.startswith,
    "StringEndsWith": str.endswith,
    "StringContains": operator.contains,
}
_KNOWN = frozenset({*_COMPARE, "In", "EqualNullSafe", "IsNull", "IsNotNull"})


def takes(pushed: Filter) -> bool:
    """Return whether a filter is on topic or partition alone, and can be evaluated here."""
    kind = _kind(pushed)
    if kind == "Not":
        return takes(pushed.child)
    return kind in _KNOWN and pushed.attribute in {(name,) for name in TAKEN}


def passes(filters: Sequence[Filter], topic: str | None, partition: int | None) -> bool:
    """Return whether a row of this topic and partition passes all filters; None is null."""
    values = {"topic": topic, "partition": partition}
    return all(_evaluate(pushed, values) for pushed in filters)


def _evaluate(pushed: Filter, values: Mapping[str, Any]) -> bool | None:
    """Return what SQL says of a filter; None is neither true nor false."""
    kind = _kind(pushed)
    if kind == "Not":
        result = _evaluate(pushed.child, values)
        return None if result is None else not result
    (name,) = pushed.attribute
    value = values[name]
    if kind == "IsNull":
        return value is None
    if kind == "IsNotNull":
        return value is not None
    if kind == "EqualNullSafe":
        return bool(value == pushed.value)
    if value is None:
        return None
    if kind == "In":
        return True if value in pushed.value else None if None in pushed.value else False
    other = pushed.value
    return None if other is None else _COMPARE[kind](value, other)


def _kind(pushed: Filter) -> str:
    return type(pushed).__name__
