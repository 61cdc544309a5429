"""Match records of two logs by content, in order, where no mapping says which belong together."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

_MOST_WAITING = 10_000


@dataclass(frozen=True, slots=True)
class Unmatched:
    """A record that has no counterpart.

    Attributes:
        offset: its offset.
        digest: of its content.
        is_proven: whether records before and behind it have one, so that it has none.
    """

    offset: int
    digest: str
    is_proven: bool


@dataclass(slots=True)
class _Waiting:
    """Records of one side without a counterpart so far, in order, and their places by content."""

    records: deque[tuple[int, str]] = field(default_factory=deque)
    places: dict[str, deque[int]] = field(default_factory=dict)
    passed: int = 0
    time_ms: int | None = None

    def add(self, offset: int, digest: str) -> None:
        place = self.passed + len(self.records)
        self.records.append((offset, digest))
        self.places.setdefault(digest, deque()).append(place)

    def take_first(self) -> tuple[int, str]:
        offset, digest = self.records.popleft()
        self.passed += 1
        places = self.places[digest]
        places.popleft()
        if not places:
            del self.places[digest]
        return offset, digest


class ContentMatcher:
    """Matches two logs that hold the same records in the same order, unless some are damaged.

    A record is matched with the first one of the same content that the other log has behind the
    last match. What either log has before that has no counterpart. Before the first match nothing
    follows from that: retention may have removed the other one.

    Args:
        on_source: called with each source record without a counterpart.
        on_target: the same for those of the target.
        most_waiting: records of a side that are kept in memory.

    Attributes:
        matched: number of records with a counterpart.
    """

    def __init__(
        self,
        on_source: Callable[[Unmatched], None],
        on_target: Callable[[Unmatched], None],
        most_waiting: int = _MOST_WAITING,
    ) -> None:
        self.matched = 0
        self._calls = (on_source, on_target)
        self._sides = (_Waiting(), _Waiting())
        self._most = most_waiting
        self._is_anchored = False

    @property
    def wants_target(self) -> bool:
        """Whether the next record of the target may be the counterpart of one that waits.

        Times say which log is behind the other: offsets do not, as retention removes what it likes.
        """
        source, target = self._sides
        is_behind = target.time_ms is None or target.time_ms <= (source.time_ms or 0)
        return bool(source.records) and is_behind and len(target.records) < self._most

    @property
    def is_settled(self) -> bool:
        """Whether no record waits, and those before belong together."""
        return self._is_anchored and not any(side.records for side in self._sides)

    def add_source(self, offset: int, digest: str, time_ms: int) -> None:
        """Add the next record of the source, with its timestamp."""
        self._sides[0].time_ms = time_ms
        self._add(0, offset, digest)

    def add_target(self, offset: int, digest: str, time_ms: int) -> None:
        """Add the next record of the target, with its timestamp."""
        self._sides[1].time_ms = time_ms
        self._add(1, offset, digest)

    def finish(self, *, is_followed: bool) -> None:
        """End the stretch; ``is_followed`` if the records behind it belong together on both sides.

        Another stretch may follow.
        """
        proven = self._is_anchored and is_followed
        for side in (0, 1):
            while self._sides[side].records:
                self._drop(side, is_proven=proven)
        self._is_anchored = is_followed

    def _add(self, side: int, offset: int, digest: str) -> None:
        other = self._sides[1 - side]
        places = other.places.get(digest)
        if places is None:
            own = self._sides[side]
            own.add(offset, digest)
            if len(own.records) > self._most:
                self._drop(side, is_proven=False)
            return
        while other.passed < places[0]:
            self._drop(1 - side, is_proven=self._is_anchored)
        while self._sides[side].records:
            self._drop(side, is_proven=self._is_anchored)
        other.take_first()
        self.matched += 1
        self._is_anchored = True

    def _drop(self, side: int, *, is_proven: bool) -> None:
        offset, digest = self._sides[side].take_first()
        self._calls[side](Unmatched(offset, digest, is_proven))
