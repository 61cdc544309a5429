"""A flow of MirrorMaker 2: its groups can be read and moved; k2ktui never copies its records."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import Self

from pydantic import ValidationError

from k2ktui.config.clusters import Origin, Reading, is_security_value
from k2ktui.config.inputs import noting_sources
from k2ktui.config.model import PipelineConfig
from k2ktui.config.problems import Problem, format_path
from k2ktui.errors import ConfigError
from k2ktui.kafka.clients import Cluster
from k2ktui.mm2.audit import CheckpointAuditor
from k2ktui.mm2.flows.liveness import observe_copier
from k2ktui.mm2.flows.mirror_mappings import MirrorMappings
from k2ktui.mm2.flows.model import SIDES, FlowProperties, Side
from k2ktui.mm2.flows.settings import load_settings, security_notes
from k2ktui.mm2.importing.pipeline_file import not_expressible, pipeline_document
from k2ktui.mm2.offsets.positions import reset_notes
from k2ktui.sync.flow import CopierObservation, Flow, FlowKind

PATH = "mirrormaker2"


@dataclass(frozen=True, slots=True)
class MirrorFlow(Flow):
    """A flow of MirrorMaker 2.

    Attributes:
        properties: the flow as MirrorMaker 2 is configured; contains secrets.
    """

    properties: FlowProperties = field(repr=False)
    kind: FlowKind = field(default=FlowKind.MIRRORMAKER, init=False)

    @classmethod
    def of(cls, properties: FlowProperties) -> Self:
        """Make a flow of its properties.

        Raises:
            ConfigError: a setting of the flow cannot be expressed in a pipeline.
        """
        name = str(properties)
        tree = pipeline_document(properties, name, lambda side, role, key, text: text)
        # MirrorMaker 2, too, leaves alone a group that is in use on the target.
        tree = {**tree, "errorHandling": {"onActiveConsumerGroupCommit": "skip"}}
        try:
            return cls(PipelineConfig.model_validate(tree), properties)
        except ValidationError as failure:
            # The cause quotes values, and passwords may be among them.
            raise _not_expressible(properties, failure) from None

    def path_of(self, topic: str) -> str:
        """Return the name of MirrorMaker 2's path."""
        return PATH

    def open_mappings(self, source: Cluster, target: Cluster) -> MirrorMappings:
        """Return MirrorMaker 2's offset syncs as the source."""
        return MirrorMappings(self.properties, self.config, source, target)

    def observe_copier(self, target: Cluster) -> CopierObservation:
        """Return whether MirrorMaker 2 copies, as its traces on the target show."""
        return observe_copier(self.properties, target)

    def open_auditor(self) -> CheckpointAuditor:
        """Return the auditor of MirrorMaker 2's checkpoints."""
        return CheckpointAuditor(self.properties, self.config)


@dataclass(frozen=True, slots=True)
class FlowOrigin(Origin):
    """A cluster of a flow in a file of MirrorMaker 2: ``FILE[#A->B]``.

    ``converted`` is whether its properties are those of the pipeline that it is converted to.
    """

    file: str
    label: Side
    converted: bool = False

    def read(self) -> Reading:
        """Read the file again.

        Raises:
            ConfigError: the file cannot be read now, or has errors.
        """
        path, _, name = self.file.partition("#")
        with noting_sources() as sources:
            flow = load_settings(Path(path)).flow(name)
        cluster = flow.cluster(self.label)
        if self.converted:
            cluster = getattr(MirrorFlow.of(flow).config, self.label)
        rest = f"{flow!r} {sorted(_plain(flow))}"
        return Reading(
            cluster,
            frozenset(sources.files),
            frozenset(at for at in sources.variables if is_security_value(at[0])),
            sha256(rest.encode()).hexdigest(),
        )


def _plain(flow: FlowProperties) -> Iterator[str]:
    """Yield the properties that are not read again while a process runs."""
    clients = (properties for roles in flow.clients.values() for properties in roles.values())
    for properties in (flow.settings, flow.worker, *clients):
        for key, text in properties.items():
            if not is_security_value(key):
                yield f"{key}={text}"


def _not_expressible(properties: FlowProperties, failure: ValidationError) -> ConfigError:
    # The values may be secrets, and are left out.
    errors = failure.errors(include_url=False, include_input=False, include_context=False)
    expected = [
        (error["loc"], error["msg"].replace("Value error,", "expected")) for error in errors
    ]
    problems = [Problem(None, format_path(path), text) for path, text in expected]
    return not_expressible(properties, problems)


def load_mirror(file: str) -> tuple[MirrorFlow, tuple[str, ...]]:
    """Load the flow named by ``FILE[#A->B]``, and notes on the file.

    Raises:
        ConfigError: reports every error of the file.
    """
    path, _, name = file.partition("#")
    settings = load_settings(Path(path))
    flow = settings.flow(name)
    origins: dict[Side, Origin] = {side: FlowOrigin(file, side) for side in SIDES}
    mirror = MirrorFlow.of(replace(flow, origins=origins))
    mirror.config.source.set_origin(FlowOrigin(file, "source", converted=True))
    mirror.config.target.set_origin(FlowOrigin(file, "target", converted=True))
    return mirror, (*settings.notes, *reset_notes(flow), *security_notes(flow))
