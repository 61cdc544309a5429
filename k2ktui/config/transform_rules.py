"""The entry ``transform`` of the ``replication`` section: records changed by Spark SQL."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Self

from pydantic import field_validator, model_validator

from k2ktui.config.clusters import Section
from k2ktui.config.patterns import Pattern
from k2ktui.config.scalars import Name
from k2ktui.config.transform_formats import DecodeField, EncodeField, needs_schema
from k2ktui.engine.topics import LEGAL_TOPIC
from k2ktui.engine.transforms.model import (
    BYTES,
    WITH_SCHEMA,
    Format,
    OnError,
    SchemaSource,
    Transform,
)
from k2ktui.engine.transforms.select_text import SelectText, parse_select

_FIELD = r"(?:key|value)(?:\.[A-Za-z_]\w*)"
_ASSIGNED = re.compile(rf"key|value|{_FIELD}+|headers\..+", re.ASCII)
_EXPLODED = re.compile(rf"key|value|{_FIELD}+", re.ASCII)
_DROPPED = re.compile(rf"{_FIELD}+", re.ASCII)
_WITH_FIELDS = ("json", *WITH_SCHEMA)


class Decoders(Section):
    """How keys and values become columns."""

    key: DecodeField = BYTES
    value: DecodeField = BYTES


class Encoders(Section):
    """How columns become keys and values; by default as they were decoded."""

    key: EncodeField | None = None
    value: EncodeField | None = None


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
        for part in ("key", "value"):
            how, encoded = self._formats(part)
            whole = {*(self.explode or {}), *(self.set or {})}
            assigned = self.sql is not None or part in whole
            paths = [*(self.explode or {}), *(self.set or {}), *(self.drop or ())]
            fields = [path for path in paths if path.startswith(f"{part}.")]
            if how.kind in _WITH_FIELDS or assigned:
                continue
            if fields:
                raise ValueError(f"decode.{part}: {{json: …}} for the field {fields[0]}")
            if encoded.kind == "json":
                raise ValueError(f"decode.{part}: {{json: …}} for encode.{part}: json")
        return self

    @model_validator(mode="after")
    def _schemas_are_known(self) -> Self:
        for part in ("key", "value"):
            how, encoded = self._formats(part)
            if needs_schema(how) and self._topic is None:
                raise ValueError(
                    f"decode.{part}: {{avro: {{subject: NAME}}}}, as topics is not the name of one "
                    "topic"
                )
            if needs_schema(encoded) and how.kind != encoded.kind:
                raise ValueError(
                    f"encode.{part}: {{{encoded.kind}: {{schemaFile: …}}}} or {{{encoded.kind}: "
                    f"{{subject: …}}}}, as decode.{part} is not {encoded.kind}"
                )
            source = encoded.source
            keeps_id = how.source is not None and how.source.has_id
            if how.kind == "json" and keeps_id and getattr(self.encode, part) is None:
                raise ValueError(
                    f"encode.{part}: {{json: {{subject: NAME}}}} of the target's registry, as "
                    "decoded values have schema ids"
                )
            if encoded.kind != "protobuf" or source is None:
                continue
            if not source.file and how.kind != "protobuf":
                raise ValueError(
                    f"schemaFile and message in encode.{part}, as decode.{part} is not protobuf"
                )
            if keeps_id and source == SchemaSource():
                raise ValueError(
                    f"encode.{part}: {{protobuf: {{subject: NAME}}}} of the target's registry, as "
                    "decoded values have schema ids"
                )
        return self

    def _formats(self, part: str) -> tuple[Format, Format]:
        """Return how a part is decoded and encoded; by default as it was decoded."""
        how: Format = getattr(self.decode, part)
        encoded: Format | None = getattr(self.encode, part)
        if encoded is None:
            encoded = Format(how.kind, source=SchemaSource() if how.kind in WITH_SCHEMA else None)
        return how, encoded

    @property
    def _topic(self) -> str | None:
        """The one topic that the rule is for; None for a pattern."""
        name = self.topics.replace("\\.", ".")
        return name if LEGAL_TOPIC.fullmatch(name) else None

    def _decoded(self, part: str) -> Format:
        """Return how a part is decoded, with the subject that follows from the topic's name."""
        how, _ = self._formats(part)
        return (
            replace(how, source=SchemaSource(subject=f"{self._topic}-{part}"))
            if needs_schema(how)
            else how
        )

    @model_validator(mode="after")
    def _dead_letters_are_used(self) -> Self:
        if self.dead_letter is not None and self.on_error != "deadLetter":
            raise ValueError("onError: deadLetter for deadLetter")
        return self

    @property
    def transform(self) -> Transform | None:
        """The steps, or None if the rule leaves records unchanged."""
        steps = self.steps
        plain = replace(steps, on_error="fail", dead_letter_topic="")
        return None if plain == Transform() else steps

    @property
    def steps(self) -> Transform:
        """The steps, of which there may be none."""
        exploded = self.explode or {}
        (_, encoded_key), (_, encoded_value) = self._formats("key"), self._formats("value")
        transform = Transform(
            self._decoded("key"),
            self._decoded("value"),
            (self.filter or "").strip(),
            tuple((path, text.strip()) for path, text in (self.set or {}).items()),
            self.drop or (),
            encoded_key.kind,
            encoded_value.kind,
            explode=next(((path, text.strip()) for path, text in exploded.items()), None),
            encode_key_schema=None if needs_schema(encoded_key) else encoded_key.source,
            encode_value_schema=None if needs_schema(encoded_value) else encoded_value.source,
        )
        if self.sql is not None:
            transform = _with_select(transform, parse_select(self.sql))
        topic = self.dead_letter.topic if self.dead_letter is not None else None
        return replace(transform, on_error=self.on_error, dead_letter_topic=topic or "")


def _with_select(transform: Transform, select: SelectText) -> Transform:
    """Return a transform with the steps of a SELECT."""
    explode = next((column for column in select.columns if column[0] == select.exploded), None)
    changed = bool(select.columns or select.where)
    return replace(
        transform,
        filter=select.where,
        explode=explode,
        assignments=tuple(column for column in select.columns if column is not explode),
        is_sql=changed,
    )
