"""Schemas as registries hold them: subjects, versions, references, and when two are the same."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

AVRO, JSON, PROTOBUF = "AVRO", "JSON", "PROTOBUF"

_COMMENT_OR_TOKEN = re.compile(
    r"""//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|[\w.]+|[^\s\w]""", re.DOTALL
)
_CACHED_TEXTS = 1024


@dataclass(frozen=True, slots=True)
class SchemaReference:
    """A schema's reference to a version of another subject.

    Attributes:
        name: how the schema's text names it: an Avro name, a Protobuf import, a JSON ``$ref``.
        subject: the subject that has it.
        version: its version there.
    """

    name: str
    subject: str
    version: int


@dataclass(frozen=True, slots=True)
class Schema:
    """A schema's content, without the id and subject that a registry gives it.

    Attributes:
        type: ``AVRO``, ``JSON``, ``PROTOBUF`` or another type that a registry knows.
        text: its text.
        references: schemas that the text uses.
        rules: metadata and rule set of the schema as compact JSON; "" if it has none.
    """

    type: str
    text: str
    references: tuple[SchemaReference, ...] = ()
    rules: str = ""


@dataclass(frozen=True, slots=True)
class SchemaVersion:
    """A version of a subject: ``id`` is the schema's id in its registry, "" is no GUID."""

    subject: str
    version: int
    id: int
    schema: Schema
    guid: str = ""


@dataclass(frozen=True, slots=True)
class Subject:
    """A subject of a registry.

    Attributes:
        name: its name.
        versions: its versions, ascending.
        compatibility: its own compatibility level; "" if the registry's default applies.
        mode: the mode that applies to it: ``READWRITE``, ``READONLY``, ``IMPORT``.
    """

    name: str
    versions: tuple[SchemaVersion, ...] = ()
    compatibility: str = ""
    mode: str = "READWRITE"

    def version(self, number: int) -> SchemaVersion | None:
        """Return a version by its number; None if there is none."""
        return next((version for version in self.versions if version.version == number), None)


@dataclass(frozen=True, slots=True)
class RegistryContent:
    """What was read from a registry.

    Attributes:
        subjects: subjects by name.
        compatibility: the default compatibility level.
        mode: the default mode, which applies to subjects that do not exist yet.
        types: schema types that the registry accepts.
        ids: schemas by id, as far as they were read; more than those of ``subjects`` if another
            subject has the id.
    """

    subjects: Mapping[str, Subject]
    compatibility: str
    mode: str
    types: frozenset[str]
    ids: Mapping[int, Schema]

    def versions(self) -> Iterator[SchemaVersion]:
        """Yield every version of every subject."""
        for subject in self.subjects.values():
            yield from subject.versions

    def find(self, reference: SchemaReference) -> SchemaVersion | None:
        """Return the version that a reference names; None if it was not read."""
        subject = self.subjects.get(reference.subject)
        return subject.version(reference.version) if subject else None


def is_same_schema(
    left: Schema, left_content: RegistryContent, right: Schema, right_content: RegistryContent
) -> bool:
    """Return whether two schemas describe the same data.

    Both have the same type and, apart from formatting, the same text; and their references have the
    same names and name schemas that are the same. Subjects and versions of references may differ.
    """
    if left.type != right.type or canonical_text(left) != canonical_text(right):
        return False
    left_references = {
        reference.name: left_content.find(reference) for reference in left.references
    }
    right_references = {
        reference.name: right_content.find(reference) for reference in right.references
    }
    return left_references.keys() == right_references.keys() and all(
        one is not None
        and (other := right_references[name]) is not None
        and is_same_schema(one.schema, left_content, other.schema, right_content)
        for name, one in left_references.items()
    )


def canonical_text(schema: Schema) -> str:
    """Return a schema's text without its formatting: JSON with sorted keys, Protobuf as tokens."""
    return _canonical_text(schema.type, schema.text)


@lru_cache(_CACHED_TEXTS)
def _canonical_text(kind: str, text: str) -> str:
    if kind == PROTOBUF:
        return " ".join(_tokens(text))
    try:
        return json.dumps(json.loads(text), sort_keys=True, separators=(",", ":"))
    except ValueError:
        return text


def _tokens(text: str) -> Iterator[str]:
    """Yield the tokens of a Protobuf file, without comments."""
    for match in _COMMENT_OR_TOKEN.finditer(text):
        if not match[0].startswith(("//", "/*")):
            yield match[0]


def record_names(schema: Schema) -> frozenset[str]:
    """Return the names that serializers may use for a schema's records.

    An Avro type's full name, a JSON schema's title, the full names of a Protobuf file's messages.
    """
    if schema.type == PROTOBUF:
        return frozenset(_message_names(list(_tokens(schema.text))))
    try:
        content = json.loads(schema.text)
    except ValueError:
        return frozenset()
    if not isinstance(content, dict):
        return frozenset()
    if schema.type == JSON:
        title = content.get("title")
        return frozenset({title} if isinstance(title, str) and title else ())
    name, namespace = content.get("name"), content.get("namespace")
    if not isinstance(name, str) or not name:
        return frozenset()
    if "." in name or not isinstance(namespace, str) or not namespace:
        return frozenset({name})
    return frozenset({f"{namespace}.{name}"})


def _message_names(words: list[str]) -> Iterator[str]:
    """Yield the full names of messages, nested ones too."""
    package = ""
    open_names: list[str] = []  # one entry per open brace; "" if it is not a message's
    pending = ""
    for at, word in enumerate(words):
        following = words[at + 1] if at + 1 < len(words) else ""
        begins = at == 0 or words[at - 1] in (";", "{", "}")
        if begins and word == "package" and not open_names:
            package = following
        elif begins and word == "message":
            pending = following
        elif word == "{":
            open_names.append(pending)
            if pending:
                yield ".".join(part for part in (package, *open_names) if part)
            pending = ""
        elif word == "}" and open_names:
            open_names.pop()
