"""``--accept-cluster ID``: go on after a cluster was restored from a backup under another id."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from k2ktui.errors import ConfigError
from k2ktui.text import counted, safe_text

if TYPE_CHECKING:
    from k2ktui.config.model import PipelineConfig
    from k2ktui.engine.access import Access
    from k2ktui.sync.moves.positions import PositionPlan

F = TypeVar("F", bound=Callable[..., Any])


def accept_options(function: F) -> F:
    """Add ``--accept-cluster`` and ``--yes``, for commands that start a pipeline."""
    function = click.option(
        "--yes", is_flag=True, help="Skip the confirmation of --accept-cluster."
    )(function)
    return click.option(
        "--accept-cluster",
        "accepted",
        multiple=True,
        metavar="ID",
        help="Id that a cluster has now which was restored from a backup: its former id becomes an "
        "alias. Partitions that are not shown to be the same stop.",
    )(function)


def accept_clusters(
    config: PipelineConfig, ids: tuple[str, ...], allowed: Access, *, yes: bool
) -> None:
    """Plan the acceptance, show it, ask for confirmation and record it; nothing without ids.

    Raises:
        ConfigError: ``--yes`` without ids.
        Refused: no cluster was restored under these ids, the pipeline runs, or not confirmed.
        PartlyApplied, ConnectionFailed, TimedOut: as for ``PositionWriter.apply``.
    """
    if not ids:
        if yes:
            raise ConfigError(
                "--yes confirms --accept-cluster, which is not given",
                unchanged="Nothing was started.",
            )
        return
    # Deferred imports: a start without the option must not wait for them.
    from k2ktui.cli.terminal.confirm import confirm
    from k2ktui.cli.terminal.notes import print_notes
    from k2ktui.cli.terminal.positions import MOVES
    from k2ktui.cli.terminal.tables import output, print_table
    from k2ktui.sync.cluster_acceptance import plan_to_accept
    from k2ktui.sync.moves.position_writer import PositionWriter
    from k2ktui.sync.moves.positions import PositionPlanner

    known = PositionPlanner(config)
    try:
        writer = PositionWriter(config, known)
        writer.refuse_running()
        change = plan_to_accept(config, ids)
        print_table(
            f"{change.operation}: {safe_text(config.name)}",
            MOVES,
            change.moves,
            output(stderr=True),
        )
        what = _describe(change)
        confirm(config.name, what, yes=yes)
        done = writer.apply(change, allowed)
    finally:
        known.close()
    entry = f", journal entry {done.entry}" if done.entry else ""
    click.echo(f"done: {what}, term {done.term}{entry}", err=True)
    print_notes(done.notes)


def _describe(change: PositionPlan) -> str:
    from k2ktui.engine.moves.positions import MoveEffect

    ids = ", ".join(
        f"the {side} cluster {safe_text(now)} in place of {safe_text(former)}"
        for side, former, now in change.recorded.find_changed(change.accepted)
    )
    stopped = sum(move.effect is MoveEffect.STOP for move in change.moves)
    rest = counted(len(change.moves) - stopped, "partition")
    if not stopped:
        return f"accept {ids} ({rest})"
    return f"accept {ids} ({rest}) and stop {counted(stopped, 'partition')}"
