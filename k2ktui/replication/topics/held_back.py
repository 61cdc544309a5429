"""Records above the last stable offset, held back by an open transaction on the source.

A read_committed reader stops at the last stable offset, so a hanging transaction looks like a
partition without lag. How long the offset has not moved is measured with this process's monotonic
clock, because producers set the timestamps of records.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from k2ktui.engine.records.state import Position, SourcePartition
from k2ktui.engine.status import HELD_BACK_S, HeldBack
from k2ktui.kafka.admin.active_producers import OpenTransaction, oldest_transactions
from k2ktui.kafka.clients import Cluster, Partition
from k2ktui.replication.copying.partition_faults import HELD_BACK
from k2ktui.replication.copying.slot_task import Fault
from k2ktui.replication.reports.events import Event, Note
from k2ktui.text import list_names

log = logging.getLogger(__name__)

# A transaction that is open for less than this is normal.
_WORTH_ASKING_S = 5.0
_ASK_AGAIN_S = 60.0
_ASK_AT_ONCE = 500
_ASK_S = 5.0
_FORGET_S = 300.0
# Number of partitions that a log line names.
_NAMED = 10


@dataclass(slots=True)
class _Standing:
    """A last stable offset that has not moved since ``since`` (monotonic seconds).

    ``high`` and ``read_at`` are the high watermark and the time of the last reading that had both
    offsets.
    """

    stable: int
    since: float
    high: int
    read_at: float
    asked_at: float | None = None
    transaction: OpenTransaction | None = None


class HeldBackReader:
    """Finds what open transactions hold back, over successive readings.

    Args:
        cluster: the source cluster.
        ask: finds the oldest open transaction of each partition, given the cluster, the last
            stable offsets and a timeout in seconds.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        cluster: Cluster,
        ask: Callable[
            [Cluster, Mapping[Partition, int], float], Mapping[Partition, OpenTransaction]
        ] = oldest_transactions,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._cluster = cluster
        self._ask = ask
        self._clock = clock
        self._standing: dict[Partition, _Standing] = {}
        self._read_before = False

    def read(
        self, high: Mapping[Partition, int], stable: Mapping[Partition, int]
    ) -> dict[Partition, HeldBack]:
        """Return what is held back, for each partition with held-back records.

        A partition whose offsets are missing, because its leader did not answer, is as in its last
        reading, for at most 5 minutes.

        Args:
            high: high watermarks, read before ``stable``; otherwise records written in between
                would count as held back.
            stable: last stable offsets.
        """
        now = self._clock()
        standing = {
            at: known
            for at, known in self._standing.items()
            if (at not in high or at not in stable) and now - known.read_at < _FORGET_S
        }
        for at, end in high.items():
            if end > stable.get(at, end):
                standing[at] = self._update_standing(at, stable[at], end, now)
        self._standing = standing
        self._ask_about(now)
        self._read_before = True
        return {at: _held_back(known) for at, known in standing.items()}

    def _update_standing(self, at: Partition, stable: int, high: int, now: float) -> _Standing:
        known = self._standing.get(at)
        if known is None or known.stable != stable:
            return _Standing(stable, now, high, now)
        known.high, known.read_at = high, now
        return known

    def _ask_about(self, now: float) -> None:
        """Look up the transactions at stalled offsets; in the first reading, at all offsets."""
        wanted = {
            at: known
            for at, known in self._standing.items()
            if known.transaction is None
            and known.read_at == now
            and (now - known.since >= _WORTH_ASKING_S or not self._read_before)
            and (known.asked_at is None or now - known.asked_at >= _ASK_AGAIN_S)
        }
        chosen = dict(list(wanted.items())[:_ASK_AT_ONCE])
        if not chosen:
            return
        transactions = self._ask(self._cluster, {at: k.stable for at, k in chosen.items()}, _ASK_S)
        for at, known in chosen.items():
            known.asked_at, known.transaction = now, transactions.get(at)
        _log_stalled(self._cluster.label, chosen)


def _log_stalled(cluster: str, standing: Mapping[Partition, _Standing]) -> None:
    """Log whose transactions hold records back: one line for each time that it is asked."""
    texts = []
    for (topic, partition), known in standing.items():
        by = known.transaction
        producer = "unknown producer" if by is None else f"producer id {by.producer_id}"
        texts.append(f"{topic}-{partition} at {known.stable}, {producer}")
    log.info("open transactions on the %s: %s", cluster, list_names(texts, _NAMED))


def _held_back(known: _Standing) -> HeldBack:
    observed_s, by = known.read_at - known.since, known.transaction
    age_s = observed_s
    if by is not None and by.last_ms >= 0:
        age_s = max(observed_s, time.time() - by.last_ms / 1000)
    return HeldBack(
        records=known.high - known.stable,
        stable=known.stable,
        producer_id=by.producer_id if by else None,
        age_s=age_s,
        observed_s=observed_s,
    )


class HeldBackWatch:
    """Warns of hanging transactions on the source; stops partitions of a run that waits for one.

    Args:
        report: called with every note.
    """

    def __init__(self, report: Callable[[Event], None]) -> None:
        self._report = report
        self._next_report_age: dict[SourcePartition, float] = {}

    def look(
        self,
        held_back: Mapping[SourcePartition, HeldBack],
        positions: Mapping[SourcePartition, Position],
        until: Mapping[SourcePartition, int],
    ) -> list[Fault]:
        """Report hanging transactions and return the faults of the partitions to stop.

        Args:
            held_back: what is held back now.
            positions: replicated positions.
            until: end offset of each partition in a run that ends when caught up; otherwise empty.
        """
        late = {source: held for source, held in held_back.items() if held.too_long}
        for source in self._next_report_age.keys() - late.keys():
            del self._next_report_age[source]
            self._report(Note(f"{source}: the transaction that held back records has ended"))
        stopped = []
        for source, held in late.items():
            position = positions.get(source)
            waits = position is not None and held.stable <= position.offset < until.get(source, 0)
            # Only the observed time stops a partition: a producer may write old timestamps.
            if waits and held.observed_s >= HELD_BACK_S:
                stopped.append(HELD_BACK.at(source, held.stable, what=held.text()))
            elif held.age_s >= self._next_report_age.get(source, 0.0):
                self._next_report_age[source] = 2 * held.age_s
                self._report(Note(f"{source}: {held.text()}"))
        return stopped
