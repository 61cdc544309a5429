"""The pair of clusters that a pipeline copies between, as its run record states it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from k2ktui.engine.strict_json import text


@dataclass(frozen=True, slots=True)
class ClusterPair:
    """The ids of source and target cluster, and the mapping topic; it is empty without mappings.

    All are empty in run records of earlier releases: what such a run copied is unknown.
    """

    source: str = ""
    target: str = ""
    mapping_topic: str = ""

    @property
    def is_known(self) -> bool:
        """Whether both cluster ids are known."""
        return bool(self.source and self.target)

    def as_fields(self) -> dict[str, str]:
        """Return the fields of a run record; none if the pair is unknown."""
        if not self.is_known:
            return {}
        return {
            "sourceCluster": self.source,
            "targetCluster": self.target,
            "mappingTopic": self.mapping_topic,
        }


UNKNOWN_PAIR = ClusterPair()


def read_cluster_pair(value: Mapping[str, Any]) -> ClusterPair:
    """Return the pair in a run record's value.

    Raises:
        MalformedRecord: a field is not text.
    """
    names = ("sourceCluster", "targetCluster", "mappingTopic")
    return ClusterPair(*(text(value.get(name, "")) for name in names))
