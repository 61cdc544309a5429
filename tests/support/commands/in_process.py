"""Commands in this process, for tests that replace parts of them.

Whatever a command raises is raised here: an output that lacks something proves nothing after a
failure. Other tests start commands as processes (:mod:`tests.support.commands.cli`).
"""

from __future__ import annotations

from dataclasses import dataclass

import click
from click.testing import CliRunner


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
    )
    returned = done.return_value
    code = returned if isinstance(returned, int) else done.exit_code
    return Ended(code, done.output, done.stdout)
