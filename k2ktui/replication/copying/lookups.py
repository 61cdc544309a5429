"""Looks up, beside the copying of a lap, what partitions wait for before they can be routed.

That is who wrote batches with unknown producer ids, and the target's ids of schemas.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable
from time import monotonic
from typing import Any

from k2ktui.errors import K2kError
from k2ktui.kafka.wire.cluster import Loop, Signal, Wire
from k2ktui.log.schema_id_columns import UsedId
from k2ktui.registry.lookup_limit import PATIENCE_S, no_answer
from k2ktui.replication.copying.batch_origins import BatchOrigins
from k2ktui.replication.copying.known_schemas import KnownSchemas
from k2ktui.replication.copying.partition_faults import registry_fault, undecided_fault
from k2ktui.replication.copying.partition_reader import PartitionReader
from k2ktui.replication.copying.registration_reader import RegistrationsUnavailable

_RETRY_S = 0.5


class SideRequest:
    """A request beside the copying of a lap: one at a time, and a pause after one that failed.

    Args:
        loop: the event loop of the lap.
        signal: set when a request has ended.
    """

    def __init__(self, loop: Loop, signal: Signal) -> None:
        self._loop, self._signal = loop, signal
        self.is_running = False
        self._not_before = 0.0
        self._defect: Exception | None = None

    def raise_defect(self) -> None:
        """Raise what a request has raised: a defect must end the lap, not stall it."""
        if self._defect is not None:
            raise self._defect

    def start(self, request: Callable[[], Coroutine[Any, Any, bool]]) -> None:
        """Make a request, which returns whether it was answered; not while another one is made."""
        if not self.is_running and monotonic() >= self._not_before:
            self.is_running = True
            self._loop.spawn(self._run(request))

    async def _run(self, request: Callable[[], Coroutine[Any, Any, bool]]) -> None:
        try:
            if not await request():
                self._not_before = monotonic() + _RETRY_S
        except Exception as error:
            self._defect = error
        finally:
            self.is_running = False
            self._signal.set()


class OriginDecisions:
    """Reads registrations when a partition has batches of a producer id that is not known yet.

    Args:
        wire: connection to the source cluster.
        origins: what is known; None copies every batch.
        signal: set after every decision or failure.
    """

    def __init__(self, wire: Wire, origins: BatchOrigins | None, signal: Signal) -> None:
        self._wire, self._origins = wire, origins
        self._request = SideRequest(wire.loop, signal)
        self._failing_since = 0.0
        self._trouble: RegistrationsUnavailable | None = None

    def settle(self, readers: Iterable[PartitionReader]) -> int:
        """Apply what is decided to the waiting batches, and ask about the others.

        Returns:
            The number of bytes that were dropped.

        Raises:
            Exception: reading the registrations failed because of a defect.
        """
        origins = self._origins
        if origins is None:
            return 0
        self._request.raise_defect()
        waiting = [reader for reader in readers if reader.undecided]
        dropped = sum(reader.apply_origins() for reader in waiting)
        waiting = [reader for reader in waiting if reader.undecided]
        if waiting and self._trouble is not None and self._is_lasting(self._trouble):
            return dropped + sum(self._stop(reader, self._trouble) for reader in waiting)
        asked = {number for reader in waiting for number in reader.undecided}
        if asked:
            self._request.start(lambda: self._decide(origins, asked))
        return dropped

    def _is_lasting(self, trouble: RegistrationsUnavailable) -> bool:
        return trouble.is_lasting or monotonic() - self._failing_since > PATIENCE_S

    def _stop(self, reader: PartitionReader, trouble: RegistrationsUnavailable) -> int:
        reader.stop(undecided_fault(reader.source, trouble, reader.handed))
        reader.undecided.clear()
        return reader.drop_from(reader.handed)

    async def _decide(self, origins: BatchOrigins, asked: set[int]) -> bool:
        try:
            await origins.decide(self._wire, asked)
        except RegistrationsUnavailable as error:
            self._failing_since = self._failing_since if self._trouble else monotonic()
            self._trouble = error
        else:
            self._trouble = None
        return self._trouble is None


class SchemaLookups:
    """Looks up the schema ids that partitions wait for.

    Args:
        loop: the event loop of the lap.
        known: what is known; None maps no ids.
        signal: set after every look-up.
    """

    def __init__(self, loop: Loop, known: KnownSchemas | None, signal: Signal) -> None:
        self._loop, self._known = loop, known
        self._request = SideRequest(loop, signal)

    def settle(self, readers: Iterable[PartitionReader]) -> int:
        """Release the partitions whose ids are known now, and look up those of the others.

        Returns:
            The number of bytes that were dropped, of partitions that stopped.

        Raises:
            Exception: a look-up failed because of a defect.
        """
        known = self._known
        if known is None:
            return 0
        self._request.raise_defect()
        known.forget_unknown()
        waiting = [reader for reader in readers if reader.unresolved]
        for reader in waiting:
            reader.unresolved -= known.of(reader.source.topic).keys()
        waiting = [reader for reader in waiting if reader.unresolved]
        since = known.asked_since
        if waiting and since and monotonic() - since > PATIENCE_S:
            trouble = known.trouble or no_answer(PATIENCE_S)
            if not self._request.is_running:
                known.asked_since = 0.0  # the next attempt has its own time
            return sum(self._stop(reader, trouble) for reader in waiting)
        asked = {(reader.source.topic, used) for reader in waiting for used in reader.unresolved}
        if asked:
            self._request.start(lambda: self._look_up(known, asked))
        return 0

    def _stop(self, reader: PartitionReader, trouble: K2kError) -> int:
        reader.stop(registry_fault(reader.source, trouble, reader.handed))
        reader.unresolved = frozenset()
        return reader.drop_from(reader.handed)

    async def _look_up(self, known: KnownSchemas, asked: set[tuple[str, UsedId]]) -> bool:
        try:
            await known.look_up(self._loop, asked)
        except K2kError:
            return False
        return True
