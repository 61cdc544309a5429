"""``--mirrormaker FILE``: a MirrorMaker 2 flow beside the pipeline, for console and ``watch``."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from k2ktui.config.mirror_files import is_mirror_file
from k2ktui.errors import ConfigError
from k2ktui.text import safe_text

if TYPE_CHECKING:
    from k2ktui.mm2.mirror_flow import MirrorFlow
    from k2ktui.sync.flow import Flow

F = TypeVar("F", bound=Callable[..., Any])

MIRRORMAKER_HELP = (
    "File of a MirrorMaker 2 that copies the same topics, to compare re-reads: mm2.properties, a "
    "Strimzi resource or a connector's JSON; FILE#A->B selects one flow."
)


def mirrormaker_option(function: F) -> F:
    """Add ``--mirrormaker``."""
    return click.option("--mirrormaker", metavar="FILE", help=MIRRORMAKER_HELP)(function)


def load_compared(file: str | None, flow: Flow) -> MirrorFlow | None:
    """Load the MirrorMaker 2 flow that ``--mirrormaker`` names; None if it was not given.

    Raises:
        ConfigError: it is not a MirrorMaker 2 file, or ``flow`` is such a flow itself.
    """
    from k2ktui.cli.terminal.notes import print_notes
    from k2ktui.mm2.mirror_flow import load_mirror

    if file is None:
        return None
    if flow.is_mirror:
        raise ConfigError(
            "--mirrormaker needs a pipeline file; for a MirrorMaker 2 flow, the "
            "comparison is shown without it"
        )
    if not is_mirror_file(file):
        raise ConfigError(
            f"--mirrormaker: {safe_text(file)} is not a file of MirrorMaker 2",
            hint="Give its mm2.properties, Strimzi resource or connector JSON; FILE#A->B selects "
            "one flow.",
        )
    compared, notes = load_mirror(file)
    print_notes(notes)
    return compared
