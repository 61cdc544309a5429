"""Positions and mappings of some topics of a pipeline: those that a drill moves."""

from __future__ import annotations

from collections.abc import Mapping

from k2ktui.engine.records.moved_topic import NO_MOVED_TOPICS, MovedTopics
from k2ktui.engine.records.state import Position, SourcePartition
from k2ktui.sync.mapping.pipeline_mappings import PipelineMappings


class SomeTopicsMappings(PipelineMappings):
    """As the pipeline's own mappings, with the positions of the configured topics alone."""

    def positions(self) -> Mapping[SourcePartition, Position]:
        """Return the positions of the chosen topics; errors as for the pipeline's own mappings."""
        is_chosen = self._config.topics.matches
        return {at: p for at, p in super().positions().items() if is_chosen(at.topic)}

    def moved_topics(self) -> MovedTopics:
        """Return none: the drill that moves these topics reads them as they were before."""
        return NO_MOVED_TOPICS
