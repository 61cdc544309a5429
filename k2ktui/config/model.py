"""The pipeline file as frozen, typed values with defaults; ``load`` builds them from YAML.

Field names are the YAML keys in snake case; a field that ends in ``_s`` holds seconds.
docs/configuration.md lists conflicting defaults in Lenses' documentation and deviations from it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Annotated, Any, Literal, Self

from pydantic import (
    BeforeValidator,
    Field,
    PlainSerializer,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
    model_validator,
)

from k2ktui.config.bidirectional import Bidirectional, OppositeTopics
from k2ktui.config.clusters import ClusterConfig, Section
from k2ktui.config.coordination import Coordination
from k2ktui.config.drill import DrillSettings
from k2ktui.config.exports import Metrics, Mm2PublishSettings
from k2ktui.config.parity import Parity
from k2ktui.config.patterns import NamesOrPattern
from k2ktui.config.replication import Replication
from k2ktui.config.scalars import (
    DURATION_TEXT,
    TEMPLATE,
    Duration,
    FailOrIgnore,
    FailSkipOrIgnore,
    JavaText,
    Name,
    Toggle,
    duration_text,
    parse_duration,
    parse_toggle,
)
from k2ktui.config.schema_mapping import SchemaMapping, schema_topics
from k2ktui.config.start import StartPosition, StartSection, reset_of, start_position
from k2ktui.config.topic_creation import TopicCreation
from k2ktui.engine.records.run_record import LARGEST_SHARED_SLOTS, LARGEST_SLOTS
from k2ktui.engine.schemas.ids import SchemaPart
from k2ktui.engine.schemas.rule import SchemaRule
from k2ktui.engine.schemas.topics import SchemaTopics
from k2ktui.engine.topics import (
    KAFKA_INTERNAL_TOPICS,
    GroupSelection,
    TopicMapping,
    TopicSelection,
)


class TracingHeaders(Section):
    """Coordinates of the source record that are added as record headers."""

    partition: Toggle = False
    offset: Toggle = False
    topic: Toggle = False
    pipeline: Toggle = False


def _tracing(value: Any) -> Any:
    if isinstance(value, (Mapping, TracingHeaders)):
        return value
    return dict.fromkeys(TracingHeaders.model_fields, parse_toggle(value))


class Features(Section):
    """Feature switches."""

    exactly_once: Toggle = True
    header_replication: Toggle = True
    schema_mapping: Toggle = False
    offset_mapping: Toggle = True
    bidirectional_replication: Toggle = False
    optimize_offset_commit_partition: Toggle = True
    auto_create_control_topics: Toggle = False
    auto_create_topics: Toggle = True
    validate_control_topic_settings: Toggle = True
    keep_record_creation_timestamp: Toggle = True
    check_kafka_connection_on_startup: Toggle = True
    apply_mappings_guard: Toggle = True
    exclude_program_topics: Toggle = True
    tracing_headers: Annotated[
        TracingHeaders,
        BeforeValidator(_tracing, json_schema_input_type=Toggle | TracingHeaders),
    ] = TracingHeaders()


class TracingHeaderNames(Section):
    """Names of the tracing headers."""

    partition: Name = "__k2k_partition"
    offset: Name = "__k2k_offset"
    topic: Name = "__k2k_topic"
    pipeline: Name = "__k2k_pipeline"


class Tracing(Section):
    """Settings of the tracing headers."""

    headers: TracingHeaderNames = TracingHeaderNames()


class ErrorHandling(Section):
    """Conditions that stop the program (``fail``) or are only reported (``ignore``).

    ``skip`` leaves alone what is concerned, and continues with the rest.
    """

    on_commit_sync_timeout: FailOrIgnore = "fail"
    on_control_message_deserialization_error: FailOrIgnore = "fail"
    on_multiple_target_committed_offsets: FailSkipOrIgnore = "fail"
    on_active_consumer_group_commit: FailSkipOrIgnore = "fail"


class Configuration(Section):
    """Parallelism, and how to wait for newly created control topics."""

    auto_control_topic_creation_check_delay_s: Duration = 0.75
    auto_control_topic_creation_max_attempts: int = Field(default=10, ge=1)
    pipeline_parallelism: Annotated[int, Field(ge=1)] | None = None
    partition_parallelism: Annotated[int, Field(ge=1)] | None = None


# As for ``--interval`` of ``k2ktui mm2 publish``: polling reads all groups of the source.
SHORTEST_POLL_S, LONGEST_POLL_S = 0.5, 3600.0


class GroupSettings(Section):
    """Consumer groups whose offsets are translated."""

    poll_interval_s: Duration = Field(default=5.0, ge=SHORTEST_POLL_S, le=LONGEST_POLL_S)
    consumer_groups: NamesOrPattern = ".*"
    offset_guard_prefix: Name = Field(default="k2k_", min_length=1)


def _retention_time(value: Any) -> float | None:
    return None if value is None or value == "topic" else parse_duration(value)


def _retention_text(seconds: float | None) -> str:
    return "topic" if seconds is None else duration_text(seconds)


class MappingRetention(Section):
    """Retention of in-memory mappings; by default that of the topic.

    ``time_s`` is None if it follows the topic.
    """

    time_s: Annotated[
        float | None,
        BeforeValidator(_retention_time),
        PlainSerializer(_retention_text, return_type=str),
        WithJsonSchema(
            {"anyOf": [{"enum": ["topic"]}, {"type": "string", "pattern": DURATION_TEXT}, TEMPLATE]}
        ),
    ] = None
    count: int = Field(default=1000, ge=1)
    schedule_s: Duration = Field(default=300.0, gt=0)


class OffsetMapping(Section):
    """The topic of offset mappings and their in-memory retention."""

    topic: Name = "__k2k_offset_mappings"
    retention: MappingRetention = MappingRetention()


class SparkSettings(Section):
    """The Spark session that runs laps; by default one slot per core. Not a Lenses setting."""

    master: Name = "local[*]"
    config: Mapping[Name, JavaText] = Field(default={}, repr=False)
    lap_s: Duration = Field(default=20.0, gt=0)
    slots: Annotated[int, Field(ge=1, le=LARGEST_SLOTS)] | None = None


class ConsoleSettings(Section):
    """What the console and commands may show. Not a Lenses setting.

    ``show_records`` allows to show keys, values and headers of records.
    """

    show_records: Toggle = True


class PipelineConfig(Section):
    """One pipeline: a source, a target, what to replicate and how."""

    name: Name = Field(min_length=1)
    environment: Name = ""
    read_only: Toggle = False
    features: Features = Features()
    tracing: Tracing = Tracing()
    bidirectional: Bidirectional = Bidirectional()
    error_handling: ErrorHandling = ErrorHandling()
    schema_mapping: SchemaMapping = SchemaMapping()
    configuration: Configuration = Configuration()
    coordination: Coordination = Field(default=Coordination(), validate_default=True)
    metrics: Metrics = Metrics()
    source: ClusterConfig
    target: ClusterConfig
    topic_creation: TopicCreation = TopicCreation()
    replication: Replication = Replication()
    groups: GroupSettings = GroupSettings()
    offset_mapping: OffsetMapping = OffsetMapping()
    parity: Parity = Parity()
    console: ConsoleSettings = ConsoleSettings()
    drill: DrillSettings = DrillSettings()
    mm2: Mm2PublishSettings = Mm2PublishSettings()
    spark: SparkSettings = SparkSettings()
    on_source_data_loss: Literal["fail", "continue"] = "fail"
    start_section: StartSection = Field(default=StartSection(), alias="start")

    @model_validator(mode="after")
    def _commit_group_is_set(self) -> Self:
        commit = self.coordination.commit
        if not commit.group:
            named = commit.model_copy(update={"group": self.name})
            # The model is frozen, so a validator cannot assign the attribute.
            self.__dict__["coordination"] = self.coordination.model_copy(update={"commit": named})
        return self

    @field_validator("coordination")
    @classmethod
    def _mode_is_possible(cls, section: Coordination, info: ValidationInfo) -> Coordination:
        features = info.data.get("features", Features())
        return section.where_possible(exactly_once=features.exactly_once)

    @field_validator("source")
    @classmethod
    def _source_is_only_read(cls, source: ClusterConfig) -> ClusterConfig:
        reset_of(source.consumer)
        if source.topic_props_exclusion_list:
            raise ValueError(
                "topicPropsExclusionList under target.kafka; k2ktui creates no topics on the source"
            )
        return source

    @field_validator("target")
    @classmethod
    def _names_differ(cls, target: ClusterConfig, info: ValidationInfo) -> ClusterConfig:
        source = info.data.get("source")
        if source is not None and target.name and target.name == source.name:
            raise ValueError("a name that differs from the source's")
        return target

    @field_validator("mm2")
    @classmethod
    def _aliases_are_given(cls, section: Mm2PublishSettings) -> Mm2PublishSettings:
        if section.publish and not (section.source_alias and section.target_alias):
            raise ValueError("sourceAlias and targetAlias with publish: enabled")
        return section

    @field_validator("start_section")
    @classmethod
    def _start_is_clear(cls, section: StartSection, info: ValidationInfo) -> StartSection:
        source = info.data.get("source")
        start_position(section, source.consumer if source else {})
        return section

    @field_validator("spark")
    @classmethod
    def _shared_slots_are_few(cls, section: SparkSettings, info: ValidationInfo) -> SparkSettings:
        coordination = info.data.get("coordination")
        if coordination is not None and (section.slots or 0) > coordination.most_slots:
            raise ValueError(f"slots up to {LARGEST_SHARED_SLOTS} with coordination.mode: shared")
        return section

    @property
    def slots(self) -> int | None:
        """The configured number of slots: ``spark.slots``, or Lenses' parallelism."""
        lenses = self.configuration
        given = (lenses.pipeline_parallelism, lenses.partition_parallelism)
        if self.spark.slots or given == (None, None):
            return self.spark.slots
        return min((given[0] or 1) * (given[1] or 1), self.coordination.most_slots)

    @cached_property
    def control_topics(self) -> frozenset[str]:
        """Names of the pipeline's own topics on the target."""
        coordination = self.coordination
        return frozenset(
            {
                coordination.commit.topic,
                coordination.assignment.topic,
                coordination.state.topic,
                self.metrics.kafka.topic,
                self.offset_mapping.topic,
            }
        )

    @cached_property
    def opposite(self) -> OppositeTopics:
        """The opposite pipeline's control topics; those without a name are called as ours."""
        return self.bidirectional.opposite.over(
            commit=self.coordination.commit.topic,
            mapping=self.offset_mapping.topic,
            state=self.coordination.state.topic,
            metrics=self.metrics.kafka.topic,
        )

    def schema_rule_for(self, topic: str) -> SchemaRule | None:
        """Return whose schema ids are replaced in a source topic's records; None for no ids."""
        if not self.features.schema_mapping:
            return None
        wanted = self.schema_topics.parts(topic)
        parts = tuple(part for part in SchemaPart if part in wanted)
        return SchemaRule(parts, self.schema_mapping.on_unknown_schema) if parts else None

    def dead_letter_topic_for(self, topic: str) -> str | None:
        """Return the dead-letter topic of a source topic; "" for the default name, None for none.

        Records go there that fail its transform, or whose schema ids are unknown.
        """
        transform = self.replication.transform_for(topic)
        if transform is not None and transform.on_error == "deadLetter":
            return transform.dead_letter_topic
        schemas = self.schema_rule_for(topic)
        if schemas is None or schemas.on_unknown != "deadLetter":
            return None
        return self.schema_mapping.dead_letter.topic or ""

    @property
    def bidirectional_mode(self) -> str:
        """How records of the opposite direction are recognized; "" in one direction."""
        return self.bidirectional.mode if self.features.bidirectional_replication else ""

    @cached_property
    def opposite_topics(self) -> frozenset[str]:
        """Names of the opposite pipeline's own topics on the source; none in one direction."""
        if not self.features.bidirectional_replication:
            return frozenset()
        return frozenset(self.opposite.model_dump().values())

    @cached_property
    def topics(self) -> TopicSelection:
        """The source topics; a pattern never matches Kafka's or pipelines' internal topics."""
        pattern, names = self.replication.source.topic_choice
        own = self.control_topics | self.opposite_topics
        excluded = own | KAFKA_INTERNAL_TOPICS
        return TopicSelection(pattern, names, excluded, self.features.exclude_program_topics)

    def only(self, topics: Collection[str]) -> Self:
        """Return the same pipeline with only these source topics."""
        chosen = self.model_copy()
        # Cached properties of the copy are those of this one, until they are replaced.
        chosen.__dict__.pop("schema_topics", None)
        chosen.__dict__["topics"] = replace(self.topics, pattern=None, names=tuple(sorted(topics)))
        return chosen

    @property
    def replicates(self) -> bool:
        """Whether the file says what to replicate; the mapping application's own does not."""
        return bool(self.replication.source.topic)

    @cached_property
    def schema_topics(self) -> SchemaTopics:
        """The topics whose schema ids are rewritten if features.schemaMapping is enabled."""
        return schema_topics(self.schema_mapping, self.topics, self.topic_mapping)

    @property
    def topic_mapping(self) -> TopicMapping:
        """The mapping from source topic names to target topic names."""
        return self.replication.sink.topic

    @cached_property
    def consumer_groups(self) -> GroupSelection:
        """The groups whose offsets are translated."""
        chosen = self.groups.consumer_groups
        return GroupSelection(chosen) if isinstance(chosen, str) else GroupSelection(None, chosen)

    @property
    def start(self) -> StartPosition:
        """The start position of partitions without a replicated position."""
        return start_position(self.start_section, self.source.consumer)
