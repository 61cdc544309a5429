"""What commands share that plan a change of a pipeline, show it, confirm it and make it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any

import click

from k2ktui.cli.terminal.options import file_option, json_option, unlock_option


@dataclass(frozen=True, slots=True)
class ChangeFlags:
    """The flags of a command that changes something.

    Attributes:
        dry_run: show the change only.
        yes: skip the confirmation.
        unlock: also in production.
        as_json: print JSON.
    """

    dry_run: bool
    yes: bool
    unlock: bool
    as_json: bool

    @property
    def shows_plan(self) -> bool:
        """Whether the plan is printed.

        With ``--json``, stdout holds a single document at the end, but an operator who has to
        confirm must see the plan first.
        """
        return not self.as_json or not (self.yes or self.dry_run)


def change_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``-f`` and the flags of a change; the command gets these as ``flags``."""

    @wraps(function)
    def command(*, dry_run: bool, yes: bool, unlock: bool, as_json: bool, **others: Any) -> Any:
        return function(flags=ChangeFlags(dry_run, yes, unlock, as_json), **others)

    decorated: Callable[..., Any] = command
    for option in (
        click.option("--yes", is_flag=True, help="Skip the confirmation."),
        click.option("--dry-run", is_flag=True, help="Show the change without making it."),
        unlock_option,
        json_option,
        file_option,
    ):
        decorated = option(decorated)
    return decorated
