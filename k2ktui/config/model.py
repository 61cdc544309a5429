"""The pipeline file as frozen, typed values with defaults; ``load`` builds them from YAML.

Field names are the YAML keys in snake case; a field that ends in ``_s`` holds seconds.
docs/configuration.md lists conflicting defaults in Lenses' documentation and deviations from it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
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

from k2ktui.config.clusters import ClusterConfig, Properties, Section
from k2ktui.config.drill import DrillSettings
from k2ktui.config.replication import Replication
from k2ktui.config.scalars import (
    DURATION_TEXT,
    TEMPLATE,
    Duration,
    FailOrIgnore,
    FailSkipOrIgnore,
    Instant,
    JavaText,
    Name,
    NamesOrPattern,
    Pattern,
    Text,
    Toggle,
    duration_text,
    parse_duration,
    parse_toggle,
)
from k2ktui.config.transforms import DeadLetters
from k2ktui.engine.java_patterns import compile_pattern
from k2ktui.engine.parity.acls import AclWrite
from k2ktui.engine.parity.rules import ParityKind, ParityMode
from k2ktui.engine.records.run_record import LARGEST_SHARED_SLOTS, LARGEST_SLOTS
from k2ktui.engine.schemas.ids import OnUnknownSchema, SchemaPart, SchemaRule
from k2ktui.engine.schemas.topics import SchemaTopics
from k2ktui.engine.topics import (
    KAFKA_INTERNAL_TOPICS,
    GroupSelection,
    TopicMapping,
    TopicSelection,
)


class BidirectionalHeaders(Section):
    """Name of the header that marks a record's origin."""

    bidirectional: Name = Field(
        default="__k2k_bidirectional",
        description=(
            "Name of the header that marks a record's origin; no effect with `bidirectional.mode: "
            "provenance`, which is noted"
        ),
    )


class OppositeTopics(Section):
    """Control topics of the opposite pipeline, on our source; not a Lenses setting.

    Those without a name are called as ours, which ``PipelineConfig.own_topics`` has in this form.
    """

    commit_topic: Name = Field(
        default="",
        description=(
            "Commit topic of the opposite pipeline, on the source; by default named as this "
            "pipeline's"
        ),
    )
    mapping_topic: Name = Field(
        default="",
        description=(
            "Its mapping topic, which is not copied, and is read to translate groups; by default "
            "named as this pipeline's"
        ),
    )
    state_topic: Name = Field(
        default="",
        description="Its state topic, which is not copied; by default named as this pipeline's",
    )
    metrics_topic: Name = Field(
        default="",
        description="Its metrics topic, which is not copied; by default named as this pipeline's",
    )

    def over(self, own: OppositeTopics) -> OppositeTopics:
        """Return these names, with our own where none is given."""
        return own.model_copy(update={key: name for key, name in self if name})


class Bidirectional(Section):
    """How records of the opposite direction are recognized."""

    mode: Literal["provenance", "pipeline", "cluster"] = Field(
        default="provenance",
        description=(
            "How records of the opposite pipeline are recognized: `provenance` by registered "
            "producer ids; `pipeline` or `cluster` by a header, on the record path"
        ),
    )
    headers: BidirectionalHeaders = BidirectionalHeaders()
    opposite: OppositeTopics = OppositeTopics()

    @property
    def header(self) -> str:
        """Name of the header."""
        return self.headers.bidirectional


class CommitCoordination(Section):
    """The topic of replicated positions; the group defaults to the pipeline's name."""

    topic: Name = Field(
        default="__k2k_consumer-offsets",
        description="Topic that holds the replicated positions; compacted, on the target",
    )
    group: Name = Field(
        default="",
        description="Distinguishes pipelines that share the topic; by default the pipeline's name",
    )
    sync_timeout_s: Duration = Field(
        default=30.0, gt=0, description="Maximum wait for positions to be read"
    )
    batch_size: int = Field(
        default=1000, ge=1, description="Maximum number of record batches in one transaction"
    )
    batch_timeout_s: Duration = Field(default=2.0, gt=0, description="Maximum age of a transaction")


class AssignmentCoordination(Section):
    """The topic by which runs share a pipeline, and how long a run may be silent."""

    topic: Name = Field(
        default="__k2k_assignment",
        description=(
            "Topic that says, with `mode: shared`, which run owns which slot; compacted, on the "
            "target; it may be `coordination.commit.topic`"
        ),
    )
    grace_window_s: Duration = Field(
        default=15.0,
        description=(
            "How long a run may be silent before another one takes over; at least 3 seconds, and "
            "no effect with `mode: exclusive`, which is noted"
        ),
    )
    fencing_max_parallelism: int = Field(
        default=5,
        ge=1,
        description=(
            "Number of slots that a run fences at the same time; only with `mode: shared`, "
            "otherwise noted"
        ),
    )


class StateCoordination(Section):
    """Topic of run heartbeats, group commit snapshots and the journal; not a Lenses setting."""

    topic: Name = Field(
        default="__k2k_state",
        description=(
            "Topic of heartbeats, snapshots of group commits, the journal and what was committed "
            "for groups; compacted, on the target"
        ),
    )


CoordinationMode = Literal["exclusive", "standby", "shared"]
# A run sends three heartbeats in a grace window, and at most one per second.
SHORTEST_GRACE_S = 3.0


class Coordination(Section):
    """What several runs of the pipeline do, and the topics on the target that hold its state.

    With ``mode: shared``, each run copies a part of the slots; with ``standby``, a new run waits
    until the one before has ended or hangs; with ``exclusive``, it takes over from that one. Where
    the file does not say it, ``mode`` is ``exclusive`` if the others are not possible.
    """

    mode: CoordinationMode = Field(
        default="shared",
        description=(
            "What a second run does: `shared` takes a part of the slots, `standby` waits, "
            "`exclusive` takes over at once"
        ),
    )
    commit: CommitCoordination = CommitCoordination()
    assignment: AssignmentCoordination = AssignmentCoordination()
    state: StateCoordination = StateCoordination()

    @property
    def most_slots(self) -> int:
        """Largest number of slots that a pipeline can have."""
        return LARGEST_SHARED_SLOTS if self.mode == "shared" else LARGEST_SLOTS

    def where_possible(self, *, exactly_once: bool) -> Self:
        """Return these settings, with a mode that is possible if the file does not name one.

        Args:
            exactly_once: ``features.exactlyOnce``; without it, no run can be fenced.
        """
        if "mode" in self.model_fields_set:
            return self
        if exactly_once and self.assignment.grace_window_s >= SHORTEST_GRACE_S:
            return self
        return self.model_copy(update={"mode": "exclusive"})


class MetricPrefixes(Section):
    """Prefixes of metric names. They are prepended verbatim, so each ends with a dot."""

    source_consumer: Name = Field(
        default="k2k.consumer.source.",
        description="Text before names of metrics on source partitions",
    )
    target_consumer: Name = Field(
        default="k2k.consumer.control.",
        description="No effect, which is noted: no metric describes such a consumer",
    )
    target_producer: Name = Field(
        default="k2k.producer.",
        description="Text before names of metrics on what is written; no effect on `sync`",
    )
    assignment: Name = Field(default="k2k.", description="Text before names of metrics on the run")
    offset_mapping_app: Name = Field(
        default="k2k.offsetmapping.", description="Text before names of metrics of `sync`"
    )


class MetricsTopic(Section):
    """The topic that the Kafka exporter writes to."""

    topic: Name = Field(
        default="__k2k_metrics",
        description="Topic that `OTEL_METRICS_EXPORTER=kafka` writes to, on the target",
    )


class Metrics(Section):
    """Metric names and the metrics topic."""

    prefix: MetricPrefixes = MetricPrefixes()
    kafka: MetricsTopic = MetricsTopic()
    groups: NamesOrPattern = Field(
        default=(),
        description=(
            "Consumer groups whose lag `sync` exports, in records and in seconds: the first 100 "
            "by name"
        ),
    )


class Mm2PublishSettings(Section):
    """Publication of MirrorMaker 2's topics on the target; not a Lenses setting."""

    publish: Toggle = Field(
        default=False,
        description=(
            "Write checkpoints, heartbeats and offset-syncs to the target in MirrorMaker 2's "
            "format while the pipeline runs"
        ),
    )
    source_alias: Name = Field(
        default="",
        description=(
            "MirrorMaker 2's alias of the source cluster; required with `publish`, and the "
            "default of `k2ktui mm2 publish`"
        ),
    )
    target_alias: Name = Field(
        default="", description="MirrorMaker 2's alias of the target cluster; as `sourceAlias`"
    )
    separator: Name = Field(
        default=".", description="The same as MirrorMaker 2's `replication.policy.separator`"
    )
    interval_s: Duration = Field(default=10.0, ge=0.5, description="Interval between writes")
    force: Toggle = Field(
        default=False,
        description=(
            "Publish even if the target has the offsets topic of a MirrorMaker 2 with this alias, "
            "as after a takeover from it"
        ),
    )


def _parity_mode(value: Any) -> Any:
    # YAML 1.1, which a bare off is written in, has it as a boolean; so have files written anew.
    is_off = value is False or (isinstance(value, Text) and value.boolean is False)
    return "off" if is_off else value


WrittenParityMode = Annotated[
    ParityMode,
    BeforeValidator(_parity_mode),
    WithJsonSchema({"enum": ["off", "report", "apply", False]}),
]

# MirrorMaker 2's config.properties.exclude, with the limits on timestamps that Kafka has added
# since, what Kafka 4 has removed, and what one vendor's brokers have.
NOT_COPIED = (
    r"(follower|leader)\.replication\.throttled\.replicas",
    r"message\.timestamp\.(difference|before|after)\.max\.ms",
    r"message\.timestamp\.type",
    r"unclean\.leader\.election\.enable",
    r"min\.insync\.replicas",
    r"message\.(format\.version|downconversion\.enable)",
    r"(confluent|redpanda)\..*",
)


class ParitySection(Section):
    """One kind of values: what is compared, and whether ``k2ktui sync`` changes it."""

    mode: WrittenParityMode = Field(
        default="report",
        description="`off`; `report` what differs; `apply`: `sync` also changes the target",
    )
    include: tuple[Pattern, ...] = Field(
        default=(".*",),
        description=(
            "Patterns for names, of which one must match: of settings, of entities such as "
            "`user=billing,client-id=.*`, of principals such as `User:billing`"
        ),
    )
    exclude: tuple[Pattern, ...] = Field(
        default=(), description="Patterns for names that are not compared; replaces the default"
    )

    def compares(self, name: str) -> bool:
        """Whether a name is compared: of a setting, a quota's entity, or an ACL's principal."""
        included = any(compile_pattern(pattern).fullmatch(name) for pattern in self.include)
        return included and not any(compile_pattern(p).fullmatch(name) for p in self.exclude)


class TopicConfigParity(ParitySection):
    """Settings of replicated topics; the patterns are for names of settings."""

    exclude: tuple[Pattern, ...] = Field(
        default=NOT_COPIED,
        description="Patterns for names of settings that are not compared; replaces the default",
    )


class AclParity(ParitySection):
    """ACLs; the patterns are for principals, such as ``User:billing``.

    ``write`` is for the rights that applications need only after a failover.
    """

    write: AclWrite = Field(
        default="report",
        description="What is done with rights that applications need only after a failover",
    )


class QuotaParity(ParitySection):
    """Client quotas; the patterns are for entities, such as ``user=billing,client-id=app``."""


class Parity(Section):
    """What is compared besides records and groups."""

    topic_configs: TopicConfigParity = TopicConfigParity()
    acls: AclParity = AclParity()
    quotas: QuotaParity = QuotaParity()

    def section_of(self, kind: ParityKind) -> ParitySection:
        """Return the section for one kind of values."""
        sections: Mapping[ParityKind, ParitySection] = {
            ParityKind.TOPIC_CONFIG: self.topic_configs,
            ParityKind.QUOTA: self.quotas,
            ParityKind.ACL: self.acls,
        }
        return sections[kind]


RESET = "auto.offset.reset"


@dataclass(frozen=True)
class StartPosition:
    """A start position.

    Attributes:
        kind: where partitions start that exist when the pipeline first starts.
        timestamp_ms: epoch milliseconds, only for ``timestamp``: the first record at or after it.
        later: where partitions start that appear later.
    """

    kind: Literal["earliest", "latest", "timestamp"] = "earliest"
    timestamp_ms: int | None = None
    later: Literal["earliest", "latest"] = "earliest"


class StartSection(Section):
    """The ``start`` section, not a Lenses setting. It must agree with ``auto.offset.reset``."""

    from_: Literal["earliest", "latest", "timestamp"] | None = Field(
        default=None,
        description=(
            "Where copying starts in partitions without a position; by default what the source "
            "consumer's `auto.offset.reset` says, else `earliest`"
        ),
    )
    timestamp: Instant | None = Field(
        default=None,
        description=(
            "ISO-8601 (UTC by default) or milliseconds since 1970: copying starts at the first "
            "record at or after it"
        ),
    )


def reset_of(consumer: Mapping[str, str]) -> str:
    """Return the ``auto.offset.reset`` of a consumer, or "" if it is not set.

    Raises:
        ValueError: the value is neither earliest nor latest.
    """
    reset = consumer.get(RESET, "").strip().lower()
    if reset not in {"", "earliest", "latest"}:
        raise ValueError(
            f"earliest or latest as {RESET} of its consumer; "
            "for a point in time use start: {from: timestamp, timestamp: …}"
        )
    return reset


def start_position(section: StartSection, consumer: Mapping[str, str]) -> StartPosition:
    """Return the start position from ``start`` and the source consumer's ``auto.offset.reset``.

    ``start.from: latest`` copies partitions that appear later from their beginning. With
    ``auto.offset.reset: latest`` alone they start at their end too, as in Kafka's consumer and in
    MirrorMaker 2: what is written before they are found is not copied.

    Raises:
        ValueError: the two disagree, or one of them is invalid.
    """
    wanted = section.from_ or ("timestamp" if section.timestamp is not None else None)
    if wanted == "timestamp" and section.timestamp is None:
        raise ValueError("start.timestamp, because start.from is timestamp")
    if wanted != "timestamp" and section.timestamp is not None:
        raise ValueError(f"no start.timestamp, because start.from is {wanted}")
    reset = reset_of(consumer)
    if wanted and reset and wanted != reset:
        raise ValueError(
            f"start.from ({wanted}) and the source consumer's {RESET} ({reset}) to agree; "
            "remove one of them"
        )
    kind = wanted or reset or "earliest"
    if kind == "timestamp":
        return StartPosition("timestamp", section.timestamp)
    if kind == "latest":
        return StartPosition("latest", later="earliest" if wanted else "latest")
    return StartPosition()


ControlTopic = Literal["assignment", "commit", "metrics", "offset_mapping", "state"]


class TopicSettings(Section):
    """Settings of a new topic; by default the source's value, or the broker's default."""

    partitions: Annotated[int, Field(ge=1)] | None = Field(
        default=None,
        description=(
            "Number of partitions; by default the source topic's, or the broker's for a control "
            "topic"
        ),
    )
    replication: Annotated[int, Field(ge=1, le=32767)] | None = Field(
        default=None,
        description=(
            "Replication factor; by default the source topic's, or the broker's for a control topic"
        ),
    )
    config: Properties = Field(
        default={},
        description=(
            "Settings of the topic, over those of the source topic, or of the broker for a "
            "control topic"
        ),
    )

    def over(self, common: TopicSettings) -> TopicSettings:
        """Return these settings with unset values taken from ``common``, key by key."""
        return TopicSettings(
            partitions=common.partitions if self.partitions is None else self.partitions,
            replication=common.replication if self.replication is None else self.replication,
            config={**common.config, **self.config},
        )


class TopicRule(Section):
    """Settings of the replicated topics that match a pattern."""

    pattern: Pattern = Field(
        description="Pattern that must match the whole name of the target topic"
    )
    properties: TopicSettings = TopicSettings()


class ReplicatedTopics(Section):
    """Settings for creating replicated topics."""

    common: TopicSettings = TopicSettings()
    rules: tuple[TopicRule, ...] = Field(
        default=(),
        description=(
            "Rules for new target topics; the first one that matches overrides `common` key by key"
        ),
    )

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


SchemaType = Literal["AVRO", "JSON", "PROTOBUF", "YANG"]


class SchemaMappingRule(Section):
    """Whether keys and values of matching topics contain schema ids."""

    pattern: Pattern = Field(description="Topic pattern")
    key: Toggle = Field(default=True, description="Whether keys have schema ids")
    value: Toggle = Field(default=True, description="Whether values have schema ids")


class SchemaMapping(Section):
    """Schema types and topics whose schema ids are rewritten.

    ``auto_register``, ``on_unknown_schema`` and ``dead_letter`` are not Lenses settings.
    """

    supported_types: tuple[SchemaType, ...] = Field(
        default=("AVRO", "JSON", "PROTOBUF", "YANG"),
        description=(
            "Types of schemas; an id of another type counts as unknown, and `YANG` applies only "
            "where both registries know it"
        ),
    )
    topics: tuple[SchemaMappingRule, ...] = Field(
        default=(),
        description=(
            "Rules, of which the first with a matching pattern applies; without one, keys and "
            "values have schema ids"
        ),
    )
    auto_register: Toggle = Field(
        default=False, description="Register schemas that the target lacks while copying"
    )
    on_unknown_schema: OnUnknownSchema = Field(
        default="fail",
        description="What is done with a record whose id the source's registry does not know",
    )
    dead_letter: DeadLetters = DeadLetters()

    @model_validator(mode="after")
    def _dead_letters_are_used(self) -> Self:
        if self.dead_letter.topic is not None and self.on_unknown_schema != "deadLetter":
            raise ValueError("onUnknownSchema: deadLetter for deadLetter")
        return self


class TracingHeaders(Section):
    """Coordinates of the source record that are added as record headers."""

    partition: Toggle = Field(default=False, description="Add the source partition as a header")
    offset: Toggle = Field(default=False, description="Add the source offset as a header")
    topic: Toggle = Field(default=False, description="Add the source topic as a header")
    pipeline: Toggle = Field(default=False, description="Add the pipeline's name as a header")


def _tracing(value: Any) -> Any:
    if isinstance(value, (Mapping, TracingHeaders)):
        return value
    return dict.fromkeys(TracingHeaders.model_fields, parse_toggle(value))


class Features(Section):
    """Feature switches."""

    exactly_once: Toggle = Field(
        default=True, description="Data, positions and mappings in one target transaction"
    )
    header_replication: Toggle = Field(default=True, description="Copy record headers")
    schema_mapping: Toggle = Field(
        default=False, description="Rewrite schema ids; both clusters need a `registry`"
    )
    offset_mapping: Toggle = Field(
        default=True, description="Record mappings from source to target offsets"
    )
    bidirectional_replication: Toggle = Field(
        default=False, description="Do not copy back records that came from the target"
    )
    optimize_offset_commit_partition: Toggle = Field(
        default=True, description="All positions in one partition of the commit topic"
    )
    auto_create_control_topics: Toggle = Field(
        default=False,
        description=(
            "Create the pipeline's own topics, except lost ones; otherwise only the brokers may, "
            "if they do so"
        ),
    )
    auto_create_topics: Toggle = Field(
        default=True, description="Create replicated topics on the target"
    )
    validate_control_topic_settings: Toggle = Field(
        default=True,
        description=(
            "End a start if control topics have other settings; otherwise other partition counts "
            "are noted"
        ),
    )
    keep_record_creation_timestamp: Toggle = Field(
        default=True, description="Records keep their timestamps"
    )
    check_kafka_connection_on_startup: Toggle = Field(
        default=True,
        description="End a start at once if a cluster is unreachable; otherwise it is waited for",
    )
    apply_mappings_guard: Toggle = Field(
        default=True,
        description=(
            "A commit from older mappings never overwrites one that k2ktui made from newer ones; "
            "otherwise it may"
        ),
    )
    exclude_program_topics: Toggle = Field(
        default=True,
        description=(
            "A pattern leaves out topics of other programs: Kafka Connect, MirrorMaker 2, schema "
            "registries, Cruise Control, canaries"
        ),
    )
    tracing_headers: Annotated[
        TracingHeaders,
        BeforeValidator(_tracing, json_schema_input_type=Toggle | TracingHeaders),
    ] = Field(
        default=TracingHeaders(),
        description=(
            "Add headers with the coordinates of the source record: all, none, or each by its own "
            "key"
        ),
    )


class TracingHeaderNames(Section):
    """Names of the tracing headers."""

    partition: Name = Field(
        default="__k2k_partition", description="Name of the header with the source partition"
    )
    offset: Name = Field(
        default="__k2k_offset", description="Name of the header with the source offset"
    )
    topic: Name = Field(
        default="__k2k_topic", description="Name of the header with the source topic"
    )
    pipeline: Name = Field(
        default="__k2k_pipeline", description="Name of the header with the pipeline's name"
    )


class Tracing(Section):
    """Settings of the tracing headers."""

    headers: TracingHeaderNames = TracingHeaderNames()


class ErrorHandling(Section):
    """Conditions that stop the program (``fail``) or are only reported (``ignore``).

    ``skip`` leaves alone what is concerned, and continues with the rest.
    """

    on_commit_sync_timeout: FailOrIgnore = Field(
        default="fail",
        description=(
            "Positions could not be read within `coordination.commit.syncTimeout`: the start "
            "ends, or tries again"
        ),
    )
    on_control_message_deserialization_error: FailOrIgnore = Field(
        default="fail",
        description=(
            "The newest position of a partition cannot be read: the start ends, or continues with "
            "an older one, which may repeat records"
        ),
    )
    on_multiple_target_committed_offsets: FailSkipOrIgnore = Field(
        default="fail",
        description=(
            "A record has two mappings: several pipelines copy its partition between the same "
            "clusters"
        ),
    )
    on_active_consumer_group_commit: FailSkipOrIgnore = Field(
        default="fail", description="The group to commit for is active on the target"
    )


class Configuration(Section):
    """Parallelism, and how to wait for newly created control topics."""

    auto_control_topic_creation_check_delay_s: Duration = Field(
        default=0.75, description="Wait between checks that a created topic exists"
    )
    auto_control_topic_creation_max_attempts: int = Field(
        default=10, ge=1, description="Checks before giving up"
    )
    pipeline_parallelism: Annotated[int, Field(ge=1)] | None = Field(
        default=None,
        description=(
            "Multiplied by `partitionParallelism`, the number of slots, unless `spark.slots` is set"
        ),
    )
    partition_parallelism: Annotated[int, Field(ge=1)] | None = Field(
        default=None,
        description=(
            "Multiplied by `pipelineParallelism`, the number of slots, unless `spark.slots` is set"
        ),
    )


# As for ``--interval`` of ``k2ktui mm2 publish``: polling reads all groups of the source.
SHORTEST_POLL_S, LONGEST_POLL_S = 0.5, 3600.0


class GroupSettings(Section):
    """Consumer groups whose offsets are translated."""

    poll_interval_s: Duration = Field(
        default=5.0,
        ge=SHORTEST_POLL_S,
        le=LONGEST_POLL_S,
        description="How often the source's groups are read",
    )
    consumer_groups: NamesOrPattern = Field(
        default=".*", description="Consumer groups whose offsets are translated"
    )
    offset_guard_prefix: Name = Field(
        default="k2k_",
        min_length=1,
        description=(
            "For reading only: begins the metadata of commits by earlier releases and by Lenses"
        ),
    )


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
    ] = Field(
        default=None,
        description=(
            "Maximum age of mappings in memory: a duration, or `topic` for the topic's own "
            "retention; older ones are read again from the topic when a group needs them"
        ),
    )
    count: int = Field(default=1000, ge=1, description="Mappings in memory per source partition")
    schedule_s: Duration = Field(
        default=300.0, gt=0, description="How often older mappings are dropped from memory"
    )


class OffsetMapping(Section):
    """The topic of offset mappings and their in-memory retention."""

    topic: Name = Field(
        default="__k2k_offset_mappings", description="Topic that holds the mappings, on the target"
    )
    retention: MappingRetention = MappingRetention()


class SparkSettings(Section):
    """The Spark session that runs laps; by default one slot per core. Not a Lenses setting."""

    master: Name = Field(default="local[*]", description="Where tasks run")
    config: Mapping[Name, JavaText] = Field(
        default={},
        repr=False,
        description=(
            "Any Spark property, except those that protect tasks on this host and some that are "
            "refused"
        ),
    )
    lap_s: Duration = Field(default=20.0, gt=0, description="Length of one Spark job")
    slots: Annotated[int, Field(ge=1, le=LARGEST_SLOTS)] | None = Field(
        default=None,
        description=(
            "Number of tasks that copy concurrently; by default as many as cores; with "
            "`coordination.mode: shared` of all runs together, at most 1,000"
        ),
    )


class ConsoleSettings(Section):
    """What the console and commands may show. Not a Lenses setting.

    ``show_records`` allows to show keys, values and headers of records.
    """

    show_records: Toggle = Field(
        default=True,
        description=(
            "Whether the console and `k2ktui records --show` may show keys, values and headers of "
            "records"
        ),
    )


class PipelineConfig(Section):
    """One pipeline: a source, a target, what to replicate and how."""

    name: Name = Field(
        min_length=1, description="The pipeline's name, also in its transactional ids"
    )
    environment: Name = Field(
        default="",
        description=(
            "Label of the environment; with `production` or `prod`, every command that writes to "
            "the target needs `--unlock`, also `start` and `sync`"
        ),
    )
    read_only: Toggle = Field(
        default=False, description="Forbid changes and replication with this file"
    )
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
    copier: Literal["k2ktui", "equalOffsets"] = Field(
        default="k2ktui",
        description=(
            "Which program copies the records: `equalOffsets` for another one that keeps their "
            "offsets, such as Cluster Linking; then groups are read and moved, and nothing is "
            "copied"
        ),
    )
    groups: GroupSettings = GroupSettings()
    offset_mapping: OffsetMapping = OffsetMapping()
    parity: Parity = Parity()
    console: ConsoleSettings = ConsoleSettings()
    drill: DrillSettings = DrillSettings()
    mm2: Mm2PublishSettings = Mm2PublishSettings()
    spark: SparkSettings = SparkSettings()
    on_source_data_loss: Literal["fail", "continue"] = Field(
        default="fail",
        description="What is done if the source lost records before they were copied",
    )
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
        reset_of(source.kafka.consumer)
        if source.kafka.topic_props_exclusion_list:
            raise ValueError(
                "topicPropsExclusionList under target.kafka; k2ktui creates no topics on the source"
            )
        if source.writers != "pipeline":
            raise ValueError("writers under target; k2ktui writes nothing to the source")
        return source

    @field_validator("target")
    @classmethod
    def _names_differ(cls, target: ClusterConfig, info: ValidationInfo) -> ClusterConfig:
        source = info.data.get("source")
        if source is not None and target.name and target.name == source.name:
            raise ValueError("a name that differs from the source's")
        return target

    @field_validator("copier")
    @classmethod
    def _copies_can_be_equal(cls, copier: str, info: ValidationInfo) -> str:
        replication, features = info.data.get("replication"), info.data.get("features")
        if copier == "k2ktui" or replication is None or features is None:
            return copier
        if not replication.source.topic:
            raise ValueError("replication.source.topic beside it: the topics that are copied")
        changes = {
            "replication.transform": bool(replication.transform),
            "replication.headers": bool(replication.headers),
            "replication.sink.partition": not replication.sink.keeps_partitions,
            "several topics into one": replication.sink.mapping.kind not in ("source", "affix"),
            "features.headerReplication: disabled": not features.header_replication,
            "features.schemaMapping": features.schema_mapping,
            "features.bidirectionalReplication": features.bidirectional_replication,
        }
        for key, is_set in changes.items():
            if is_set:
                raise ValueError(f"k2ktui with {key}: equal copies are of the same records")
        return copier

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
        start_position(section, source.kafka.consumer if source else {})
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
        assignment = self.coordination.assignment.topic
        return frozenset({assignment, *self.own_topics.model_dump().values()})

    @property
    def own_topics(self) -> OppositeTopics:
        """Those of our control topics that the opposite pipeline knows."""
        return OppositeTopics(
            commit_topic=self.coordination.commit.topic,
            mapping_topic=self.offset_mapping.topic,
            state_topic=self.coordination.state.topic,
            metrics_topic=self.metrics.kafka.topic,
        )

    @cached_property
    def opposite(self) -> OppositeTopics:
        """The opposite pipeline's control topics; those without a name are called as ours."""
        return self.bidirectional.opposite.over(self.own_topics)

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
        rules = tuple(
            (rule.pattern, {SchemaPart.KEY: rule.key, SchemaPart.VALUE: rule.value})
            for rule in self.schema_mapping.topics
        )
        return SchemaTopics(self.topics, self.topic_mapping, rules)

    @property
    def topic_mapping(self) -> TopicMapping:
        """The mapping from source topic names to target topic names."""
        return self.replication.sink.mapping

    @cached_property
    def consumer_groups(self) -> GroupSelection:
        """The groups whose offsets are translated."""
        return GroupSelection.of(self.groups.consumer_groups)

    @cached_property
    def measured_groups(self) -> GroupSelection:
        """The groups whose lag is exported."""
        return GroupSelection.of(self.metrics.groups)

    @property
    def start(self) -> StartPosition:
        """The start position of partitions without a replicated position."""
        return start_position(self.start_section, self.source.kafka.consumer)
