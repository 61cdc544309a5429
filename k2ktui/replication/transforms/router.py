"""Routes what came out of a transform: with its headers and schema ids, to the chosen targets."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from k2ktui.engine.transforms.dead_letters import describe_cause
from k2ktui.engine.transforms.model import plan_steps
from k2ktui.kafka.wire.cluster import Wire
from k2ktui.log.batch import CorruptBatch
from k2ktui.log.record_headers import change_headers
from k2ktui.log.records import I64, Records
from k2ktui.replication.copying import partition_faults
from k2ktui.replication.copying.batch_router import choose_partitions, encode_letters, spread
from k2ktui.replication.copying.dead_letters import make_letters
from k2ktui.replication.copying.known_schemas import KnownSchemas
from k2ktui.replication.copying.outgoing_batch import OutgoingBatch
from k2ktui.replication.copying.partition_reader import PartitionReader
from k2ktui.replication.copying.schema_routing import RoutableRecords
from k2ktui.replication.copying.slot_task import Route, SkippedRecords, SlotTask, UnknownSchemas
from k2ktui.replication.transforms.rows import PARTITION, TOPIC, join_record
from k2ktui.replication.transforms.schema_ids import TransformedIds
from k2ktui.replication.transforms.transformed import Transformed


class TransformRouter:
    """Routes the records of one micro-batch.

    Args:
        task: the slot's task.
        target: connection to the target cluster; its loop waits for registries.
        known: target ids of schemas; None if no ids are replaced.

    ``skipped`` has the records that were not copied as they are.
    """

    def __init__(self, task: SlotTask, target: Wire, known: KnownSchemas | None) -> None:
        assert task.transform is not None
        self._task, self._transform = task, task.transform
        self._pipeline = task.state_topics.pipeline
        self._ids: TransformedIds | None = None
        if known is not None:
            self._ids = TransformedIds(target.loop, known, self._pipeline)
        self.skipped: list[SkippedRecords | UnknownSchemas] = []

    async def route(
        self, reader: PartitionReader, transformed: Transformed, codec: int
    ) -> list[OutgoingBatch]:
        """Route a partition's records and dead letters, up to the first that stops it.

        Args:
            reader: the partition; it was read up to where the micro-batch ends.
            transformed: what came out of the transform.
            codec: compression of the batches.
        """
        rules, refused = reader.assignment.route, reader.assignment.refused
        if refused is not None:
            transformed.cut(refused.offset)
            transformed.failures = [f for f in transformed.failures if f.offset < refused.offset]
        letters = self._handle_failures(reader, transformed)
        routed = await self._route_kept(reader, transformed, codec)
        self._count_skipped(reader, transformed)
        if rules.dead_letters is not None and letters is not None:
            letters = letters.take(np.nonzero(letters.offsets < reader.handed)[0])
            routed += encode_letters(reader, letters, codec)
        return routed

    def _handle_failures(self, reader: PartitionReader, transformed: Transformed) -> Records | None:
        """Stop the partition before the first record that failed, or return the dead letters."""
        if not transformed.failures or self._transform.on_error == "skip":
            return None
        failures, steps = transformed.failures, plan_steps(self._transform)
        first = failures[0]
        if self._transform.on_error == "deadLetter":
            causes = [(step, describe_cause(self._transform, step)) for step in steps]
            try:
                return make_letters(
                    reader,
                    Records(
                        np.array([failure.offset for failure in failures], dtype=np.int64),
                        np.array([failure.timestamp for failure in failures], dtype=np.int64),
                        [join_record(f.key, f.value, f.headers) for f in failures],
                    ),
                    [causes[failure.step] for failure in failures],
                    self._pipeline,
                    self._task.origin,
                )
            except CorruptBatch as error:
                _stop_before(reader, transformed, first.offset)
                reader.corrupt(error, first.offset)
                return None
        _stop_before(reader, transformed, first.offset)
        step = steps[first.step]
        if step.startswith("sink."):
            reader.stop(partition_faults.SINK.at(reader.source, first.offset, step=step))
        else:
            reader.stop(partition_faults.TRANSFORM.at(reader.source, first.offset, step=step))
        return None

    def _count_skipped(self, reader: PartitionReader, transformed: Transformed) -> None:
        """Count the records that failed and have no copy."""
        failures = [failure for failure in transformed.failures if failure.offset < reader.handed]
        if not failures or self._transform.on_error == "fail":
            return
        dead, last = reader.assignment.route.dead_letters, failures[-1]
        topic = dead.topic if dead is not None else ""
        step = plan_steps(self._transform)[last.step]
        self.skipped.append(SkippedRecords(reader.source, len(failures), last.offset, step, topic))

    async def _route_kept(
        self, reader: PartitionReader, transformed: Transformed, codec: int
    ) -> list[OutgoingBatch]:
        """Route the records that did not fail."""
        rules = reader.assignment.route
        try:
            routable = await self._routable(reader, transformed)
            records = change_headers(
                routable.records, rules.headers, reader.source, self._pipeline, self._task.origin
            )
        except CorruptBatch as error:
            first = int(transformed.numbers("offset")[0])
            _stop_before(reader, transformed, first)
            reader.corrupt(error, first)
            return []
        if routable.fault is not None:
            _stop_before(reader, transformed, routable.fault.offset)
            reader.stop(routable.fault)
        if routable.unknown is not None:
            self.skipped.append(routable.unknown)

        def by_key(route: Route) -> I64:
            return choose_partitions(
                routable.data, routable.key_starts, routable.key_lengths, route, reader.source
            )

        if rules.choices:
            return list(
                spread_routed(
                    reader,
                    records,
                    transformed.column(TOPIC),
                    transformed.column(PARTITION),
                    by_key,
                    codec,
                )
            )
        return list(spread(reader, records, by_key(rules), codec))

    async def _routable(self, reader: PartitionReader, transformed: Transformed) -> RoutableRecords:
        """Return the records with the target's schema ids, and their keys if they decide."""
        records = transformed.written(self._transform)
        rules = reader.assignment.route
        if rules.schemas is not None and self._ids is not None and len(records):
            return await self._ids.replace(reader, records, rules.schemas)
        if rules.partition is not None and not rules.choices:  # no key decides
            nothing = np.empty(0, dtype=np.int64)
            return RoutableRecords(
                records, nothing.astype(np.uint8), nothing, np.full(len(records), -1)
            )
        keys = transformed.column("key")
        lengths = np.array([-1 if k is None else len(k) for k in keys], dtype=np.int64)
        sizes = np.maximum(lengths, 0)
        data = np.frombuffer(b"".join(key or b"" for key in keys), dtype=np.uint8)
        return RoutableRecords(records, data, np.cumsum(sizes) - sizes, lengths)


def _stop_before(reader: PartitionReader, transformed: Transformed, offset: int) -> None:
    transformed.cut(offset)
    # The epoch of the last record before it is not known here.
    reader.restore(replace(reader.state, handed=offset, epoch=-1, fault=None))


def spread_routed(
    reader: PartitionReader,
    records: Records,
    topics: Sequence[int | None],
    partitions: Sequence[int | None],
    by_key: Callable[[Route], I64],
    codec: int,
) -> Iterator[OutgoingBatch]:
    """Yield batches of records for the topics and partitions that expressions chose for them.

    The order within each target partition is that of the source.

    Args:
        reader: their source partition.
        records: as they are written.
        topics: the index of the topic that an expression chose for each of them, or null.
        partitions: the partition that an expression chose for each of them, or null.
        by_key: the partition of each record on a route, where no expression chooses it.
        codec: compression of the batches.
    """
    route = reader.assignment.route
    assert route.transform is not None and route.transform.routing is not None
    by_expression = bool(route.transform.routing.partition)
    # Without an expression, there is one topic.
    indexes = np.array([topic or 0 for topic in topics], dtype=np.int64)
    for number in np.unique(indexes).tolist():
        topic = route.choices[number]
        (rows,) = np.nonzero(indexes == number)
        if by_expression:
            chosen = np.array(partitions, dtype=np.int64)
        else:
            chosen = by_key(replace(route, partitions=topic.partitions))
        yield from spread(reader, records.take(rows), chosen[rows], codec, topic=topic.name)
