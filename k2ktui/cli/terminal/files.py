"""The files of a command: which are meant, how they are loaded, and what may be changed."""

from __future__ import annotations

import errno
import os
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

from k2ktui.cli.terminal.notes import print_notes
from k2ktui.config.mirror_files import is_mirror_file
from k2ktui.config.model import PipelineConfig
from k2ktui.engine.access import Access, access, require
from k2ktui.errors import ConfigError, Refused
from k2ktui.private_files import FILE_MODE, user_path, write_private
from k2ktui.text import safe_text

if TYPE_CHECKING:
    from k2ktui.sync.flow import Flow


def own_directory() -> Path:
    """Return the directory of the user's pipeline files; it may not exist."""
    return user_path("config") / "pipelines"


def choose_directory(
    files: Collection[str], replay: str | None, directory: str | None
) -> str | None:
    """Return the directory of pipelines to watch; None for a pipeline or a recording.

    Without any of the three it is the user's own, if it exists.

    Raises:
        ConfigError: none is given, or more than one.
    """
    if not (files or replay or directory) and own_directory().is_dir():
        return str(own_directory())
    if sum(map(bool, (files, replay, directory))) != 1:
        raise ConfigError(
            "give a pipeline with -f, a directory of pipelines with -d, or a recording with "
            "--replay"
        )
    return directory


def write_file(
    path: Path, content: bytes, failed: str, unchanged: str = "Nothing was written.", hint: str = ""
) -> None:
    """Write a file that only its owner can read.

    Raises:
        ConfigError: it cannot be written; ``failed`` is the message, with ``{path}`` and ``{why}``.
    """
    try:
        write_private(path, content)
    except OSError as error:
        message = failed.format(path=safe_text(path), why=error.strerror)
        raise ConfigError(message, unchanged=unchanged, hint=hint) from error


def require_new(path: Path) -> None:
    """Refuse a file that cannot be made, before work of minutes whose result it shall hold.

    Raises:
        Refused: it exists.
        ConfigError: its directory does not exist, or may not be written to.
    """
    if os.path.lexists(path):
        raise Refused(
            f"{safe_text(path)} already exists",
            unchanged="Nothing was written.",
            hint="Choose another file name.",
        )
    if not os.access(path.parent, os.W_OK):
        why = errno.EACCES if path.parent.exists() else errno.ENOENT
        raise _not_written(path, os.strerror(why))


def write_new(path: Path, text: str) -> None:
    """Write a new file that only its owner can read; errors are also those of :func:`require_new`.

    Raises:
        ConfigError: it cannot be written; no part of it is left.
    """
    require_new(path)
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, FILE_MODE)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
        except BaseException:
            path.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise _not_written(path, error.strerror) from error


def _not_written(path: Path, why: str | None) -> ConfigError:
    return ConfigError(
        f"{safe_text(path)} cannot be written: {why}", unchanged="Nothing was written."
    )


def access_to(config: PipelineConfig, *, unlock: bool) -> Access:
    """Return whether a command may change a pipeline, by its file and ``--unlock``."""
    return access(configured=config.read_only, environment=config.environment, unlocked=unlock)


def allowed_to(config: PipelineConfig, action: str, *, unlock: bool) -> Access:
    """Return that a command may change a pipeline; ``action`` is the beginning of a sentence.

    Raises:
        Refused: it may not.
    """
    allowed = access_to(config, unlock=unlock)
    require(allowed, action)
    return allowed


def load_pipeline(files: tuple[str, ...], *, templates: bool = True) -> PipelineConfig:
    """Load the files of a pipeline, and print their notes to stderr.

    Args:
        files: the paths; later files override earlier ones.
        templates: whether ``${…}`` is filled in.

    Raises:
        ConfigError: all errors in the files, including those of client properties.
    """
    from k2ktui.kafka.properties.translation import load_checked

    if any(is_mirror_file(file) for file in files):
        from k2ktui.mm2.flow_files import mirror_file_error  # half a second that others do without

        raise mirror_file_error("")
    loaded = load_checked(files, templates=templates)
    print_notes(loaded.notes)
    return loaded.config


def load_flow(files: tuple[str, ...], *, templates: bool = True) -> Flow:
    """Load what can be watched and whose groups can be moved, and print the files' notes to stderr.

    Args and errors are those of :func:`load_flow_and_notes`.
    """
    return load_flow_and_notes(files, templates=templates)[0]


def load_flow_and_notes(
    files: tuple[str, ...], *, templates: bool = True
) -> tuple[Flow, tuple[str, ...]]:
    """Load what can be watched, print the files' notes to stderr, and return them, too.

    Args:
        files: those of a pipeline or of the mapping application, or one MirrorMaker 2 file:
            ``FILE[#A->B]``.
        templates: whether ``${…}`` in a pipeline's files is filled in.

    Raises:
        ConfigError: all errors in the files, including those of client properties.
    """
    from k2ktui.mm2.flow_files import read_flow

    flow, notes = read_flow(files, templates=templates)
    print_notes(notes)
    return flow, notes


def load_pipeline_flow(files: tuple[str, ...]) -> Flow:
    """Load a pipeline's file, or one of the mapping application; print their notes to stderr.

    Raises:
        ConfigError: all errors in the files, including those of client properties.
    """
    from k2ktui.mm2.flow_files import read_pipeline_flow

    flow, notes = read_pipeline_flow(files)
    print_notes(notes)
    return flow
