"""``k2ktui undo``: put back what an apply or a sync changed."""

from __future__ import annotations

import json

import click

from k2ktui.cli.confirm import confirm
from k2ktui.cli.options import json_option, load_pipeline
from k2ktui.cli.results import exit_code, result_object, show_results
from k2ktui.errors import ConfigError
from k2ktui.text import safe_text


@click.command(help="Take back an entry of the journal: the offsets that were there before.")
@click.argument("entry", metavar="ID")
@click.option("-f", "--file", "files", multiple=True, metavar="FILE", help="Pipeline file.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--skip-moved", is_flag=True, help="Leave alone groups that have moved since.")
@json_option
def command(entry: str, files: tuple[str, ...], yes: bool, skip_moved: bool, as_json: bool) -> int:
    """Take back; partly done has its own exit code."""
    from k2ktui.engine.applying import reversal
    from k2ktui.sync.apply import Applied, Applier, written_of
    from k2ktui.sync.index import files_of, remember
    from k2ktui.sync.snapshot import Snapshots

    files = files or files_of(entry)
    config = load_pipeline(files)
    snapshots = Snapshots(config)
    try:
        parts = snapshots.store.read().entry(entry)
        if not parts:
            raise ConfigError(
                f"there is no entry {safe_text(entry)} in the journal of {safe_text(config.name)}",
                unchanged="Nothing was changed.",
                mend="k2ktui journal -f FILE lists the ids.",
            )
        rows = written_of(parts)
        if not as_json:
            show_results(Applied(entry, tuple(rows)))
        count = len(reversal(rows))
        confirm(config.name, f"put back {count:,} offsets on the target", yes=yes)
        applier = Applier(config, snapshots.target, snapshots.store)
        applied = applier.undo(entry, rows, skip_moved=skip_moved)
    finally:
        snapshots.close()
    remember(applied.id, config.name, files)
    if as_json:
        click.echo(json.dumps(result_object(applied)))
    else:
        show_results(applied)
    return exit_code(applied)
