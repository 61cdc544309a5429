"""The pipeline file: from layered YAML to typed, frozen settings."""

from __future__ import annotations

from k2ktui.config.load import Loaded, load
from k2ktui.config.model import PipelineConfig

__all__ = ["Loaded", "PipelineConfig", "load"]
