"""Which long tests a gate runs: all of them take three hours on two slow cores.

Each gate runs what ``EVERY_TIME`` names, and one part of the others; the gate after the next
commit runs the next part. ``bash .ci/run all`` runs everything.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from zlib import crc32

import pytest

from tests.support.schedule.durations import group_durations, group_of
from tests.support.schedule.long import is_long

# What k2ktui promises first: exactly once when processes are killed at every step, and parsers
# that no input breaks. And the matrix, whose pair of versions rotates.
EVERY_TIME = ("tests/proof/test_exactly_once.py", "tests/unit/fuzz/", "tests/matrix/")
# What shares brokers asks for one of these, directly or not.
_BROKERS = frozenset({"class_archives", "running_registries"})


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

    def has(self, name: str) -> bool:
        """Return whether what has this name belongs to this part, whatever else there is."""
        return crc32(name.encode()) % self.count == self.number - 1

    def groups(self, durations: Mapping[str, float]) -> frozenset[str]:
        """Return the groups of this part, of groups with their seconds; all parts take as long.

        The longest group goes first, each to the part that has least so far.
        """
        seconds = [0.0] * self.count
        chosen = set()
        for group in sorted(durations, key=lambda group: (-durations[group], group)):
            least = seconds.index(min(seconds))
            seconds[least] += durations[group]
            if least == self.number - 1:
                chosen.add(group)
        return frozenset(chosen)

    def choose(self, items: Sequence[pytest.Item]) -> frozenset[pytest.Item]:
        """Return the tests of a gate with this part: all that are not dealt, and its own."""
        long = [item for item in items if is_long(item)]
        groups = self.groups(group_durations(filter(is_dealt, long)))

        def belongs(item: pytest.Item) -> bool:
            return group_of(item) in groups if is_long(item) else self.has(_module_of(item))

        return frozenset(item for item in items if not is_dealt(item) or belongs(item))


def needs_brokers(item: pytest.Item) -> bool:
    """Return whether a test starts brokers, or shares those of the session."""
    return not _BROKERS.isdisjoint(getattr(item, "fixturenames", ()))


def is_dealt(item: pytest.Item) -> bool:
    """Return whether a test belongs to one of the parts, and not to every gate.

    Of the fast ones, those are dealt that share brokers and that plain pytest runs: a gate has run
    them on its first Python.
    """
    if is_long(item):
        return not item.nodeid.startswith(EVERY_TIME)
    return needs_brokers(item) and item.get_closest_marker("longer") is None


def _module_of(item: pytest.Item) -> str:
    return item.nodeid.partition("::")[0]
