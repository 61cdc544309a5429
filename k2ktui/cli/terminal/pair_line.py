"""The state of the pair before the output of a command."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future

import click

from k2ktui.cli.terminal.notes import print_note
from k2ktui.config.model import PipelineConfig
from k2ktui.engine.drill.pair_state import PairState
from k2ktui.present.pair_state import is_plain, pair_line


def print_pair(config: PipelineConfig, state: PairState) -> None:
    """Print the state of the pair as the first line of the output."""
    click.echo(f"Pair: {pair_line(config, state)}")


def read_beside(config: PipelineConfig) -> Callable[[], PairState]:
    """Read the state of the pair on a thread; return a function that waits for the result.

    It runs beside the command's own reading, so that an unreachable cluster costs one time-out, not
    two.
    """
    from k2ktui.sync.drill.pair import read_pair_state

    reading: Future[PairState] = Future()

    def read() -> None:
        try:
            reading.set_result(read_pair_state(config))
        except BaseException as error:
            reading.set_exception(error)

    # A daemon: a command that fails does not wait for it.
    threading.Thread(target=read, name="pair", daemon=True).start()
    return reading.result


def note_pair(config: PipelineConfig, state: PairState) -> None:
    """Print the state of the pair as a note, if there is anything to say.

    For commands whose output programs read.
    """
    if not is_plain(state):
        print_note(f"pair: {pair_line(config, state)}")
