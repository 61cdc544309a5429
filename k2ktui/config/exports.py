"""What others read of a running pipeline: metrics, and what MirrorMaker 2's tools find."""

from __future__ import annotations

from pydantic import Field

from k2ktui.config.clusters import Section
from k2ktui.config.scalars import Duration, Name, Toggle


class MetricPrefixes(Section):
    """Put before metric names as they are, so they end in a dot."""

    source_consumer: Name = "k2k.consumer.source."
    target_consumer: Name = "k2k.consumer.control."
    target_producer: Name = "k2k.producer."
    assignment: Name = "k2k."
    offset_mapping_app: Name = "k2k.offsetmapping."


class MetricsTopic(Section):
    """Where the Kafka exporter writes."""

    topic: Name = "__k2k_metrics"


class Metrics(Section):
    """Names of metrics."""

    prefix: MetricPrefixes = MetricPrefixes()
    kafka: MetricsTopic = MetricsTopic()


class Mm2PublishSettings(Section):
    """Ours: what MirrorMaker 2's tools find on the target while the pipeline runs.

    Attributes:
        publish: write checkpoints, heartbeats and offset-syncs in its format.
        source_alias: what the source is called there.
        target_alias: what the target is called.
        separator: as ``replication.policy.separator``.
        interval_s: how often it is written.
        even_so: although a MirrorMaker 2 has had topics of this alias.
    """

    publish: Toggle = False
    source_alias: Name = ""
    target_alias: Name = ""
    separator: Name = "."
    interval_s: Duration = Field(default=10.0, ge=0.5)
    even_so: Toggle = False
