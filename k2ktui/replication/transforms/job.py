"""Runs micro-batches of transforms as Spark jobs of one stage.

::

    task of the driver ─► read_rows ─► SQL ─► write_rows ─► result
    (a property of the job)   Arrow      Arrow
"""

from __future__ import annotations

import base64
import pickle
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from k2ktui.engine.records.state import SourcePartition
from k2ktui.engine.transforms.model import Transform
from k2ktui.log.record_columns import split_records
from k2ktui.log.records import Records
from k2ktui.replication.copying.slot_task import REPEATED, SlotResult, SlotTask
from k2ktui.replication.transforms import rows
from k2ktui.replication.transforms.codec_batches import (
    DECODED,
    Codecs,
    decode_batches,
    encode_batches,
)
from k2ktui.replication.transforms.json_columns import make_json_parser
from k2ktui.replication.transforms.plan import TransformPlan, object_type
from k2ktui.replication.transforms.rows import InputLayout, make_layout
from k2ktui.replication.transforms.transformed import Transformed, collect

if TYPE_CHECKING:
    import pyarrow as pa

    from k2ktui.registry.mapper import SchemaMapperSettings
    from k2ktui.replication.copying.worker import BothOptions
    from k2ktui.replication.transforms.schemas import TransformSchemas

_TASK = "k2ktui.slot.task"
_WARM_UP = "warm-up"
_NAME = "replication.transform"
_SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    # An error must not become a null.
    "spark.sql.ansi.enabled": "true",
    # ${name} is text of the record. Spark would replace it, also in literals, by one of its own
    # settings, a property of Java or an environment variable, which may be a password.
    "spark.sql.variable.substitute": "false",
    # A common subexpression would be evaluated outside of the TryEval that catches its error.
    "spark.sql.subexpressionElimination.enabled": "false",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "2000",
    # Off: to compare a batch with a limit, Spark measures it after every row, which takes time
    # proportional to its rows. A micro-batch is limited by what it reads.
    "spark.sql.execution.arrow.maxBytesPerBatch": "2147483647",
    "spark.sql.adaptive.enabled": "false",
    # As for jobs without SQL: with the same variables, the same workers run both.
    "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "false",
    # Spark describes the plan of each job; this is the shortest form.
    "spark.sql.ui.explainMode": "simple",
}


class TransformJobs:
    """The RDDs of a session's transforms: one for each, which all laps of all slots use.

    Spark analyzes, optimizes and compiles a DataFrame once, for its RDD. A lap is a job of that
    RDD, not a query: Spark describes the plan of each query in text and to its listeners. What a
    lap is to do is a property of its job.

    Args:
        context: the Spark context.
        options: returns the connection options of source and target, for the tasks: another
            object when a login, a certificate or a registry's password was renewed.
        schemas: the schemas of formats that need one; None if no transform has such a format.
    """

    def __init__(
        self,
        context: Any,
        options: Callable[[], BothOptions],
        schemas: TransformSchemas | None = None,
    ) -> None:
        self._context = context
        self._schemas = schemas
        self._options = options
        self._planned_with: object = None
        self._rdds: dict[tuple[Transform, bool], Any] = {}
        self._lock = threading.Lock()
        self._session: Any = None

    def run(self, task: SlotTask) -> SlotResult:
        """Run one micro-batch of a slot; the caller has set the job group of this thread."""
        assert task.transform is not None
        # Event logs have the properties of jobs. What is secret is in the closures: the clusters'
        # options, and the registries'.
        plain = replace(task, registries=None), task.registries is not None
        text = base64.b64encode(pickle.dumps(plain)).decode()
        result: SlotResult = pickle.loads(  # noqa: S301 - our own task wrote it
            self._collect(self._rdd(task.transform, writes=True), text)
        )
        return result

    def warm_up(self, transform: Transform, tasks: int) -> None:
        """Start the workers of some tasks, and let Java load and compile what a transform needs."""
        rdd = self._rdd(transform, writes=not self._registers(transform))
        with ThreadPoolExecutor(tasks, thread_name_prefix="warm-up") as pool:
            for start in [pool.submit(self._collect, rdd, _WARM_UP) for _ in range(tasks)]:
                start.result()

    def check(self, transforms: Iterable[tuple[str, Transform]]) -> None:
        """Plan transforms without running them.

        Args:
            transforms: each with its name in the file.

        Raises:
            ConfigError: Spark rejects an expression, or it needs more than one stage.
        """
        for name, transform in transforms:
            self._rdd(transform, name, writes=not self._registers(transform))
            if self._schemas is not None:
                self._schemas.check(transform, name)

    def apply(
        self,
        transform: Transform,
        read: Callable[[InputLayout], Iterator[pa.RecordBatch]],
        name: str = _NAME,
    ) -> Any:
        """Return a DataFrame with the transformed rows that ``read`` yields.

        Raises:
            ConfigError: as for ``check``.
        """
        from pyspark.sql.types import StructType

        one = self._open().range(0, 1, 1, 1)
        how = transform.decode_value
        parsed = object_type(how.schema) if how.kind == "json" else None
        has_id = how.source is not None and how.source.has_id
        parser = None if parsed is None else make_json_parser(parsed, has_id=has_id)
        layout = make_layout(transform, parser)
        columns = StructType.fromDDL(layout.ddl)
        if layout.parser is not None:
            columns.add(rows.PARSED, parsed)
        codecs = self._codecs(transform, name)
        for part, decoder in codecs.decoders.items():
            columns.add(DECODED[part], StructType.fromDDL(f"v {decoder.type.ddl}")[0].dataType)

        def read_task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for _ in batches:
                yield from decode_batches(read(layout), codecs)

        records = one.mapInArrow(read_task, columns)
        return TransformPlan(transform, name, codecs).apply(records)

    def _codecs(self, transform: Transform, name: str = _NAME, *, writes: bool = False) -> Codecs:
        if self._schemas is None:
            return Codecs()
        return self._schemas.codecs(transform, name, writes=writes)

    def preview(
        self,
        transform: Transform,
        samples: Sequence[tuple[SourcePartition, Records]],
        counts: Sequence[int | None] = (),
    ) -> dict[int, Transformed]:
        """Return what a transform makes of records, by their index in ``samples``; writes nothing.

        ``counts`` are those of ``rows.input_batches``.

        Raises:
            ConfigError: as for ``check``.
        """

        def read(layout: InputLayout) -> Iterator[pa.RecordBatch]:
            for number, (source, records) in enumerate(samples):
                columns = split_records(records)
                yield from rows.input_batches(number, source, columns, layout, counts)
            yield rows.facts_batch(b"-", layout)

        def finish(batches: Iterator[pa.RecordBatch]) -> bytes:
            return pickle.dumps(collect(batches)[0])

        result: dict[int, Transformed] = pickle.loads(  # noqa: S301 - our own task
            self.run_once(transform, read, finish)
        )
        return result

    def run_once(
        self,
        transform: Transform,
        read: Callable[[InputLayout], Iterator[pa.RecordBatch]],
        finish: Callable[[Iterator[pa.RecordBatch]], bytes],
        *,
        writes: bool = False,
    ) -> bytes:
        """Transform the rows that ``read`` yields in a task; return what ``finish`` makes of them.

        Args:
            transform: the steps.
            read: yields the rows.
            finish: gets rows with the columns of ``rows.OUTPUT``, as they are written.
            writes: whether values have the ids of their schemas in the target's registry.

        Raises:
            ConfigError: as for ``check``.
        """

        def end(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            import pyarrow as pa

            result = finish(encode_batches(batches, codecs))
            yield pa.RecordBatch.from_pydict({"result": [result]})

        codecs = self._codecs(transform, writes=writes)
        with self._lock:
            frame = self.apply(transform, read).mapInArrow(end, "result BINARY")
        (row,) = frame.collect()
        return bytes(row[0])

    def infer_schema(self, texts: Sequence[str]) -> str:
        """Return the schema (DDL) that Spark infers from JSON texts."""
        lines = self._context.parallelize(texts, 1)
        return str(self._open().read.json(lines).schema.toDDL())

    def _registers(self, transform: Transform) -> bool:
        return self._schemas is not None and self._schemas.may_register(transform)

    def _rdd(self, transform: Transform, name: str = _NAME, *, writes: bool) -> Any:
        """Return the RDD of a transform's laps; raises ConfigError as ``check``.

        Args:
            transform: the steps.
            name: of the transform in the file, for messages.
            writes: False if it only warms up, so that it registers no schema.
        """
        with self._lock:
            key = (transform, writes)
            # Logins and certificates are in the closures: they may have been renewed.
            options = self._options()
            if options is not self._planned_with:
                self._planned_with = options
                self._rdds.clear()
            if key not in self._rdds:
                self._rdds[key] = self._plan(transform, name, writes=writes).rdd
            return self._rdds[key]

    def _collect(self, rdd: Any, text: str) -> bytes:
        """Run a job with what the task is to do; return what it wrote."""
        self._context.setLocalProperty(_TASK, text)
        try:
            (row,) = rdd.collect()
        finally:
            self._context.setLocalProperty(_TASK, None)
        return bytes(row[0])

    def _plan(self, transform: Transform, name: str, *, writes: bool) -> Any:
        options = self._options()
        codecs = self._codecs(transform, name, writes=writes)
        registries = None if self._schemas is None else self._schemas.mapper_settings()

        def read(layout: InputLayout) -> Iterator[pa.RecordBatch]:
            from k2ktui.replication.transforms.read import read_rows, read_samples

            task = _current_task(registries)
            if task is None:
                return read_samples(options, layout)
            return read_rows(task, options, layout)

        def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            import pyarrow as pa

            from k2ktui.replication.transforms.write import warm_up_writing, write_rows

            task, result = _current_task(registries), b""
            if task is None:
                warm_up_writing(batches, options)
            else:
                encoded = encode_batches(batches, codecs)
                result = pickle.dumps(write_rows(task, encoded, options))
            yield pa.RecordBatch.from_pydict({"result": [result]})

        return self.apply(transform, read, name).mapInArrow(write, "result BINARY")

    def _open(self) -> Any:
        if self._session is None:
            from pyspark.sql import SparkSession

            self._session = SparkSession(self._context)
            for key, value in _SETTINGS.items():
                self._session.conf.set(key, value)
        return self._session


def _current_task(registries: SchemaMapperSettings | None) -> SlotTask | None:
    """Return the slot's task of the running Spark task; None if it is to warm up.

    Args:
        registries: the task's, if it replaces schema ids.

    Raises:
        RuntimeError: Spark repeats the task; its epoch is valid for one attempt only.
    """
    from pyspark import TaskContext

    running = TaskContext.get()
    assert running is not None
    if running.attemptNumber() > 0:
        raise RuntimeError(REPEATED)
    text = running.getLocalProperty(_TASK)
    assert text is not None
    if text == _WARM_UP:
        return None
    task: SlotTask
    task, maps_schemas = pickle.loads(base64.b64decode(text))  # noqa: S301 - the driver wrote it
    return replace(task, registries=registries) if maps_schemas else task
