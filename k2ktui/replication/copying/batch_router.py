"""Routes what a lap has fetched, and stops or holds partitions whose batches cannot be routed."""

from __future__ import annotations

from k2ktui.log.batch import CorruptBatch
from k2ktui.log.schema_id_batches import UnresolvedSchemas
from k2ktui.replication.copying.batch_routing import route_next
from k2ktui.replication.copying.outgoing_batch import OutgoingBatch, TargetPartition
from k2ktui.replication.copying.partition_reader import PartitionReader
from k2ktui.replication.copying.schema_lookups import KnownSchemas
from k2ktui.replication.copying.schema_routing import SchemaIdStage
from k2ktui.replication.slot_task import SlotTask, UnknownSchemas

RoutedBatch = tuple[TargetPartition, OutgoingBatch, bool]


class BatchRouter:
    """Routes the batches of one slot in one lap.

    Args:
        task: the slot's task.
        known: target ids of schemas; None if no ids are replaced.
    """

    def __init__(self, task: SlotTask, known: KnownSchemas | None) -> None:
        self._pipeline, self._origin = task.state_topics.pipeline, task.origin
        self._schemas: SchemaIdStage | None = None
        if known is not None:
            self._schemas = SchemaIdStage(known, self._pipeline, self._origin)

    @property
    def unknown(self) -> tuple[UnknownSchemas, ...]:
        """The records with unknown schema ids that were passed through or are dead letters."""
        return tuple(self._schemas.unknown) if self._schemas is not None else ()

    def route(self, reader: PartitionReader) -> list[RoutedBatch] | None:
        """Take a partition's next batches and route them, as ``route_next``, with dead letters.

        Returns:
            None if nothing was taken: the next batch is damaged and the partition has stopped, or
            its schema ids must be looked up first.
        """
        try:
            routed = list(route_next(reader, self._pipeline, self._origin, self._schemas))
        except CorruptBatch as error:
            reader.corrupt(error, reader.handed)
            reader.drop_from(reader.handed)
        except UnresolvedSchemas as waits:
            reader.unresolved = waits.ids
        else:
            return routed if self._schemas is None else routed + self._schemas.take_letters()
        return None
