"""A flow of MirrorMaker 2 as a pipeline that can be read and corrected but never started."""

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
    """The configuration of a k2ktui pipeline equivalent to a flow, and the flow itself."""

    flow: Flow = Field(exclude=True, repr=False)

    @classmethod
    def of(cls, flow: Flow) -> Self:
        """Build the pipeline of a flow; it contains secrets, like every loaded pipeline."""
        tree = pipeline_document(flow, str(flow), lambda side, role, key, text: text)
        return cls.model_validate({**tree, "flow": flow})


def is_mirror_file(file: str) -> bool:
    """Return whether a ``-f`` argument names MirrorMaker 2's file: ``FILE.properties[#A->B]``."""
    return file.partition("#")[0].endswith(SUFFIX)


def load_mirror(file: str) -> tuple[MirrorPipeline, tuple[str, ...]]:
    """Load the flow named by ``FILE.properties[#A->B]``, and notes on the file.

    Raises:
        ConfigError: reports every error of the file.
    """
    # Registers the mapping source of this type; imported here to avoid an import cycle.
    import k2ktui.mm2.mirror_mappings  # noqa: F401

    path, _, name = file.partition("#")
    settings = load_settings(Path(path))
    return MirrorPipeline.of(settings.flow(name)), settings.notes
