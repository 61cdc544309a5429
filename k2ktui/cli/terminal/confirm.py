"""Confirmation before a change: the operator types the name of what is changed; Enter refuses."""

from __future__ import annotations

import sys

import click

from k2ktui.errors import Refused
from k2ktui.text import safe_text


def confirm(name: str, what: str, *, yes: bool, side: str = "target") -> None:
    """Require the operator's confirmation.

    Args:
        name: what is changed, a pipeline, flow or connector: the name to type.
        what: the action, as the end of the sentence "Type … to".
        yes: whether ``--yes`` was given, which skips the prompt.
        side: the cluster that is changed; on the ``source`` nothing is skipped.

    Raises:
        Refused: the operator typed another text, standard input is not a terminal, or ``--yes`` was
            given for the source.
    """
    if yes and side == "source":
        raise Refused(
            "--yes does not confirm a change on the source",
            unchanged="Nothing was changed.",
            hint="Repeat without --yes, and type the name that it asks for.",
        )
    if yes:
        return
    if not sys.stdin.isatty():
        raise Refused(
            "confirmation is required, and standard input is not a terminal",
            unchanged="Nothing was changed.",
            hint="Review the output above, then repeat with --yes."
            if side == "target"
            else "Run it in a terminal.",
        )
    typed = click.prompt(
        f"Type {safe_text(name)} to {what}", default="", show_default=False, err=True
    )
    if typed.strip() != name:
        raise Refused("the confirmation did not match", unchanged="Nothing was changed.")
