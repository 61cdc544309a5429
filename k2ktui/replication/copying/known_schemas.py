"""Target ids of the schemas that records name."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from math import inf
from time import monotonic

from k2ktui.engine.schemas.ids import SchemaId, SchemaPart
from k2ktui.errors import K2kError, Refused
from k2ktui.kafka.wire.cluster import Loop
from k2ktui.log.schema_id_columns import REFUSED, KnownIds, UsedId
from k2ktui.registry.lookup_limit import LookupLimit

_POLL_S = 0.01
# A schema may be registered at any time. Partitions that stopped are retried after 30 s.
_UNKNOWN_S = 10.0

#: Returns what ``SchemaMapper.map_id`` returns and raises; used by one thread.
MapId = Callable[[str, SchemaPart, SchemaId], int | None]


class KnownSchemas:
    """Target ids that were looked up; outlives the laps of a worker process.

    Args:
        make: connects to the registries, at the first look-up.

    ``asked_since`` is when the first look-up began that was not answered (monotonic seconds; 0 for
    none), and ``trouble`` why the last one failed.
    """

    def __init__(self, make: Callable[[], MapId]) -> None:
        self._make = make
        self._map_id: MapId | None = None
        self._ids: dict[str, dict[UsedId, int | None]] = defaultdict(dict)
        self._unknown_since: dict[tuple[str, UsedId], float] = {}
        self._refusals: dict[tuple[str, UsedId], Refused] = {}
        self.asked_since = 0.0
        self.trouble: K2kError | None = None
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="schemas")

    def of(self, topic: str) -> KnownIds:
        """Return the known ids of a source topic's records."""
        return self._ids[topic]

    def refusal(self, topic: str, used: UsedId) -> Refused | None:
        """Return why the target lacks the schema of an id; None if it does not."""
        return self._refusals.get((topic, used))

    def forget_unknown(self) -> None:
        """Forget ids that had no target id some time ago, so that they are looked up again."""
        now = monotonic()
        for (topic, used), since in list(self._unknown_since.items()):
            if now - since > _UNKNOWN_S:
                del self._unknown_since[topic, used]
                del self._ids[topic][used]
                self._refusals.pop((topic, used), None)

    def forget(self, topic: str, passed: Iterable[UsedId]) -> None:
        """Forget unknown ids that were copied as they are: later records may have them registered.

        A producer registers a schema before it uses it, so the answer holds for what was fetched
        before the question only.
        """
        for used in passed:
            if self._unknown_since.pop((topic, used), None) is not None:
                self._ids[topic].pop(used, None)

    async def look_up(
        self,
        loop: Loop,
        asked: Iterable[tuple[str, UsedId]],
        limit: LookupLimit | None = None,
    ) -> None:
        """Look up ids in another thread.

        Args:
            loop: waits for it.
            asked: source topics and ids.
            limit: how long to wait; None waits until the registries' clients give up. What is found
                later is kept for look-ups that follow.

        Raises:
            K2kError: a registry did not answer; what was found before is kept.
        """
        self.asked_since = self.asked_since or monotonic()
        lookup = self._pool.submit(self._resolve, list(asked))
        try:
            if limit is None:
                await self._wait(loop, lookup, inf)
            else:
                with limit.spend():
                    await self._wait(loop, lookup, monotonic() + limit.left)
        except K2kError as error:
            self.trouble = error
            raise
        self.asked_since, self.trouble = 0.0, None

    async def _wait(self, loop: Loop, lookup: Future[None], until: float) -> None:
        while not lookup.done():
            if monotonic() >= until:
                lookup.cancel()  # unless it has begun
                raise TimeoutError
            await loop.sleep(_POLL_S)
        lookup.result()

    def _resolve(self, asked: list[tuple[str, UsedId]]) -> None:
        if self._map_id is None:
            self._map_id = self._make()
        for topic, used in asked:
            target: int | None = REFUSED
            try:
                target = self._map_id(topic, *used)
            except Refused as error:
                self._refusals[topic, used] = error
            if not target:
                self._unknown_since[topic, used] = monotonic()
            self._ids[topic][used] = target
