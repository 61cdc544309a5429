"""k2ktui in its variants, started as an operator starts it."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from bench import payments
from bench.model import Job, Launch

DEFAULT_MODE = "shared"  # what a pipeline without ``coordination.mode`` has
# Keys of the benchmark are text.
_SCHEMAS = {"autoRegister": "enabled", "topics": [{"pattern": ".*", "key": "disabled"}]}


@dataclass(frozen=True, slots=True)
class K2ktui:
    """One configuration.

    Attributes:
        partition: ``source`` lets the verbatim path be chosen, ``producer`` the record path.
        transforms: filter and mask payments.
        mode: ``coordination.mode``.
        spark: the section of that name.
    """

    key: str
    label: str
    exactly_once: bool = True
    partition: str = "source"
    transforms: bool = False
    mode: str = DEFAULT_MODE
    spark: Mapping[str, Any] = field(default_factory=lambda: {"master": "local[*]"})

    def prepare(self, job: Job) -> Launch:
        """Write the pipeline file; the run's name is the prefix of all its topics."""
        text = yaml.safe_dump(self._pipeline(job), sort_keys=False)
        file = job.directory / "pipeline.yaml"
        file.write_text(text)
        start = (sys.executable, "-m", "k2ktui", "start", "-f", str(file), "--log-format", "json")
        ends = () if job.steady else ("--until-caught-up",)
        return Launch((*start, *ends), f"{job.run}.{job.topic}", text, ends=not job.steady)

    def _pipeline(self, job: Job) -> dict[str, Any]:
        return {
            "name": f"bench-{job.run}",
            "features": {
                "exactlyOnce": "enabled" if self.exactly_once else "disabled",
                "autoCreateControlTopics": "enabled",
                **({"schemaMapping": "enabled"} if job.registries else {}),
            },
            **({"schemaMapping": _SCHEMAS} if job.registries else {}),
            # Topics of their own, so that no run reads what an earlier one left.
            "coordination": {
                "mode": self.mode,
                "commit": {"topic": f"__k2k_{job.run}_consumer-offsets"},
                "assignment": {"topic": f"__k2k_{job.run}_assignment"},
            },
            "offsetMapping": {"topic": f"__k2k_{job.run}_offset_mappings"},
            "source": {
                "kafka": {"common": {"bootstrap.servers": job.source}},
                **_registry(job.registries.source if job.registries else ""),
            },
            "target": {
                "kafka": {"common": {"bootstrap.servers": job.target}},
                **_registry(job.registries.target if job.registries else ""),
            },
            "replication": [
                {"source": {"name": "source", "topic": [job.topic]}},
                *([{"transform": [payments.RULE]}] if self.transforms else []),
                {
                    "sink": {
                        "name": "sink",
                        "topic": {"prefix": f"{job.run}."},
                        "partition": self.partition,
                    }
                },
            ],
            "spark": dict(self.spark),
        }


def _registry(url: str) -> dict[str, Any]:
    return {"registry": {"config": {"schema.registry.url": url}}} if url else {}


def variants() -> tuple[K2ktui, ...]:
    """Return the variants that are measured."""
    return (
        K2ktui("k2ktui", "k2ktui verbatim, exactly-once"),
        K2ktui("k2ktui-exclusive", "k2ktui verbatim, exactly-once", mode="exclusive"),
        K2ktui("k2ktui-records", "k2ktui record path, exactly-once", partition="producer"),
        K2ktui("k2ktui-transform", "k2ktui, filter and mask, exactly-once", transforms=True),
    )
