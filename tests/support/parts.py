"""The order of the long tests: all of them take longer than the gate may on two cores.

The gate runs those of ``EVERY_TIME``, then one of several parts of the others, then the parts after
it while there is time. The next commit begins with the next part: where a gate has time for one
part, each test has run after as many commits as there are parts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

# What k2ktui promises first: exactly once when processes are killed at every step, on every broker;
# and all parsers of hostile input.
EVERY_TIME = ("tests/replication/test_exactly_once.py", "tests/matrix/", "tests/fuzz/")


@dataclass(frozen=True, slots=True)
class Part:
    """Part ``number`` of ``count``, from 1."""

    number: int
    count: int

    @classmethod
    def parse(cls, text: str) -> Part:
        """Read ``2/4``.

        Raises:
            ValueError: it is not a part, or not one of so many.
        """
        number, count = map(int, text.split("/"))
        if not 1 <= number <= count:
            raise ValueError(f"{text} is not a part")
        return cls(number, count)

    def turns(self, durations: Mapping[str, float]) -> dict[str, int]:
        """Return how many parts run before the part of each group; all take about as long.

        The longest group goes first, each to the part that has least so far.
        """
        seconds = [0.0] * self.count
        found = {}
        for group in sorted(durations, key=lambda group: (-durations[group], group)):
            least = seconds.index(min(seconds))
            seconds[least] += durations[group]
            found[group] = (least - self.number + 1) % self.count
        return found
