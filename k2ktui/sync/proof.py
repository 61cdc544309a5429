"""Inputs of a content verification: a snapshot, both clusters, and what the pipeline changes."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from k2ktui.config.model import PipelineConfig
from k2ktui.engine.groups import Snapshot
from k2ktui.engine.state import SourcePartition
from k2ktui.kafka.clients import Cluster, source_cluster, target_cluster
from k2ktui.log.record import RecordPart
from k2ktui.sync.flow import Flow
from k2ktui.sync.snapshot import take_snapshot


def open_verification(
    flow: Flow, offsets: Mapping[SourcePartition, Collection[int]]
) -> tuple[Snapshot, Cluster, Cluster]:
    """Return both clusters and a snapshot in which these source offsets can be looked up.

    Errors as for ``SnapshotReader.take``.
    """
    sides = source_cluster(flow.config), target_cluster(flow.config)
    return take_snapshot(flow, offsets), *sides


def ignored_parts(config: PipelineConfig) -> frozenset[RecordPart]:
    """Return the parts of records that the pipeline changes on purpose."""
    features, found = config.features, set()
    tracing = features.tracing_headers
    added = tracing.topic or tracing.partition or tracing.offset or tracing.pipeline
    if added or not features.header_replication:
        found.add(RecordPart.HEADERS)
    if not features.keep_record_creation_timestamp:
        found.add(RecordPart.TIMESTAMP)
    return frozenset(found)
