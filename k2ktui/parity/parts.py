"""The kinds of values that parity compares."""

from __future__ import annotations

from k2ktui.engine.parity.rules import ParityKind
from k2ktui.parity.acls import ACLS
from k2ktui.parity.part import Part
from k2ktui.parity.quotas import QUOTAS
from k2ktui.parity.topic_configs import TOPIC_CONFIGS

PARTS: tuple[Part, ...] = (TOPIC_CONFIGS, QUOTAS, ACLS)


def part_of(kind: ParityKind) -> Part:
    """Return the part of a kind of values."""
    return next(part for part in PARTS if part.kind is kind)
