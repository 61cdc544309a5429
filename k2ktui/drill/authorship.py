"""Who wrote a drill's record: a process that owned the drill, or anyone who may write to the topic.

An owner writes with the drill's transactional id, which only principals with Write on that id can
use. The transaction coordinator says which producer id belongs to it, and each batch on the state
topic carries the producer id that wrote it. Records cannot prove it: whoever can write a drill's
record can also write a registration.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from kafka.protocol.admin.transactions import DescribeTransactionsRequest

from k2ktui.config.model import PipelineConfig
from k2ktui.drill.store import BEGIN, DrillStore, transactional_id
from k2ktui.errors import TimedOut
from k2ktui.kafka.admin.probe import Probe
from k2ktui.kafka.admin.transaction_state import describe_transaction
from k2ktui.kafka.clients import Cluster, Partition
from k2ktui.kafka.properties.translation import wire
from k2ktui.kafka.wire.cluster import NotSent, OutcomeUnknown, Wire
from k2ktui.log.batch import Batch
from k2ktui.log.fetcher import Fetcher
from k2ktui.text import safe_text

_OPEN_S = 10.0
_ASK_S = 10.0
_READ_S = 20.0


@dataclass(frozen=True, slots=True)
class Owners:
    """The producer ids with which owners of a drill write its record.

    Attributes:
        producer_ids: the ids; empty if the coordinator does not say.
        unknown: why it does not say; "" if it does.
    """

    producer_ids: Collection[int] = ()
    unknown: str = ""


def read_owners(config: PipelineConfig, target: Cluster, drill_id: str) -> Owners:
    """Ask the coordinators; only before this process owns the drill, which makes the id known.

    Raises:
        ConnectionFailed, TimedOut: the target does not answer.
    """
    ids = [transactional_id(config, name) for name in (drill_id, BEGIN)]
    try:
        with Probe(wire(target.config, "producer"), target.label) as probe:
            probe.open(_OPEN_S)
            if probe.too_old_for({DescribeTransactionsRequest: 0}):
                return Owners(unknown="brokers before Kafka 3.0 do not say who writes for a drill")
            producer_ids = probe.run(lambda connection: _ask(connection, ids))
    except (NotSent, OutcomeUnknown) as error:
        raise TimedOut(f"the {target.label} cluster did not answer: {error}") from error
    if not producer_ids:
        return Owners(
            unknown=f"the target does not know the transactional id {safe_text(ids[0])} (it "
            "forgets one that was not used for a week), or the principal may not describe it",
        )
    return Owners(producer_ids)


async def _ask(connection: Wire, ids: Collection[str]) -> frozenset[int]:
    states = [await describe_transaction(connection, id_, _ASK_S) for id_ in ids]
    return frozenset(state.producer_id for state in states if state is not None)


def find_doubt(
    config: PipelineConfig, target: Cluster, store: DrillStore, drill_id: str, owners: Owners
) -> str:
    """Return why it is not proven that an owner wrote the record that was read last; "" if it is.

    Raises:
        ConnectionFailed, TimedOut: the target does not answer.
    """
    if owners.unknown:
        return owners.unknown
    place = store.find_record(drill_id)
    if place is None:
        return "its record is gone"
    request = _RecordBatch(place[1])
    fetcher = Fetcher(target)
    at: Partition = config.coordination.state.topic, place[0]
    try:
        fetcher.run({at: request}, _READ_S)
    finally:
        fetcher.close()
    if request.batch is None:
        return f"its record cannot be read again: {request.problem or 'it was replaced meanwhile'}"
    if request.batch.is_transactional and request.batch.producer_id in owners.producer_ids:
        return ""
    return "its record was not written with the drill's transactional id"


class _RecordBatch:
    """The batch that holds one offset: a request of the fetcher."""

    def __init__(self, offset: int) -> None:
        self._offset = offset
        self._over = False
        self.batch: Batch | None = None
        self.problem = ""

    def next_offset(self) -> int | None:
        return None if self._over else self._offset

    def set_bounds(self, start: int, stable: int, high: int) -> None:
        self._over = self._over or not start <= self._offset < stable

    def add_batch(self, batch: Batch) -> None:
        if batch.base_offset <= self._offset <= batch.last_offset:
            self.batch = batch
        self._over = True

    def add_aborted_batch(self, batch: Batch) -> None:
        """Ignore it: its records do not count."""

    def advance(self, offset: int) -> None:
        self._over = self._over or offset > self._offset

    def finish(self) -> None:
        self._over = True

    def refuse(self, reason: str) -> None:
        self.problem = reason
