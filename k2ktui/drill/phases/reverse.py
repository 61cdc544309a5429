"""The phase that writes the file of the pipeline for the way back."""

from __future__ import annotations

import logging
from pathlib import Path

from k2ktui.config.model import PipelineConfig
from k2ktui.config.reverse import ReversedFile, reverse_file
from k2ktui.drill.files import reverse_path, split_files
from k2ktui.drill.release import run_release
from k2ktui.drill.session import PhaseResult, Session
from k2ktui.engine.drill.checks import DrillKind
from k2ktui.engine.drill.model import PhaseStatus
from k2ktui.errors import K2kError
from k2ktui.kafka.properties.translation import load_checked
from k2ktui.private_files import write_private
from k2ktui.text import safe_message, safe_text

log = logging.getLogger(__name__)


def run_reverse(session: Session) -> PhaseResult:
    """Write the opposite pipeline's file beside the pipeline's own, and validate it.

    A failback lets that pipeline, which has a file and has run before, start again.
    """
    if session.drill.kind is DrillKind.FAILBACK:
        copies = "copies these topics" if session.drill.topics else "may start"
        return PhaseResult(f"{session.forward.name} {copies} again; {run_release(session)}")
    if session.flow.pipeline is None or not session.files:
        way_back = (
            "; set up the way back in MirrorMaker 2, or as a pipeline: k2ktui mm2 import"
            if session.flow.is_mirror
            else ""
        )
        return PhaseResult(f"k2ktui does not copy here{way_back}", status=PhaseStatus.SKIPPED)
    path = reverse_path(session.files)
    name = safe_text(path)
    try:
        reversed_pipeline = reverse_file(split_files(session.files))
        wrote = write_reverse(path, reversed_pipeline)
        load_checked((str(path),))
    except (K2kError, OSError) as error:
        why = safe_message(
            error.message if isinstance(error, K2kError) else error.strerror or error
        )
        finding = f"{why}. Write the file of the pipeline for the way back yourself."
        return PhaseResult("no file was written", (finding,), PhaseStatus.SKIPPED)
    notes = "; ".join(reversed_pipeline.notes)
    if not wrote:
        finding = f"{name} exists with other contents and was kept; compare k2ktui config reverse"
        return PhaseResult("no file was written", (finding,), PhaseStatus.SKIPPED)
    return PhaseResult(f"{name} is written and valid; {notes}")


def find_reverse(session: Session) -> PipelineConfig | None:
    """Return the pipeline for the way back, if its file is there and valid."""
    if session.drill.kind is DrillKind.FAILBACK:
        return session.forward.config
    if session.flow.pipeline is None or not session.files:
        return None
    path = reverse_path(session.files)
    try:
        return load_checked((str(path),)).config if path.exists() else None
    except K2kError as error:
        log.info("%s: %s", path, error.message)
        return None


def write_reverse(path: Path, reversed_pipeline: ReversedFile) -> bool:
    """Write a file unless it exists; return whether it has these contents now.

    Raises:
        OSError: it cannot be read or written.
    """
    text = reversed_pipeline.text.encode()
    if path.exists():
        return path.read_bytes() == text
    write_private(path, text)
    return True
