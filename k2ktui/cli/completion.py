"""``k2ktui completion``: shell completion of commands and options."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

_PROGRAM = "k2ktui"
_VARIABLE = "_K2KTUI_COMPLETE"


@click.command(help="Print a completion script for a shell.")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def command(context: click.Context, shell: str) -> int:
    """Print the script; the shell evaluates it, as the help of the command shows."""
    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(context.find_root().command, {}, _PROGRAM, _VARIABLE).source())
    return 0


# "\\b" keeps click from joining the lines.
command.epilog = """\b
bash: eval "$(k2ktui completion bash)"    in ~/.bashrc
zsh:  eval "$(k2ktui completion zsh)"     in ~/.zshrc
fish: k2ktui completion fish > ~/.config/fish/completions/k2ktui.fish
"""
