"""Hooks of drills as a pipeline's file has them."""

from __future__ import annotations

from collections.abc import Sequence


def hook(place: str, phase: str, command: Sequence[str], **more: object) -> dict[str, object]:
    """Return a hook as a file has it."""
    return {place: phase, "for": f"{place} {phase}", "command": list(command), **more}


def sh(script: str) -> list[str]:
    """Return a command that runs a script of a shell."""
    return ["/bin/sh", "-c", script]
