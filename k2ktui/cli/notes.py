"""Notes for the operator, on standard error: standard output is for results."""

from __future__ import annotations

from collections.abc import Iterable

import click

from k2ktui.secret_values import hide_secrets
from k2ktui.text import safe_message


def print_note(note: object) -> None:
    """Print a note; names in it cannot control the terminal."""
    text = "\n".join(safe_message(line) for line in hide_secrets(str(note)).split("\n"))
    click.echo(f"note: {text}", err=True)


def print_notes(notes: Iterable[object]) -> None:
    """Print notes, one per line."""
    for note in notes:
        print_note(note)
