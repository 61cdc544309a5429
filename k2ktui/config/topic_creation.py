"""The section ``topicCreation``: settings of the topics that k2ktui creates on the target."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from k2ktui.config.clusters import Properties, Section
from k2ktui.config.patterns import Pattern
from k2ktui.engine.java_patterns import compile_pattern

ControlTopic = Literal["assignment", "commit", "metrics", "offset_mapping", "state"]


class TopicSettings(Section):
    """Settings of a new topic; by default the source's value, or the broker's default."""

    partitions: Annotated[int, Field(ge=1)] | None = None
    replication: Annotated[int, Field(ge=1, le=32767)] | None = None
    config: Properties = Field(default={})

    def over(self, common: TopicSettings) -> TopicSettings:
        """Return these settings with unset values taken from ``common``, key by key."""
        return TopicSettings(
            partitions=common.partitions if self.partitions is None else self.partitions,
            replication=common.replication if self.replication is None else self.replication,
            config={**common.config, **self.config},
        )


class TopicRule(Section):
    """Settings of the replicated topics that match a pattern."""

    pattern: Pattern
    properties: TopicSettings = TopicSettings()


class ReplicatedTopics(Section):
    """Settings for creating replicated topics."""

    common: TopicSettings = TopicSettings()
    rules: tuple[TopicRule, ...] = ()

    def settings_for(self, topic: str) -> TopicSettings:
        """Return a target topic's settings: the first matching rule merged over ``common``."""
        matching = (r.properties for r in self.rules if compile_pattern(r.pattern).fullmatch(topic))
        return next(matching, TopicSettings()).over(self.common)


class ControlTopicCreation(Section):
    """Settings for creating the pipeline's own topics."""

    common: TopicSettings = TopicSettings()
    assignment: TopicSettings = TopicSettings()
    commit: TopicSettings = TopicSettings()
    metrics: TopicSettings = TopicSettings()
    offset_mapping: TopicSettings = TopicSettings()
    state: TopicSettings = TopicSettings()


class TopicCreation(Section):
    """Settings for creating topics on the target."""

    replication: ReplicatedTopics = ReplicatedTopics()
    control: ControlTopicCreation = ControlTopicCreation()

    def control_for(self, topic: ControlTopic) -> TopicSettings:
        """Return the settings of a control topic merged over the common ones."""
        own: TopicSettings = getattr(self.control, topic)
        return own.over(self.control.common)
