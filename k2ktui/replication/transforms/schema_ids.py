"""Replaces the schema ids of transformed records, whose keys and values with ids did not change."""

from __future__ import annotations

import numpy as np

from k2ktui.engine.schemas.ids import SchemaRule
from k2ktui.errors import K2kError
from k2ktui.kafka.wire.cluster import Loop
from k2ktui.log.records import Records
from k2ktui.log.schema_id_batches import UnresolvedSchemas
from k2ktui.registry.lookup_limit import PATIENCE_S, LookupLimit
from k2ktui.replication.copying import partition_faults
from k2ktui.replication.copying.known_schemas import KnownSchemas
from k2ktui.replication.copying.partition_reader import PartitionReader
from k2ktui.replication.copying.schema_routing import RoutableRecords, SchemaIdStage

_NONE = np.empty(0, dtype=np.int64)


class TransformedIds:
    """Replaces ids in a micro-batch.

    Args:
        loop: the event loop of the lap.
        known: target ids that were looked up.
        pipeline: name of the pipeline.
        limit_s: seconds that look-ups may take together.
    """

    def __init__(
        self, loop: Loop, known: KnownSchemas, pipeline: str, limit_s: float = PATIENCE_S
    ) -> None:
        known.forget_unknown()
        self._loop, self._known = loop, known
        self._limit = LookupLimit(limit_s)
        self._trouble: K2kError | None = None
        self._stage = SchemaIdStage(known, pipeline)

    async def replace(
        self, reader: PartitionReader, records: Records, rule: SchemaRule
    ) -> RoutableRecords:
        """Return records with the target's ids, up to the first that cannot be copied.

        Unlike a copy, a micro-batch cannot wait for registries beside other partitions: if one
        does not answer, this partition stops before the records, and so do those after it whose ids
        are not known either: they do not ask again.

        Raises:
            CorruptBatch: a record does not follow the format.
        """
        while True:
            try:
                return self._stage.map_records(reader, records, rule)
            except UnresolvedSchemas as waits:
                asked = {(reader.source.topic, used) for used in waits.ids}
            if self._trouble is None:
                try:
                    await self._known.look_up(self._loop, asked, self._limit)
                except K2kError as trouble:
                    self._trouble = trouble
            if self._trouble is not None:
                first = int(records.offsets[0])
                fault = partition_faults.registry_fault(reader.source, self._trouble, first)
                nothing = np.empty(0, dtype=np.uint8)
                return RoutableRecords(records.take(_NONE), nothing, _NONE, _NONE, fault=fault)
