"""What a slot's transaction holds beside copies: mapping ranges and positions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from k2ktui.engine.records.state import mapping_key, mapping_value, position_key, position_value
from k2ktui.log.rebuild import build_batches
from k2ktui.log.records import make_records
from k2ktui.replication.copying.outgoing_batch import OutgoingBatch, TargetPartition
from k2ktui.replication.copying.partition_reader import PartitionReader, now_ms
from k2ktui.replication.copying.slot_task import SizeLimit, SlotTask

_BATCH_BYTES = 512 << 10

_Record = tuple[int, int, bytes | None, bytes | None]


class StateRecords:
    """The mapping ranges and positions of one lap.

    Args:
        task: the slot's task.

    Attributes:
        transactional: whether they are written in a transaction.
        size_limits: of the target partitions that refused a batch for its size.
    """

    def __init__(self, task: SlotTask) -> None:
        self.transactional = task.transactional
        self._topics, self._slot = task.state_topics, task.slot
        self._batch_bytes = min(_BATCH_BYTES, task.produce.request_bytes)
        self.size_limits: dict[TargetPartition, SizeLimit] = {}
        self._targets: dict[PartitionReader, set[TargetPartition]] = {}

    def targets(self, reader: PartitionReader) -> set[TargetPartition]:
        """Return where a partition's mapping and position go."""
        targets = self._targets.get(reader)
        if targets is None:
            targets = self._targets[reader] = self._topics.targets(reader.source)
        return targets

    def holds_positions(self, target: TargetPartition) -> bool:
        """Return whether it is the partition of the commit topic that the slot writes to."""
        return target == (self._topics.commit_topic, self._topics.commit_partition)

    def build(self, dirty: Sequence[PartitionReader]) -> list[OutgoingBatch]:
        """Return the batches that commit what these partitions have handed to the writer."""
        return [
            OutgoingBatch(target, memoryview(built.data), built.count)
            for target, records in self._records(dirty).items()
            for built in build_batches(make_records(records), 0, self._largest(target))
        ]

    def _largest(self, target: TargetPartition) -> int:
        limit = self.size_limits.get(target)
        return self._batch_bytes if limit is None else min(self._batch_bytes, limit.uncompressed)

    def _records(self, dirty: Sequence[PartitionReader]) -> dict[TargetPartition, list[_Record]]:
        topics, at = self._topics, now_ms()
        records: dict[TargetPartition, list[_Record]] = defaultdict(list)

        def put(target: TargetPartition, key: bytes, value: bytes) -> None:
            records[target].append((len(records[target]), at, key, value))

        for reader in dirty:
            if topics.mapping_topic:
                for mapping in reader.mappings(topics.group, topics.term):
                    key = mapping_key(mapping)
                    put(topics.mapping_target(key), key, mapping_value(mapping))
            position = reader.position(topics.term, self._slot, at)
            put(
                (topics.commit_topic, topics.commit_partition),
                position_key(topics.group, reader.source),
                position_value(position),
            )
        return records
