"""``k2ktui mm2 offsets show|set|clear``: the source positions of a MirrorSourceConnector."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from k2ktui.cli.mm2.where import positions_of, where_options
from k2ktui.cli.terminal.confirm import confirm
from k2ktui.cli.terminal.notes import print_note, print_notes
from k2ktui.cli.terminal.options import json_option
from k2ktui.cli.terminal.tables import print_table
from k2ktui.config.inputs import STDIN
from k2ktui.config.mirror_files import is_resource_file
from k2ktui.engine.name_pattern import pattern_of
from k2ktui.engine.records.state import SourcePartition
from k2ktui.errors import ConfigError, ExitCode, K2kError
from k2ktui.mm2.offsets.positions import (
    NOT_READ,
    Bounds,
    Connector,
    StoredChange,
    StoredMove,
    StoredMoveEffect,
    parse_offsets_body,
    plan,
    reset_in_words,
)
from k2ktui.present.columns import Column, text_column
from k2ktui.present.formatting import number
from k2ktui.text import counted, safe_message, safe_text

if TYPE_CHECKING:
    from k2ktui.cli.mm2.where import Positions
    from k2ktui.mm2.flows.resources import StrimziResource
    from k2ktui.mm2.offsets.positions_backup import AppliedChange

_UNCHANGED = "Nothing was changed."
_FAILED = "FAILED"

Wanted = Mapping[SourcePartition, int | None]


@click.group(name="offsets")
def command() -> None:
    """Show, set and clear MirrorMaker 2's source positions."""


def _where(function: Callable[..., Any]) -> Callable[..., Any]:
    return json_option(where_options("-f", "--file", "mirror")(function))


def _change_options(function: Callable[..., Any]) -> Callable[..., Any]:
    for option in (
        click.option("--yes", is_flag=True, help="Skip the confirmation."),
        click.option("--dry-run", is_flag=True, help="Show the plan without changing anything."),
        click.option(
            "--namespace", default="", metavar="NAME", help="Namespace of the Strimzi resource."
        ),
        click.option(
            "--strimzi",
            default="",
            metavar="KIND/NAME",
            help="Strimzi resource (kafkamirrormaker2/NAME or kafkaconnector/NAME): print "
            "the manifest to apply.",
        ),
    ):
        function = option(function)
    return _where(function)


@command.command()
@_where
def show(as_json: bool, **where: str) -> None:
    """Show each partition's position and log bounds."""
    positions = positions_of(**where)
    connector = positions.read()
    logs = _bounds(positions, connector.positions) or {}
    rows = [StoredMove(s, at, at, logs.get(s)) for s, at in sorted(connector.positions.items())]
    if as_json:
        shown = {
            "connector": connector.name,
            "source_alias": connector.cluster,
            "state": connector.state,
            "auto_offset_reset": connector.reset,
            "partitions": [_row_object(row) for row in rows],
        }
        click.echo(json.dumps(shown))
        return
    print_table(f"{safe_text(connector.name)}, {safe_text(connector.state)}", ROWS, rows)
    print_note(reset_in_words(connector.reset))


@command.command(name="set")
@_change_options
@click.option(
    "--from",
    "payload",
    metavar="FILE",
    help="JSON file of positions, in the format of Connect's REST API.",
)
@click.argument("positions", nargs=-1, metavar="[TOPIC:PARTITION:OFFSET]...")
def set_(payload: str | None, positions: tuple[str, ...], **options: Any) -> int:
    """Set positions; OFFSET is the next offset to copy.

    A connector is stopped, changed, read back and resumed. A dedicated MirrorMaker 2 must be
    stopped beforehand; this is verified first.
    """
    if bool(positions) == (payload is not None):
        raise ConfigError("give either positions or --from", unchanged=_UNCHANGED)
    if payload is not None:
        return _run(lambda connector: _read_positions(payload, connector), **options)
    parsed = _parse_positions(positions)
    return _run(lambda _: parsed, **options)


@command.command()
@_change_options
@click.option(
    "--topic",
    metavar="REGEX",
    help="Source topics whose partitions are cleared; the whole name must match.",
)
@click.argument("partitions", nargs=-1, metavar="[TOPIC:PARTITION]...")
def clear(topic: str | None, partitions: tuple[str, ...], **options: Any) -> int:
    """Remove positions; the partitions then start as new ones."""
    if bool(partitions) == (topic is not None):
        raise ConfigError("give either partitions or --topic", unchanged=_UNCHANGED)
    named = dict.fromkeys(_parse_positions(f"{partition}:0" for partition in partitions))
    if topic is None:
        return _run(lambda _: named, **options)
    matches = pattern_of("--topic", topic)
    return _run(lambda c: dict.fromkeys(s for s in c.positions if matches(s.topic)), **options)


def _run(
    wanted: Callable[[Connector], Wanted],
    *,
    yes: bool,
    dry_run: bool,
    strimzi: str,
    namespace: str,
    as_json: bool,
    **where: str,
) -> int:
    """Plan the change, show it, ask for confirmation and apply it."""
    on_connect = where["url"] or where["connect_file"]
    if strimzi or (not on_connect and _strimzi_resource(where["mirror"], namespace)):
        click.echo(_for_strimzi(wanted, strimzi, namespace, **where), nl=False)
        return ExitCode.OK
    positions = positions_of(**where)
    connector = positions.read()
    asked = wanted(connector)
    change = plan(connector, asked, _bounds(positions, asked))
    if not as_json:
        _show(connector, change)
    if dry_run or not change.changes:
        if as_json:
            click.echo(json.dumps(_change_object(change, None)))
        elif not change.changes:
            click.echo("Nothing to change.", err=True)
        return ExitCode.OK
    confirm(change.connector, f"change {len(change.changes):,} of its positions", yes=yes)
    done = positions.apply(change, print_note)
    if where["mirror"]:
        _journal(where["mirror"], change)
    return _print_result(change, done, as_json=as_json)


def _journal(mirror: str, change: StoredChange) -> None:
    """Write a dedicated MirrorMaker 2's change to its journal (k2ktui journal -f FILE)."""
    from k2ktui.mm2.mirror_flow import load_mirror
    from k2ktui.mm2.offsets.positions_backup import write_journal

    note = write_journal(load_mirror(mirror)[0].config, change)
    if note:
        print_note(note)


def _for_strimzi(
    wanted: Callable[[Connector], Wanted], strimzi: str, namespace: str, **where: str
) -> str:
    """Return the manifest to apply; the connector's state is read if it is reachable."""
    from k2ktui.mm2.flows.resources import parse_resource
    from k2ktui.mm2.offsets.strimzi import manifest, unreachable_connector

    place = _strimzi_resource(where["mirror"], namespace)
    if strimzi:
        given = parse_resource(strimzi, namespace)
        same = place is not None and (place.kind, place.name) == (given.kind, given.name)
        place = place if same else given
    assert place is not None
    if where["url"] or where["connect_file"] or where["mirror"]:
        positions = positions_of(**where)
        connector = _read_if_known(positions)
        asked = wanted(connector)
        change = plan(connector, asked, _bounds(positions, asked))
    else:
        connector = unreachable_connector(where["connector"])
        change = plan(connector, wanted(connector), None)
    print_notes([*change.notes, *_meanings(change)])
    if not change.moves:
        raise ConfigError("Nothing to apply.", hint="Give --connect URL with --topic.")
    return manifest(place, change)


def _strimzi_resource(mirror: str, namespace: str) -> StrimziResource | None:
    """Return the Strimzi resource that the file of ``-f`` defines, if it is one."""
    file, _, flow = mirror.partition("#")
    if not is_resource_file(file):
        return None
    from k2ktui.mm2.flows.settings import load_settings

    connector = load_settings(file, filled=False).flow(flow).connector
    place = connector.resource if connector else None
    return replace(place, namespace=namespace) if place and namespace else place


def _read_if_known(positions: Positions) -> Connector:
    """Return the connector, without positions if they cannot be read."""
    try:
        return positions.read()
    except K2kError as error:
        flow = positions.flow
        if flow.connector is None:
            raise
        print_note(f"the current positions were not read: {error.message}")
        return Connector(flow.connector.name, flow.source_alias, NOT_READ, flow.reset, {})


def _meanings(change: StoredChange) -> list[str]:
    return [f"{safe_text(m.source)}: {said}" for m in change.changes if (said := _meaning(m))]


def _print_result(change: StoredChange, done: AppliedChange, *, as_json: bool) -> int:
    if as_json:
        click.echo(json.dumps(_change_object(change, done)))
    else:
        click.echo(
            f"{counted(len(change.changes), 'position')} changed; "
            f"the connector is {safe_text(done.state)}."
        )
        before = safe_text(done.before)
        click.echo(
            f"To undo, use the same options with: k2ktui mm2 offsets set --from {before}",
            err=True,
        )
    if done.state == _FAILED or done.trace:
        click.echo(f"note: the connector has failed since: {safe_message(done.trace)}", err=True)
        return ExitCode.FINDINGS
    return ExitCode.OK


def _bounds(
    positions: Positions, sources: Collection[SourcePartition]
) -> dict[SourcePartition, Bounds] | None:
    """Return the bounds of the source's logs, None if the source is not reachable from here."""
    try:
        return positions.bounds(sources)
    except K2kError as error:
        click.echo(f"note: the source cluster was not read: {error.message}", err=True)
        return None


def _parse_positions(texts: Iterable[str]) -> dict[SourcePartition, int]:
    from k2ktui.sync.moves.positions_text import parse_positions

    try:
        return parse_positions(texts)
    except ConfigError as error:
        raise ConfigError(error.message, unchanged=_UNCHANGED, hint=error.hint) from error


def _read_positions(name: str, connector: Connector) -> dict[SourcePartition, int | None]:
    try:
        text = Path("/dev/stdin" if name == STDIN else name).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise ConfigError(f"{safe_text(name)}: {why}", unchanged=_UNCHANGED) from error
    positions = parse_offsets_body(text)
    others = {alias for alias, _ in positions} - {connector.cluster}
    if others:
        raise ConfigError(
            f"{safe_text(name)} has positions of source cluster {safe_text(min(others))}; "
            f"{safe_text(connector.name)} copies from cluster {safe_text(connector.cluster)}",
            unchanged=_UNCHANGED,
        )
    return {source: position for (_, source), position in positions.items()}


def _show(connector: Connector, change: StoredChange) -> None:
    title = f"Positions of {safe_text(connector.name)}, {safe_text(connector.state)}"
    print_table(title, MOVES, change.moves)
    print_notes(change.notes)


def _row_object(move: StoredMove) -> dict[str, Any]:
    """Return a position as ``--json`` prints it: next offsets; null is unknown or none."""
    return {
        "topic": move.source.topic,
        "partition": move.source.partition,
        "position": move.before,
        "source_start": move.bounds.start if move.bounds else None,
        "high_watermark": move.bounds.end if move.bounds else None,
        "lag_records": _lag(move),
    }


def _change_object(change: StoredChange, done: AppliedChange | None) -> dict[str, Any]:
    return {
        "connector": change.connector,
        "source_alias": change.cluster,
        "applied": done is not None,
        "before": str(done.before) if done else None,
        "state": done.state if done else None,
        "notes": list(change.notes),
        "moves": [
            {
                "topic": move.source.topic,
                "partition": move.source.partition,
                "position": move.before,
                "new": move.after,
                "effect": str(move.effect),
                "again": move.again,
                "left_out": move.left_out,
            }
            for move in change.moves
        ],
    }


def _lag(move: StoredMove) -> int | None:
    if move.bounds is None or move.before is None:
        return None
    return max(0, move.bounds.end - max(move.before, move.bounds.start))


def _meaning(move: StoredMove) -> str:
    if move.effect is StoredMoveEffect.CLEAR:
        return "starts as a new partition"
    if move.again:
        return f"up to {move.again:,} copied again"
    return f"up to {move.left_out:,} skipped" if move.left_out else ""


ROWS: tuple[Column[StoredMove], ...] = (
    text_column("topic-partition", lambda move: safe_text(move.source), left=True),
    text_column("position", lambda move: number(move.before)),
    text_column("log start", lambda move: number(move.bounds.start if move.bounds else None)),
    text_column("high watermark", lambda move: number(move.bounds.end if move.bounds else None)),
    text_column("lag", lambda move: number(_lag(move))),
)
MOVES: tuple[Column[StoredMove], ...] = (
    text_column("topic-partition", lambda move: safe_text(move.source), left=True),
    text_column("now", lambda move: number(move.before)),
    text_column("new", lambda move: number(move.after)),
    text_column("effect", lambda move: str(move.effect), left=True),
    text_column("means", _meaning, left=True),
)
