"""What ``replication.transform`` does to records, as plain values for Spark tasks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Encoding = Literal["bytes", "string", "json"]


@dataclass(frozen=True)
class Format:
    """How bytes become a column: as they are, as UTF-8 text, or as JSON with a schema (DDL)."""

    kind: Encoding = "bytes"
    schema: str = ""


#: Leaves the bytes as they are.
BYTES = Format()


@dataclass(frozen=True)
class Transform:
    """The steps of one rule, in order: decode, filter, set, drop, encode.

    Attributes:
        decode_key: how keys are decoded.
        decode_value: how values are decoded.
        filter: Spark SQL predicate of the records to copy; "" for all.
        assignments: (column or header, Spark SQL expression) pairs.
        drop: fields to remove.
        encode_key: how keys are encoded.
        encode_value: how values are encoded.
        skips_errors: leave out records that fail a step; otherwise their partition stops.
    """

    decode_key: Format = BYTES
    decode_value: Format = BYTES
    filter: str = ""
    assignments: tuple[tuple[str, str], ...] = ()
    drop: tuple[str, ...] = ()
    encode_key: Encoding = "bytes"
    encode_value: Encoding = "bytes"
    skips_errors: bool = False

    def changes(self, part: str) -> bool:
        """Return whether the key, the value or the headers may differ on the target."""
        paths = [*(path for path, _ in self.assignments), *self.drop]
        if any(path.partition(".")[0] == part for path in paths):
            return True
        # JSON that is decoded and encoded again may differ in blanks, nulls and the order of keys.
        return {"key": self.decode_key, "value": self.decode_value}.get(part, BYTES) != BYTES

    @property
    def assigned_headers(self) -> tuple[str, ...]:
        """Names of the headers that are set, in order."""
        paths = (path.partition(".") for path, _ in self.assignments)
        return tuple(name for part, _, name in paths if part == "headers")

    @property
    def leaves_records_out(self) -> bool:
        """Return whether some source records may have no copy."""
        return bool(self.filter) or self.skips_errors

    def mentions(self, column: str) -> bool:
        """Return whether an expression may use a column."""
        return any(column in text for text in (self.filter, *(e for _, e in self.assignments)))

    @property
    def words(self) -> str:
        """What it does, for operators."""
        formats = (("key", self.decode_key), ("value", self.decode_value))
        words = [f"decodes {part} ({how.kind})" for part, how in formats if how != BYTES]
        if self.filter:
            words.append("filters")
        if self.assignments:
            words.append(f"sets {', '.join(path for path, _ in self.assignments)}")
        if self.drop:
            words.append(f"drops {', '.join(self.drop)}")
        return ", ".join(words) or "encodes again"
