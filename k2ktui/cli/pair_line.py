"""The state of the pair before the output of a command."""

from __future__ import annotations

import click

from k2ktui.cli.notes import print_note
from k2ktui.config.model import PipelineConfig
from k2ktui.engine.pair_state import PairState
from k2ktui.present.pair_state import is_plain, pair_line


def print_pair(config: PipelineConfig, state: PairState) -> None:
    """Print the state of the pair as the first line of the output."""
    click.echo(f"Pair: {pair_line(config, state)}")


def note_pair(config: PipelineConfig) -> PairState:
    """Read the state of the pair, and print it as a note if there is anything to say; return it.

    For commands whose output programs read.
    """
    from k2ktui.sync.pair_drills import read_pair_state

    state = read_pair_state(config)
    if not is_plain(state):
        print_note(f"pair: {pair_line(config, state)}")
    return state
