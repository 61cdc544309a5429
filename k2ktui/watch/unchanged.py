"""Results that are kept as long as what they were made from does not change."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


class Unchanged(Generic[T]):
    """The last result of a function, returned again for equal inputs; not thread-safe."""

    def __init__(self) -> None:
        self._last: tuple[object, T] | None = None

    def get(self, inputs: object, make: Callable[[], T]) -> T:
        """Return the last result if it was made from equal inputs, else what ``make`` returns.

        The inputs are kept, so they must not be changed afterwards.
        """
        if self._last is None or self._last[0] != inputs:
            self._last = (inputs, make())
        return self._last[1]


@dataclass(frozen=True, slots=True, eq=False)
class Same:
    """An input that counts as unchanged only if it is the same object."""

    value: object

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and self.value is other.value

    def __hash__(self) -> int:
        return id(self.value)
