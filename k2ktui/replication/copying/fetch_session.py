"""A broker's state of a fetch session (KIP-227), and the changes on this side since.

A request names only the partitions whose fetch position differs from what the broker remembers.
Finding them must not take a pass over all partitions either: a slot may have thousands, of which
few have traffic.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from k2ktui.replication.copying.partition_reader import FetchPosition, PartitionReader

Key = tuple[str, int]


class Changes(NamedTuple):
    """What the next request of a session has to change."""

    wanted: dict[Key, FetchPosition]
    dropped: list[Key]


@dataclass(slots=True, eq=False)
class FetchSession:
    """A fetch session with one broker.

    Attributes:
        node: id of the broker.
        session_id: id that the broker gave; 0 for none.
        epoch: number of the next request.
        known: the fetch positions that the broker remembers.
        members: the partitions that are fetched from this broker.
        waiting: a request has no response yet.
        not_before: monotonic seconds; no request is sent before.
        trouble: why its last request was not answered; "" if it was.
        throttled: a quota delays the requests.
        by_id: the broker compares topic ids (KIP-516), so that it notices a topic that was
            created again under the same name.
    """

    node: int
    session_id: int = 0
    epoch: int = 0
    known: dict[Key, FetchPosition] = field(default_factory=dict)
    members: set[Key] = field(default_factory=set)
    waiting: bool = False
    not_before: float = 0.0
    trouble: str = ""
    throttled: bool = False
    by_id: bool = False
    _changed: dict[Key, None] = field(default_factory=dict)  # a set in the order of its changes

    def add(self, key: Key) -> None:
        """Fetch a partition from this broker."""
        self.members.add(key)
        self._changed[key] = None

    def remove(self, key: Key) -> None:
        """Fetch a partition from this broker no longer."""
        self.members.discard(key)
        self._changed[key] = None

    def forget(self, key: Key) -> None:
        """Send a partition's fetch position again, also if it stays the same."""
        self.known.pop(key, None)
        self._changed[key] = None

    def touch(self, keys: Iterable[Key]) -> None:
        """Note partitions whose fetch position may change from now on."""
        self._changed.update(dict.fromkeys(keys))

    @property
    def is_settled(self) -> bool:
        """Whether the broker has answered all requests, so that it remembers exactly ``known``.

        Only then may another fetcher continue this session. It also must not while the broker
        remembers a partition that another broker leads now: if the leadership returned before the
        next request, the broker would not report the partition, and its bounds would stay unknown.
        """
        well = self.by_id and not self.trouble and not self.throttled
        is_whole = self.known.keys() <= self.members
        return well and bool(self.session_id) and not self.waiting and is_whole

    @property
    def is_idle(self) -> bool:
        """Whether only a response, or another leader, can change what is fetched."""
        return not self._changed

    def go_on(self) -> list[Key]:
        """Begin another lap; return the partitions that were fetched, which must be added again.

        The next request drops those that are not, and compares the fetch positions of all.
        """
        self.members, self._changed = set(), dict.fromkeys(self.known)
        return list(self.known)

    def restart(self) -> None:
        """Begin a new session: the broker remembers nothing."""
        self.session_id, self.epoch = 0, 0
        self.lose_known()

    def lose_known(self) -> None:
        """Send every fetch position again."""
        self.known.clear()
        self.touch(self.members)

    def take_changes(
        self, readers: Mapping[Key, PartitionReader], most_waiting: int
    ) -> Changes | None:
        """Return the changes to send to the broker, and count them as remembered.

        None if there is nothing to fetch from this broker; then no change is counted.

        A touched partition is checked at every call until its reader has no pending work: while
        there is some, its position can change without a response.

        Args:
            readers: the readers of all partitions.
            most_waiting: no more is fetched for a partition with this many waiting bytes.
        """
        wanted: dict[Key, FetchPosition] = {}
        dropped: list[Key] = []
        again: dict[Key, None] = {}
        for key in self._changed:
            reader = readers[key]
            is_member = key in self.members and reader.fault is None
            if is_member and reader.ready_bytes < most_waiting:
                want = reader.next_fetch
                if self.known.get(key) != want:
                    wanted[key] = want
            elif key in self.known:
                dropped.append(key)
            if is_member and reader.active:
                again[key] = None
        if not wanted and len(dropped) == len(self.known):
            return None  # the next request that fetches anything drops them, too
        for key in dropped:
            del self.known[key]
        self.known.update(wanted)
        self._changed = again
        return Changes(wanted, dropped)
