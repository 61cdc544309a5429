"""The Spark plan of a transform: columns of SQL, and the check that they need one stage only.

Every expression is evaluated in a ``TryEval`` of its own, which returns null instead of an error.
So one record's error does not fail the job, and the row says which step failed.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

from k2ktui.engine.transforms.model import Encoding, Format, Routing, Transform, plan_steps
from k2ktui.errors import ConfigError
from k2ktui.replication import _pyspark
from k2ktui.replication.transforms import rows
from k2ktui.replication.transforms.codec_batches import DECODED, ORIGINAL, Codecs
from k2ktui.replication.transforms.columns import MismatchedType, check_type
from k2ktui.replication.transforms.json_columns import ID_BYTES
from k2ktui.text import safe_message

# Operators that handle each row by itself, in order.
_NARROW = frozenset(
    {"MapInArrow", "Project", "Filter", "InputAdapter", "Range", "Scan ExistingRDD"}
)
_CODEGEN = "WholeStageCodegen"
_PARTS = ("key", "value")
_POSITION, _ELEMENT = "__k2k_position", "__k2k_element"
# Spark's errors for operators that cannot be part of an expression here.
_WIDE_ERRORS = {
    "MISSING_GROUP_BY": "Aggregate",
    "MISSING_AGGREGATION": "Aggregate",
    "UNSUPPORTED_GENERATOR": "Generate",
    "UNSUPPORTED_EXPR_FOR_OPERATOR": "Aggregate",
}


class TransformPlan:
    """Applies a transform to a DataFrame with the columns of a ``rows.InputLayout``.

    Args:
        transform: the steps.
        name: of the transform in the file, for messages.
        codecs: what Python decodes and encodes: the DataFrame has the decoded columns as well.
    """

    def __init__(self, transform: Transform, name: str, codecs: Codecs) -> None:
        self._transform = transform
        self._name = name
        self._codecs = codecs
        self._tried: list[tuple[Any, str]] = []

    def apply(self, records: Any) -> Any:
        """Return a DataFrame with the columns of ``rows.OUTPUT``.

        Keys and values that Python encodes are not encoded yet; then the columns of ``ORIGINAL``
        follow, if the codecs need them.

        Raises:
            ConfigError: Spark rejects an expression, or it needs more than one stage.
        """
        from pyspark.errors import PySparkException

        # Spark's errors are reported once, in our words.
        logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
        try:
            frame = self._build(records)
            self._check(frame)
        except PySparkException as error:
            # To print the cause calls Java, which may never answer.
            raise self._rejected(error) from None
        return frame

    def _decoded(self, records: Any) -> Any:
        """Decode keys and values; dead letters need them as they were, too."""
        from pyspark.sql import functions as f

        transform = self._transform
        if transform.on_error == "deadLetter":
            records = records.withColumns({ORIGINAL[part]: f.col(part) for part in _PARTS})
        for part, how in (("key", transform.decode_key), ("value", transform.decode_value)):
            if how.kind != "bytes":
                records = self._decode(records, part, how)
        return records

    def _filter(self, records: Any) -> Any:
        """Add the column that says which records are kept."""
        from pyspark.sql import functions as f

        if not self._transform.filter:
            return records.withColumn(rows.KEPT, f.lit(True))
        records, column = self._try(records, f.expr(self._transform.filter))
        self._require(records, column, "boolean", f"{self._step} must be a predicate (BOOLEAN)")
        return records.withColumn(rows.KEPT, f.coalesce(column, f.lit(False)))

    def _failed(self) -> Any:
        """The number of the first step that failed, or null."""
        from pyspark.sql import functions as f

        failed = f.lit(None).cast("int")
        for number, (condition, _) in reversed(list(enumerate(self._tried))):
            failed = f.when(condition, f.lit(number)).otherwise(failed)
        return failed

    def _build(self, records: Any) -> Any:
        from pyspark.sql import functions as f

        transform = self._transform
        frame = self._filter(self._decoded(records))
        if transform.explode is not None:
            frame = self._explode(frame, *transform.explode)
        headers = []
        selected: dict[str, Any] = {}
        for path, text in transform.assignments:
            part, _, name = path.partition(".")
            if path == "headers":
                frame, assigned_headers = self._try_headers(frame, text)
                continue
            frame, column = self._try(frame, f.when(f.col(rows.KEPT), f.expr(text)))
            if part == "headers":
                headers.append(column.cast("binary"))
            elif transform.is_sql:
                selected[part] = column
            else:
                frame = frame.withColumn(part, _with_field(part, name, column))
        if transform.is_sql and transform.explode is not None:
            selected[transform.explode[0]] = f.col(_ELEMENT)
        # All expressions of a SELECT see the record as it was.
        frame = frame.withColumns(selected) if selected else frame
        for path in transform.drop:
            part, _, name = path.partition(".")
            frame = frame.withColumn(part, f.col(part).dropFields(_quote(name)))
        frame, topic, partition = self._route(frame, transform.routing or Routing())
        for part, kind in (("key", transform.encode_key), ("value", transform.encode_value)):
            frame = self._encode(frame, part, kind)
        frame = frame.withColumn(rows.FAILED, self._failed())
        assigned = f.array(*headers) if headers else f.lit(None)
        if transform.sets_all_headers:
            assigned = assigned_headers
        return frame.select(
            rows.FACTS,
            rows.READER,
            rows.TIME,
            rows.HEADERS,
            *(self._written(part) for part in _PARTS),
            "offset",
            rows.KEPT,
            rows.FAILED,
            assigned.cast("array<binary>").alias(rows.ASSIGNED),
            topic.cast("int").alias(rows.TOPIC),
            partition.cast("bigint").alias(rows.PARTITION),
            *(ORIGINAL.values() if self._codecs.keeps_originals else ()),
        )

    def _explode(self, frame: Any, path: str, text: str) -> Any:
        """Make one row for each element of an array; none if it is null or empty."""
        from pyspark.sql import functions as f

        frame, column = self._try(frame, f.when(f.col(rows.KEPT), f.expr(text)))
        kind = frame.select(column).schema[0].dataType.simpleString()
        if not kind.startswith("array<"):
            raise self._refused(f"{self._step} needs an ARRAY, and is {kind.upper()}")
        # With ``outer``, a record without an element, or whose step failed, keeps one row.
        frame = frame.select("*", f.posexplode_outer(column).alias(_POSITION, _ELEMENT))
        frame = frame.withColumn(rows.KEPT, f.col(rows.KEPT) & f.col(_POSITION).isNotNull())
        if self._transform.is_sql:
            return frame
        part, _, name = path.partition(".")
        return frame.withColumn(part, _with_field(part, name, f.col(_ELEMENT)))

    def _try_headers(self, frame: Any, text: str) -> tuple[Any, Any]:
        """Evaluate all headers of the records; return them as names and values in turn."""
        from pyspark.sql import functions as f

        expression = f.when(f.col(rows.KEPT), f.expr(text)).cast(rows.HEADERS_TYPE)
        frame, column = self._try(
            frame,
            expression,
            also=lambda value: f.coalesce(
                f.exists(value, lambda header: header["key"].isNull()), f.lit(False)
            ),
        )
        pairs = f.transform(column, lambda h: f.array(h["key"].cast("binary"), h["value"]))
        return frame, f.coalesce(f.flatten(pairs), f.array())

    @property
    def _step(self) -> str:
        """The name of the last step that was tried."""
        return self._tried[-1][1]

    def _written(self, part: str) -> Any:
        """Return a key or value as it is written; the original one of a dead letter."""
        from pyspark.sql import functions as f

        made = f.when(f.col(rows.KEPT), f.col(part))
        if self._transform.on_error == "deadLetter" and not self._codecs.keeps_originals:
            original = f.col(ORIGINAL[part])
            made = f.when(f.col(rows.FAILED).isNotNull(), original).otherwise(made)
        return made.alias(part)

    def _try(self, frame: Any, expression: Any, *, also: Any = None) -> tuple[Any, Any]:
        """Add a column with the expression's value, or null where it fails.

        Args:
            frame: the DataFrame.
            expression: what to evaluate.
            also: from the column to a further condition under which the step failed.
        """
        from pyspark.sql import functions as f

        name = f"__k2k_try_{len(self._tried)}"
        step = plan_steps(self._transform)[len(self._tried)]
        frame = frame.withColumn(name, _pyspark.try_eval(f.struct(expression.alias("v"))))
        column = f.col(name)["v"]
        failed = f.col(name).isNull()
        self._tried.append((failed if also is None else failed | also(column), step))
        return frame, column

    def _decode(self, frame: Any, part: str, how: Format) -> Any:
        from pyspark.sql import functions as f

        raw = f"__k2k_raw_{part}"
        frame = frame.withColumn(raw, f.col(part))
        if part in self._codecs.decoders:
            frame, column = self._try(
                frame,
                f.col(DECODED[part]),
                also=lambda value: value.isNull() & f.col(raw).isNotNull(),
            )
            return frame.withColumn(part, column)
        encoded = f.col(raw)
        if how.source is not None and how.source.has_id:
            encoded = f.expr(
                f"if(startswith({raw}, X'00'), substring({raw}, {ID_BYTES + 1}), null)"
            )
        text = f.validate_utf8(encoded.cast("string"))
        if how.kind == "string":
            frame, column = self._try(frame, text)
        else:
            frame, column = self._decode_json(frame, part, how, text)
        return frame.withColumn(part, column)

    def _decode_json(self, frame: Any, part: str, how: Format, text: Any) -> tuple[Any, Any]:
        """Decode JSON texts, unless they are parsed already.

        Spark ignores what follows a value. An object is therefore parsed as the first of two
        elements of an array, so that more behind it is an error, or makes another number of them.
        """
        from pyspark.sql import functions as f
        from pyspark.sql.types import ArrayType

        given, mode = f.col(f"__k2k_raw_{part}").isNotNull(), {"mode": "FAILFAST"}
        kind = object_type(how.schema)
        if kind is None:
            # Some texts, such as an empty one, are null instead of an error.
            return self._try(
                frame,
                f.from_json(text, how.schema, mode),
                also=lambda value: value.isNull() & given,
            )
        done = f.col(rows.PARSED) if part == "value" and rows.PARSED in frame.columns else None
        pair = f.from_json(f.concat(f.lit("["), text, f.lit(",{}]")), ArrayType(kind), mode)
        if done is not None:
            given, pair = given & done.isNull(), f.when(done.isNull(), pair)
        frame, pair = self._try(
            frame,
            pair,
            also=lambda pair: (
                given & ((f.coalesce(f.size(pair), f.lit(0)) != 2) | f.get(pair, f.lit(0)).isNull())
            ),
        )
        value = f.get(pair, f.lit(0))
        return frame, value if done is None else f.coalesce(done, value)

    def _route(self, frame: Any, routing: Routing) -> tuple[Any, Any, Any]:
        """Add what expressions choose: the index of the target topic, and the target partition.

        Null, a topic that is not declared, and a partition that is not on the topic are failures.
        """
        from pyspark.sql import functions as f

        topic, partition, kept = f.lit(None), f.lit(None), f.col(rows.KEPT)
        if routing.topic:
            names = f.array(*map(f.lit, routing.topics))
            frame, column = self._try(
                frame,
                f.when(kept, f.expr(routing.topic)),
                also=lambda name: kept & (f.coalesce(f.array_position(names, name), f.lit(0)) < 1),
            )
            self._require(frame, column, "string", "sink.topic must be a STRING")
            topic = (f.array_position(names, column) - 1).cast("int")
        if routing.partition:
            index = f.coalesce(topic, f.lit(0)).cast("int")
            # Null, so that nothing is compared, where the number of partitions is not known.
            count = f.get(f.col(rows.COUNTS), index)
            frame, column = self._try(
                frame,
                f.when(kept, f.expr(routing.partition)),
                also=lambda number: (
                    kept
                    & (
                        (f.coalesce(number, f.lit(-1)) < 0)
                        | f.coalesce(number >= count, f.lit(False))
                    )
                ),
            )
            kinds = ("int", "bigint", "smallint", "tinyint")
            self._require(frame, column, kinds, "sink.partition must be an INT")
            partition = column
        return frame, topic, partition

    def _encode(self, frame: Any, part: str, kind: Encoding) -> Any:
        from pyspark.sql import functions as f

        if part in self._codecs.encoders:
            self._tried.append((f.lit(False), plan_steps(self._transform)[len(self._tried)]))
            try:
                given = frame.select(part).schema[0].dataType
                check_type(given, self._codecs.encoders[part].type, part)
            except MismatchedType as error:
                raise self._refused(f"{self._step}: {safe_message(str(error), 400)}") from error
            return frame
        if kind == "bytes":
            self._require(frame, f.col(part), "binary", f"encode.{part}: bytes needs a BINARY")
            return frame
        value = f.col(part)
        text = f.to_json(value) if kind == "json" else value.cast("string")
        frame, column = self._try(
            frame, f.when(f.col(rows.KEPT) & value.isNotNull(), text.cast("binary"))
        )
        return frame.withColumn(part, column)

    def _require(self, frame: Any, column: Any, kinds: str | tuple[str, ...], message: str) -> None:
        actual = frame.select(column).schema[0].dataType.simpleString()
        if actual not in ((kinds,) if isinstance(kinds, str) else kinds):
            raise self._refused(f"{message}, and is {actual.upper()}")

    def _check(self, frame: Any) -> None:
        unstable = _pyspark.unstable_expression(frame)
        for name in _operators(_pyspark.executed_plan(frame)):
            generates = name == "Generate" and self._transform.explode is not None
            if name not in _NARROW and not generates and not name.startswith(_CODEGEN):
                raise self._refused(
                    f"its plan has the operator {name}, which needs more than the record itself"
                )
        if unstable:
            raise self._refused(
                f"{unstable} may have another value at the next try: a record that is copied again "
                "after a failure would differ"
            )

    def _rejected(self, error: Any) -> ConfigError:
        condition = str(error.getCondition() or "")
        for begin, operator in _WIDE_ERRORS.items():
            if condition.startswith(begin):
                return self._refused(
                    f"its plan has the operator {operator}, which needs more than the record itself"
                )
        text = str(error).strip().partition("\n")[0].partition(" SQLSTATE")[0]
        return self._refused(f"Spark rejects it: {safe_message(text, 400)}")

    def _refused(self, why: str) -> ConfigError:
        return ConfigError(
            f"{self._name}: {why}",
            unchanged="Nothing was copied.",
            hint="Correct the rule; k2ktui transform preview shows what it does to records. "
            "docs/transforms.md lists what is allowed.",
        )


def _with_field(part: str, name: str, column: Any) -> Any:
    from pyspark.sql import functions as f

    return f.col(part).withField(_quote(name), column) if name else column


def object_type(schema: str) -> Any:
    """Return a type of JSON objects; None for one of other values, or if Spark rejects it."""
    from pyspark.errors import PySparkException
    from pyspark.sql.types import DataType, MapType, StructType

    try:
        kind = DataType.fromDDL(schema)
    except PySparkException:
        return None  # the plan reports it
    return kind if isinstance(kind, (StructType, MapType)) else None


def _quote(path: str) -> str:
    return ".".join(f"`{name}`" for name in path.split("."))


def _operators(plan: Any) -> Iterator[str]:
    """Yield the names of a plan's operators, those of subqueries included."""
    yield plan.nodeName()
    if plan.subqueries().size():
        yield "Subquery"
    children = plan.children()
    for at in range(children.size()):
        yield from _operators(children.apply(at))
