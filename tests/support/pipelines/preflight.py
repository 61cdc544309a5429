"""Pipelines over two clusters, for tests of what is known before a start."""

from __future__ import annotations

from typing import Any

from k2ktui.config.model import PipelineConfig
from k2ktui.replication.preflight.checks import Check
from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.kafka import unique_name


def plain(bootstrap: str) -> dict[str, Any]:
    return {"kafka": {"common": {"bootstrap.servers": bootstrap}}}


def pipeline(source: Any, target: Any, *topics: str, **sections: Any) -> PipelineConfig:
    """A pipeline with control topics of its own, all of which may be created."""
    sides = [plain(s.bootstrap) if isinstance(s, KafkaNode) else s for s in (source, target)]
    base = {
        "name": unique_name("pipeline"),
        "source": sides[0],
        "target": sides[1],
        "coordination": {
            "commit": {"topic": unique_name("commit")},
            "assignment": {"topic": unique_name("assignment")},
            "state": {"topic": unique_name("state")},
        },
        "offsetMapping": {"topic": unique_name("mapping")},
        "features": {"autoCreateControlTopics": "enabled"},
        "replication": {"source": {"topic": list(topics)}},
    }
    return PipelineConfig.model_validate(base | sections)


def named(checks: list[Check], name: str) -> Check:
    (result,) = [check for check in checks if check.name == name]
    return result
