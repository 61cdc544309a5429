"""The producer ids that a driver has registered, and those it must not use."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from k2ktui.engine.cluster_pair import ClusterPair
from k2ktui.engine.producer_registration import (
    ProducerRegistration,
    registration_key,
    registration_value,
)


class ProducerRegistry:
    """What is registered for one pipeline; it decides, and the fencer writes.

    Args:
        group: the pipeline's commit group.
        pair: the clusters that the run copies between; None if it copies nothing.
    """

    def __init__(self, group: str, pair: ClusterPair | None) -> None:
        self._group = group
        self._pair = pair if pair is not None and pair.is_known else None
        self._known: dict[int, ProducerRegistration] = {}

    @property
    def is_active(self) -> bool:
        """Whether this run registers the producer ids that it writes with."""
        return self._pair is not None

    def adopt(self, known: Mapping[int, ProducerRegistration], pair: ClusterPair) -> None:
        """Replace what is known with what the commit topic says after a takeover.

        ``pair`` has the aliases on record: an id that was registered before a cluster was restored
        is registered for the same clusters.
        """
        self._known = dict(known)
        if self._pair is not None:
            self._pair = pair

    def is_usable(self, producer_id: int) -> bool:
        """Return whether a producer id is not registered for another pair of clusters."""
        known = self._known.get(producer_id)
        return self._pair is None or known is None or self._is_own(known)

    def missing(self, producer_ids: Iterable[int], at_ms: int) -> list[ProducerRegistration]:
        """Return the registrations that these producer ids still need before their first use."""
        if self._pair is None:
            return []
        return [
            ProducerRegistration(number, self._pair.source, self._pair.target, at_ms)
            for number in sorted(set(producer_ids))
            if number not in self._known
        ]

    def records(self, found: Iterable[ProducerRegistration]) -> list[tuple[bytes, bytes]]:
        """Return the records of registrations, as key and value."""
        return [
            (registration_key(self._group, each.producer_id), registration_value(each))
            for each in found
        ]

    def mark_written(self, found: Iterable[ProducerRegistration]) -> None:
        """Remember registrations that are committed."""
        self._known.update((each.producer_id, each) for each in found)

    def _is_own(self, known: ProducerRegistration) -> bool:
        pair = self._pair
        return pair is not None and known.source in pair.sources and known.target in pair.targets
