"""Runs micro-batches of transforms as Spark jobs of one stage.

::

    task of the driver ─► read_rows ─► SQL ─► write_rows ─► result
    (a property of the job)   Arrow      Arrow
"""

from __future__ import annotations

import base64
import pickle
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from k2ktui.engine.state import SourcePartition
from k2ktui.engine.transforms import Transform
from k2ktui.log.records import Records
from k2ktui.replication.slot_task import SlotResult, SlotTask
from k2ktui.replication.stages import rows
from k2ktui.replication.stages.codec_batches import (
    DECODED,
    Codecs,
    decode_batches,
    encode_batches,
)
from k2ktui.replication.stages.json_columns import JsonParser, make_json_parser
from k2ktui.replication.stages.plan import TransformPlan
from k2ktui.replication.stages.transformed import Transformed, collect

if TYPE_CHECKING:
    import pyarrow as pa

    from k2ktui.replication.stages.schemas import TransformSchemas

_TASK = "k2ktui.slot.task"
_SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    # An error must not become a null.
    "spark.sql.ansi.enabled": "true",
    # A common subexpression would be evaluated outside of the TryEval that catches its error.
    "spark.sql.subexpressionElimination.enabled": "false",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "2000",
    # Off: to compare a batch with a limit, Spark measures it after every row, which takes time
    # proportional to its rows. A micro-batch is limited by what it reads.
    "spark.sql.execution.arrow.maxBytesPerBatch": "2147483647",
    "spark.sql.adaptive.enabled": "false",
}

Options = Mapping[str, Any]


class TransformJobs:
    """The DataFrames of a session's transforms: one per slot, as slots run at once.

    Args:
        context: the Spark context.
        source: connection options of the source cluster, for the tasks.
        target: connection options of the target cluster, for the tasks.
        schemas: the schemas of formats that need one; None if no transform has such a format.
    """

    def __init__(
        self,
        context: Any,
        source: Options,
        target: Options,
        schemas: TransformSchemas | None = None,
    ) -> None:
        self._context = context
        self._schemas = schemas
        self._options = (dict(source), dict(target))
        self._plans: dict[Transform, Any] = {}
        self._frames: dict[tuple[int, Transform], Any] = {}
        self._lock = threading.Lock()
        self._session: Any = None

    def run(self, task: SlotTask) -> SlotResult:
        """Run one micro-batch of a slot; the caller has set the job group of this thread."""
        assert task.transform is not None
        with self._lock:
            at = (task.slot, task.transform)
            frame = self._frames.get(at)
            if frame is None:
                if task.transform not in self._plans:
                    self._plans[task.transform] = self._plan(task.transform)
                frame = self._frames[at] = self._plans[task.transform].select("result")
        # The task has no secrets; the clusters' options, which have some, are in the closures.
        text = base64.b64encode(pickle.dumps(task)).decode()
        self._context.setLocalProperty(_TASK, text)
        try:
            (row,) = frame.collect()
        finally:
            self._context.setLocalProperty(_TASK, None)
        result: SlotResult = pickle.loads(row[0])  # noqa: S301 - our own task wrote it
        return result

    def warm_up(self, transform: Transform, tasks: int) -> None:
        """Start the workers of some tasks, and let Java load and compile what a transform needs."""

        def read(parser: JsonParser | None) -> Iterator[pa.RecordBatch]:
            from k2ktui.replication.stages.read import read_samples

            return read_samples(*options, parser)

        def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            import pyarrow as pa

            from k2ktui.replication.stages.write import warm_up_writing

            warm_up_writing(batches, *options)
            yield pa.RecordBatch.from_pydict({"result": [b""]})

        options = self._options
        self.apply(transform, read, tasks=tasks).mapInArrow(write, "result BINARY").collect()

    def check(self, transforms: Iterable[tuple[str, Transform]]) -> None:
        """Plan transforms without running them.

        Args:
            transforms: each with its name in the file.

        Raises:
            ConfigError: Spark rejects an expression, or it needs more than one stage.
        """
        for name, transform in transforms:
            self.apply(transform, lambda _: iter(()), name)
            if self._schemas is not None:
                self._schemas.check(transform, name)

    def apply(
        self,
        transform: Transform,
        read: Callable[[JsonParser | None], Iterator[pa.RecordBatch]],
        name: str = "replication.transform",
        tasks: int = 1,
    ) -> Any:
        """Return a DataFrame with the transformed rows that ``read`` yields in each task.

        Raises:
            ConfigError: as for ``check``.
        """
        from pyspark.sql.types import StructType

        one_each = self._open().range(0, tasks, 1, tasks)
        columns = StructType.fromDDL(rows.INPUT)
        parsed = _json_schema(transform)
        parser = None if parsed is None else make_json_parser(parsed)
        if parser is not None:
            columns.add(rows.PARSED, parsed)
        codecs = self._codecs(transform, name)
        for part, decoder in codecs.decoders.items():
            columns.add(DECODED[part], StructType.fromDDL(f"v {decoder.ddl}")[0].dataType)

        def read_task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for _ in batches:
                yield from decode_batches(read(parser), codecs)

        records = one_each.mapInArrow(read_task, columns)
        return TransformPlan(transform, name, codecs).apply(records)

    def _codecs(
        self, transform: Transform, name: str = "replication.transform", *, writes: bool = False
    ) -> Codecs:
        if self._schemas is None:
            return Codecs()
        return self._schemas.codecs(transform, name, writes=writes)

    def preview(
        self,
        transform: Transform,
        found: Sequence[tuple[SourcePartition, Records]],
        counts: Sequence[int | None] = (),
    ) -> dict[int, Transformed]:
        """Return what a transform makes of records, by their index in ``found``; writes nothing.

        ``counts`` are those of ``rows.input_batches``.

        Raises:
            ConfigError: as for ``check``.
        """
        with_headers = transform.mentions("headers")

        def read(parser: JsonParser | None) -> Iterator[pa.RecordBatch]:
            for number, (source, records) in enumerate(found):
                yield from rows.input_batches(
                    number,
                    source,
                    records,
                    with_headers=with_headers,
                    parser=parser,
                    counts=counts,
                )
            yield rows.facts_batch(b"-", parser)

        def collect_result(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            import pyarrow as pa

            result, _ = collect(encode_batches(batches, codecs))
            yield pa.RecordBatch.from_pydict({"result": [pickle.dumps(result)]})

        codecs = self._codecs(transform)
        (row,) = self.apply(transform, read).mapInArrow(collect_result, "result BINARY").collect()
        result: dict[int, Transformed] = pickle.loads(row[0])  # noqa: S301 - our own task
        return result

    def infer_schema(self, texts: Sequence[str]) -> str:
        """Return the schema (DDL) that Spark infers from JSON texts."""
        lines = self._context.parallelize(texts, 1)
        return str(self._open().read.json(lines).schema.toDDL())

    def _plan(self, transform: Transform) -> Any:
        source, target = self._options
        codecs = self._codecs(transform, writes=True)

        def read(parser: JsonParser | None) -> Iterator[pa.RecordBatch]:
            from k2ktui.replication.stages.read import read_rows

            return read_rows(_current_task(), source, target, parser)

        def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            import pyarrow as pa

            from k2ktui.replication.stages.write import write_rows

            encoded = encode_batches(batches, codecs)
            result = write_rows(_current_task(), encoded, source, target)
            yield pa.RecordBatch.from_pydict({"result": [pickle.dumps(result)]})

        return self.apply(transform, read).mapInArrow(write, "result BINARY")

    def _open(self) -> Any:
        if self._session is None:
            from pyspark.sql import SparkSession

            self._session = SparkSession(self._context)
            for key, value in _SETTINGS.items():
                self._session.conf.set(key, value)
        return self._session


def _json_schema(transform: Transform) -> Any:
    """Return the schema of JSON values; None if there is none, or Spark rejects it."""
    from pyspark.errors import PySparkException
    from pyspark.sql.types import StructType

    if transform.decode_value.kind != "json":
        return None
    try:
        return StructType.fromDDL(transform.decode_value.schema)
    except PySparkException:
        return None  # the plan reports it


def _current_task() -> SlotTask:
    """Return the slot's task of the running Spark task.

    Raises:
        RuntimeError: Spark repeats the task; its epoch is valid for one attempt only.
    """
    from pyspark import TaskContext

    running = TaskContext.get()
    assert running is not None
    if running.attemptNumber() > 0:
        raise RuntimeError("a slot task is valid for one attempt only")
    text = running.getLocalProperty(_TASK)
    assert text is not None
    task: SlotTask = pickle.loads(base64.b64decode(text))  # noqa: S301 - the driver wrote it
    return task
