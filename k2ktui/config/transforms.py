"""The entry ``transform`` of ``replication``: records changed by Spark SQL, and their formats."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    PlainSerializer,
    WithJsonSchema,
    field_validator,
    model_validator,
)

from k2ktui.config.clusters import Section
from k2ktui.config.problems import Path as KeyPath
from k2ktui.config.scalars import Name, Pattern, Text, parse_text
from k2ktui.config.tree import Node
from k2ktui.engine.topics import LEGAL_TOPIC
from k2ktui.engine.transforms.model import (
    BYTES,
    WITH_SCHEMA,
    Encoding,
    Format,
    OnError,
    SchemaSource,
    Transform,
)
from k2ktui.engine.transforms.select_text import SelectText, parse_select

_AVRO = "for Avro avro, {avro: {schemaFile: FILE}} or {avro: {subject: NAME}}"
_PROTOBUF = (
    "for Protobuf {protobuf: {schemaFile: FILE, message: NAME}}, or decode with subject: NAME in "
    "place of schemaFile"
)
_JSON = '{json: {schema: "id BIGINT, name STRING"}}'
_DECODED = f"bytes, string or {_JSON}; {_AVRO}; {_PROTOBUF}"
_ENCODED = f"bytes, string or json; {_AVRO}; {_PROTOBUF}"
_FILE, _SUBJECT, _VERSION, _SCHEMA = "schemaFile", "subject", "version", "schema"
#: Keys of the format ``avro``.
AVRO_KEYS = (_FILE, _SUBJECT, _VERSION)
_MESSAGE, _SCHEMA_ID = "message", "schemaId"
#: Keys of the format ``protobuf``, to decode and to encode.
PROTOBUF_KEYS = (_FILE, _MESSAGE, _SCHEMA_ID, _SUBJECT, _VERSION)
#: Keys of the format ``json``, to decode and to encode.
JSON_KEYS = (_SCHEMA, _SCHEMA_ID, _SUBJECT, _VERSION)


@dataclass(frozen=True)
class _Keys:
    """The keys of a format that has some.

    Attributes:
        known: keys that it may have.
        are_enough: returns whether these keys say where the schema is.
        expected: the format in messages.
    """

    known: tuple[str, ...]
    are_enough: Callable[[Set[str]], bool]
    expected: str


@dataclass(frozen=True)
class _Formats:
    """The values of ``decode`` or ``encode``: words alone, and kinds with keys."""

    decodes: bool
    words: Mapping[str, Format]
    kinds: Mapping[Encoding, _Keys]
    expected: str


_PLAIN = {"bytes": Format("bytes"), "string": Format("string")}
_SAME_AVRO = {"avro": Format("avro", source=SchemaSource())}
_DECODE = _Formats(
    True,
    _PLAIN | _SAME_AVRO,
    {
        "json": _Keys((_SCHEMA, _SCHEMA_ID), lambda keys: _SCHEMA in keys, _DECODED),
        "avro": _Keys(AVRO_KEYS, lambda keys: bool(keys & {_FILE, _SUBJECT}), _DECODED),
        "protobuf": _Keys(
            PROTOBUF_KEYS,
            lambda keys: _MESSAGE in keys and (_FILE in keys) != (_SUBJECT in keys),
            _PROTOBUF,
        ),
    },
    _DECODED,
)
_ENCODE = _Formats(
    False,
    _PLAIN
    | _SAME_AVRO
    | {"json": Format("json"), "protobuf": Format("protobuf", source=SchemaSource())},
    {
        "json": _Keys(
            (_SUBJECT, _VERSION),
            lambda keys: _SUBJECT in keys,
            "json or {json: {subject: NAME}}",
        ),
        "avro": _Keys(AVRO_KEYS, lambda keys: bool(keys & {_FILE, _SUBJECT}), _ENCODED),
        "protobuf": _Keys(
            (_FILE, _MESSAGE, _SUBJECT, _VERSION),
            lambda keys: bool(keys) and (_FILE in keys) == (_MESSAGE in keys),
            f"{_PROTOBUF} or {{protobuf: {{subject: NAME}}}}",
        ),
    },
    _ENCODED,
)


def needs_schema(how: Format) -> bool:
    """Return whether the schema follows from something else than the format."""
    return how.source == SchemaSource()


def _parse(formats: _Formats, value: Any) -> Format:
    if isinstance(value, Format):
        return value
    if isinstance(value, str) and value in formats.words:
        return formats.words[value]
    if isinstance(value, Mapping) and len(value) == 1:
        for kind, keys in formats.kinds.items():
            if kind in value:
                return _with_keys(kind, keys, value[kind], decodes=formats.decodes)
    raise ValueError(formats.expected)


def _with_keys(kind: Encoding, keys: _Keys, inner: Any, *, decodes: bool) -> Format:
    if not isinstance(inner, Mapping) or not set(inner) <= {*keys.known}:
        raise ValueError(keys.expected)
    given = {key: parse_text(value).strip() for key, value in inner.items()}
    texts = [text for key, text in given.items() if key != _VERSION]
    if not all(texts) or not keys.are_enough(given.keys()):
        raise ValueError(keys.expected)
    _require_uses(kind, given, decodes=decodes)
    source = SchemaSource(
        given.get(_FILE, ""),
        given.get(_SUBJECT, ""),
        int(given.get(_VERSION, 0)),
        given.get(_MESSAGE, ""),
        # Values whose schema is in a registry have its id; it is a part of Avro.
        given.get(_SCHEMA_ID) == "enabled"
        or (decodes and kind == "protobuf" and _SUBJECT in given),
    )
    return Format(kind, given.get(_SCHEMA, ""), None if source == SchemaSource() else source)


def _require_uses(kind: str, given: Mapping[str, str], *, decodes: bool) -> None:
    """Raise ValueError for a key that has no effect beside the others, or has a wrong value."""
    in_file, in_registry, version = _FILE in given, _SUBJECT in given, given.get(_VERSION)
    if version is not None and kind == "avro" and in_file:
        raise ValueError(f"{_SUBJECT} without {_FILE} for {_VERSION}")
    if version is not None and not in_registry:
        raise ValueError(f"{_SUBJECT} for {_VERSION}")
    if decodes and kind == "avro" and in_file and in_registry:
        raise ValueError(f"{_FILE} or {_SUBJECT} for avro, not both")
    if _SCHEMA_ID in given and in_registry:
        raise ValueError(f"{_FILE} for {_SCHEMA_ID}")
    if given.get(_SCHEMA_ID, "enabled") not in ("enabled", "disabled"):
        raise ValueError(f"enabled or disabled for {_SCHEMA_ID}")
    if version is not None and not (version.isascii() and version.isdigit() and int(version)):
        raise ValueError(f"the number of a version, 1 or more, for {_VERSION}")


def _format_yaml(chosen: Format) -> str | dict[str, Any]:
    source = chosen.source or SchemaSource()
    if source == SchemaSource() and not chosen.schema:
        return chosen.kind
    named = {
        _SCHEMA: chosen.schema,
        _FILE: source.file,
        _MESSAGE: source.message,
        _SCHEMA_ID: "enabled" if source.has_id and not source.subject else "",
        _SUBJECT: source.subject,
        _VERSION: source.version,
    }
    return {chosen.kind: {key: value for key, value in named.items() if value}}


_Field = Annotated[
    Format, PlainSerializer(_format_yaml), WithJsonSchema({"type": ["string", "object"]})
]
DecodeField = Annotated[_Field, BeforeValidator(partial(_parse, _DECODE))]
EncodeField = Annotated[_Field, BeforeValidator(partial(_parse, _ENCODE))]


def place_schema_files(tree: Node) -> Node:
    """Return the tree with names of schema files that are relative to the YAML file's directory."""
    return tree.map_texts(_place_file)


def _place_file(node: Node, text: Text, path: KeyPath) -> Node:
    kinds = [(kind, _FILE) for kind in WITH_SCHEMA]
    if path[:2] != ("replication", "transform") or path[-2:] not in kinds or not text.strip():
        return node
    return replace(node, value=Text(str(Path(node.mark.file).parent / text.strip())))


_FIELD = r"(?:key|value)(?:\.[A-Za-z_]\w*)"
_ASSIGNED = re.compile(rf"key|value|{_FIELD}+|headers\..+", re.ASCII)
_EXPLODED = re.compile(rf"key|value|{_FIELD}+", re.ASCII)
_DROPPED = re.compile(rf"{_FIELD}+", re.ASCII)
_WITH_FIELDS = ("json", *WITH_SCHEMA)


class Decoders(Section):
    """How keys and values become columns."""

    key: DecodeField = Field(
        default=BYTES,
        description=(
            "How the key becomes columns: `bytes`, `string`, `json`, `avro` or `protobuf`, with "
            "options"
        ),
    )
    value: DecodeField = Field(
        default=BYTES, description="How the value becomes columns, as for keys"
    )


class Encoders(Section):
    """How columns become keys and values; by default as they were decoded."""

    key: EncodeField | None = Field(
        default=None,
        description="How columns become the key, as in `decode`; by default as it was decoded",
    )
    value: EncodeField | None = Field(
        default=None, description="How columns become the value; by default as it was decoded"
    )


class DeadLetters(Section):
    """Where records that fail a step go."""

    topic: Name | None = Field(
        default=None,
        description=(
            "Name of the dead-letter topic; by default the target topic with `.dead-letter`"
        ),
    )

    @field_validator("topic")
    @classmethod
    def _is_legal(cls, topic: str | None) -> str | None:
        if topic is not None and not LEGAL_TOPIC.fullmatch(topic):
            raise ValueError("the name of a topic (1 to 249 letters, digits, '.', '_' and '-')")
        return topic


_Columns = Mapping[Name, Name]


def _predicate(text: str) -> str:
    if not text.strip():
        raise ValueError("a Spark SQL predicate")
    return text


def _select(text: str) -> str:
    parse_select(text)
    return text


def _exploded(given: Mapping[str, str]) -> Mapping[str, str]:
    if len(given) != 1:
        raise ValueError("one column with the expression of an array")
    return _checked(given, _EXPLODED, "key, value, key.FIELD or value.FIELD")


def _assigned(given: Mapping[str, str]) -> Mapping[str, str]:
    expected = "key, value, key.FIELD, value.FIELD or headers.NAME for each key"
    return _checked(given, _ASSIGNED, expected)


def _checked(
    given: Mapping[str, str], columns: re.Pattern[str], expected: str
) -> Mapping[str, str]:
    for path, text in given.items():
        if not columns.fullmatch(path):
            raise ValueError(expected)
        if not text.strip():
            raise ValueError(f"a Spark SQL expression for {path}")
    return given


def _fields(given: tuple[str, ...]) -> tuple[str, ...]:
    if not all(_DROPPED.fullmatch(path) for path in given):
        raise ValueError("a list of key.FIELD and value.FIELD (headers: replication.headers)")
    return given


class TransformRule(Section):
    """What happens to the records of topics; not a Lenses setting.

    The expressions are Spark SQL over key, value, headers, topic, partition, offset and timestamp.
    """

    topics: Pattern = Field(
        default=".*",
        description=(
            "Pattern for the names of source topics; the first rule that matches applies, alone"
        ),
    )
    decode: Decoders = Decoders()
    filter: Annotated[Name, AfterValidator(_predicate)] | None = Field(
        default=None, description="Spark SQL predicate of the records to copy; by default all"
    )
    explode: Annotated[_Columns, AfterValidator(_exploded)] | None = Field(
        default=None,
        description=(
            "`{column: expression}` of an array: one record for each element, in the column "
            "`key`, `value`, `key.FIELD` or `value.FIELD`"
        ),
    )
    set: Annotated[_Columns, AfterValidator(_assigned)] | None = Field(
        default=None,
        description=(
            "`{column: expression}` with Spark SQL for `key`, `value`, `key.FIELD`, `value.FIELD` "
            "or `headers.NAME`"
        ),
    )
    drop: Annotated[tuple[Name, ...], AfterValidator(_fields)] | None = Field(
        default=None, description="List of `key.FIELD` and `value.FIELD` to remove"
    )
    sql: Annotated[Name, AfterValidator(_select)] | None = Field(
        default=None,
        description=(
            "`SELECT … FROM records [WHERE …]` in place of `filter`, `explode`, `set` and `drop`"
        ),
    )
    encode: Encoders = Encoders()
    on_error: OnError = Field(
        default="fail",
        description=(
            "What is done with a record that fails a step: `fail` stops the partition before it, "
            "`skip` leaves it out, `deadLetter` writes it to a dead-letter topic"
        ),
    )
    dead_letter: DeadLetters | None = None

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
            has_id = how.source is not None and how.source.has_id
            is_same = getattr(self.encode, part) is None or source == SchemaSource()
            if has_id and is_same and encoded.kind in ("json", "protobuf"):
                raise ValueError(
                    f"encode.{part}: {{{encoded.kind}: {{subject: NAME}}}} of the target's "
                    "registry, as decoded values have schema ids"
                )
            in_file = source is not None and source.file
            if encoded.kind == "protobuf" and how.kind != "protobuf" and not in_file:
                raise ValueError(
                    f"schemaFile and message in encode.{part}, as decode.{part} is not protobuf"
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
