"""Confirm with a second reading that a group skips records or has no mapping.

Applications commit every few seconds, at different moments on each cluster, so a group that
consumes on both is sometimes ahead on the target. It skips records only if its commits on the
source do not reach the earlier target commit within a commit interval. A group with members on
the target re-reads records only if its commits there do not reach the earlier translation in time.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from k2ktui.engine.mapping.translate import Basis
from k2ktui.engine.moves.groups import EMPTY_STATES, Finding, GroupRow

# Longer than the consumer's default auto.commit.interval.ms of 5 seconds.
_AFTER_S = 6.0

_Key = tuple[str, str, int, str, int | None]


@dataclass(frozen=True, slots=True)
class _FirstDifference:
    """A difference as first read.

    Attributes:
        at: time of the reading, epoch seconds.
        basis: basis of the translation.
        offset: the target offset that the other cluster has to reach: of a group that is ahead the
            commit on the target, of one that is behind the translated offset.
        refuted: whether an earlier difference of the same row turned out not to be one.
        behind: whether the target was behind the translation.
    """

    at: float
    basis: Basis
    offset: int | None
    refuted: bool = False
    behind: bool = False


class Agreement:
    """Compares each reading of the groups with earlier ones; not thread-safe."""

    def __init__(self) -> None:
        self._seen: dict[_Key, _FirstDifference] = {}
        self._first = True

    def settle(self, rows: Iterable[GroupRow], began: float, ended: float) -> list[GroupRow]:
        """Return the rows with their findings.

        Args:
            rows: rows of all groups.
            began, ended: when the reading began and ended, epoch seconds.
        """
        before, self._seen = self._seen, {}
        settled = [self._decide(row, before.get(_key(row)), began, ended) for row in rows]
        self._first = False
        return settled

    def _decide(
        self, row: GroupRow, before: _FirstDifference | None, began: float, ended: float
    ) -> GroupRow:
        if row.finding in (Finding.CHOSEN, Finding.MOVED):
            return row
        behind = row.basis is not Basis.UNMAPPED and (row.divergence or 0) < 0
        if before is not None and before.behind != behind:
            before = None
        decide = self._settle_behind if behind else self._settle
        return decide(row, before, began, ended)

    def _settle_behind(
        self, row: GroupRow, before: _FirstDifference | None, began: float, ended: float
    ) -> GroupRow:
        """Decide on a row behind its translation; the first reading of all is left as it is."""
        if row.state_target in EMPTY_STATES:
            return row
        offset, seen = (
            row.target_offset,
            _FirstDifference(ended, row.basis, row.translated_offset, behind=True),
        )
        if before is None:
            self._seen[_key(row)] = seen
            return row if self._first else replace(row, finding=Finding.MOVING)
        if before.offset is None or offset is None or before.offset <= offset:
            self._seen[_key(row)] = seen
            return replace(row, finding=Finding.MOVING)
        self._seen[_key(row)] = before
        lasting = began - before.at >= _AFTER_S
        return row if lasting else replace(row, finding=Finding.MOVING)

    def _settle(
        self, row: GroupRow, before: _FirstDifference | None, began: float, ended: float
    ) -> GroupRow:
        unmapped = row.basis is Basis.UNMAPPED
        if row.finding is Finding.MOVING or not (unmapped or (row.divergence or 0) > 0):
            return row
        seen = _FirstDifference(ended, row.basis, row.target_offset)
        if before is None or (before.basis is Basis.UNMAPPED) != unmapped:
            self._seen[_key(row)] = seen
            return replace(row, finding=Finding.CHECKING)
        if not unmapped and _has_reached(row, before.offset):
            self._seen[_key(row)] = replace(seen, refuted=True)
            return replace(row, finding=Finding.MOVING)
        self._seen[_key(row)] = before
        # An unused group does not commit: a second reading is enough.
        at_rest = unmapped or row.state_source in EMPTY_STATES
        if at_rest or began - before.at >= _AFTER_S:
            return row
        return replace(row, finding=Finding.MOVING if before.refuted else Finding.CHECKING)


def _key(row: GroupRow) -> _Key:
    return row.group, row.topic, row.partition, row.target_topic, row.target_partition


def _has_reached(row: GroupRow, offset: int | None) -> bool:
    """Whether the source has reached the target commit of the first reading."""
    translated = row.translated_offset
    return offset is None or translated is None or offset <= translated
