"""What parity has done on the target, one record for each topic, quota entity or resource of ACLs.

It decides what may be removed again, so it must outlive the journal, which keeps 200 entries. See
``docs/internals/record-formats.md``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from k2ktui.engine.strict_json import field as field_of
from k2ktui.engine.strict_json import mapping, text


@dataclass(frozen=True, slots=True)
class ParityKey:
    """Key of a record: the kind of values, and the name of what has them."""

    kind: str
    name: str


@dataclass(frozen=True, slots=True)
class ParityRecord:
    """What parity has done with the values of one topic, quota entity or resource.

    Attributes:
        kind, name: as in the key.
        created: by key, the values that parity has created where the target had none of its own.
        held: by key, the wanted values that an operator has undone; None is no value.
    """

    kind: str
    name: str
    created: Mapping[str, str] = field(default_factory=dict)
    held: Mapping[str, str | None] = field(default_factory=dict)

    @property
    def key(self) -> ParityKey:
        """Key of the record."""
        return ParityKey(self.kind, self.name)

    @property
    def is_empty(self) -> bool:
        """Whether it says nothing, so that it can be deleted."""
        return not self.created and not self.held


def parity_body(record: ParityRecord) -> dict[str, Any]:
    """Return the fields of the record's value."""
    return {
        "created": dict(sorted(record.created.items())),
        "held": dict(sorted(record.held.items())),
    }


def read_parity(key: ParityKey, body: Mapping[str, Any]) -> ParityRecord:
    """Decode the fields of a record's value.

    Raises:
        MalformedRecord: they are damaged.
    """
    created = mapping(field_of(body, "created"))
    held = mapping(field_of(body, "held"))
    return ParityRecord(
        key.kind,
        key.name,
        {text(name): text(value) for name, value in created.items()},
        {text(name): None if value is None else text(value) for name, value in held.items()},
    )
