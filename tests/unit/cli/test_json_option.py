"""``--json`` for all commands that print data; docs/reference/options.md names every option."""

from __future__ import annotations

import re
from pathlib import Path

from k2ktui.cli.main import cli
from tests.support.documents.options import commands, visible_options

ROOT = Path(__file__).parents[3]


def test_every_command_has_json_or_the_readme_says_why() -> None:
    """Each that prints data prints it as JSON, too."""
    taken: dict[str, set[str]] = {}
    for name, command in commands(cli, ""):
        opts = {opt for option in visible_options(command) for opt in option.opts}
        taken[name.strip()] = opts
    without = {name for name, names in taken.items() if "--json" not in names}
    # Groups of commands, and the program itself.
    without -= {name for name in taken if any(other.startswith(f"{name} ") for other in taken)}
    without -= {""}
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    sentence = readme.partition("takes `--json`.")[2].partition("Data goes to")[0]
    named = set(re.findall(r"`(bug-report|[a-z ]+)`", sentence))
    groups = {name.partition(" ")[0] for name in without}
    assert without == {
        exempt for exempt in without if exempt in named or exempt.partition(" ")[0] in named
    }
    assert named <= without | groups
