"""``k2ktui -f FILE``: open the console; the default when no command is given."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from k2ktui.cli.compare import COMPARE_HELP, load_compared
from k2ktui.cli.interval import INTERVAL
from k2ktui.errors import ConfigError, ExitCode

if TYPE_CHECKING:
    from k2ktui.console.session import Session

OPTIONS: tuple[click.Option, ...] = (
    click.Option(
        ["-f", "--file", "files"],
        multiple=True,
        metavar="FILE",
        help="Pipeline file to open in the console; may be repeated, later files override "
        "earlier ones.",
    ),
    click.Option(["--compare"], metavar="FILE", help=COMPARE_HELP),
    click.Option(["--replay"], metavar="FILE", help="Recording to replay in the console."),
    click.Option(["--record"], metavar="FILE", help="New file to record the session to."),
    click.Option(["--read-only"], is_flag=True, help="Refuse all changes in this session."),
    click.Option(
        ["--ascii/--no-ascii"],
        default=None,
        help="Use ASCII characters only (default: on if the locale is not UTF-8).",
    ),
    click.Option(["--theme"], metavar="NAME", help="Initial theme; the key t lists the themes."),
    click.Option(
        ["--mouse/--no-mouse"],
        default=None,
        help="Mouse support (default: on, except over ssh, where the terminal selects text).",
    ),
    click.Option(["--interval"], **INTERVAL),
)


@dataclass(frozen=True, slots=True)
class ConsoleArguments:
    """Options given without a command; fields are named after the options."""

    files: tuple[str, ...] = ()
    compare: str | None = None
    replay: str | None = None
    record: str | None = None
    read_only: bool = False
    ascii: bool | None = None
    theme: str | None = None
    mouse: bool | None = None
    interval: float = 5.0


def run(given: ConsoleArguments) -> int:
    """Run the console until the operator quits; return the exit code.

    Raises:
        ConfigError: there is no terminal, or a file or an option is not usable.
    """
    if bool(given.files) == bool(given.replay):
        raise ConfigError("give either a pipeline with -f or a recording with --replay")
    if given.replay and given.record:
        raise ConfigError("--record and --replay cannot be combined")
    if given.replay and given.compare:
        raise ConfigError("--replay and --compare cannot be combined")
    from k2ktui.console import terminal

    terminal.check()
    session = _session(replace(given, theme=terminal.prepare(given.theme)))
    # Deferred: no other command needs Textual, and the clusters answer while it is imported.
    from k2ktui.console.app import open_console

    open_console(session)
    return ExitCode.OK


def _session(given: ConsoleArguments) -> Session:
    from k2ktui.cli.options import load_flow_and_notes
    from k2ktui.config.load import SEVERAL_NAMES
    from k2ktui.console import terminal
    from k2ktui.console.session import Options, Session
    from k2ktui.runtime.paths import no_state_note
    from k2ktui.watch.player import Player
    from k2ktui.watch.poller import describe_pair, open_poller
    from k2ktui.watch.recording import Recorder

    plain = terminal.wants_ascii(given.ascii)
    options = Options(given.read_only, plain, given.theme, given.mouse)
    if given.replay:
        player = Player(Path(given.replay))
        return Session(player, player.pair, options=options)
    flow, notes = load_flow_and_notes(given.files)
    recorder = Recorder(Path(given.record)) if given.record else None
    feed = open_poller(flow, given.interval, load_compared(given.compare, flow))
    feed.begin()
    from k2ktui.demo.wiring import steps_beside, watchdog_beside

    return Session(
        feed,
        describe_pair(flow),
        flow,
        given.files,
        options,
        recorder,
        # What was printed is behind the console.
        (
            *(note for note in notes if note.startswith(SEVERAL_NAMES)),
            *filter(None, [no_state_note()]),
        ),
        demo_steps=steps_beside(given.files),
        watchdog=watchdog_beside(given.files),
    )
