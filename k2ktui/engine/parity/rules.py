"""What of the clusters is compared, by the pipeline file."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal


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
