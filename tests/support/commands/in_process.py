"""Commands in this process, for tests that replace parts of them.

Whatever a command raises is raised here: an output that lacks something proves nothing after a
failure. Other tests start commands as processes (:mod:`tests.support.commands.cli`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import click
from click.testing import CliRunner

from k2ktui.cli.main import cli
from k2ktui.errors import K2kError


@dataclass(frozen=True, slots=True)
class Ended:
    """A command that has ended by itself.

    Attributes:
        code: exit code.
        output: stdout and stderr, as a terminal shows them.
        stdout: without stderr.
    """

    code: int
    output: str
    stdout: str


def invoke(command: click.Command, *arguments: object) -> Ended:
    """Run a command to its end.

    Raises:
        click.ClickException: the arguments are not accepted.
        K2kError: an error for the operator, and anything else that the command raises.
    """
    done = CliRunner().invoke(
        command,
        [str(argument) for argument in arguments],
        standalone_mode=False,
        catch_exceptions=False,
        # As the program's: click keeps the option that a command's first context has given it.
        help_option_names=["-h", "--help"],
    )
    returned = done.return_value
    code = returned if isinstance(returned, int) else done.exit_code
    return Ended(code, done.output, done.stdout)


@dataclass(frozen=True, slots=True)
class ProgramRun:
    """The whole program, run to its end.

    Attributes:
        stdout, stderr: what commands printed.
        error: what a command raised for the program to show, and to choose its exit code; None if
            it returned.
        code: what it returned otherwise.
    """

    stdout: str
    stderr: str
    error: K2kError | click.ClickException | click.Abort | None
    code: int


def run_program(arguments: Sequence[str], typed: str) -> ProgramRun:
    """Run the program in this process; ``typed`` is its standard input.

    Raises:
        Exception: what the program itself would report as a bug.
    """
    done = CliRunner().invoke(
        cli, arguments, input=typed, prog_name="k2ktui", standalone_mode=False
    )
    error, returned = done.exception, done.return_value
    if error is None or isinstance(error, SystemExit):
        code = returned if isinstance(returned, int) else done.exit_code
        return ProgramRun(done.stdout, done.stderr, None, code)
    if not isinstance(error, K2kError | click.ClickException | click.Abort):
        raise error
    return ProgramRun(done.stdout, done.stderr, error, 0)
