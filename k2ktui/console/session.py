"""State that all screens share: the feed, the pipeline, the user and the permitted actions."""

from __future__ import annotations

import getpass
import os
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from k2ktui.engine.access import Access, access
from k2ktui.watch.feed import Feed
from k2ktui.watch.model import PipelinePair
from k2ktui.watch.recording import Recorder

if TYPE_CHECKING:
    from k2ktui.sync.flow import Flow


# What a pipeline that was opened from the table of pipelines leaves for: that table.
FLEET = Path("0")


@dataclass(frozen=True, slots=True)
class Options:
    """How the console was started; None means the terminal's default.

    Attributes:
        read_only: refuse every change.
        ascii: draw with ASCII characters only.
        theme: name of a theme.
        mouse: capture mouse events; by default not over SSH, so that text can be selected.
        themes: directories of themes; the shipped ones and the user's own by default.
        keys: the user's key file.
        settings: the file of what is remembered between sessions; None remembers nothing.
    """

    read_only: bool = False
    ascii: bool = False
    theme: str | None = None
    mouse: bool | None = None
    themes: tuple[Path, ...] | None = None
    keys: Path | None = None
    settings: Path | None = None


@dataclass(frozen=True, slots=True)
class LeaveChoice:
    """A way to leave the console.

    Attributes:
        key: the letter that chooses it.
        label: a verb, for the button.
        effect: what happens, as a sentence.
        result: what ``open_console`` returns.
    """

    key: str
    label: str
    effect: str
    result: int


@dataclass(frozen=True, slots=True)
class DemoStep:
    """Something that the operator of a demo can do to its applications and clusters.

    Attributes:
        id: its name on the command line.
        title: what it does, as a phrase with a verb.
        effect: what to know about it, as sentences.
        run: does it, and returns what runs then; raises K2kError.
        is_destructive: whether it is confirmed by typing the pipeline's name.
    """

    id: str
    title: str
    effect: str
    run: Callable[[], str]
    is_destructive: bool = False


@dataclass(slots=True)
class Session:
    """One console session.

    Attributes:
        feed: the source of views; the console closes it.
        pair: the pipeline.
        flow: what is shown; None while a recording is.
        files: the configuration files, as named on the command line.
        recorder: where views are recorded.
        notes: what the operator should know from the start.
        unlocked: whether a production pair was unlocked for this session.
        leave_choices: ways to leave the console, offered by a dialog; without any, ``q`` leaves.
        watchdog: polled every second; describes a failure of something that the console depends on,
            empty if there is none.
        fleet: where the pipeline was opened from: the pipelines of a directory by name; empty if it
            was opened alone. Of the table of pipelines itself, too.
        leaves_for: what is opened next: a pipeline file, or :data:`FLEET`; None to leave.
        demo_steps: what screen 8 offers to do to the applications of the demo; empty outside it.
    """

    feed: Feed
    pair: PipelinePair
    flow: Flow | None = None
    files: tuple[str, ...] = ()
    options: Options = Options()
    recorder: Recorder | None = None
    notes: tuple[str, ...] = ()
    unlocked: bool = False
    leave_choices: tuple[LeaveChoice, ...] = ()
    watchdog: Callable[[], str] = field(default=lambda: "")
    demo_steps: tuple[DemoStep, ...] = ()
    fleet: Mapping[str, Path] = field(default_factory=dict)
    leaves_for: Path | None = None

    @property
    def shows_fleet(self) -> bool:
        """Whether this is the table of pipelines, and not one pipeline."""
        return bool(self.fleet) and self.flow is None

    @property
    def is_of_fleet(self) -> bool:
        """Whether this is a pipeline that was opened from the table of pipelines."""
        return bool(self.fleet) and self.flow is not None

    @property
    def access(self) -> Access:
        """What this session may do now."""
        return access(
            flag=self.options.read_only,
            configured=self.pair.read_only,
            environment=self.pair.environment,
            unlocked=self.unlocked,
            replay=self.feed.replay,
        )


def who() -> str:
    """Return ``user@host`` of this process."""
    try:
        user = getpass.getuser()
    except (OSError, KeyError):
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()}"
