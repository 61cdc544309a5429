"""The section ``bidirectional``: how records of the opposite direction are recognized."""

from __future__ import annotations

from typing import Literal

from k2ktui.config.clusters import Section
from k2ktui.config.scalars import Name


class BidirectionalHeaders(Section):
    """Name of the header that marks a record's origin."""

    bidirectional: Name = "__k2k_bidirectional"


class OppositeTopics(Section):
    """Control topics of the opposite pipeline, on our source; not a Lenses setting."""

    commit_topic: Name = ""
    mapping_topic: Name = ""
    state_topic: Name = ""
    metrics_topic: Name = ""

    def over(self, *, commit: str, mapping: str, state: str, metrics: str) -> OppositeTopics:
        """Return these names, with others where none is given."""
        return OppositeTopics(
            commit_topic=self.commit_topic or commit,
            mapping_topic=self.mapping_topic or mapping,
            state_topic=self.state_topic or state,
            metrics_topic=self.metrics_topic or metrics,
        )


class Bidirectional(Section):
    """How records of the opposite direction are recognized."""

    mode: Literal["provenance", "pipeline", "cluster"] = "provenance"
    headers: BidirectionalHeaders = BidirectionalHeaders()
    opposite: OppositeTopics = OppositeTopics()

    @property
    def header(self) -> str:
        """Name of the header."""
        return self.headers.bidirectional
