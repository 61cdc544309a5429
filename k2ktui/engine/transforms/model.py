"""What ``replication.transform`` does to records, as plain values for Spark tasks."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from k2ktui.engine.schemas.ids import ID_HEADERS, SchemaPart

Encoding = Literal["bytes", "string", "json", "avro", "protobuf"]
#: Formats that Python decodes and encodes, by schemas.
WITH_SCHEMA: tuple[Encoding, ...] = ("avro", "protobuf")
OnError = Literal["fail", "skip", "deadLetter"]


@dataclass(frozen=True)
class SchemaSource:
    """Where a schema is: in a file, or in a registry, whose ids then precede the values.

    Attributes:
        file: a file with the schema; "" for none.
        subject: a subject of the registry; "" for none.
        version: a version of the subject; 0 for the latest one at the start.
        message: full name of a Protobuf message in the file.
        has_id: Protobuf or JSON that is decoded has a schema's id before it.
    """

    file: str = ""
    subject: str = ""
    version: int = 0
    message: str = ""
    has_id: bool = False

    def __str__(self) -> str:
        version = f" version {self.version}" if self.version else ""
        words = (
            (self.message, f"message {self.message}"),
            (self.file, self.file),
            (self.subject, f"subject {self.subject}{version}"),
        )
        return ", ".join(text for given, text in words if given)


@dataclass(frozen=True)
class Format:
    """How bytes become a column or the other way round.

    Attributes:
        kind: as they are, as UTF-8 text, as JSON, Avro or Protobuf.
        schema: of JSON, in Spark's DDL.
        source: where the schema of Avro or Protobuf is, None if encoding uses that of decoding; of
            JSON, the schema whose id stands before the text, None for no id.
    """

    kind: Encoding = "bytes"
    schema: str = ""
    source: SchemaSource | None = None

    @property
    def words(self) -> str:
        """The format, for operators."""
        source = "" if self.source is None else str(self.source)
        return f"{self.kind}: {source}" if source else self.kind


#: Leaves the bytes as they are.
BYTES = Format()


@dataclass(frozen=True)
class Routing:
    """Where Spark SQL sends the records of a topic.

    Attributes:
        topic: expression for the name of the target topic; "" if the topic mapping decides.
        topics: the target topics that ``topic`` may name.
        partition: expression for the number of the target partition; "" if none chooses it.
    """

    topic: str = ""
    topics: tuple[str, ...] = ()
    partition: str = ""

    @property
    def words(self) -> str:
        """What it chooses, for operators."""
        chosen = [
            name for name, text in (("topic", self.topic), ("partition", self.partition)) if text
        ]
        return f"chooses the {' and the '.join(chosen)} by expression"


@dataclass(frozen=True)
class Transform:
    """The steps of one rule, in order: decode, filter, explode, set, drop, route, encode.

    Attributes:
        decode_key: how keys are decoded.
        decode_value: how values are decoded.
        filter: Spark SQL predicate of the records to copy; "" for all.
        assignments: (column or header, Spark SQL expression) pairs.
        drop: fields to remove.
        encode_key: how keys are encoded.
        encode_value: how values are encoded.
        encode_key_schema: the schema of keys that are encoded by a schema, if it is not that of
            ``decode_key``; of JSON, the one whose id stands before the text.
        encode_value_schema: the same for values.
        on_error: what happens to a record that fails a step.
        dead_letter_topic: where such records go with ``deadLetter``; "" for the default name.
        explode: (column, Spark SQL expression) pair: one record for each element of the array,
            which becomes the column; None for one record.
        is_sql: the steps are the parts of ``sql``, whose expressions all see the original columns;
            ``headers`` may be assigned as a whole.
        routing: where the records go; None if no expression decides.
    """

    decode_key: Format = BYTES
    decode_value: Format = BYTES
    filter: str = ""
    assignments: tuple[tuple[str, str], ...] = ()
    drop: tuple[str, ...] = ()
    encode_key: Encoding = "bytes"
    encode_value: Encoding = "bytes"
    on_error: OnError = "fail"
    dead_letter_topic: str = ""
    explode: tuple[str, str] | None = None
    is_sql: bool = False
    encode_key_schema: SchemaSource | None = None
    encode_value_schema: SchemaSource | None = None
    routing: Routing | None = None

    def format_of(self, part: str) -> Format:
        """Return how the key or the value is decoded."""
        return self.decode_key if part == "key" else self.decode_value

    def encoding_of(self, part: str) -> Encoding:
        """Return how the key or the value is encoded."""
        return self.encode_key if part == "key" else self.encode_value

    def encode_schema_of(self, part: str) -> SchemaSource | None:
        """Return the schema that the key or the value is encoded with, if it has its own."""
        return self.encode_key_schema if part == "key" else self.encode_value_schema

    def follows_target_name(self, part: str) -> bool:
        """Return whether the schema's subject on the target has the name of the target topic."""
        decoded = self.format_of(part).source
        encodes = self.encoding_of(part) in WITH_SCHEMA and self.encode_schema_of(part) is None
        return encodes and decoded is not None and bool(decoded.subject)

    @property
    def registries(self) -> frozenset[str]:
        """The clusters, ``source`` or ``target``, whose registries have its schemas."""
        clusters = set()
        for part in ("key", "value"):
            own, decoded = self.encode_schema_of(part), self.format_of(part).source
            if decoded is not None and decoded.subject:
                clusters.add("source")
            written = decoded if own is None and self.encoding_of(part) in WITH_SCHEMA else own
            if written is not None and written.subject:
                clusters.add("target")
        return frozenset(clusters)

    def changes(self, part: str) -> bool:
        """Return whether the key, the value or the headers may differ on the target."""
        paths = [*self._assigned, *self.drop]
        if any(path.partition(".")[0] == part for path in paths):
            return True
        if part != "headers" and self.encoding_of(part) in WITH_SCHEMA:
            return True
        # JSON that is decoded and encoded again may differ in blanks, nulls and the order of keys.
        return {"key": self.decode_key, "value": self.decode_value}.get(part, BYTES) != BYTES

    def may_change_ids(self, parts: Iterable[SchemaPart]) -> bool:
        """Return whether schema ids of these parts may differ after the transform."""
        names = {name for part in parts for name in ID_HEADERS[part]}
        in_headers = self.sets_all_headers or not names.isdisjoint(self.assigned_headers)
        return in_headers or any(self.changes(part) for part in parts)

    @property
    def _assigned(self) -> tuple[str, ...]:
        """The columns and headers that are set, that of ``explode`` included."""
        exploded = (self.explode[0],) if self.explode is not None else ()
        return (*exploded, *(path for path, _ in self.assignments))

    @property
    def sets_all_headers(self) -> bool:
        """Return whether the record gets other headers in place of its own."""
        return "headers" in (path for path, _ in self.assignments)

    @property
    def assigned_headers(self) -> tuple[str, ...]:
        """Names of the headers that are set, in order."""
        paths = (path.partition(".") for path, _ in self.assignments)
        return tuple(name for part, _, name in paths if part == "headers" and name)

    @property
    def leaves_records_out(self) -> bool:
        """Return whether some source records may have no copy, or more than one."""
        return bool(self.filter) or self.explode is not None or self.on_error != "fail"

    def mentions(self, column: str) -> bool:
        """Return whether an expression may use a column."""
        return any(column in text.lower() for text in self._expressions)

    @property
    def selects_all(self) -> bool:
        """Whether an expression may use all columns, as ``struct(*)`` does."""
        return any("*" in _without_literals(text) for text in self._expressions)

    @property
    def _expressions(self) -> list[str]:
        texts = [self.filter, *(text for _, text in self.assignments)]
        if self.explode is not None:
            texts.append(self.explode[1])
        if self.routing is not None:
            texts += [self.routing.topic, self.routing.partition]
        return texts

    @property
    def words(self) -> str:
        """What it does to the records, for operators; "" if it only routes them."""
        formats = (("key", self.decode_key), ("value", self.decode_value))
        words = [f"decodes {part} ({how.words})" for part, how in formats if how != BYTES]
        if self.filter:
            words.append("filters")
        if self.explode is not None:
            words.append(f"makes several records of one ({self.explode[0]})")
        if self.assignments:
            words.append(f"sets {', '.join(path for path, _ in self.assignments)}")
        if self.drop:
            words.append(f"drops {', '.join(self.drop)}")
        for part, how in formats:
            kind, schema = self.encoding_of(part), self.encode_schema_of(part)
            if schema is not None or (kind != how.kind and {kind, how.kind} & {*WITH_SCHEMA}):
                words.append(f"encodes {part} ({Format(kind, source=schema).words})")
        if not words and not self.is_sql and self.encode_key == self.encode_value == "bytes":
            return ""
        return ", ".join(words) or "encodes again"


# Quoted text of Spark SQL; a quote in it is written twice, or after a backslash.
_QUOTED = re.compile(r"""'[^']*'|"[^"]*"|`[^`]*`""")


def _without_literals(text: str) -> str:
    """Return an expression without quoted text; as it is where its ends are not certain."""
    if any(mark in text for mark in ("\\", "--", "/*")):
        return text
    return _QUOTED.sub("''", text)


def plan_steps(transform: Transform) -> tuple[str, ...]:
    """Return the steps of a transform that may fail, as the file spells them."""
    steps = []
    for part, how in (("key", transform.decode_key), ("value", transform.decode_value)):
        if how.kind != "bytes":
            steps.append(f"decode.{part}")
    sql = transform.is_sql
    if transform.filter:
        steps.append("sql WHERE" if sql else "filter")
    if transform.explode is not None:
        steps.append(f"{'sql' if sql else 'explode'} {transform.explode[0]}")
    steps += [f"{'sql' if sql else 'set'} {path}" for path, _ in transform.assignments]
    routing = transform.routing or Routing()
    routes = (("topic", routing.topic), ("partition", routing.partition))
    steps += [f"sink.{what}" for what, text in routes if text]
    for part, kind in (("key", transform.encode_key), ("value", transform.encode_value)):
        if kind != "bytes":
            steps.append(f"encode.{part}")
    return tuple(steps)
