"""The pipeline files of a directory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from k2ktui.errors import ConfigError, K2kError
from k2ktui.mm2.flow_files import read_pipeline_flow
from k2ktui.sync.flow import Flow
from k2ktui.text import safe_text

_SUFFIXES = frozenset({".yaml", ".yml"})
_MOST_FILES = 500


@dataclass(frozen=True, slots=True)
class PipelineFile:
    """A file of the directory, with what it describes.

    Attributes:
        path: the file.
        flow: what it describes; None if it is not valid.
        error: why it is not.
    """

    path: Path
    flow: Flow | None = None
    error: K2kError | None = None

    @property
    def name(self) -> str:
        """Name of the pipeline; that of the file if it is not valid."""
        return self.path.stem if self.flow is None else self.flow.config.name


def list_files(directory: Path) -> list[Path]:
    """Return the pipeline files of a directory, sorted by name; not those below it.

    Raises:
        ConfigError: the directory cannot be read.
    """
    try:
        return sorted(
            path
            for path in directory.iterdir()
            if path.suffix in _SUFFIXES and not path.name.startswith(".") and path.is_file()
        )
    except OSError as error:
        raise ConfigError(
            f"{safe_text(directory)}: {error.strerror}",
            unchanged="Nothing was read.",
            hint="Give the directory of your pipeline files with -d.",
        ) from error


def read_directory(directory: Path) -> Sequence[PipelineFile]:
    """Read the files of :func:`list_files`.

    A file that is not valid does not hide the others.

    Raises:
        ConfigError: the directory cannot be read, or has no pipeline file, or too many.
    """
    paths = list_files(directory)
    if not paths:
        raise ConfigError(
            f"{safe_text(directory)} has no pipeline file (*.yaml, *.yml)",
            unchanged="Nothing was read.",
            hint="Put one file per pipeline there (k2ktui init writes one), or give another "
            "directory with -d.",
        )
    if len(paths) > _MOST_FILES:
        raise ConfigError(
            f"{safe_text(directory)} has {len(paths):,} pipeline files, more than {_MOST_FILES}",
            unchanged="Nothing was read.",
            hint="Divide them among several directories.",
        )
    return [_read_file(path) for path in paths]


def _read_file(path: Path) -> PipelineFile:
    try:
        return PipelineFile(path, read_pipeline_flow((str(path),))[0])
    except K2kError as error:
        return PipelineFile(path, error=error)
