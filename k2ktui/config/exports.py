"""Outputs of a running pipeline for other tools: metrics and MirrorMaker 2 topics."""

from __future__ import annotations

from pydantic import Field

from k2ktui.config.clusters import Section
from k2ktui.config.scalars import Duration, Name, Toggle


class MetricPrefixes(Section):
    """Prefixes of metric names. They are prepended verbatim, so each ends with a dot."""

    source_consumer: Name = "k2k.consumer.source."
    target_consumer: Name = "k2k.consumer.control."
    target_producer: Name = "k2k.producer."
    assignment: Name = "k2k."
    offset_mapping_app: Name = "k2k.offsetmapping."


class MetricsTopic(Section):
    """The topic that the Kafka exporter writes to."""

    topic: Name = "__k2k_metrics"


class Metrics(Section):
    """Metric names and the metrics topic."""

    prefix: MetricPrefixes = MetricPrefixes()
    kafka: MetricsTopic = MetricsTopic()


class Mm2PublishSettings(Section):
    """Publication of MirrorMaker 2's topics on the target; not a Lenses setting.

    Attributes:
        publish: write checkpoints, heartbeats and offset syncs in MirrorMaker 2's format.
        source_alias: MirrorMaker 2's alias of the source cluster.
        target_alias: MirrorMaker 2's alias of the target cluster.
        separator: same as MirrorMaker 2's ``replication.policy.separator``.
        interval_s: interval between writes, in seconds.
        force: publish even if topics of this alias from MirrorMaker 2 exist.
    """

    publish: Toggle = False
    source_alias: Name = ""
    target_alias: Name = ""
    separator: Name = "."
    interval_s: Duration = Field(default=10.0, ge=0.5)
    force: Toggle = False
