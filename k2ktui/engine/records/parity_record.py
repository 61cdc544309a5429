"""What parity has done on the target, one record for each topic, quota entity or resource of ACLs.

It decides what may be removed again, so it must outlive the journal, which keeps 200 entries. See
``docs/internals/record-formats.md``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from k2ktui.engine.wire import TEXT, Wire, map_of, or_none, required


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


PARITY_KEY_WIRE = Wire(ParityKey, name=required("name", TEXT), kind=required("of", TEXT))
PARITY_WIRE = Wire(
    ParityRecord,
    created=required("created", map_of(TEXT)),
    held=required("held", map_of(or_none(TEXT))),
)
