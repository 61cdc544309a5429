"""What of the clusters is compared, by the pipeline file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from k2ktui.engine.java_patterns import compile_pattern


class ParityKind(StrEnum):
    """What a value belongs to."""

    TOPIC_CONFIG = "topicConfig"
    QUOTA = "quota"
    ACL = "acl"

    @property
    def section(self) -> str:
        """Its section of the pipeline file, under ``parity``."""
        return f"{self}s"


ParityMode = Literal["off", "report", "apply"]


@dataclass(frozen=True, slots=True)
class ParityRules:
    """What is compared, and how, of one kind of values.

    Attributes:
        mode: whether it is compared, and whether ``k2ktui sync`` changes it.
        include, exclude: regular expressions; one of the first and none of the second must match.
    """

    mode: ParityMode = "report"
    include: Sequence[str] = (".*",)
    exclude: Sequence[str] = ()

    def compares(self, name: str) -> bool:
        """Whether a name is compared: of a setting, a quota's entity, or an ACL's principal."""
        included = any(compile_pattern(pattern).fullmatch(name) for pattern in self.include)
        return included and not any(compile_pattern(p).fullmatch(name) for p in self.exclude)
