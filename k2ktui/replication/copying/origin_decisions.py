"""Decides, beside the copying of a lap, who wrote batches with unknown producer ids."""

from __future__ import annotations

from collections.abc import Iterable
from time import monotonic

from k2ktui.kafka.wire.cluster import Signal, Wire
from k2ktui.replication.copying import partition_faults
from k2ktui.replication.copying.batch_origins import BatchOrigins
from k2ktui.replication.copying.partition_reader import PartitionReader
from k2ktui.replication.copying.registration_reader import RegistrationsUnavailable

_RETRY_S = 0.5
# A partition that waits longer stops, so that its reason is shown.
_PATIENCE_S = 20.0


class OriginDecisions:
    """Reads registrations when a partition has batches of a producer id that is not known yet.

    Args:
        wire: connection to the source cluster.
        origins: what is known; None copies every batch.
        signal: set after every decision or failure.
    """

    def __init__(self, wire: Wire, origins: BatchOrigins | None, signal: Signal) -> None:
        self._wire, self._origins, self._signal = wire, origins, signal
        self._asking = self._closed = False
        self._not_before = self._failing_since = 0.0
        self._trouble: RegistrationsUnavailable | None = None
        self._failure: Exception | None = None

    def settle(self, readers: Iterable[PartitionReader]) -> int:
        """Apply what is decided to the waiting batches, and ask about the others.

        Returns:
            The number of bytes that were dropped.

        Raises:
            Exception: reading the registrations failed because of a defect.
        """
        if self._origins is None:
            return 0
        if self._failure is not None:
            raise self._failure
        waiting = [reader for reader in readers if reader.undecided]
        if not waiting:
            return 0
        dropped = sum(reader.apply_origins() for reader in waiting)
        waiting = [reader for reader in waiting if reader.undecided]
        if waiting and self._trouble is not None and self._is_lasting(self._trouble):
            return dropped + sum(self._stop(reader, self._trouble) for reader in waiting)
        asked = {number for reader in waiting for number in reader.undecided}
        if asked and not self._asking and not self._closed and monotonic() >= self._not_before:
            self._asking = True
            self._wire.loop.spawn(self._decide(self._origins, asked))
        return dropped

    def close(self) -> None:
        """Ask for nothing more."""
        self._closed = True

    def _is_lasting(self, trouble: RegistrationsUnavailable) -> bool:
        return trouble.is_lasting or monotonic() - self._failing_since > _PATIENCE_S

    def _stop(self, reader: PartitionReader, trouble: RegistrationsUnavailable) -> int:
        fault = partition_faults.undecided_fault(reader.source, trouble, reader.handed)
        reader.stop(fault)
        reader.undecided.clear()
        return reader.drop_from(reader.handed)

    async def _decide(self, origins: BatchOrigins, asked: set[int]) -> None:
        try:
            await origins.decide(self._wire, asked)
            self._trouble = None
        except RegistrationsUnavailable as error:
            self._failing_since = self._failing_since if self._trouble else monotonic()
            self._trouble = error
            self._not_before = monotonic() + _RETRY_S
        except Exception as error:  # a defect here must end the lap, not stall it
            self._failure = error
        finally:
            self._asking = False
            self._signal.set()
