"""The console and the views of the demo's pipeline, and what any console offers on its files."""

from __future__ import annotations

import signal
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from k2ktui.config.load import load
from k2ktui.demo import running
from k2ktui.demo.running import ACTION_TEXTS, DemoAction, request
from k2ktui.errors import K2kError
from k2ktui.runtime.paths import state_path
from k2ktui.watch.feed import MIN_INTERVAL_S, Feed

if TYPE_CHECKING:
    from k2ktui.console.session import DemoStep

_DETACHED = (
    "the demo keeps running for up to an hour without a console. k2ktui demo opens the console "
    "again, k2ktui demo --stop ends it."
)


def open_feed(config: Path, compare: Path | None = None) -> Feed:
    """Return views of the pipeline in the file ``config``.

    Args:
        config: the file.
        compare: properties file of the MirrorMaker 2 beside it, if there is one.

    Raises:
        ConfigError: one of the files is not valid.
    """
    # Imported here: not needed in the demo's first seconds.
    from k2ktui.mm2.mirror_flow import load_mirror
    from k2ktui.sync.flow import PipelineFlow
    from k2ktui.watch.poller import open_poller

    mirror = load_mirror(str(compare))[0] if compare else None
    return open_poller(PipelineFlow(load([config]).config), MIN_INTERVAL_S, mirror)


def open_console(
    home: Path, config: Path, watchdog: Callable[[], str], compare: Path | None = None
) -> int:
    """Open the console on the pipeline in the file ``config`` until it is left.

    Args:
        home: the demo's directory.
        config: the file.
        compare: properties file of the MirrorMaker 2 beside it, if there is one.
        watchdog: polled every second; describes what has failed, empty if nothing has.

    Returns:
        The number of the signal that ended it, that of a hang-up if the terminal is gone or the
        user detached, 0 if the user ended the demo.
    """
    from k2ktui.console import terminal
    from k2ktui.console.session import LeaveChoice, Options, Session
    from k2ktui.console.settings import settings_path
    from k2ktui.kafka.properties.translation import load_checked
    from k2ktui.mm2.mirror_flow import load_mirror
    from k2ktui.sync.flow import PipelineFlow
    from k2ktui.watch.pipeline_reader import describe_pair
    from k2ktui.watch.poller import open_poller

    loaded = PipelineFlow(load_checked((str(config),)).config)
    mirror = load_mirror(str(compare))[0] if compare else None
    options = Options(
        theme=terminal.prepare(None),
        ascii=terminal.wants_ascii(None),
        settings=settings_path(),
    )
    feed = open_poller(loaded, compare=mirror)
    feed.begin()
    # The clusters answer while Textual is imported.
    from k2ktui.console.app import open_console as run

    session = Session(
        feed,
        describe_pair(loaded),
        loaded,
        (str(config),),
        options,
        leave_choices=(
            LeaveChoice("e", "End", "the pipeline and both clusters are stopped.", 0),
            LeaveChoice("d", "Detach", _DETACHED, int(signal.SIGHUP)),
        ),
        watchdog=watchdog,
        demo_steps=demo_steps(home),
    )
    number = run(session)
    return int(signal.SIGHUP) if terminal.is_gone() else number


def demo_steps(home: Path) -> tuple[DemoStep, ...]:
    """Return what screen 8 offers to do to the applications and the source of a demo."""
    from k2ktui.console.session import DemoStep

    return tuple(
        DemoStep(
            str(action),
            title,
            effect,
            partial(request, home, action),
            is_destructive=action is DemoAction.KILL_SOURCE,
        )
        for action, (title, effect) in ACTION_TEXTS.items()
    )


def steps_beside(files: Sequence[str]) -> tuple[DemoStep, ...]:
    """Return the steps of the running demo whose directory has one of these files, if any."""
    home = _home_beside(files)
    return () if home is None else demo_steps(home)


def watchdog_beside(files: Sequence[str]) -> Callable[[], str]:
    """Return what keeps the demo whose directory has one of these files running, if any."""
    home = _home_beside(files)

    def watch() -> str:
        if home is not None:
            running.keep_waiting(home)
        return ""

    return watch


def _home_beside(files: Sequence[str]) -> Path | None:
    home = state_path("demo")
    host = running.host(home)
    if host is None:
        return None
    own = host.config.parent.resolve()
    named = (Path(part).resolve() for file in files for part in file.split(","))
    return home if any(directory.parent == own for directory in named) else None


def has_terminal() -> bool:
    """Return whether the console can be opened here."""
    from k2ktui.console import terminal

    try:
        terminal.check()
    except K2kError:
        return False
    return True
