"""Names from Kafka are hostile: none is markup, none reaches the terminal as a control sequence."""

from __future__ import annotations

from pathlib import Path

import pytest
from rich.cells import cell_len

from k2ktui.engine.mapping.translate import Basis
from k2ktui.engine.moves.journal import Runner, RunnerState
from k2ktui.watch.model import PartName, PipelinePair
from tests.support.console.driver import ConsoleDriver, drive
from tests.support.console.views import Made, usual

HOSTILE = [
    "a[/b]",
    "[red]x",
    "[@click=app.quit]x[/]",
    "\x1b]0;PWNED\x07",
    "\x1b[2J\x1b[31mred",
    "a\rb\nc\td",
    "\x9b31m",
    "\u202egnol\u202c",
    "العربية-עברית",
    "日本語" * 20,
    "x" * 249,
    "e\u0301\u200d\ufe0f👩‍👩‍👧",
    "\ud800",
    "o\u00adr\u200bd\u2060e\ufeffrs",
    "a\u00a0b\u3000c\u2028d ",
    "\U000e0041\U000e0101\u3164\u034f",
]


def hostile() -> Made:
    """A pipeline whose topics, groups, errors and own name are all hostile."""
    made = Made(PipelinePair(HOSTILE[0], HOSTILE[4]))
    for number, name in enumerate(HOSTILE):
        at = made.partition(name, 0, end=100, lag=7 * (number % 2))
        made.group(name, at, divergence=3, members=1)
        made.group(name + "!", at, basis=Basis.UNMAPPED)
    made.errors[PartName.STATE] = f"cannot read {HOSTILE[4]} {HOSTILE[12]}"
    return made


def harmless(text: str) -> bool:
    """Whether no character moves the cursor, colours, reorders, or cannot be encoded."""
    return all(
        char.isprintable() and not "\ufe00" <= char <= "\ufe0f" for char in text.replace("\n", "")
    )


@pytest.mark.parametrize(
    "size",
    [(60, 20), (120, 60)],
    ids=["60x20", "120x60"],
)
@pytest.mark.slow
def test_no_name_does_anything(
    size: tuple[int, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    async def flow(console: ConsoleDriver) -> None:
        seen = []
        for key in ("1", "y", "2", "y", "3", "v", "e", "enter", "question_mark", "escape"):
            await console.press(key)
            seen.append(console.text)
        for key in ("2", "3"):
            await console.press(key, key, "g")
            for _ in range(5):
                await console.press("enter")
                seen.append(console.text)
                await console.press("escape", "down")
        for text in seen:
            assert harmless(text), ascii(text)
            assert max(map(cell_len, text.splitlines())) <= size[0]
        console.svg().encode()
        assert console.app.is_running
        if size[1] > 40:
            assert all(any(name in text for text in seen) for name in HOSTILE[:3])

    drive(flow, hostile(), size=size)
    files = list(tmp_path.iterdir())
    assert files
    assert all(harmless(path.name) for path in files)


def test_a_name_in_the_address_of_a_job_is_harmless() -> None:
    made = usual()
    evil = Runner("r", "h\x1b[2J", "[b]u", 1, 0, int(made.now * 1000), RunnerState.RUNNING)

    async def flow(console: ConsoleDriver) -> None:
        assert harmless(console.text)

    made.runners = (evil,)
    drive(flow, made)
