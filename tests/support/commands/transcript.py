"""A transcript of commands: what they print, word for word, without a cluster.

The command line runs in this process, from its arguments to its exit code. What a command asks a
cluster for is replaced by made answers; everything that it decides and says of them is its own. One
file a command is kept in ``tests/unit/golden/transcript``: ``K2KTUI_TRANSCRIPT=write`` writes them
again, and the difference is reviewed. JSON has a line a field there.
"""

from __future__ import annotations

import difflib
import getpass
import inspect
import io
import json
import os
import re
import secrets
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

import click
import pytest

from k2ktui.cli import changes
from k2ktui.cli.drill import operators
from k2ktui.cli.main import error_text
from k2ktui.errors import ExitCode, K2kError
from k2ktui.runtime.log_lines import LogStream
from tests.support.commands.in_process import ProgramRun, run_program
from tests.support.console.views import NOON

TRANSCRIPTS = Path(__file__).parents[2] / "unit" / "golden" / "transcript"
WIDTH = 120
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_WRITE = os.environ.get("K2KTUI_TRANSCRIPT") == "write"


@dataclass(frozen=True, slots=True)
class Typed:
    """A command as it was typed, and what it printed.

    Attributes:
        arguments: words after ``k2ktui``.
        input: what is typed while it runs.
        answers: by the full name of a function of k2ktui, what is called in its place.
    """

    arguments: tuple[str, ...]
    input: str = ""
    answers: Mapping[str, Callable[..., Any]] = field(default_factory=dict)

    def run(self, folder: Path) -> str:
        """Run it in a folder; return its lines as a transcript has them."""
        with pytest.MonkeyPatch.context() as patch, stopped_clock(patch), _same_signals():
            patch.chdir(folder)
            patch.setenv("COLUMNS", str(WIDTH))
            patch.setenv("XDG_STATE_HOME", str(folder / "state"))
            patch.setattr(getpass, "getuser", lambda: "ops")
            patch.setattr(socket, "gethostname", lambda: "bastion1")
            patch.setattr(socket, "getaddrinfo", _no_cluster)
            patch.setattr(LogStream, "_write", _write_line)
            patch.setattr(secrets, "token_hex", lambda count: "d1" * count)
            if self.input:
                for module in (changes, operators):
                    patch.setattr(module, "can_ask", lambda: True)
            for name, answer in self.answers.items():
                patch.setattr(name, answer)
            ended = run_program(self.arguments, self.input)
        code, said = _end_of(ended)
        lines = [f"$ k2ktui {' '.join(map(_quoted, self.arguments))}"]
        lines += [f"> {line}" for line in self.input.splitlines()]
        lines += _readable(ended.stdout).splitlines()
        lines += [f"! {line}" for line in (ended.stderr + said).splitlines()]
        lines.append(f"[exit {code}]")
        text = "\n".join(line.rstrip() for line in lines)
        return text.replace(str(folder), "FOLDER") + "\n"


@contextmanager
def stopped_clock(patch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let it be noon, also for modules that have the function by their own name.

    One that is loaded meanwhile would keep this clock for all tests after it.
    """
    clock = time.time
    patch.setattr(time, "time", _noon)
    for module in _modules_with(clock):
        patch.setattr(module, "time", _noon)
    try:
        yield
    finally:
        for module in _modules_with(_noon):
            vars(module)["time"] = clock


@contextmanager
def _same_signals() -> Iterator[None]:
    """Give back the handlers that a command which runs until a signal has replaced."""
    kept = {number: signal.getsignal(number) for number in _ENDING}
    try:
        yield
    finally:
        for number, handler in kept.items():
            signal.signal(number, handler)


def _write_line(stream: LogStream, line: str) -> bool:
    """Print a line of a run's log, which goes to a file descriptor otherwise."""
    click.echo(line, err=vars(stream)["_fd"] != 1)
    return True


def _no_cluster(host: str, *_: object, **__: object) -> NoReturn:
    raise AssertionError(f"{host} was looked for: a case has no answer for a reading")


def _noon() -> float:
    return NOON


def _modules_with(clock: Callable[[], float]) -> list[ModuleType]:
    return [
        module
        for name, module in list(sys.modules.items())
        if name.startswith("k2ktui.") and vars(module).get("time") is clock
    ]


@dataclass(frozen=True, slots=True)
class Is:
    """An answer that is no function's: the value itself takes the name's place."""

    value: Any


def typed(words: str, answers: Mapping[str, Any] | None = None, *, keys: str = "") -> Typed:
    """Return a command of words that blanks separate.

    Args:
        words: what follows ``k2ktui``.
        answers: as for :class:`Typed`; what is no function, and no :class:`Is`, is what the
            function returns, or raises.
        keys: what is typed while the command runs.
    """
    return Typed(
        tuple(words.split()),
        keys,
        {name: answering(answer) for name, answer in (answers or {}).items()},
    )


def answering(answer: Any) -> Any:
    """Return what takes a name's place, so that it gives an answer: a function returns it."""
    if isinstance(answer, Is):
        return answer.value
    if inspect.isfunction(answer):
        return answer

    def function(*_: Any, **__: Any) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer

    return function


def compare_transcript(name: str, commands: Iterable[Typed], folder: Path) -> None:
    """Run commands one after the other, and expect what is kept under a name."""
    text = "\n".join(command.run(folder) for command in commands)
    compare_kept(TRANSCRIPTS / f"{name}.txt", text)


def compare_kept(path: Path, text: str) -> None:
    """Expect a text to be the one that is kept in a file."""
    if _WRITE:
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    kept = path.read_text() if path.exists() else ""
    if text != kept:
        lines = difflib.unified_diff(kept.splitlines(), text.splitlines(), "kept", "printed", n=1)
        difference = "\n".join(lines)
        pytest.fail(f"{path.name}: K2KTUI_TRANSCRIPT=write writes it again\n{difference}")


def _readable(output: str) -> str:
    """Return one object of JSON with a line a field, so that a difference shows what changed."""
    try:
        value = json.loads(output)
    except ValueError:
        return output
    return json.dumps(value, indent=1, ensure_ascii=False)


def _quoted(word: str) -> str:
    if len(word) > WIDTH:
        return f"{word[:20]}…"
    return word if re.fullmatch(r"[\w./:=,@+-]+", word) else f"'{word}'"


def _end_of(ended: ProgramRun) -> tuple[int, str]:
    """Return the exit code, and what the program prints of how it ended."""
    error = ended.error
    if isinstance(error, K2kError):
        return int(error.exit_code), error_text(error) + "\n"
    if isinstance(error, click.ClickException):
        shown = io.StringIO()
        error.show(shown)
        return int(ExitCode.USAGE), shown.getvalue()
    return (ended.code if error is None else int(ExitCode.INTERRUPTED)), ""
