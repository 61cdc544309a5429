"""``k2ktui -f FILE``: open the console; the default when no command is given."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from k2ktui.cli.terminal import options
from k2ktui.cli.terminal.files import choose_directory, load_flow_and_notes
from k2ktui.cli.terminal.notes import print_notes
from k2ktui.config.mirror_files import is_mirror_file
from k2ktui.errors import ConfigError, ExitCode, K2kError
from k2ktui.text import safe_text

if TYPE_CHECKING:
    from k2ktui.console.session import LeaveChoice, Options, Session
    from k2ktui.fleet.files import PipelineFile
    from k2ktui.mm2.mirror_flow import MirrorFlow
    from k2ktui.sync.flow import Flow
    from k2ktui.watch.model import PipelinePair

MIRRORMAKER_HELP = (
    "File of a MirrorMaker 2 that copies the same topics, to compare re-reads: mm2.properties, a "
    "Strimzi resource or a connector's JSON; FILE#A->B selects one flow."
)
mirrormaker_option = options.value("--mirrormaker", "FILE", MIRRORMAKER_HELP)
OPTIONS: tuple[click.Option, ...] = (
    click.Option(
        ["-f", "--file", "files"],
        multiple=True,
        metavar="FILE",
        help="Pipeline file to open in the console; may be repeated, later files override "
        "earlier ones.",
    ),
    click.Option(
        ["-d", "--directory"],
        metavar="DIR",
        help="Directory of pipeline files to open in the console.  [default without -f: "
        "~/.config/k2ktui/pipelines, if it exists]",
    ),
    click.Option(["--mirrormaker"], metavar="FILE", help=MIRRORMAKER_HELP),
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
    click.Option(["--interval"], **options.INTERVAL),
)


@dataclass(frozen=True, slots=True)
class ConsoleArguments:
    """Options given without a command; fields are named after the options."""

    files: tuple[str, ...] = ()
    directory: str | None = None
    mirrormaker: str | None = None
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
    directory = choose_directory(given.files, given.replay, given.directory)
    if directory and (given.record or given.mirrormaker):
        option = "--record" if given.record else "--mirrormaker"
        raise ConfigError(f"{option} and -d cannot be combined: open one pipeline with -f")
    if given.replay and given.record:
        raise ConfigError("--record and --replay cannot be combined")
    if given.replay and given.mirrormaker:
        raise ConfigError("--replay and --mirrormaker cannot be combined")
    if directory:
        return _run_fleet(_prepare(given), Path(directory))
    open_pipeline(given)
    return ExitCode.OK


def open_pipeline(
    given: ConsoleArguments,
    choices: Sequence[LeaveChoice] = (),
    watchdog: Callable[[], str] | None = None,
) -> int:
    """Open the console on one pipeline, or on a recording, until the operator leaves it.

    Args:
        given: the options; without a directory.
        choices: ways to leave it.
        watchdog: describes a failure of what the pipeline depends on, "" if there is none.

    Returns:
        The number of the signal that ended it, or the result of the operator's choice.
    """
    session = _session(_prepare(given))
    session.leave_choices = tuple(choices)
    session.watchdog = watchdog or session.watchdog
    # Deferred: no other command needs Textual, and the clusters answer while it is imported.
    from k2ktui.console.app import open_console

    return open_console(session)


def _prepare(given: ConsoleArguments) -> ConsoleArguments:
    from k2ktui.console import terminal

    terminal.check()
    return replace(given, theme=terminal.prepare(given.theme))


def _options(given: ConsoleArguments) -> Options:
    from k2ktui.console import terminal
    from k2ktui.console.session import Options
    from k2ktui.console.settings import settings_path

    plain = terminal.wants_ascii(given.ascii)
    return Options(given.read_only, plain, given.theme, given.mouse, settings=settings_path())


def _session(given: ConsoleArguments) -> Session:
    from k2ktui.config.load import SEVERAL_NAMES
    from k2ktui.console.session import Session
    from k2ktui.runtime.paths import no_state_note
    from k2ktui.watch.pipeline_reader import describe_pair
    from k2ktui.watch.player import Player
    from k2ktui.watch.poller import open_poller
    from k2ktui.watch.recording import Recorder

    options = _options(given)
    if given.replay:
        player = Player(Path(given.replay))
        return Session(player, player.pair, options=options)
    flow, notes = load_flow_and_notes(given.files)
    recorder = Recorder(Path(given.record)) if given.record else None
    feed = open_poller(flow, given.interval, load_compared(given.mirrormaker, flow))
    feed.begin()
    from k2ktui.demo.running import steps_beside, watchdog_beside

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


def _run_fleet(given: ConsoleArguments, directory: Path) -> int:
    """Show the pipelines of a directory, and each that is opened there, until the operator quits.

    The pipelines are read on while one of them is shown. Where there is none yet, one can be set
    up; it is opened first.
    """
    from k2ktui.console.app import open_console
    from k2ktui.console.session import FLEET, Session
    from k2ktui.fleet.feed import FleetFeed
    from k2ktui.fleet.files import list_files, read_directory

    opened: Path | None = FLEET
    if not list_files(directory):
        from k2ktui.cli.init import offer_first

        opened = offer_first(directory) or FLEET
    files = read_directory(directory)
    # A name that two files have stands for none of them.
    seen = Counter(file.name for file in files)
    names = {file.name if seen[file.name] == 1 else file.path.name: file.path for file in files}
    pair = _pair_of(directory, files)
    feed = FleetFeed(files, given.interval, pair)
    feed.begin()
    note = ""
    try:
        while opened is not None:
            if opened == FLEET:
                notes = tuple(filter(None, [note]))
                session = Session(feed, pair, options=_options(given), notes=notes)
                note = ""
            else:
                try:
                    session = _session(replace(given, files=(str(opened),), directory=None))
                except K2kError as error:
                    opened, note = FLEET, error.message
                    continue
            session.fleet = names
            if open_console(session):
                break  # a signal has ended it
            opened = session.leaves_for
    finally:
        feed.end()
    return ExitCode.OK


def _pair_of(directory: Path, files: Sequence[PipelineFile]) -> PipelinePair:
    """Return what the header of a directory names.

    A site drill changes all of its pipelines: one in production is enough to lock it.
    """
    from k2ktui.engine.access import is_production
    from k2ktui.watch.model import PipelinePair

    environments = (file.flow.config.environment for file in files if file.flow is not None)
    environment = next(filter(is_production, environments), "")
    return PipelinePair(directory.resolve().name, environment=environment)


def load_compared(file: str | None, flow: Flow) -> MirrorFlow | None:
    """Load the MirrorMaker 2 flow that ``--mirrormaker`` names; None if it was not given.

    Raises:
        ConfigError: it is not a MirrorMaker 2 file, or ``flow`` is such a flow itself.
    """
    from k2ktui.mm2.mirror_flow import load_mirror

    if file is None:
        return None
    if flow.is_mirror:
        raise ConfigError(
            "--mirrormaker needs a pipeline file; for a MirrorMaker 2 flow, the "
            "comparison is shown without it"
        )
    if not is_mirror_file(file):
        raise ConfigError(
            f"--mirrormaker: {safe_text(file)} is not a file of MirrorMaker 2",
            hint="Give its mm2.properties, Strimzi resource or connector JSON; FILE#A->B selects "
            "one flow.",
        )
    compared, notes = load_mirror(file)
    print_notes(notes)
    return compared
