"""Ask before anything is changed: the pipeline's name is typed; Enter alone changes nothing."""

from __future__ import annotations

import sys

import click

from k2ktui.errors import Refused
from k2ktui.text import safe_text


def confirm(pipeline: str, what: str, *, yes: bool) -> None:
    """Return if the operator agrees.

    Args:
        pipeline: the name to type.
        what: what will happen, to end the sentence "Type … to".
        yes: ``--yes`` was given.

    Raises:
        Refused: another text was typed, or nobody can be asked.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise Refused(
            "nobody can be asked for confirmation here",
            unchanged="Nothing was changed.",
            mend="Give --yes, after looking at what is shown.",
        )
    name = safe_text(pipeline)
    typed = click.prompt(
        f"Type the pipeline's name, {name}, to {what}", default="", show_default=False, err=True
    )
    if typed.strip() != pipeline:
        raise Refused("it was not confirmed", unchanged="Nothing was changed.")
