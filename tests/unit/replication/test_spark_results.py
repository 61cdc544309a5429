"""Results of a Spark job that are lost on the way are not taken for no results."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from k2ktui.replication.spark.session import collect_all


@dataclass
class Context:
    """Runs tasks in this process; of their results, Java sends so many until it ends."""

    sent: int
    _numbers: range = range(0)
    _task: Callable[[Iterator[int]], Iterator[int]] = iter

    def parallelize(self, numbers: range, _: int) -> Context:
        self._numbers = numbers
        return self

    def mapPartitions(self, task: Any) -> Context:
        self._task = task
        return self

    def collect(self) -> list[int]:
        results = [result for n in self._numbers for result in self._task(iter((n,)))]
        return results[: self.sent]


def double(numbers: Iterator[int]) -> Iterator[int]:
    yield from (2 * n for n in numbers)


def test_all_results_are_returned() -> None:
    assert collect_all(Context(3), 3, double) == [0, 2, 4]


@pytest.mark.parametrize("sent", [0, 2])
def test_java_ends_while_it_sends_them(sent: int) -> None:
    with pytest.raises(EOFError, match=f"had sent {sent} of 3 results"):
        collect_all(Context(sent), 3, double)
