"""The entry ``transform`` of the ``replication`` section: records changed by Spark SQL."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, Self

from pydantic import (
    BeforeValidator,
    PlainSerializer,
    WithJsonSchema,
    field_validator,
    model_validator,
)

from k2ktui.config.clusters import Section
from k2ktui.config.patterns import Pattern
from k2ktui.config.scalars import Name, parse_text
from k2ktui.engine.select_text import SelectText, parse_select
from k2ktui.engine.topics import LEGAL_TOPIC
from k2ktui.engine.transforms import BYTES, Encoding, Format, OnError, Transform

_FIELD = r"(?:key|value)(?:\.[A-Za-z_]\w*)"
_ASSIGNED = re.compile(rf"key|value|{_FIELD}+|headers\..+", re.ASCII)
_EXPLODED = re.compile(rf"key|value|{_FIELD}+", re.ASCII)
_DROPPED = re.compile(rf"{_FIELD}+", re.ASCII)
_LATER = ("avro", "protobuf")
_DECODED = 'bytes, string or {json: {schema: "id BIGINT, name STRING"}}'
_ENCODED = "bytes, string or json"
_UNSUPPORTED = "avro and protobuf are not supported yet"


def _parse_format(value: Any) -> Format:
    if isinstance(value, Format):
        return value
    if isinstance(value, str) and value in ("bytes", "string"):
        return Format("bytes" if value == "bytes" else "string")
    if isinstance(value, Mapping) and set(value) == {"json"}:
        inner = value["json"]
        if isinstance(inner, Mapping) and set(inner) == {"schema"}:
            schema = parse_text(inner["schema"]).strip()
            if schema:
                return Format("json", schema)
    raise ValueError(_with_later(_DECODED, value))


def _parse_encoding(value: Any) -> Encoding:
    if isinstance(value, str) and value in ("bytes", "string", "json"):
        kinds: dict[str, Encoding] = {"bytes": "bytes", "string": "string", "json": "json"}
        return kinds[value]
    raise ValueError(_with_later(_ENCODED, value))


def _with_later(expected: str, value: Any) -> str:
    names = [value] if isinstance(value, str) else list(value) if isinstance(value, Mapping) else []
    return f"{expected}; {_UNSUPPORTED}" if set(names) & set(_LATER) else expected


def _format_yaml(chosen: Format) -> str | dict[str, Any]:
    return {"json": {"schema": chosen.schema}} if chosen.kind == "json" else chosen.kind


FormatField = Annotated[
    Format,
    BeforeValidator(_parse_format),
    PlainSerializer(_format_yaml),
    WithJsonSchema({"type": ["string", "object"]}),
]
EncodingField = Annotated[
    Encoding,
    BeforeValidator(_parse_encoding),
    WithJsonSchema({"enum": ["bytes", "string", "json"]}),
]


class Decoders(Section):
    """How keys and values become columns."""

    key: FormatField = BYTES
    value: FormatField = BYTES


class Encoders(Section):
    """How columns become keys and values; by default as they were decoded."""

    key: EncodingField | None = None
    value: EncodingField | None = None


class DeadLetters(Section):
    """Where records that fail a step go."""

    topic: Name | None = None

    @field_validator("topic")
    @classmethod
    def _is_legal(cls, topic: str | None) -> str | None:
        if topic is not None and not LEGAL_TOPIC.fullmatch(topic):
            raise ValueError("the name of a topic (1 to 249 letters, digits, '.', '_' and '-')")
        return topic


class TransformRule(Section):
    """What happens to the records of topics; not a Lenses setting.

    The expressions are Spark SQL over key, value, headers, topic, partition, offset and timestamp.
    """

    topics: Pattern = ".*"
    decode: Decoders = Decoders()
    filter: Name | None = None
    explode: Mapping[Name, Name] | None = None
    set: Mapping[Name, Name] | None = None
    drop: tuple[Name, ...] | None = None
    sql: Name | None = None
    encode: Encoders = Encoders()
    on_error: OnError = "fail"
    dead_letter: DeadLetters | None = None

    @field_validator("filter")
    @classmethod
    def _has_text(cls, text: str | None) -> str | None:
        if text is not None and not text.strip():
            raise ValueError("a Spark SQL predicate")
        return text

    @field_validator("sql")
    @classmethod
    def _is_narrow(cls, text: str | None) -> str | None:
        if text is not None:
            parse_select(text)
        return text

    @field_validator("explode")
    @classmethod
    def _explodes_one(cls, given: Mapping[str, str] | None) -> Mapping[str, str] | None:
        if given is not None and len(given) != 1:
            raise ValueError("one column with the expression of an array")
        for path, text in (given or {}).items():
            if not _EXPLODED.fullmatch(path):
                raise ValueError("key, value, key.FIELD or value.FIELD")
            if not text.strip():
                raise ValueError(f"a Spark SQL expression for {path}")
        return given

    @field_validator("set")
    @classmethod
    def _sets_columns(cls, given: Mapping[str, str] | None) -> Mapping[str, str] | None:
        for path, text in (given or {}).items():
            if not _ASSIGNED.fullmatch(path):
                raise ValueError("key, value, key.FIELD, value.FIELD or headers.NAME for each key")
            if not text.strip():
                raise ValueError(f"a Spark SQL expression for {path}")
        return given

    @field_validator("drop")
    @classmethod
    def _drops_fields(cls, given: tuple[str, ...] | None) -> tuple[str, ...] | None:
        if not all(_DROPPED.fullmatch(path) for path in given or ()):
            raise ValueError("a list of key.FIELD and value.FIELD (headers: replication.headers)")
        return given

    @model_validator(mode="after")
    def _is_sql_or_steps(self) -> Self:
        steps = {"filter": self.filter, "explode": self.explode, "set": self.set, "drop": self.drop}
        others = [name for name, value in steps.items() if value is not None]
        if self.sql is not None and others:
            raise ValueError(f"sql or {others[0]}, not both")
        return self

    @model_validator(mode="after")
    def _fields_are_decoded(self) -> Self:
        for part, how in (("key", self.decode.key), ("value", self.decode.value)):
            whole = {*(self.explode or {}), *(self.set or {})}
            assigned = self.sql is not None or part in whole
            paths = [*(self.explode or {}), *(self.set or {}), *(self.drop or ())]
            fields = [path for path in paths if path.startswith(f"{part}.")]
            if fields and how.kind != "json" and not assigned:
                raise ValueError(f"decode.{part}: {{json: …}} for the field {fields[0]}")
            if getattr(self.encode, part) == "json" and how.kind != "json" and not assigned:
                raise ValueError(f"decode.{part}: {{json: …}} for encode.{part}: json")
        return self

    @model_validator(mode="after")
    def _dead_letters_are_used(self) -> Self:
        if self.dead_letter is not None and self.on_error != "deadLetter":
            raise ValueError("onError: deadLetter for deadLetter")
        return self

    @property
    def transform(self) -> Transform | None:
        """The steps, or None if the rule leaves records unchanged."""
        exploded = self.explode or {}
        found = Transform(
            self.decode.key,
            self.decode.value,
            (self.filter or "").strip(),
            tuple((path, text.strip()) for path, text in (self.set or {}).items()),
            self.drop or (),
            self.encode.key or self.decode.key.kind,
            self.encode.value or self.decode.value.kind,
            explode=next(((path, text.strip()) for path, text in exploded.items()), None),
        )
        if self.sql is not None:
            found = _with_select(found, parse_select(self.sql))
        if found == Transform():
            return None
        topic = self.dead_letter.topic if self.dead_letter is not None else None
        return replace(found, on_error=self.on_error, dead_letter_topic=topic or "")


def _with_select(found: Transform, select: SelectText) -> Transform:
    """Return a transform with the steps of a SELECT."""
    explode = next((each for each in select.columns if each[0] == select.exploded), None)
    changed = bool(select.columns or select.where)
    return replace(
        found,
        filter=select.where,
        explode=explode,
        assignments=tuple(each for each in select.columns if each is not explode),
        is_sql=changed,
    )
