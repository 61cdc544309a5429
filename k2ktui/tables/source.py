"""Spark's data source ``k2ktui``: the tables of a pipeline.

Spark makes the source, its reader and the reader's partitions in Python processes beside the
driver; executors get the pickled reader and one partition each. What a reader holds is therefore
all that executors learn: for ``records`` how to connect to both clusters, else nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from k2ktui.errors import ConfigError
from k2ktui.secret_values import remember_secrets
from k2ktui.tables.columns import ddl, make_batch
from k2ktui.tables.filters import passes, takes
from k2ktui.tables.query import Query, read_query
from k2ktui.tables.records import RecordsTask, read_records
from k2ktui.tables.spark_bases import (
    DataSource,
    DataSourceReader,
    InputPartition,
    SimpleDataSourceStreamReader,
)

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.datasource import Filter
    from pyspark.sql.types import StructType

    from k2ktui.engine.records.state import SourcePartition


class Pipelines(DataSource):  # type: ignore[misc]
    """A pipeline's tables: ``spark.dataSource.register(Pipelines)``."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "k2ktui"

    def schema(self) -> str:
        """Return the columns of the table that the options name."""
        return ddl(read_query(self.options).columns)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of the table."""
        query = _require_columns(read_query(self.options), schema)
        make = RecordsReader if query.table == "records" else StateReader
        return FilteringReader(make(query)) if query.push_filters else make(query)

    def simpleStreamReader(self, schema: StructType) -> SimpleDataSourceStreamReader:
        """Return the reader of ``ranges`` as a stream."""
        from k2ktui.tables.stream import RangesStream  # not for executors

        query = _require_columns(read_query(self.options), schema)
        if query.table != "ranges":
            raise ConfigError(
                f"the table {query.table} cannot be read as a stream",
                unchanged="Nothing was read.",
                hint='spark.readStream is for .load("ranges"); use spark.read for other tables.',
            )
        return RangesStream(query)


def _require_columns(query: Query, schema: StructType) -> Query:
    if schema.fieldNames() != list(query.columns):
        raise ConfigError(
            f"the table {query.table} has its own columns, and none can be chosen by .schema()",
            unchanged="Nothing was read.",
            hint="Leave .schema() out, and use .select().",
        )
    return query


class BatchPartition(InputPartition):  # type: ignore[misc]
    """Rows that were read where the driver is."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        self.batch = batch


class TaskPartition(InputPartition):  # type: ignore[misc]
    """Source offsets that an executor reads."""

    def __init__(self, task: RecordsTask) -> None:
        self.task = task


class StateReader(DataSourceReader):  # type: ignore[misc]
    """Reads a table of the pipeline's state; its tasks only pass the rows on."""

    def __init__(self, query: Query) -> None:
        self._query = query
        self.filters: tuple[Filter, ...] = ()

    def partitions(self) -> Sequence[InputPartition]:
        """Read the table."""
        query, flow = self._query, self._query.open_flow()
        if query.table == "ranges":
            from k2ktui.tables.mapping import read_ranges

            return [BatchPartition(batch) for batch in read_ranges(flow, self.wants)]
        from k2ktui.tables.state import read_state

        rows = [
            row
            for row in read_state(query.table, flow, (query.file,))
            if self._passes(row.get("topic"), row.get("partition"))
        ]
        return [BatchPartition(make_batch(query.columns, rows))] if rows else []

    def wants(self, at: SourcePartition) -> bool:
        """Return whether rows of a source partition are read."""
        return self._passes(at.topic, at.partition)

    def _passes(self, topic: str | None, partition: int | None) -> bool:
        return self._query.wants(topic, partition) and passes(self.filters, topic, partition)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a partition; none for the one that Spark makes of an empty table."""
        if isinstance(partition, BatchPartition):
            yield partition.batch


class RecordsReader(StateReader):
    """Reads records: their offsets are divided where the driver is, and read by executors."""

    def __init__(self, query: Query) -> None:
        from k2ktui.tables.record_tasks import find_connections  # not for executors

        super().__init__(query)
        # Spark pickles the reader before it asks for partitions.
        self._source, self._target = find_connections(query.open_flow())

    def partitions(self) -> Sequence[InputPartition]:
        """Divide the source offsets among tasks."""
        from k2ktui.tables.record_tasks import plan_records

        query = self._query
        tasks = plan_records(query.open_flow(), self.wants, query.task_offsets)
        return [TaskPartition(task) for task in tasks]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the records of a task with their copies."""
        if not isinstance(partition, TaskPartition):
            return
        for connection in (self._source, self._target):
            remember_secrets((key, str(value)) for key, value in connection.options.items())
        yield from read_records(
            partition.task, self._source, self._target, contents=self._query.contents
        )


class FilteringReader(DataSourceReader):  # type: ignore[misc]
    """Another reader, with filters on topic and partition that are applied before it reads.

    Only where it is asked for. Spark 4.3 has one list of partitions for all scans of what
    one ``load`` returned (``PythonDataSourceV2.readInfo``). ``PythonScanBuilder.pushFilters``
    replaces it, and a scan without filters, or one planned before, reads what is in it: rows would
    be missing. Nothing of this reaches Python.
    """

    def __init__(self, reader: StateReader) -> None:
        self._reader = reader

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Take the filters on topic and partition; return those that Spark has to apply."""
        self._reader.filters = tuple(pushed for pushed in filters if takes(pushed))
        return [pushed for pushed in filters if not takes(pushed)]

    def partitions(self) -> Sequence[InputPartition]:
        """Return the partitions of the rows that pass."""
        return self._reader.partitions()

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Yield the rows of a partition."""
        return self._reader.read(partition)
