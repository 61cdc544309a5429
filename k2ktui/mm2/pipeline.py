"""A flow of MirrorMaker 2 as a pipeline that can be read and corrected but never started."""

from __future__ import annotations

from pathlib import Path
from typing import Self

from pydantic import Field, ValidationError

from k2ktui.config.model import PipelineConfig
from k2ktui.config.problems import Problem, format_path
from k2ktui.errors import ConfigError
from k2ktui.kafka.clients import Cluster
from k2ktui.mm2.flows import Flow
from k2ktui.mm2.importing import not_expressible, pipeline_document
from k2ktui.mm2.mirror_mappings import MirrorMappings
from k2ktui.mm2.settings import load_settings
from k2ktui.sync.mapping_source import MappingSource, open_mapping_source

SUFFIX = ".properties"


class MirrorPipeline(PipelineConfig):
    """The configuration of a k2ktui pipeline equivalent to a flow, and the flow itself."""

    flow: Flow = Field(exclude=True, repr=False)

    @classmethod
    def of(cls, flow: Flow) -> Self:
        """Build the pipeline of a flow; it contains secrets, like every loaded pipeline.

        Raises:
            ConfigError: a setting of the flow cannot be expressed in a pipeline.
        """
        tree = pipeline_document(flow, str(flow), lambda side, role, key, text: text)
        try:
            return cls.model_validate({**tree, "flow": flow})
        except ValidationError as failure:
            raise _not_expressible(flow, failure) from None


def _not_expressible(flow: Flow, failure: ValidationError) -> ConfigError:
    # The values may be secrets, and are left out.
    found = failure.errors(include_url=False, include_input=False, include_context=False)
    expected = [(each["loc"], each["msg"].replace("Value error,", "expected")) for each in found]
    return not_expressible(flow, [Problem(None, format_path(p), text) for p, text in expected])


def is_mirror_file(file: str) -> bool:
    """Return whether a ``-f`` argument names MirrorMaker 2's file: ``FILE.properties[#A->B]``."""
    return file.partition("#")[0].endswith(SUFFIX)


def load_mirror(file: str) -> tuple[MirrorPipeline, tuple[str, ...]]:
    """Load the flow named by ``FILE.properties[#A->B]``, and notes on the file.

    Raises:
        ConfigError: reports every error of the file.
    """
    path, _, name = file.partition("#")
    settings = load_settings(Path(path))
    return MirrorPipeline.of(settings.flow(name)), settings.notes


@open_mapping_source.register
def _(config: MirrorPipeline, source: Cluster, target: Cluster) -> MappingSource:
    return MirrorMappings(config.flow, config, source, target)
