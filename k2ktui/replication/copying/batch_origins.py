"""Which source batches the opposite pipeline wrote, by their producer ids.

With ``bidirectional.mode: provenance``, a batch is left out if its producer id is registered for a
pipeline whose source is our target and whose target is our source. A driver registers a producer
id before its first use, so an id without a registration belongs to another writer, provided that
the registrations were read up to the high watermark after the batch was fetched.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

from k2ktui.engine.records.cluster_pair import ClusterPair, find_ids
from k2ktui.engine.records.producer_registration import ProducerRegistration
from k2ktui.kafka.wire.cluster import Wire
from k2ktui.replication.copying.registration_reader import RegistrationReader
from k2ktui.replication.copying.slot_task import OppositePipeline

_READ_S = 10.0
# Producer ids of other transactional writers that are remembered; all are asked for again beyond.
_MOST_NATIVE = 100_000


class Origin(Enum):
    """Who wrote a transactional batch."""

    OPPOSITE = "opposite"
    NATIVE = "native"
    UNDECIDED = "undecided"


class BatchOrigins:
    """Decides by producer id; outlives the laps of a worker process.

    Args:
        opposite: where the opposite pipeline registers, and what it copies.
    """

    def __init__(self, opposite: OppositePipeline) -> None:
        self._opposite = opposite
        self._reader = RegistrationReader(opposite.commit_topic)
        self._left_out: set[int] = set()
        self._native: set[int] = set()

    def origin(self, producer_id: int) -> Origin:
        """Return who wrote the transactional batches of a producer id."""
        if producer_id in self._left_out:
            return Origin.OPPOSITE
        return Origin.NATIVE if producer_id in self._native else Origin.UNDECIDED

    async def decide(self, wire: Wire, producer_ids: Iterable[int]) -> None:
        """Read the registrations up to the high watermark, and decide about these producer ids.

        Raises:
            RegistrationsUnavailable: they could not be read, or some of them not; nothing was
                decided about these.
        """
        asked = set(producer_ids)
        await self._reader.read(wire, _READ_S)
        pairs = [run.pair for run in self._reader.runs.values()]
        self.learn(self._reader.registrations.values(), asked - self._reader.newer_ids, pairs)
        self._reader.check_known(asked)

    def learn(
        self,
        registered: Iterable[ProducerRegistration],
        asked: Iterable[int],
        pairs: Iterable[ClusterPair] = (),
    ) -> None:
        """Decide about the producer ids asked for, from everything that is registered.

        ``pairs`` are those of the pipelines that registered them. Their aliases count as ours do:
        otherwise all that was copied before a cluster was restored would come back.
        """
        known = self._opposite.clusters, *pairs
        sources = find_ids(self._opposite.source, known)
        targets = find_ids(self._opposite.target, known)
        self._left_out |= {
            e.producer_id for e in registered if e.source in sources and e.target in targets
        }
        if len(self._native) > _MOST_NATIVE:
            self._native.clear()
        self._native |= set(asked) - self._left_out
