"""The command line: one lazily imported module per command, and one error handler.

Data goes to stdout, notes and errors to stderr; exit codes are in ``k2ktui.errors``.
"""

from __future__ import annotations

import importlib
import logging
import os
import platform
import sys
import threading
from contextlib import suppress
from typing import Any, NoReturn

import click

from k2ktui import diagnostics
from k2ktui.cli import console
from k2ktui.cli.console import OPTIONS
from k2ktui.cli.terminal import options
from k2ktui.cli.terminal.files import own_directory
from k2ktui.cli.terminal.notes import print_note, shown_progress
from k2ktui.cli.terminal.streams import (
    ReaderGone,
    find_output_failure,
    leave,
    open_streams,
    reader_is_there,
    watch_output,
)
from k2ktui.errors import ExitCode, K2kError, fix_text
from k2ktui.faults import command_line, fault
from k2ktui.runtime.interpreter import disarm_warnings, require_assertions
from k2ktui.text import safe_message
from k2ktui.version import __version__

log = logging.getLogger(__name__)

# Each command with its module, in which its name is the command's, and its line of the help.
_COMMANDS = {
    "apply": ("groups", "Apply a plan: commit translated offsets on the target."),
    "bug-report": (
        "bug_report",
        "Write versions, redacted configuration, logs, crashes and checks to a file.",
    ),
    "check": ("check", "Check clusters, permissions, topics, Java and Spark before a start."),
    "compare": ("records", "Compare every retained record of source and target."),
    "completion": ("main", "Print a completion script for bash, zsh or fish."),
    "config": ("check", "Validate and show pipeline files."),
    "demo": ("demo", "Start two local clusters with traffic and a pipeline between them."),
    "drill": ("drill", "Rehearse and carry out a failover, step by step, with proof."),
    "evidence": ("evidence", "Verify signed reports of drills, offline; sign one later."),
    "explain": ("check", "Show each topic's target and copy path, with the reason."),
    "fleet": ("views", "Show the pipelines of a directory, the worst first."),
    "groups": (
        "groups",
        "Show consumer groups on both clusters with translated offsets and divergence.",
    ),
    "hold": ("offsets", "Stop copying topics or partitions until they are released."),
    "init": ("init", "Write and check a pipeline file, from questions about two clusters."),
    "jobs": ("jobs", "Run pipelines as detached jobs on this host."),
    "journal": ("groups", "List applied and undone changes."),
    "mm2": ("mm2", "Import, audit and correct MirrorMaker 2 flows."),
    "offsets": ("offsets", "Show, set and clear a pipeline's source positions."),
    "parity": (
        "parity",
        "Keep topic settings, quotas and ACLs of the target in step with the source.",
    ),
    "plan": (
        "groups",
        "Plan the offsets to commit on the target, without changing anything.",
    ),
    "records": ("records", "List records beside their copies; contents only with --show."),
    "release": ("offsets", "Copy held topics or partitions again."),
    "schemas": ("schemas", "Plan, register and verify schemas in the target's registry."),
    "start": ("start", "Run a pipeline."),
    "status": ("views", "Show positions, lag and coverage; works while no job is running."),
    "sync": ("groups", "Translate and commit group offsets continuously."),
    "transform": (
        "transform",
        "Show what transforms do to records, without writing anything.",
    ),
    "translate": ("translate", "Translate offsets stored outside Kafka."),
    "undo": ("groups", "Undo an applied plan: restore the previous offsets."),
    "verify": ("records", "Compare record contents to verify translated offsets."),
    "watch": ("views", "Print a pipeline's status repeatedly."),
}
_FIRST_STEPS = """
Copy between clusters:    k2ktui init
Try it:                   k2ktui demo
Open the console:         k2ktui -f pipeline.yaml
Check before a start:     k2ktui check -f pipeline.yaml
Run in the background:    k2ktui jobs start -f pipeline.yaml"""
# These print while they work; a line beside that would be torn.
_OWN_OUTPUT = frozenset({"demo", "drill", "start", "sync", "watch"})
# What stands for a file or a directory in the help.
_FILES = ("FILE", "PLAN", "DIR")
_PRIVATE = 0o077
_TYPED = click.core.ParameterSource.COMMANDLINE


class _Program(options.Group):
    """The whole command line: a command's module is imported when it is called."""

    # Click would end the program with 1, findings, once its reader has ended.
    def make_context(self, *args: Any, **more: Any) -> click.Context:
        with reader_is_there():
            return super().make_context(*args, **more)

    def invoke(self, ctx: click.Context) -> Any:
        with reader_is_there():
            return super().invoke(ctx)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module = importlib.import_module(f"k2ktui.cli.{_COMMANDS[cmd_name][0]}")
        command: click.Command = getattr(module, cmd_name.replace("-", "_"))
        complete_files(command)
        add_log_options(command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in sorted(_COMMANDS.items())])


def complete_files(command: click.Command) -> None:
    """Let a shell complete the names of files and directories where a command takes them.

    Click completes nothing for a text, so that a shell with its script completes no files at all.
    Nothing is checked here: each command says itself what is wrong with a file, and a directory's
    option may take a file, too (``translate --from-spark-checkpoint``).
    """
    for parameter in command.params:
        kind = (parameter.metavar or "").partition("[")[0]
        if kind in _FILES and isinstance(parameter.type, click.types.StringParamType):
            parameter.type = click.Path(readable=False)
    if isinstance(command, click.Group):
        for subcommand in command.commands.values():
            complete_files(subcommand)


def _be_verbose(_: click.Context, __: click.Parameter, steps: int) -> None:
    if steps:
        diagnostics.set_up().be_verbose(steps)


def _debug(_: click.Context, __: click.Parameter, given: bool) -> None:
    if given:
        diagnostics.debug_to_file()


def log_options() -> list[click.Option]:
    """Return ``-v`` and ``--debug``, with one meaning for the program and for each command."""
    return [
        click.Option(
            ["-v", "--verbose"],
            count=True,
            expose_value=False,
            is_eager=True,
            callback=_be_verbose,
            help="Print messages on standard error; -vv prints details, too.",
        ),
        click.Option(
            ["--debug"],
            is_flag=True,
            expose_value=False,
            is_eager=True,
            callback=_debug,
            help="Log details to a file in the state directory, named at the end.",
        ),
    ]


def add_log_options(command: click.Command) -> None:
    """Let a command and its subcommands also take the log options after their names."""
    if not any(parameter.name == "debug" for parameter in command.params):
        command.params.extend(log_options())
    if isinstance(command, click.Group):
        for subcommand in command.commands.values():
            add_log_options(subcommand)


@click.group(
    cls=_Program,
    params=[*OPTIONS, *log_options()],
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__, prog_name="k2ktui")
@click.pass_context
def cli(context: click.Context, /, **given: Any) -> int | None:
    """Replicate a Kafka cluster exactly once, and monitor it.

    Without a command, -f FILE opens the console, and -d DIR opens it on many pipelines.
    """
    require_assertions()
    diagnostics.read_levels(os.environ.get(diagnostics.VARIABLE, ""))
    typed = [name for name in given if context.get_parameter_source(name) is _TYPED]
    if context.invoked_subcommand is None and typed:
        diagnostics.set_up().leave_terminal()
    log.info("k2ktui %s, Python %s: %s", __version__, platform.python_version(), command_line())
    if context.invoked_subcommand is None:
        if typed or (sys.stdout.isatty() and own_directory().is_dir()):
            return console.run(console.ConsoleArguments(**given))
        click.echo(context.get_help())
        click.echo(_FIRST_STEPS)
    elif typed:
        # Options before a command look like the command's own, but would have no effect.
        name = context.invoked_subcommand
        raise click.UsageError(f"options of {name} go after the command: k2ktui {name} -f FILE")
    elif context.invoked_subcommand not in _OWN_OUTPUT:
        context.with_resource(shown_progress())
    return None


complete_files(cli)


@click.command(help="Print a completion script for a shell.")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> int:
    """Print the script; the shell evaluates it, as the help of the command shows."""
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(context.find_root().command, {}, "k2ktui", "_K2KTUI_COMPLETE").source())
    return 0


# "\\b" keeps click from joining the lines.
completion.epilog = """\b
bash: eval "$(k2ktui completion bash)"    in ~/.bashrc
zsh:  eval "$(k2ktui completion zsh)"     in ~/.zshrc
fish: k2ktui completion fish > ~/.config/fish/completions/k2ktui.fish
"""


def main() -> NoReturn:
    """Run the command line and exit."""
    disarm_warnings()
    # On a shared host, files written here, by Spark or by Kafka must be private.
    os.umask(os.umask(_PRIVATE) | _PRIVATE)
    open_streams()
    watch_output()
    diagnostics.set_up()
    threading.excepthook = _report_thread
    try:
        code = cli(standalone_mode=False)
    except click.ClickException as error:
        with suppress(OSError):
            error.show()
        _exit(ExitCode.USAGE)
    except ReaderGone:
        _exit(ExitCode.READER_GONE)
    except (click.Abort, KeyboardInterrupt):
        _exit(ExitCode.INTERRUPTED)
    except K2kError as error:
        log.debug("ends with an error", exc_info=error)
        _print_error(error)
        _exit(error.exit_code)
    except Exception as error:
        reported = find_output_failure(error) or fault(error)
        _print_error(reported)
        _exit(reported.exit_code)
    _exit(code if isinstance(code, int) else ExitCode.OK)


def _print_error(error: K2kError) -> None:
    with suppress(OSError):  # the exit code says that there is one
        click.echo(error_text(error), err=True)


def _report_thread(ended: threading.ExceptHookArgs) -> None:
    """Keep the trace of a thread that a bug has ended; the screen is not for traces.

    Output that cannot be written, as its reader has gone or the disk is full, is no bug.
    """
    error = ended.exc_value
    if isinstance(error, Exception):
        failure = find_output_failure(error)
        if failure is not None and isinstance(error, BrokenPipeError):
            return  # the main thread ends at its next line
        reported = failure or fault(error)
        if diagnostics.set_up().has_screen:
            _print_error(reported)


def _exit(code: int) -> NoReturn:
    log.info("exit code %d", code)
    configured = diagnostics.set_up()
    if configured.asked_for:
        print_note(f"the log is {configured.file}")
    leave(int(code))


def error_text(error: K2kError) -> str:
    """Return what the program prints of an error: what happened, what was not changed, the fix."""
    parts = [f"k2ktui: {error.message}"]
    parts += [f"  {text}" for text in (error.unchanged, fix_text(error.hint)) if text]
    # Names should already be safe to print; this is a second line of defense.
    return "\n".join(safe_message(line) for part in parts for line in part.splitlines())
