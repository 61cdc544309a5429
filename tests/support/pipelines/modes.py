"""Pipelines with another ``coordination.mode``."""

from __future__ import annotations

from k2ktui.config.model import PipelineConfig


def in_mode(config: PipelineConfig, mode: str) -> PipelineConfig:
    """Return the pipeline with another mode."""
    coordination = config.coordination.model_copy(update={"mode": mode})
    return config.model_copy(update={"coordination": coordination})
