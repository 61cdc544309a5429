"""What laps leave to the next one of their slot in the same worker process: fetch sessions.

With thousands of partitions, a new fetch session is expensive: the request names each of them, the
broker reads each log, and the response has them all. A lap that fails keeps nothing, and after a
failure of any lap of the slot, in whatever process, nothing is used that was kept before.
"""

from __future__ import annotations

from dataclasses import dataclass
from time import monotonic

from k2ktui.engine.cluster_pair import ClusterPair
from k2ktui.kafka.wire import Wire
from k2ktui.replication.copying.source_fetcher import Reading
from k2ktui.replication.slot_task import SlotTask

# Asking for fewer costs nothing that could be noticed.
_FEWEST = 100
# Spark gives a lap to any free worker: two slots whose laps end together may change places. Brokers
# remember 1,000 sessions, of all their clients, by default.
_MOST = 2
# Brokers forget a session that was not used for two minutes if they have no room for another.
_LONGEST_S = 60.0


@dataclass(frozen=True, slots=True)
class _Maker:
    """What must be the same in the lap that left something and the one that uses it."""

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
        """Return what the lap before has left, None if there is nothing that can be used."""
        found = self._kept.pop(_slot_of(task), None)
        if found is None:
            return None
        maker, reading = found
        if maker == _maker_of(task) and monotonic() - reading.left_at < _LONGEST_S:
            return reading
        reading.close(self._wire)
        return None

    def wants(self, task: SlotTask) -> bool:
        """Return whether it is worthwhile to keep what a lap leaves."""
        return len(task.assignments) >= _FEWEST

    def keep(self, task: SlotTask, reading: Reading) -> None:
        """Keep what a lap leaves, and close what was left longest ago if it is too much."""
        self._kept[_slot_of(task)] = _maker_of(task), reading
        while len(self._kept) > _MOST:
            _, oldest = self._kept.pop(next(iter(self._kept)))
            oldest.close(self._wire)


def _slot_of(task: SlotTask) -> tuple[str, int]:
    return task.state_topics.group, task.slot


def _maker_of(task: SlotTask) -> _Maker:
    return _Maker(task.state_topics.term, task.recoveries, task.clusters)
