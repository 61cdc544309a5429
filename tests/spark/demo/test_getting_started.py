"""The keys of the page "Getting started", as it says them.

They are typed in ``tests/spark/console/test_drill_demo_tmux.py``.
"""

from __future__ import annotations

import re
import time
from functools import partial
from pathlib import Path

from k2ktui.demo.running import ACTION_TEXTS
from k2ktui.engine.drill.checks import DrillKind
from k2ktui.engine.drill.model import Fence, new_phases
from k2ktui.engine.drill.steps import needs_confirmation
from tests.support.clusters.kafka import eventually
from tests.support.console.tmux import Tmux

PAGE = Path(__file__).parents[3] / "docs" / "getting-started.md"
PATIENCE = 300.0
DIVERGES = "legacy-report"
# A person looks before Enter; one that comes with other keys is the end of a pasted line.
_LOOK_S = 1.0
# A key, a name to type, a text to be seen, or a key by its name.
WORD = re.compile(r"type `([^`]+)`, Enter|`(\S)`|`([^`]+)`|\*([^*]+)\*|\b(Enter)\b")


def rows() -> list[tuple[str, str]]:
    """The tasks and keys of the page's table, but for the last one, which closes the terminal."""
    section = PAGE.read_text().partition("## The demo by keyboard\n")[2].partition("\n## ")[0]
    table = section.partition("| task | keys |\n|---|---|\n")[2].partition("\n\n")[0]
    return [(task, keys) for _, task, keys, _ in (row.split(" | ") for row in split(table))][:-1]


def split(table: str) -> list[str]:
    """The lines of a table, with a separator at both ends."""
    return [f" | {line.strip('| ')} | " for line in table.splitlines()]


def changed(tmux: Tmux, before: str) -> bool:
    """Whether the screen is another one than before."""
    return tmux.screen != before


def point_at(tmux: Tmux, group: str) -> None:
    """Move the cursor to a group once it is the first one; it may rest on another one."""

    def is_first() -> bool:
        lines = tmux.screen.splitlines()
        rows = [number for number, line in enumerate(lines) if re.search(r"group +status", line)]
        return bool(rows) and group in lines[rows[0] + 1]

    eventually(is_first, f"{group} is the first group", PATIENCE)
    tmux.press("Home")


def follow(tmux: Tmux, keys: str) -> None:
    """Do what a row says; what it shows must be seen."""
    for name, key, shown, promised, special in WORD.findall(keys):
        if name:
            tmux.sees(f"type {name} to", timeout=PATIENCE)
            tmux.type(name)
            tmux.sees("then Enter, or Tab and space; Esc cancels", timeout=PATIENCE)
            time.sleep(_LOOK_S)
            tmux.press("Enter")
        elif key or special:
            before = tmux.screen
            tmux.press(key or special)
            eventually(partial(changed, tmux, before), f"{keys}: {key or special}")
        else:
            text = re.sub(r"\s+", " ", shown or promised)

            def seen(text: str = text) -> bool:
                return text in re.sub(r"\s+", " ", tmux.screen)

            eventually(seen, f"{keys}: {text}", PATIENCE)
            if text == DIVERGES:
                point_at(tmux, text)


def test_the_table_is_read_as_a_person_reads_it() -> None:
    tasks = dict(rows())
    assert len(tasks) == 9
    assert WORD.findall(tasks["Stop the job"])[:3] == [
        ("", "5", "", "", ""),
        ("", "X", "", "", ""),
        ("demo", "", "", "", ""),
    ]


def test_a_failover_by_hand_names_what_is_typed_and_chosen() -> None:
    section = PAGE.read_text().partition("## A failover by hand\n")[2].partition("\n## ")[0]
    typed = set(re.findall(r"\| `([^`|]+)` \|$", section, re.MULTILINE)) - {"demo"}
    planned = (record.phase for record in new_phases(DrillKind.PLANNED))
    assert typed == {str(phase) for phase in planned if needs_confirmation(phase, Fence.HAND)}
    actions = {title for title, _ in ACTION_TEXTS.values()}
    chosen = set(re.findall(r"\*((?:stop|start|kill) [^*]+)\*", section))
    assert len(chosen) == 5 and chosen <= actions
