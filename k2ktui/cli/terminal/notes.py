"""Notes for the operator, on standard error: standard output is for results.

A note that cannot be printed ends no command: what it is about may still succeed.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

import click

from k2ktui.secret_values import hide_secrets
from k2ktui.text import safe_message


def print_note(note: object) -> None:
    """Print a note; names in it cannot control the terminal."""
    print_progress(note_text(note))


def print_progress(text: str) -> None:
    """Print a line about what is going on; if that is impossible, the command goes on."""
    with suppress(OSError):
        click.echo(text, err=True)


def note_text(note: object) -> str:
    """Return a note as it is printed."""
    text = "\n".join(safe_message(line) for line in hide_secrets(str(note)).split("\n"))
    return f"note: {text}"


def print_notes(notes: Iterable[object]) -> None:
    """Print notes, one per line."""
    for note in notes:
        print_note(note)
