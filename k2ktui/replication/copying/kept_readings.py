"""Fetch sessions that a lap leaves to the next lap of its slot in the same worker process.

With thousands of partitions, a new fetch session is expensive: the request names each of them, the
broker reads each log, and the response has them all. A lap that fails keeps nothing. After any lap
of the slot has failed, in whatever process, sessions that were kept before are not used.
"""

from __future__ import annotations

from dataclasses import dataclass
from time import monotonic

from k2ktui.engine.records.cluster_pair import ClusterPair
from k2ktui.kafka.wire.cluster import Wire
from k2ktui.replication.copying.slot_task import SlotTask
from k2ktui.replication.copying.source_fetcher import Reading

# With fewer partitions, a new session costs nothing noticeable.
_FEWEST = 100
# Spark gives a lap to any free worker: two slots whose laps end together may change places. Brokers
# remember 1,000 sessions, of all their clients, by default.
_MOST = 2
# Brokers forget a session that was not used for two minutes if they have no room for another.
_LONGEST_S = 60.0


@dataclass(frozen=True, slots=True)
class _Maker:
    """Must be equal for the lap that left a session and the lap that uses it."""

    term: int
    recoveries: int
    clusters: ClusterPair


class KeptReadings:
    """The fetch sessions that laps have left in this process, on connections to one cluster.

    Args:
        wire: connection to the source cluster.
    """

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._kept: dict[tuple[str, int], tuple[_Maker, Reading]] = {}

    def take(self, task: SlotTask) -> Reading | None:
        """Return the sessions that the previous lap left; None if none can be used."""
        kept = self._kept.pop(_slot_of(task), None)
        if kept is None:
            return None
        maker, reading = kept
        if maker == _maker_of(task) and monotonic() - reading.left_at < _LONGEST_S:
            return reading
        reading.close(self._wire)
        return None

    def wants(self, task: SlotTask) -> bool:
        """Return whether a lap's sessions are worth keeping."""
        return len(task.assignments) >= _FEWEST

    def keep(self, task: SlotTask, reading: Reading) -> None:
        """Keep a lap's sessions, and close the oldest ones if there are too many."""
        self._kept[_slot_of(task)] = _maker_of(task), reading
        while len(self._kept) > _MOST:
            _, oldest = self._kept.pop(next(iter(self._kept)))
            oldest.close(self._wire)


def _slot_of(task: SlotTask) -> tuple[str, int]:
    return task.state_topics.group, task.slot


def _maker_of(task: SlotTask) -> _Maker:
    return _Maker(task.state_topics.term, task.recoveries, task.clusters)
