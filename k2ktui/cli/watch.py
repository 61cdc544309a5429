"""``k2ktui watch``: the console's data as lines or JSON, live or from a recording."""

from __future__ import annotations

import queue
import signal
import sys
import time
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import click

from k2ktui.cli.compare import compare_option, load_compared
from k2ktui.cli.ending import ending_signals
from k2ktui.cli.interval import interval_option
from k2ktui.cli.options import json_option, load_flow, optional_file_option
from k2ktui.errors import ConfigError, ExitCode

if TYPE_CHECKING:
    from k2ktui.watch.feed import Feed
    from k2ktui.watch.model import View

_TICK_S = 0.5
_ONCE_S = 30.0


@click.command(help="Print lag, coverage, groups and jobs repeatedly, for logs and screen readers.")
@optional_file_option
@click.option("--plain", is_flag=True, help="Text output (the default).")
@interval_option
@click.option(
    "--once",
    is_flag=True,
    help="Print once, then exit; the exit code is 1 if there is a serious problem.",
)
@compare_option
@click.option("--record", metavar="FILE", help="New file to record to.")
@click.option("--replay", metavar="FILE", help="Recording to print from beginning to end.")
@json_option
def command(
    files: tuple[str, ...],
    plain: bool,
    interval: float,
    once: bool,
    compare: str | None,
    record: str | None,
    replay: str | None,
    as_json: bool,
) -> int:
    """Print views until SIGINT or SIGTERM; with --once, findings if there is a bad problem."""
    if plain and as_json:
        raise ConfigError("--plain and --json cannot be combined")
    if bool(files) == bool(replay):
        raise ConfigError("give either a pipeline with -f or a recording with --replay")
    if replay and compare:
        raise ConfigError("--replay and --compare cannot be combined")
    if replay:
        return _replay(Path(replay), once=once, as_json=as_json)
    from k2ktui.watch.feed import MIN_INTERVAL_S
    from k2ktui.watch.poller import open_poller

    flow = load_flow(files)
    if once:
        interval = MIN_INTERVAL_S  # ends with the first view that is complete and settled
    feed = open_poller(flow, interval, load_compared(compare, flow))
    return _print_live(feed, Path(record) if record else None, once=once, as_json=as_json)


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
    from k2ktui.watch.model import PartName
    from k2ktui.watch.severity import Severity, find_problems

    clusters = (view.part(name) for name in (PartName.SOURCE, PartName.TARGET))
    unread = [part for part in clusters if part.taken_at is None]
    if unread:
        refused = any(part.error and not part.timed_out for part in unread)
        return ExitCode.CONNECTION if refused else ExitCode.TIMEOUT
    bad = any(problem.severity is Severity.BAD for problem in find_problems(view, now))
    bad = bad or not view.settled  # seen as bad once, and not refuted by a later reading
    return ExitCode.FINDINGS if bad or not view.has_run else ExitCode.OK
