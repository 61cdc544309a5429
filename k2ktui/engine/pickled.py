"""Values that processes exchange by the thousand: pickled as calls with their fields."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping
from dataclasses import fields
from functools import cached_property
from typing import TypeVar

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")


def pickled_by_fields(kind: type[T]) -> type[T]:
    """Let a data class with slots pickle as a call with its fields, in order.

    What ``dataclass`` itself does looks up the fields of each value again, which takes most of the
    time of a lap's start with thousands of partitions.
    """
    names = tuple(field.name for field in fields(kind))  # type: ignore[arg-type]

    def reduce(self: T) -> tuple[type[T], tuple[object, ...]]:
        return kind, tuple([getattr(self, name) for name in names])

    kind.__reduce__ = reduce  # type: ignore[method-assign, assignment]
    return kind


class UnpickledOnUse(Mapping[K, V]):
    """A mapping that the process which receives it unpickles only if it is read.

    Args:
        values: the mapping, or its pickled form.
    """

    def __init__(self, values: Mapping[K, V] | bytes) -> None:
        self._packed = values if isinstance(values, bytes) else pickle.dumps(dict(values))

    @cached_property
    def _values(self) -> dict[K, V]:
        values: dict[K, V] = pickle.loads(self._packed)  # noqa: S301 - packed by this class
        return values

    def __reduce__(self) -> tuple[object, ...]:
        return UnpickledOnUse, (self._packed,)

    def __getitem__(self, key: K) -> V:
        return self._values[key]

    def __iter__(self) -> Iterator[K]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)
