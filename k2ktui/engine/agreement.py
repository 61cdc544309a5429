"""Two readings must agree before a group is said to skip records, or to have no mapping.

Applications commit every few seconds, on each cluster at moments of their own, so one that goes on
on both is ahead on the target every now and then. It skips something only if its commits on the
source do not reach, in the time of a commit interval, what was committed on the target before.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from k2ktui.engine.groups import EMPTY_STATES, Finding, GroupRow
from k2ktui.engine.translate import Basis

# Longer than auto.commit.interval.ms of Kafka's consumers, which is 5 seconds.
AFTER_S = 6.0

_Key = tuple[str, str, int, str, int | None]


@dataclass(frozen=True, slots=True)
class _Seen:
    """A difference as it was read first.

    Attributes:
        at: epoch seconds.
        basis: of the translation.
        offset: committed offset on the target.
        refuted: whether one before it turned out to be none.
    """

    at: float
    basis: Basis
    offset: int | None
    refuted: bool = False


class Agreement:
    """Compares each reading of groups with those before; used by one thread.

    Args:
        after_s: seconds for which a group that is in use must be ahead.
    """

    def __init__(self, after_s: float = AFTER_S) -> None:
        self._after_s = after_s
        self._seen: dict[_Key, _Seen] = {}

    def settle(self, rows: Iterable[GroupRow], began: float, ended: float) -> list[GroupRow]:
        """Return the rows with their findings.

        Args:
            rows: what was read of all groups.
            began, ended: when reading began and ended, epoch seconds.
        """
        before, self._seen = self._seen, {}
        return [self._settled(row, before.get(_key(row)), began, ended) for row in rows]

    def _settled(self, row: GroupRow, before: _Seen | None, began: float, ended: float) -> GroupRow:
        unmapped = row.basis is Basis.UNMAPPED
        if row.finding is Finding.MOVING or not (unmapped or (row.divergence or 0) > 0):
            return row
        seen = _Seen(ended, row.basis, row.target_offset)
        if before is None or (before.basis is Basis.UNMAPPED) != unmapped:
            self._seen[_key(row)] = seen
            return replace(row, finding=Finding.CHECKING)
        if not unmapped and _reached(row, before.offset):
            self._seen[_key(row)] = replace(seen, refuted=True)
            return replace(row, finding=Finding.MOVING)
        self._seen[_key(row)] = before
        # Nobody commits for a group that nobody uses: a second look at it is enough.
        at_rest = unmapped or row.state_source in EMPTY_STATES
        if at_rest or began - before.at >= self._after_s:
            return row
        return replace(row, finding=Finding.MOVING if before.refuted else Finding.CHECKING)


def _key(row: GroupRow) -> _Key:
    return row.group, row.topic, row.partition, row.target_topic, row.target_partition


def _reached(row: GroupRow, offset: int | None) -> bool:
    """Whether the source has come to what was committed on the target when it was read first."""
    translated = row.translated_offset
    return offset is None or translated is None or offset <= translated
