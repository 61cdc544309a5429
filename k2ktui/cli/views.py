"""``k2ktui status``, ``watch`` and ``fleet``: one view of a pipeline, many of it, those of many."""

from __future__ import annotations

import os
import queue
import sys
import time
from collections.abc import Collection, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from k2ktui.cli.console import load_compared, mirrormaker_option
from k2ktui.cli.terminal import options
from k2ktui.cli.terminal.files import choose_directory, load_flow
from k2ktui.cli.terminal.notes import print_note, print_notes
from k2ktui.cli.terminal.streams import ended_code, note_signals
from k2ktui.cli.terminal.tables import print_json, print_pair, print_table
from k2ktui.engine.severity import Severity
from k2ktui.errors import ConfigError, ExitCode, K2kError
from k2ktui.present.columns import Column, pick, text_column
from k2ktui.present.formatting import NOT_AVAILABLE, WORDS, age, moment
from k2ktui.text import counted, safe_text

if TYPE_CHECKING:
    from k2ktui.config.model import PipelineConfig
    from k2ktui.engine.moves.groups import GroupRow
    from k2ktui.engine.producers import Writer
    from k2ktui.fleet.files import PipelineFile
    from k2ktui.fleet.model import FleetRow
    from k2ktui.watch.feed import Feed
    from k2ktui.watch.model import PartitionRow, View
    from k2ktui.watch.once import Reading
    from k2ktui.watch.recording import Recorder, RecordingDirectory

# Rows that were not read by then are printed as unknown.
READ_S = 120.0
_TICK_S = 0.5
# For so long it is watched who writes.
_WRITERS_S = 5.0
_ONCE_S = 30.0
_LEAST_KEEP_S = 3_600.0


@click.command(help="Show positions, lag and coverage; works while no job is running.")
@options.reading
@options.flag("--groups with_groups", "Include consumer groups.")
@options.flag("--producers with_producers", "Include who writes to the source, watched for 5 s.")
def status(files: tuple[str, ...], as_json: bool, with_groups: bool, with_producers: bool) -> None:
    """Read both clusters once and print; if the source is down, the target's data alone."""
    from k2ktui.watch.once import read_once

    flow = load_flow(files)
    reading = read_once(flow, groups=with_groups, drills=True)
    error: K2kError | None = reading.source_error or reading.groups_error
    writers, unread = None, ""
    if with_producers and reading.source_error is None:
        keys = [row.key for row in reading.view.partitions]
        try:
            writers, unread = watch_writers(flow.config, keys)
        except K2kError as failed:
            error = error or failed
    if as_json:
        printed = status_object(reading, with_groups=with_groups, writers=writers)
        printed["notes"] += [unread] if unread else []
        print_json(printed)
    else:
        print_status(flow.config, reading, with_groups=with_groups, writers=writers)
        _print_sentences([f"{unread}."] if unread else [])
    if error is not None:
        raise error


def print_status(
    config: PipelineConfig,
    reading: Reading,
    *,
    with_groups: bool,
    writers: Sequence[Writer] | None = None,
) -> None:
    """Print what was read, in tables and sentences."""
    from k2ktui.present.failover import failover_lines, objectives_line
    from k2ktui.present.groups import mappings_lines
    from k2ktui.present.pair_state import moved_lines
    from k2ktui.watch.severity import find_problems

    view, error = reading.view, reading.source_error or reading.groups_error
    print_pair(config, view.pair_state)
    notes = reading.status().notes
    print_notes(note for note in notes if error is None or note != error.message)
    title = f"{safe_text(view.pair.pipeline)} at {moment(view.taken_at)}"
    print_table(title, partition_table_columns(reading), view.partitions)
    for at in (row.status for row in view.partitions):
        for why in (at.held.text() if at.held is not None else "", safe_text(at.hold)):
            if why:
                click.echo(f"{safe_text(at.topic)}-{at.partition}: {why}")
    for line in view.other_writers.describe() if view.other_writers is not None else ():
        click.echo(line)
    problems = find_problems(view, view.taken_at)
    _print_sentences([one.message for one in problems if one.kind == "job"])
    _print_sentences([*moved_lines(view), *mappings_lines(view)])
    if view.groups:
        print_table("Consumer groups", group_columns(), view.groups)
    if writers is not None:
        print_writers(writers)
    if view.objectives and not view.is_left:
        _print_sentences([objectives_line(view)])
    if view.last_comparison is not None:
        _print_sentences([view.last_comparison.describe()])
    if with_groups:
        for line in failover_lines(view, view.taken_at):
            click.echo(line)


def watch_writers(
    config: PipelineConfig, partitions: Collection[tuple[str, int]]
) -> tuple[Sequence[Writer], str]:
    """Return who writes to partitions of the source while they are watched.

    The second value says that some partitions were not read in that time; "" if all were.
    """
    from k2ktui.kafka.clients import source_cluster
    from k2ktui.log.writers import WriterWatch

    with closing(WriterWatch(source_cluster(config))) as watch:
        until = time.monotonic() + _WRITERS_S
        while True:
            writers = watch.poll(partitions)
            if time.monotonic() >= until:
                return writers, describe_unread(len(watch.unread))
            time.sleep(_TICK_S)


def describe_unread(partitions: int) -> str:
    """Return that of so many partitions no new record was read; "" for none."""
    if not partitions:
        return ""
    count = counted(partitions, "partition")
    return f"{count} with new records could not be read in this time: producers may be missing"


def print_writers(writers: Sequence[Writer]) -> None:
    """Print a table of producers."""
    from k2ktui.engine.producers import UNKNOWN
    from k2ktui.present.partitions import writer_columns

    print_table(f"Producers on the source in {_WRITERS_S:g} s", writer_columns(), writers)
    _print_sentences([f"{UNKNOWN}."])


def _print_sentences(lines: Sequence[str]) -> None:
    for line in lines:
        click.echo(f"{line[0].upper()}{line[1:]}")


def status_object(
    reading: Reading, *, with_groups: bool = False, writers: Sequence[Writer] | None = None
) -> dict[str, Any]:
    """Return what ``--json`` prints."""
    view, printed = reading.view, reading.status().as_json()
    if with_groups:
        printed["groups"] = [row.as_json() for row in view.groups]
        printed["failover"] = view.failover.as_json()
    if writers is not None:
        printed["producers"] = [writer.as_json() for writer in writers]
    return printed


def group_columns() -> tuple[Column[GroupRow], ...]:
    """Return the columns of a table of groups."""
    from k2ktui.present.groups import row_columns

    return pick(
        row_columns(WORDS),
        *("group", "partition", "states", "source", "lag", "behind", "target", "translated"),
        *("basis", "divergence"),
        *("skipped-now", "reread-now", "skipped", "reread", "why"),
    )


def partition_table_columns(reading: Reading) -> tuple[Column[PartitionRow], ...]:
    from k2ktui.present.partitions import partition_columns

    shown = pick(
        partition_columns(WORDS),
        *("partition", "state", "path", "position", "end", "lag", "behind", "held-back"),
        *("target", "target-end", "mapped", "coverage", "unmapped"),
    )
    if reading.source_error is None:
        return shown
    now = reading.view.taken_at

    def copied(row: PartitionRow) -> str:
        at = row.status.copied_at
        return NOT_AVAILABLE if at is None else f"{age(now - at)} ago"

    return (*shown, text_column("copied", copied))


@click.command(help="Show the pipelines of a directory of pipeline files, the worst first.")
@options.directory
@options.json
def fleet(directory: Path, as_json: bool) -> int:
    """Read every pipeline once and print a row for each; findings if one is serious."""
    from k2ktui.fleet.files import read_directory

    return print_once(read_directory(directory), as_json=as_json)


def print_once(files: Sequence[PipelineFile], *, as_json: bool) -> int:
    """Read every pipeline once and print a row for each; findings if one is serious."""
    from k2ktui.fleet.feed import read_fleet

    rows = read_fleet(files, READ_S)
    print_fleet(rows, as_json=as_json)
    is_serious = any(row.severity in (Severity.BAD, Severity.UNKNOWN) for row in rows)
    return ExitCode.FINDINGS if is_serious else ExitCode.OK


def print_fleet(rows: Sequence[FleetRow], *, as_json: bool) -> None:
    """Print the rows, the worst first: a table, or one line of JSON."""
    from k2ktui.fleet.model import worst_first
    from k2ktui.present.fleet import fleet_columns

    rows, now = worst_first(rows), time.time()
    if as_json:
        print_json({"pipelines": [row.as_json() for row in rows]})
    else:
        print_table(f"Pipelines at {moment(now)}", fleet_columns(WORDS, lambda: now), rows)
    sys.stdout.flush()


def _parse_keep(context: click.Context, option: click.Parameter, value: str | None) -> float | None:
    from k2ktui.config.scalars import parse_duration

    if value is None:
        return None
    try:
        seconds = parse_duration(value)
    except ValueError as error:
        raise click.BadParameter(f"{safe_text(value, 40)} is not {error}.") from error
    if seconds < _LEAST_KEEP_S:
        raise click.BadParameter("the least is 1 hour.")
    return seconds


@click.command(
    help="Print lag, coverage, groups and jobs repeatedly, for logs and screen readers; of one "
    "pipeline, or of all of a directory."
)
@options.optional_file
@options.value(
    "-d --directory",
    "DIR",
    "Directory of pipeline files: print a row for each.  [default without -f: "
    "~/.config/k2ktui/pipelines, if it exists]",
)
@options.flag("--plain", "Text output (the default).")
@options.interval
@options.flag("--once", "Print once, then exit; the exit code is 1 if there is a serious problem.")
@mirrormaker_option
@options.value("--record", "FILE", "New file to record to; with --keep, a directory of them.")
@options.value(
    "--keep",
    "TIME",
    "Record to a directory: a new file a day (an hour, below 2 days), kept for this time, such as "
    "7d.",
    callback=_parse_keep,
)
@options.value("--replay", "FILE", "Recording to print from beginning to end.")
@options.flag(
    "--metrics",
    "With -d, serve the pipelines' metrics to Prometheus (default: localhost:9464), and "
    "print only with --plain or --json.",
)
@options.json
def watch(
    files: tuple[str, ...],
    directory: str | None,
    plain: bool,
    interval: float,
    once: bool,
    mirrormaker: str | None,
    record: str | None,
    keep: float | None,
    replay: str | None,
    metrics: bool,
    as_json: bool,
) -> int:
    """Print views until SIGINT or SIGTERM; with --once, findings if there is a bad problem."""
    if plain and as_json:
        raise ConfigError("--plain and --json cannot be combined")
    if keep and (once or not record):
        why = "--once and --keep cannot be combined" if once else "--keep needs --record DIR"
        raise ConfigError(why, unchanged="Nothing was recorded.")
    directory = choose_directory(files, replay, directory)
    if directory:
        if mirrormaker or record:
            option = "--mirrormaker" if mirrormaker else "--record"
            raise ConfigError(f"{option} and -d cannot be combined: watch one pipeline with -f")
        if once and metrics:
            raise ConfigError("--once and --metrics cannot be combined")
        prints = plain or as_json or not metrics
        return _watch_directory(
            Path(directory), interval, once=once, metrics=metrics, prints=prints, as_json=as_json
        )
    if metrics:
        raise ConfigError(
            "--metrics is for the pipelines of a directory: give it with -d",
            unchanged="Nothing was started.",
            hint="A run serves the metrics of its own pipeline: k2ktui start --http PORT.",
        )
    if replay and mirrormaker:
        raise ConfigError("--replay and --mirrormaker cannot be combined")
    if replay:
        return _replay(Path(replay), once=once, as_json=as_json)
    from k2ktui.watch.feed import MIN_INTERVAL_S
    from k2ktui.watch.poller import open_poller

    flow = load_flow(files)
    if once:
        interval = MIN_INTERVAL_S  # ends with the first view that is complete and settled
    feed = open_poller(flow, interval, load_compared(mirrormaker, flow))
    recorder = _open_recorder(record, flow.config.name, keep)
    return _print_live(feed, recorder, once=once, as_json=as_json)


def _open_recorder(
    record: str | None, pipeline: str, keep: float | None
) -> Recorder | RecordingDirectory | None:
    if record is None:
        return None
    from k2ktui.watch.recording import Recorder, RecordingDirectory

    path = Path(record)
    return Recorder(path) if keep is None else RecordingDirectory(path, pipeline, keep)


def _watch_directory(
    directory: Path, interval: float, *, once: bool, metrics: bool, prints: bool, as_json: bool
) -> int:
    """Print all pipelines of a directory repeatedly, serve their metrics, or both.

    The first time is when all were read, or after the interval: a cluster that does not answer
    delays nothing.
    """
    from k2ktui.fleet.feed import FleetFeed
    from k2ktui.fleet.files import read_directory

    files = read_directory(directory)
    if once:
        return print_once(files, as_json=as_json)
    ended = note_signals()
    feed = FleetFeed(files, interval)
    with ExitStack() as stack:
        stack.callback(feed.end)
        if metrics:
            from k2ktui.fleet.metrics import serve_metrics

            stack.enter_context(serve_metrics(feed, print_note, os.environ))
        feed.begin()
        due, is_first = time.monotonic() + feed.interval, True
        while not ended:
            is_ready = is_first and all(row.taken_at is not None for row in feed.rows)
            if prints and (is_ready or time.monotonic() >= due):
                print_fleet(feed.rows, as_json=as_json)
                due, is_first = time.monotonic() + feed.interval, False
            time.sleep(_TICK_S)
    return ended_code(ended)


def _replay(path: Path, *, once: bool, as_json: bool) -> int:
    from k2ktui.watch.recording import Recording

    recording = Recording(path)
    numbers = [len(recording) - 1] if once else range(len(recording))
    for number in numbers:
        view = recording.view(number)
        _print(view, view.taken_at, as_json=as_json)
    recording.close()
    return _code(view, view.taken_at) if once else ExitCode.OK


def _print_live(
    feed: Feed, recorder: Recorder | RecordingDirectory | None, *, once: bool, as_json: bool
) -> int:
    noted = ""
    seen: queue.SimpleQueue[View] = queue.SimpleQueue()
    ended = note_signals()
    feed.start(seen.put)
    code, until = int(ExitCode.OK), time.monotonic() + _ONCE_S
    try:
        while not ended:
            try:
                view = seen.get(timeout=_TICK_S)
            except queue.Empty:
                continue
            is_enough = view.whole and view.settled and not view.awaits_mapping
            if once and not is_enough and time.monotonic() < until:
                continue
            _print(view, feed.now(), as_json=as_json)
            if recorder:
                recorder.add(view)
                if recorder.error not in ("", noted):
                    print_note(recorder.error)
                noted = recorder.error
            if once:
                code = _code(view, feed.now())
                break
    finally:
        feed.close()
        if recorder:
            recorder.close()
    return ended_code(ended, code)


def _print(view: View, now: float, *, as_json: bool) -> None:
    from k2ktui.present.view_lines import view_lines
    from k2ktui.watch.codec import dumps

    click.echo(dumps(view) if as_json else "\n".join(view_lines(view, now)))
    sys.stdout.flush()


def _code(view: View, now: float) -> int:
    from k2ktui.watch.model import PartName
    from k2ktui.watch.severity import find_problems

    clusters = (view.part(name) for name in (PartName.SOURCE, PartName.TARGET))
    unread = [part for part in clusters if part.taken_at is None]
    if unread:
        refused = any(part.error and not part.timed_out for part in unread)
        return ExitCode.CONNECTION if refused else ExitCode.TIMEOUT
    bad = any(problem.severity is Severity.BAD for problem in find_problems(view, now))
    bad = bad or not view.settled  # seen as bad once, and not refuted by a later reading
    return ExitCode.FINDINGS if bad or not view.has_run else ExitCode.OK
