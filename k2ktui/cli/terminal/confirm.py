"""Confirmation before a change: the operator types the pipeline's name; Enter alone refuses."""

from __future__ import annotations

import sys

import click

from k2ktui.errors import Refused
from k2ktui.text import safe_text


def confirm(pipeline: str, what: str, *, yes: bool) -> None:
    """Require the operator's confirmation.

    Args:
        pipeline: the name to type.
        what: the action, as the end of the sentence "Type … to".
        yes: whether ``--yes`` was given, which skips the prompt.

    Raises:
        Refused: the operator typed another text, or standard input is not a terminal.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise Refused(
            "confirmation is required, and standard input is not a terminal",
            unchanged="Nothing was changed.",
            hint="Review the output above, then repeat with --yes.",
        )
    name = safe_text(pipeline)
    typed = click.prompt(
        f"Type the pipeline's name, {name}, to {what}", default="", show_default=False, err=True
    )
    if typed.strip() != pipeline:
        raise Refused("the confirmation did not match", unchanged="Nothing was changed.")
