"""The flow that files describe: a pipeline, the mapping application, or MirrorMaker 2's."""

from __future__ import annotations

from collections.abc import Sequence

from k2ktui.config.mirror_files import is_mirror_file
from k2ktui.errors import ConfigError
from k2ktui.sync.flow import Flow


def read_flow(files: Sequence[str], *, templates: bool = True) -> tuple[Flow, tuple[str, ...]]:
    """Return what the files describe, and the notes on them.

    Args:
        files: those of a pipeline or of the mapping application, or one MirrorMaker 2 file:
            ``FILE[#A->B]``.
        templates: whether ``${…}`` in a pipeline's files is filled in.

    Raises:
        ConfigError: all errors in the files, including those of client properties.
    """
    # Imported late: commands that need no MirrorMaker 2 file start faster.
    from k2ktui.mm2.mirror_flow import load_mirror

    if not any(is_mirror_file(file) for file in files):
        return read_pipeline_flow(files, templates=templates)
    if len(files) > 1:
        raise mirror_file_error(", combined with other files")
    flow, notes = load_mirror(files[0])
    return flow, tuple(notes)


def read_pipeline_flow(
    files: Sequence[str], *, templates: bool = True
) -> tuple[Flow, tuple[str, ...]]:
    """Return a pipeline or the mapping application, and the notes on its files.

    Raises:
        ConfigError: all errors in the files, including those of client properties.
    """
    from k2ktui.kafka.properties.translation import load_checked
    from k2ktui.sync.flow import flow_of

    loaded = load_checked(tuple(files), need_replication=False, templates=templates)
    return flow_of(loaded.config), tuple(loaded.notes)


def mirror_file_error(how: str) -> ConfigError:
    """Return the error for a MirrorMaker 2 file where none can be used; ``how`` adds to it."""
    return ConfigError(
        f"a MirrorMaker 2 file cannot be used with this command{how}",
        unchanged="Nothing was done.",
        hint="Convert it first: k2ktui mm2 import FILE -o pipeline.yaml. The "
        "console, groups, watch and mm2 read it directly.",
    )
