"""How severe a finding is, with the word for it on a screen."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class Severity(IntEnum):
    """From harmless to bad; ``UNKNOWN`` ranks above ``WARN``, because it may hide anything."""

    OK = 0
    INFO = 1
    WARN = 2
    UNKNOWN = 3
    BAD = 4


@dataclass(frozen=True, slots=True)
class SeverityLabel:
    """A severity, and the word for it on a screen."""

    severity: Severity
    word: str
