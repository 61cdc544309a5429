"""The command line: one lazily imported module per command, and one error handler.

Data goes to stdout, notes and errors to stderr; exit codes are in ``k2ktui.errors``.
"""

from __future__ import annotations

import os
import sys
from typing import Any, NoReturn

import click

from k2ktui import __version__
from k2ktui.cli import console
from k2ktui.cli.console import OPTIONS
from k2ktui.cli.lazy import LazyGroup
from k2ktui.errors import ExitCode, K2kError
from k2ktui.faults import fault
from k2ktui.text import safe_text

_VERBS = {
    "apply": "Apply a plan: commit translated offsets on the target.",
    "check": "Check clusters, rights, topics, Java and Spark before a start.",
    "config": "Validate and show pipeline files.",
    "demo": "Start two local clusters with traffic and a pipeline between them.",
    "explain": "Show each topic's path, and why.",
    "groups": "Show consumer groups on both clusters, translated, with their divergence.",
    "jobs": "Start, find, stop and follow pipelines that run detached on this host.",
    "journal": "Show what was applied and taken back.",
    "mm2": "Import, audit and correct MirrorMaker 2.",
    "offsets": "Show, set and clear the pipeline's own positions.",
    "plan": "Plan which offsets to commit on the target; changes nothing.",
    "start": "Run a pipeline.",
    "status": "Show positions, lag and coverage; needs no running job.",
    "sync": "Translate committed offsets continuously.",
    "translate": "Translate offsets that are kept outside Kafka.",
    "undo": "Take back what was applied.",
    "verify": "Prove by content that translated offsets are right.",
    "watch": "Show a pipeline's numbers as lines, again and again.",
}


_PRIVATE = 0o077
_TYPED = click.core.ParameterSource.COMMANDLINE


@click.group(
    cls=LazyGroup,
    verbs=_VERBS,
    params=list(OPTIONS),
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__, prog_name="k2ktui")
@click.pass_context
def cli(context: click.Context, /, **given: Any) -> int | None:
    """Replicate a Kafka cluster exactly once, and monitor it.

    Without a command, -f FILE opens the console.
    """
    typed = [name for name in given if context.get_parameter_source(name) is _TYPED]
    if context.invoked_subcommand is None:
        if typed:
            return console.run(console.ConsoleArguments(**given))
        click.echo(context.get_help())
    elif typed:
        # Options before a command look like the command's own, but would have no effect.
        name = context.invoked_subcommand
        raise click.UsageError(f"options of {name} are given after it: k2ktui {name} -f FILE")
    return None


def main() -> NoReturn:
    """Run the command line and exit."""
    # On a shared host, files written here, by Spark or by Kafka must be private.
    os.umask(os.umask(_PRIVATE) | _PRIVATE)
    try:
        code = cli(standalone_mode=False)
    except click.ClickException as error:
        error.show()
        sys.exit(ExitCode.USAGE)
    except (click.Abort, KeyboardInterrupt):
        _leave(ExitCode.INTERRUPTED)
    except K2kError as error:
        click.echo(_told(error), err=True)
        _leave(error.exit_code)
    except BrokenPipeError:
        # The reader of stdout is gone; without this, Python would report it again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        _leave(ExitCode.OK)
    except Exception as error:
        click.echo(_told(fault(error)), err=True)
        _leave(ExitCode.FINDINGS)
    _leave(code if isinstance(code, int) else ExitCode.OK)


def _leave(code: int) -> NoReturn:
    sys.exit(int(code))


def _told(error: K2kError) -> str:
    parts = [f"k2ktui: {error.message}"]
    parts += [f"  {text}" for text in (error.unchanged, error.hint) if text]
    # Names should already be safe to print; this is a second line of defense.
    return "\n".join(safe_text(line) for part in parts for line in part.splitlines())
