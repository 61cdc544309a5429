"""What the schema mapping does to the records of a topic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from k2ktui.engine.schemas.ids import SchemaPart

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
