"""What a driver needs of a run, without clusters."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from k2ktui.config.model import PipelineConfig
from k2ktui.kafka.control.topics import ControlTopics
from k2ktui.replication.driver.run_parts import RunParts


def run_parts(config: PipelineConfig, laps: Any = None, **changes: Any) -> RunParts:
    """Return the parts of a run with these laps; nothing else of it is used."""
    nothing: Any = None
    parts = RunParts(config, nothing, nothing, {}, ControlTopics(1), laps, nothing, nothing)
    return replace(parts, **changes)
