"""``k2ktui groups``: consumer groups on both clusters, with their translated offsets."""

from __future__ import annotations

import json

import click

from k2ktui.cli import groups_reset
from k2ktui.cli.terminal.notes import print_notes
from k2ktui.cli.terminal.options import json_option, load_flow, optional_file_option
from k2ktui.cli.terminal.tables import MOST, print_pair, print_table, read_beside
from k2ktui.engine.moves.group_positions import make_group_positions
from k2ktui.engine.moves.groups import outcome, snapshot_notes
from k2ktui.present.columns import pick
from k2ktui.present.failover import group_lines
from k2ktui.present.formatting import WORDS, moment
from k2ktui.present.groups import outcome_text, row_columns
from k2ktui.text import safe_text


@click.group(
    invoke_without_command=True,
    help="Show consumer groups on both clusters with translated offsets and divergence.",
)
@optional_file_option
@json_option
@click.pass_context
def command(context: click.Context, files: tuple[str, ...], as_json: bool) -> None:
    """Read both clusters once and print, if no subcommand is given."""
    name = context.invoked_subcommand
    if name is not None and (files or as_json):
        raise click.UsageError(f"options of {name} go after it: k2ktui groups {name} -f FILE")
    if name is None and not files:
        raise click.UsageError("Missing option '-f' / '--file'.")
    if name is None:
        _show(files, as_json=as_json)


command.add_command(groups_reset.command)


def _show(files: tuple[str, ...], *, as_json: bool) -> None:
    from k2ktui.sync.moves.snapshot import take_snapshot

    flow = load_flow(files)
    reading = read_beside(flow.config)
    snapshot = take_snapshot(flow, for_plans=False, with_choices=True)
    groups = make_group_positions(snapshot, reading())
    if as_json:
        click.echo(json.dumps(groups.as_json()))
        return
    print_pair(flow.config, groups.pair_state)
    print_notes(snapshot_notes(snapshot))
    title = f"{safe_text(groups.pipeline)} at {moment(groups.taken_at)}"
    print_table(title, COLUMNS, groups.rows, most=MOST)
    click.echo(outcome_text(outcome(groups.rows)))
    for line in group_lines(groups.estimate, failed_over=groups.pair_state.moved):
        click.echo(line)


COLUMNS = pick(
    row_columns(WORDS),
    *("group", "partition", "states", "source", "target", "translated", "basis", "divergence"),
    *("skipped-now", "reread-now", "skipped", "reread", "why"),
)
