"""``k2ktui watch``: the console's data as lines or JSON, live or from a recording."""

from __future__ import annotations

import os
import queue
import signal
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import click

from k2ktui.cli.mirrormaker_option import load_compared, mirrormaker_option
from k2ktui.cli.terminal.notes import print_note
from k2ktui.cli.terminal.options import (
    choose_directory,
    interval_option,
    json_option,
    load_flow,
    optional_file_option,
)
from k2ktui.cli.terminal.streams import ending_signals
from k2ktui.errors import ConfigError, ExitCode

if TYPE_CHECKING:
    from k2ktui.watch.feed import Feed
    from k2ktui.watch.model import View

_TICK_S = 0.5
_ONCE_S = 30.0


@click.command(
    help="Print lag, coverage, groups and jobs repeatedly, for logs and screen readers; of one "
    "pipeline, or of all of a directory."
)
@optional_file_option
@click.option(
    "-d",
    "--directory",
    metavar="DIR",
    help="Directory of pipeline files: print a row for each.  [default without -f: "
    "~/.config/k2ktui/pipelines, if it exists]",
)
@click.option("--plain", is_flag=True, help="Text output (the default).")
@interval_option
@click.option(
    "--once",
    is_flag=True,
    help="Print once, then exit; the exit code is 1 if there is a serious problem.",
)
@mirrormaker_option
@click.option("--record", metavar="FILE", help="New file to record to.")
@click.option("--replay", metavar="FILE", help="Recording to print from beginning to end.")
@click.option(
    "--metrics",
    is_flag=True,
    help="With -d, serve the pipelines' metrics to Prometheus (default: localhost:9464), and "
    "print only with --plain or --json.",
)
@json_option
def command(
    files: tuple[str, ...],
    directory: str | None,
    plain: bool,
    interval: float,
    once: bool,
    mirrormaker: str | None,
    record: str | None,
    replay: str | None,
    metrics: bool,
    as_json: bool,
) -> int:
    """Print views until SIGINT or SIGTERM; with --once, findings if there is a bad problem."""
    if plain and as_json:
        raise ConfigError("--plain and --json cannot be combined")
    directory = choose_directory(files, replay, directory)
    if directory:
        _check_directory(once=once, metrics=metrics, mirrormaker=mirrormaker, record=record)
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
    return _print_live(feed, Path(record) if record else None, once=once, as_json=as_json)


def _check_directory(
    *, once: bool, metrics: bool, mirrormaker: str | None, record: str | None
) -> None:
    if mirrormaker or record:
        option = "--mirrormaker" if mirrormaker else "--record"
        raise ConfigError(f"{option} and -d cannot be combined: watch one pipeline with -f")
    if once and metrics:
        raise ConfigError("--once and --metrics cannot be combined")


def _watch_directory(
    directory: Path, interval: float, *, once: bool, metrics: bool, prints: bool, as_json: bool
) -> int:
    """Print all pipelines of a directory repeatedly, serve their metrics, or both.

    The first time is when all were read, or after the interval: a cluster that does not answer
    delays nothing.
    """
    from k2ktui.cli.fleet import print_fleet, print_once
    from k2ktui.fleet.feed import FleetFeed
    from k2ktui.fleet.files import read_directory

    files = read_directory(directory)
    if once:
        return print_once(files, as_json=as_json)
    ended = _on_signals()
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
    return ExitCode.INTERRUPTED if ended[:1] == [signal.SIGINT] else ExitCode.OK


def _replay(path: Path, *, once: bool, as_json: bool) -> int:
    from k2ktui.watch.recording import Recording

    recording = Recording(path)
    numbers = [len(recording) - 1] if once else range(len(recording))
    for number in numbers:
        view = recording.view(number)
        _print(view, view.taken_at, as_json=as_json)
    recording.close()
    return _code(view, view.taken_at) if once else ExitCode.OK


def _print_live(feed: Feed, record: Path | None, *, once: bool, as_json: bool) -> int:
    from k2ktui.watch.recording import Recorder

    recorder = Recorder(record) if record else None
    seen: queue.SimpleQueue[View] = queue.SimpleQueue()
    ended = _on_signals()
    feed.start(seen.put)
    code, until = int(ExitCode.OK), time.monotonic() + _ONCE_S
    try:
        while not ended:
            try:
                view = seen.get(timeout=_TICK_S)
            except queue.Empty:
                continue
            if once and not (view.whole and view.settled) and time.monotonic() < until:
                continue
            _print(view, feed.now(), as_json=as_json)
            if recorder:
                recorder.add(view)
            if once:
                code = _code(view, feed.now())
                break
    finally:
        feed.close()
        if recorder:
            recorder.close()
    return ExitCode.INTERRUPTED if ended[:1] == [signal.SIGINT] else code


def _on_signals() -> list[int]:
    seen: list[int] = []

    def handle(number: int, frame: FrameType | None) -> None:
        if seen:
            sys.exit(ExitCode.INTERRUPTED)
        seen.append(number)

    for number in ending_signals():
        signal.signal(number, handle)
    return seen


def _print(view: View, now: float, *, as_json: bool) -> None:
    from k2ktui.present.view_lines import view_lines
    from k2ktui.watch.codec import dumps

    click.echo(dumps(view) if as_json else "\n".join(view_lines(view, now)))
    sys.stdout.flush()


def _code(view: View, now: float) -> int:
    from k2ktui.engine.severity import Severity
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
