"""``k2ktui records``: list records beside their copies; their contents only if asked for."""

from __future__ import annotations

import json
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import click

from k2ktui.cli.terminal.interval import LONGEST_WAIT_S, range_check
from k2ktui.cli.terminal.notes import print_notes
from k2ktui.cli.terminal.options import access_to, file_option, json_option, load_flow
from k2ktui.cli.terminal.tables import print_table
from k2ktui.engine.access import require_shown
from k2ktui.errors import ConfigError, ExitCode
from k2ktui.text import safe_message, safe_text

if TYPE_CHECKING:
    from k2ktui.config.model import PipelineConfig
    from k2ktui.log.listing import LogEntry
    from k2ktui.log.record import KafkaRecord
    from k2ktui.sync.records.contents import ContentFormat, ShownContent, ShownRecord
    from k2ktui.sync.records.pairs import RecordListing, RecordPair
    from k2ktui.sync.records.schema_decoder import SchemaDecoder

_MOST = 1000
_FORMATS = ("auto", "schema", "json", "text", "hex")


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
@click.option(
    "--count",
    type=click.IntRange(1, _MOST),
    default=10,
    show_default=True,
    metavar="N",
    help="Number of records.",
)
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
@click.option(
    "--timeout",
    default=30.0,
    show_default=True,
    metavar="SECONDS",
    callback=range_check(0, LONGEST_WAIT_S),
    help="Maximum time in seconds for reading the records.",
)
@click.argument("position", metavar="TOPIC:PARTITION@OFFSET")
def command(
    files: tuple[str, ...],
    as_json: bool,
    side: Any,
    count: int,
    show: bool,
    wanted: str | None,
    unlock: bool,
    timeout: float,
    position: str,
) -> int:
    """List and print; findings if a copy differs or is lost."""
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
        flow, RecordPlace(at.topic, at.partition, offset), side, before=0, count=count,
        timeout=timeout,
    )  # fmt: skip
    with ExitStack() as stack:
        contents = _Contents(config, ContentFormat(wanted or "auto"), stack) if show else None
        if as_json:
            click.echo(json.dumps(_object(config.name, listing, contents)))
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
    from k2ktui.present.records import (
        content_lines,
        headers_text,
        offsets_text,
        size_text,
        time_text,
    )

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
        sizes = (
            f"key {size_text(_size(record.key))}, value {size_text(_size(record.value))}, "
            f"headers {headers_text(record)}"
        )
        is_repeated = side == "target" and is_equal
        click.echo(f"{where}: {time_text(record)}, {sizes}{', equal' if is_repeated else ''}")
        if not is_repeated:
            for name, text in content_lines(record, contents.show(record, side)):
                click.echo(f"    {name}: {text}")
    if listing.side == "both" and pair.source and pair.source.record and not is_equal:
        click.echo(f"  {safe_message(pair.result)}")


def _size(data: bytes | None) -> int | None:
    return None if data is None else len(data)


def _object(pipeline: str, listing: RecordListing, contents: _Contents | None) -> dict[str, Any]:
    place = listing.place
    return {
        "pipeline": pipeline,
        "topic": place.topic,
        "partition": place.partition,
        "offset": place.offset,
        "side": listing.side,
        "shown": contents is not None,
        "records": [_pair_object(pair, listing, contents) for pair in listing.pairs],
        "notes": list(listing.notes),
    }


def _pair_object(
    pair: RecordPair, listing: RecordListing, contents: _Contents | None
) -> dict[str, Any]:
    place = listing.place
    return {
        "source": _entry_object(pair.source, (place.topic, place.partition), "source", contents),
        "target": _entry_object(pair.target, pair.target_partition, "target", contents),
        "outcome": str(pair.compared.outcome) if pair.compared else None,
        "why": pair.compared.why if pair.compared else pair.why_no_copy,
    }


def _entry_object(
    entry: LogEntry | None, at: tuple[str, int] | None, side: str, contents: _Contents | None
) -> dict[str, Any] | None:
    from k2ktui.present.records import headers_size

    if entry is None or at is None:
        return None
    body: dict[str, Any] = {
        "topic": at[0],
        "partition": at[1],
        "first_offset": entry.first,
        "last_offset": entry.last,
        "state": str(entry.state),
        "reason": entry.reason,
    }
    record = entry.record
    if record is None:
        return body
    body |= {
        "timestamp_ms": record.timestamp_ms,
        "timestamp_type": str(record.timestamp_type),
        "key_size": _size(record.key),
        "value_size": _size(record.value),
        "header_count": len(record.headers),
        "headers_size": headers_size(record),
    }
    if contents is not None:
        shown = contents.show(record, side)
        body |= {
            "key": _content_object(shown.key),
            "value": _content_object(shown.value),
            "headers": [{"name": name, **_content_object(value)} for name, value in shown.headers],
        }
    return body


def _content_object(content: ShownContent) -> dict[str, Any]:
    is_null = content.size is None
    return {
        "format": None if is_null else str(content.format),
        "text": None if is_null else content.text,
        "size": content.size,
        "cut": content.is_cut,
        "note": content.note,
    }
