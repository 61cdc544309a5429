"""``k2ktui records``: list records beside their copies; their contents only if asked for."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, TypeVar

import click

from k2ktui.cli.terminal.notes import print_notes
from k2ktui.cli.terminal.options import (
    access_to,
    file_option,
    json_option,
    load_flow,
    timeout_option,
)
from k2ktui.cli.terminal.tables import print_table
from k2ktui.engine.access import require_shown
from k2ktui.errors import ConfigError, ExitCode
from k2ktui.text import safe_message, safe_text

if TYPE_CHECKING:
    from k2ktui.config.model import PipelineConfig
    from k2ktui.log.record import KafkaRecord
    from k2ktui.sync.records.contents import ContentFormat, ShownRecord
    from k2ktui.sync.records.pairs import RecordListing, RecordPair
    from k2ktui.sync.records.schema_decoder import SchemaDecoder

F = TypeVar("F", bound=Callable[..., Any])
_MOST = 1000
_FORMATS = ("auto", "schema", "json", "text", "hex")


def _number(name: str, least: int, default: int, text: str) -> Callable[[F], F]:
    of = click.IntRange(least, _MOST)
    return click.option(name, type=of, default=default, show_default=True, metavar="N", help=text)


@click.command(help="List records from a position on, and their copies on the target.")
@file_option
@json_option
@click.option(
    "--side",
    type=click.Choice(["source", "target", "both"]),
    default="both",
    show_default=True,
    help="Cluster whose records are listed; with target, the position is one on the target.",
)
@_number("--count", 1, 10, "Number of records.")
@_number("--before", 0, 0, "Number of records before the position, too.")
@click.option(
    "--show", is_flag=True, help="Print keys, values and headers instead of their sizes alone."
)
@click.option(
    "--format",
    "wanted",
    type=click.Choice(_FORMATS),
    help="Format of contents with --show.  [default: auto]",
)
@click.option(
    "--unlock",
    is_flag=True,
    help="Allow --show although the pipeline's environment is production.",
)
@timeout_option(30.0, "reading the records")
@click.argument("position", metavar="TOPIC:PARTITION@OFFSET")
def command(
    files: tuple[str, ...],
    as_json: bool,
    side: Any,
    count: int,
    before: int,
    show: bool,
    wanted: str | None,
    unlock: bool,
    timeout: float,
    position: str,
) -> int:
    """List and print; findings if a copy differs or is lost."""
    from k2ktui.present.records import listing_object
    from k2ktui.sync.moves.positions_text import parse_place
    from k2ktui.sync.records.contents import ContentFormat
    from k2ktui.sync.records.pairs import RecordPlace, list_records

    if not show and (wanted or unlock):
        raise ConfigError(f"{'--format' if wanted else '--unlock'} is for --show, which is missing")
    at, offset = parse_place(position)
    flow = load_flow(files)
    config = flow.config
    if show:
        require_shown(access_to(config, unlock=unlock), enabled=config.console.show_records)
    listing = list_records(
        flow, RecordPlace(at.topic, at.partition, offset), side, before=before, count=count,
        timeout=timeout,
    )  # fmt: skip
    with ExitStack() as stack:
        contents = _Contents(config, ContentFormat(wanted or "auto"), stack) if show else None
        if as_json:
            show_one = None if contents is None else contents.show
            click.echo(json.dumps(listing_object(config.name, listing, show_one)))
        else:
            print_notes(listing.notes)
            _print(config.name, listing, contents)
    return int(ExitCode.FINDINGS if any(p.is_wrong for p in listing.pairs) else ExitCode.OK)


class _Contents:
    """Shows what is in records of either cluster, with its registry if it has one."""

    def __init__(self, config: PipelineConfig, wanted: ContentFormat, stack: ExitStack) -> None:
        from k2ktui.sync.records.schema_decoder import open_decoders

        self._wanted = wanted
        self._decoders: dict[str, SchemaDecoder] = stack.enter_context(open_decoders(config))
        if wanted == "schema" and not self._decoders:
            raise ConfigError(
                "--format schema needs a schema registry, and the file names none",
                unchanged="Nothing was shown.",
                hint="Set registry.config under source or target.",
            )

    def show(self, record: KafkaRecord, side: str) -> ShownRecord:
        """Return the contents of a cluster's record."""
        from k2ktui.sync.records.contents import show_record

        return show_record(record, self._wanted, self._decoders.get(side))


def _print(pipeline: str, listing: RecordListing, contents: _Contents | None) -> None:
    from k2ktui.present.records import pair_columns

    if contents is not None:
        for pair in listing.pairs:
            _print_pair(pair, listing, contents)
        return
    place = listing.place
    with_source, with_target = listing.side != "target", listing.side != "source"
    name = safe_text(f"{place.topic}:{place.partition}@{place.offset}")
    where = "" if with_source else " on the target"
    columns = pair_columns(with_source=with_source, with_target=with_target)
    print_table(f"{safe_text(pipeline)}: {name}{where}", columns, listing.pairs)


def _print_pair(pair: RecordPair, listing: RecordListing, contents: _Contents) -> None:
    """Print a record with its contents, and its copy's where the two are not equal."""
    from k2ktui.present.records import content_lines, offsets_text, sizes_text, time_text

    place = listing.place
    is_equal = pair.result == "equal"
    for side, entry in (("source", pair.source), ("target", pair.target)):
        if entry is None:
            continue
        at = pair.target_partition if side == "target" else (place.topic, place.partition)
        assert at is not None
        where = f"{side} {safe_text(at[0])}:{at[1]}@{offsets_text(entry)}"
        record = entry.record
        if record is None:
            click.echo(f"{where}: {safe_text(entry.meaning)}")
            continue
        is_repeated = side == "target" and is_equal
        click.echo(
            f"{where}: {time_text(record)}, {sizes_text(record)}{', equal' if is_repeated else ''}"
        )
        if not is_repeated:
            for name, text in content_lines(record, contents.show(record, side)):
                click.echo(f"    {name}: {text}")
    if listing.side == "both" and pair.source and pair.source.record and not is_equal:
        click.echo(f"  {safe_message(pair.result)}")
