"""How a pipeline recognizes what came from its target, by its configuration."""

from __future__ import annotations

from k2ktui.config.model import PipelineConfig
from k2ktui.engine.records.cluster_pair import ClusterPair
from k2ktui.engine.transforms.header_names import OriginHeader
from k2ktui.errors import Refused
from k2ktui.replication.copying.slot_task import OppositePipeline


def opposite_pipeline(config: PipelineConfig, pair: ClusterPair) -> OppositePipeline | None:
    """Return where the opposite pipeline registers its producer ids; None in other modes.

    Raises:
        Refused: the ids of the clusters are unknown.
    """
    if config.bidirectional_mode != "provenance":
        return None
    _require(pair)
    return OppositePipeline(
        config.opposite.commit_topic,
        pair.target,
        pair.source,
        pair.target_aliases,
        pair.source_aliases,
    )


def origin_header(config: PipelineConfig, pair: ClusterPair) -> OriginHeader | None:
    """Return the header that marks the origin; None in other modes.

    ``pipeline``: both pipelines have the same name, and records that carry it are left out.
    ``cluster``: the header holds the id of the cluster that a record was first written to, through
    any number of clusters, and records of the target's id, or of one that it had, are left out.

    Raises:
        Refused: the ids of the clusters are unknown.
    """
    name = config.bidirectional.header
    if config.bidirectional_mode == "pipeline":
        return OriginHeader(name, config.name, (config.name,), first_only=False)
    if config.bidirectional_mode == "cluster":
        _require(pair)
        left_out = pair.target, *pair.target_aliases
        return OriginHeader(name, pair.source, left_out, first_only=True)
    return None


def _require(pair: ClusterPair) -> None:
    if not pair.is_known:
        raise Refused(
            "features.bidirectionalReplication is enabled, and the ids of the clusters are "
            "unknown: records of the opposite pipeline cannot be recognized",
            unchanged="Nothing was copied.",
            hint="Set features.bidirectionalReplication: disabled, or upgrade the clusters.",
        )
