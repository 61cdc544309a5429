"""A flow of MirrorMaker 2 in place of a pipeline: read, translated and corrected, never started."""

from __future__ import annotations

from pathlib import Path
from typing import Self

from pydantic import Field

from k2ktui.config.model import PipelineConfig
from k2ktui.mm2.flows import Flow
from k2ktui.mm2.importing import pipeline_document
from k2ktui.mm2.settings import load_settings

SUFFIX = ".properties"


class MirrorPipeline(PipelineConfig):
    """What a flow would be as a pipeline of ours, with the flow itself."""

    flow: Flow = Field(exclude=True, repr=False)

    @classmethod
    def of(cls, flow: Flow) -> Self:
        """Make one of a flow; its secrets are in it, as in every pipeline that was loaded."""
        tree = pipeline_document(flow, str(flow), lambda side, role, key, text: text)
        return cls.model_validate({**tree, "flow": flow})


def is_mirror_file(file: str) -> bool:
    """Tell whether a file given with ``-f`` is MirrorMaker 2's: ``FILE.properties[#A->B]``."""
    return file.partition("#")[0].endswith(SUFFIX)


def load_mirror(file: str) -> tuple[MirrorPipeline, tuple[str, ...]]:
    """Load the flow that ``FILE.properties[#A->B]`` names, and notes on the file.

    Raises:
        ConfigError: with every error of the file.
    """
    # What it registers makes such a pipeline readable; it imports this module.
    import k2ktui.mm2.mirror_mappings  # noqa: F401

    path, _, name = file.partition("#")
    settings = load_settings(Path(path))
    return MirrorPipeline.of(settings.flow(name)), settings.notes
