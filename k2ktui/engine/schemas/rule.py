"""What the schema mapping does to the records of a topic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

from k2ktui.engine.schemas.ids import SchemaId, SchemaPart

OnUnknownSchema = Literal["fail", "passthrough", "deadLetter"]


@dataclass(frozen=True, slots=True)
class SchemaRule:
    """Whose schema ids are replaced in the records of a topic.

    Attributes:
        parts: key, value or both.
        on_unknown: what happens to a record with an id that has no counterpart on the target.
    """

    parts: tuple[SchemaPart, ...] = (SchemaPart.KEY, SchemaPart.VALUE)
    on_unknown: OnUnknownSchema = "fail"


class SchemaIdResolver(Protocol):
    """Asks the registries; used by one thread."""

    def map_id(self, topic: str, part: SchemaPart, schema_id: SchemaId) -> int | None:
        """Return the value of a schema id on the target, None if the source does not know it.

        Args:
            topic: the source topic whose records have the id.
            part: the part of these records.
            schema_id: the id on the source.

        Raises:
            Refused: the target lacks the schema, or does not accept it.
            K2kError: a registry did not answer.
        """
