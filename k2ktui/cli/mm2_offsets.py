"""``k2ktui mm2 offsets``: the source positions of a MirrorMaker 2, and how it is selected."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from k2ktui.cli.changes import Change, ChangeFlags, change_flags, run_change
from k2ktui.cli.terminal import options
from k2ktui.cli.terminal.notes import print_note, print_notes
from k2ktui.cli.terminal.tables import print_json, print_table
from k2ktui.config.inputs import STDIN
from k2ktui.config.mirror_files import is_resource_file
from k2ktui.engine.moves.positions import MoveEffect, PositionMove, PositionPlan, SourceLog
from k2ktui.engine.moves.positions_text import parse_positions
from k2ktui.engine.name_pattern import pattern_of
from k2ktui.engine.records.state import SourcePartition
from k2ktui.errors import ConfigError, ExitCode, K2kError
from k2ktui.mm2.offsets.positions import (
    NOT_READ,
    Connector,
    parse_offsets_body,
    plan,
    reset_in_words,
)
from k2ktui.present.columns import Column, text_column
from k2ktui.present.formatting import number
from k2ktui.present.positions import move_object
from k2ktui.text import counted, safe_text

if TYPE_CHECKING:
    from k2ktui.mm2.flows.resources import StrimziResource
    from k2ktui.mm2.offsets.positions_backup import AppliedChange
    from k2ktui.mm2.offsets.positions_rest import RestPositions
    from k2ktui.mm2.offsets.positions_topic import TopicPositions

    Positions = RestPositions | TopicPositions

F = TypeVar("F", bound=Callable[..., Any])
_UNCHANGED = "Nothing was changed."
MIRROR_HELP = (
    "File of MirrorMaker 2: mm2.properties, a Strimzi resource or a connector's JSON; FILE#A->B "
    "selects one flow."
)
_CONNECT_OPTIONS = (
    options.value("--connector", "NAME", "Name of the MirrorSourceConnector.", default=""),
    options.value(
        "--connect-file", "FILE", "YAML file with url, user, password, tls and timeout.", default=""
    ),
    options.value("--connect url", "URL", "URL of Kafka Connect's REST interface.", default=""),
)
_CHANGE_OPTIONS = (
    options.yes,
    options.flag("--dry-run", "Show the plan without changing anything."),
    options.value("--namespace", "NAME", "Namespace of the Strimzi resource.", default=""),
    options.value(
        "--strimzi",
        "KIND/NAME",
        "Strimzi resource (kafkamirrormaker2/NAME or kafkaconnector/NAME): print "
        "the manifest to apply.",
        default="",
    ),
)
_Offsets = Mapping[SourcePartition, int | None]


def where_options(*file_names: str) -> Callable[[F], F]:
    """Add ``--connect``, ``--connect-file``, ``--connector``, and a file option by these names."""

    def add_options(function: F) -> F:
        for option in _CONNECT_OPTIONS:
            function = option(function)
        return click.option(*file_names, default="", metavar="FILE", help=MIRROR_HELP)(function)

    return add_options


def positions_of(*, mirror: str, url: str, connect_file: str, connector: str) -> Positions:
    """Return access to the positions of the MirrorMaker 2 that the options select.

    Raises:
        ConfigError: the options select none, or two.
        ConnectionFailed, TimedOut, K2kError: Connect is unreachable or reports an error.
    """
    file, _, name = mirror.partition("#")
    on_connect = bool(url or connect_file or connector)
    if mirror and on_connect and not is_resource_file(file):
        raise ConfigError(
            "give either mm2.properties (dedicated MirrorMaker 2) or --connect (MirrorMaker 2 on "
            "Kafka Connect)",
            unchanged=_UNCHANGED,
        )
    flow = None
    if not (mirror or on_connect):
        raise ConfigError(
            "which MirrorMaker 2 is meant is not given",
            unchanged=_UNCHANGED,
            hint="Give its file with -f (a takeover: --from), or Kafka Connect with --connect URL.",
        )
    if mirror:
        from k2ktui.mm2.flows.settings import load_settings
        from k2ktui.mm2.offsets.positions_topic import TopicPositions

        flow = load_settings(file).flow(name)
        if not (url or connect_file):
            if connector:
                raise ConfigError(
                    "--connector is given without --connect; the file already names its connector",
                    unchanged=_UNCHANGED,
                    hint="Give --connect URL, or FILE#NAME to select a connector of the file.",
                )
            return TopicPositions(flow)
    from k2ktui.mm2.flows.connect import Connect
    from k2ktui.mm2.flows.connect_settings import connect_settings
    from k2ktui.mm2.offsets.positions_rest import RestPositions

    if flow is not None and flow.connector is not None:
        connector = connector or flow.connector.name
    return RestPositions(Connect(connect_settings(url, connect_file)), connector, flow)


@click.group()
def offsets() -> None:
    """Show, set and clear MirrorMaker 2's source positions."""


def _change_options(function: Callable[..., Any]) -> Callable[..., Any]:
    function = change_flags(function)
    for option in _CHANGE_OPTIONS:
        function = option(function)
    return options.json(where_options("-f", "--file", "mirror")(function))


@offsets.command()
@options.json
@where_options("-f", "--file", "mirror")
def show(as_json: bool, **where: str) -> None:
    """Show each partition's position and log bounds."""
    positions = positions_of(**where)
    connector = positions.read()
    logs = _bounds(positions, connector.positions) or {}
    rows = [_Row(s, at, logs.get(s)) for s, at in sorted(connector.positions.items())]
    if as_json:
        shown = {
            "connector": connector.name,
            "source_alias": connector.cluster,
            "state": connector.state,
            "auto_offset_reset": connector.reset,
            # Next offsets; null is unknown or none.
            "partitions": [
                {
                    "topic": row.source.topic,
                    "partition": row.source.partition,
                    "position": row.position,
                    "source_start": row.log.start if row.log else None,
                    "high_watermark": row.log.end if row.log else None,
                    "lag_records": row.lag,
                }
                for row in rows
            ],
        }
        print_json(shown)
        return
    print_table(f"{safe_text(connector.name)}, {safe_text(connector.state)}", ROWS, rows)
    print_note(reset_in_words(connector.reset))


@offsets.command(name="set")
@_change_options
@options.value(
    "--from payload", "FILE", "JSON file of positions, in the format of Connect's REST API."
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
        return _change(lambda connector: _read_positions(payload, connector), **options)
    parsed = parse_positions(positions, _UNCHANGED)
    return _change(lambda _: parsed, **options)


@offsets.command()
@_change_options
@options.value(
    "--topic", "REGEX", "Source topics whose partitions are cleared; the whole name must match."
)
@click.argument("partitions", nargs=-1, metavar="[TOPIC:PARTITION]...")
def clear(topic: str | None, partitions: tuple[str, ...], **options: Any) -> int:
    """Remove positions; the partitions then start as new ones."""
    if bool(partitions) == (topic is not None):
        raise ConfigError("give either partitions or --topic", unchanged=_UNCHANGED)
    words = [f"{partition}:0" for partition in partitions]
    named = dict.fromkeys(parse_positions(words, _UNCHANGED))
    if topic is None:
        return _change(lambda _: named, **options)
    matches = pattern_of("--topic", topic)
    return _change(lambda c: dict.fromkeys(s for s in c.positions if matches(s.topic)), **options)


def _change(
    offsets_for: Callable[[Connector], _Offsets],
    *,
    strimzi: str,
    namespace: str,
    flags: ChangeFlags,
    **where: str,
) -> int:
    """Change positions; findings if the connector has failed since."""
    on_connect = where["url"] or where["connect_file"]
    if strimzi or (not on_connect and _strimzi_resource(where["mirror"], namespace)):
        click.echo(_for_strimzi(offsets_for, strimzi, namespace, **where), nl=False)
        return ExitCode.OK
    positions = positions_of(**where)
    connector = positions.read()
    asked = offsets_for(connector)
    change = plan(connector, asked, _bounds(positions, asked))

    def show() -> None:
        title = f"Positions of {safe_text(connector.name)}, {safe_text(connector.state)}"
        print_table(title, MOVES, change.moves)
        print_notes(change.notes)

    def apply() -> AppliedChange:
        done = positions.apply(change, print_note)
        if where["mirror"]:  # a dedicated MirrorMaker 2's journal: k2ktui journal -f FILE
            from k2ktui.mm2.mirror_flow import load_mirror
            from k2ktui.mm2.offsets.positions_backup import write_journal

            note = write_journal(load_mirror(where["mirror"])[0].config, change)
            print_notes(filter(None, [note]))
        return done

    def report(done: AppliedChange) -> None:
        count = counted(len(change.changes), "position")
        click.echo(f"{count} changed; the connector is {safe_text(done.state)}.")
        again = f"k2ktui mm2 offsets set --from {safe_text(done.before)}"
        click.echo(f"To undo, use the same options with: {again}", err=True)

    def finish(done: AppliedChange | None) -> int:
        if done is None or not (done.state == "FAILED" or done.trace):
            return ExitCode.OK
        print_note(f"the connector has failed since: {done.trace}")
        return ExitCode.FINDINGS

    effect = f"change {len(change.changes):,} of its positions" if change.changes else ""
    declared: Change[AppliedChange] = Change(
        change.pipeline,
        effect,
        show=show,
        apply=apply,
        report=report,
        as_json=lambda done: _change_object(change, done),
        finish=finish,
    )
    return run_change(declared, flags)


def _for_strimzi(
    offsets_for: Callable[[Connector], _Offsets], strimzi: str, namespace: str, **where: str
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
        asked = offsets_for(connector)
        change = plan(connector, asked, _bounds(positions, asked))
    else:
        connector = unreachable_connector(where["connector"])
        change = plan(connector, offsets_for(connector), None)
    meanings = [f"{safe_text(m.source)}: {text}" for m in change.changes if (text := _meaning(m))]
    print_notes([*change.notes, *meanings])
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


def _bounds(
    positions: Positions, sources: Collection[SourcePartition]
) -> dict[SourcePartition, SourceLog] | None:
    """Return the bounds of the source's logs, None if the source is not reachable from here."""
    try:
        return positions.bounds(sources)
    except K2kError as error:
        print_note(f"the source cluster was not read: {error.message}")
        return None


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


def _change_object(change: PositionPlan, done: AppliedChange | None) -> dict[str, Any]:
    return {
        "connector": change.pipeline,
        "source_alias": change.alias,
        "applied": done is not None,
        "before": str(done.before) if done else None,
        "state": done.state if done else None,
        "notes": list(change.notes),
        "moves": [move_object(move) for move in change.moves],
    }


def _meaning(move: PositionMove) -> str:
    if move.effect is MoveEffect.CLEAR:
        return "starts as a new partition"
    if move.again:
        return f"up to {move.again:,} copied again"
    return f"up to {move.left_out:,} skipped" if move.left_out else ""


class _Row(NamedTuple):
    """A stored position, and the source's log if it was read."""

    source: SourcePartition
    position: int
    log: SourceLog | None

    @property
    def lag(self) -> int | None:
        """Source offsets that are not copied yet."""
        log = self.log
        return max(0, log.end - max(self.position, log.start)) if log is not None else None


ROWS: tuple[Column[_Row], ...] = (
    text_column("topic-partition", lambda row: safe_text(row.source), left=True),
    text_column("position", lambda row: number(row.position)),
    text_column("log start", lambda row: number(row.log.start if row.log else None)),
    text_column("high watermark", lambda row: number(row.log.end if row.log else None)),
    text_column("lag", lambda row: number(row.lag)),
)
MOVES: tuple[Column[PositionMove], ...] = (
    text_column("topic-partition", lambda move: safe_text(move.source), left=True),
    text_column("now", lambda move: number(move.now)),
    text_column("new", lambda move: number(move.offset)),
    text_column("effect", lambda move: str(move.effect), left=True),
    text_column("means", _meaning, left=True),
)
