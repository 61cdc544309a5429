"""The options of drills, and what they say."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any, TypeVar

import click

from k2ktui.cli.drill.operators import ALL
from k2ktui.cli.terminal import options
from k2ktui.engine.drill.checks import DrillPhase
from k2ktui.engine.drill.hooks import find_phase
from k2ktui.engine.drill.model import FENCES, DrillOptions, Fence
from k2ktui.engine.drill.tail import TailChoice
from k2ktui.engine.drill.topics import TOPICS_STEP
from k2ktui.engine.name_pattern import pattern_of
from k2ktui.errors import ConfigError
from k2ktui.text import safe_text

F = TypeVar("F", bound=Callable[..., Any])
_DEFAULTS = DrillOptions()
_NOTHING_DONE = "Nothing was done."


def number_option(name: str, field: str, metavar: str, text: str) -> Callable[[F], F]:
    """Return an option of a field of ``DrillOptions``: seconds, or a count."""
    default = getattr(_DEFAULTS, field)
    names = f"{name} {field}"
    if isinstance(default, float):
        return options.seconds(names, default, text)
    return options.number(names, metavar, 0, default, text)


GROUPS = options.value("--groups", "REGEX", "Groups to move; the whole name must match.")
TOPICS = options.value(
    "--topics",
    "REGEX",
    "Source topics of the drill; the whole name must match. The pipeline goes on with the "
    "others. Default: the whole pipeline.",
)
YES_TO = options.value(
    "--yes-to", "PHASES", "Phases to confirm in advance, separated by commas, or all."
)
YES_TO_HOOKS = options.value(
    "--yes-to",
    "HOOKS",
    "Hooks whose abort command to confirm in advance, separated by commas, such as "
    "before-open-target, or all.",
)
ACCEPT = options.value(
    "--accept accepted",
    "IDS",
    "Checks whose failure does not stop the drill, separated by commas: D07,D08.",
)
DRY_RUN = options.flag("--dry-run", "Show what each phase would do; begin no drill.")
TAKE_OVER = options.flag("--take-over", "Take the drill over from the operator who acts on it.")
TAIL = options.choice(
    "--tail",
    [one for one in TailChoice if one is not TailChoice.STOP],
    "Records of the old source that were never copied: copy them now, export them to files, "
    "or discard them. Without it, the drill lists them and stops.",
)
EXPORT_TO = options.value(
    "--export-to",
    "DIR",
    "Directory of exported records. Default: beside FILE, named after the drill.",
)
FORWARD = options.value(
    "--forward",
    "FILE",
    "File of the pipeline that was failed over. Default: the name of FILE without -reverse.",
)
WATCH = number_option(
    "--watch", "watch_s", "SECONDS", "Maximum time in seconds to wait for clients on the target."
)
LEAVE_OUT = options.value(
    "--leave-out left_out",
    "NAME",
    "With -d: pipeline to leave out, because its source is not known or it has failed; may "
    "be repeated.",
    multiple=True,
)
# Of drills that move groups while both clusters are up, in this order.
_SWITCHOVER = (
    options.choice(
        "--fence",
        FENCES,
        "Way to keep producers from writing: by hand (you stop them), access rules, or cutting all "
        "clients off (drill.redirect).",
        Fence.HAND,
    ),
    number_option(
        "--max-lag",
        "lag_records",
        "RECORDS",
        "Maximum lag in records, of all partitions, before fencing.",
    ),
    number_option(
        "--frozen", "frozen_s", "SECONDS", "Time in seconds without a write that proves the fence."
    ),
    number_option(
        "--wait", "wait_s", "SECONDS", "Maximum wait in seconds for each condition of a phase."
    ),
    WATCH,
    ACCEPT,
    YES_TO,
    DRY_RUN,
)
_DIRECTORY = options.value(
    "-d --directory",
    "DIR",
    "Directory of pipeline files instead of -f: a drill of all that leave one cluster.",
    type=click.Path(path_type=Path),
)
_SELECTION = (
    options.value(
        "--from cluster",
        "CLUSTER",
        "With -d: the cluster that is left, by its name in the files or by its id.",
        default="",
    ),
    options.value(
        "--only", "REGEX", "With -d: pipelines in the selection; the whole name must match."
    ),
    LEAVE_OUT,
    GROUPS,
    TOPICS,
)


def add_options(*options: Callable[[F], F]) -> Callable[[F], F]:
    """Return a decorator that adds options in this order."""
    return lambda command: reduce(lambda made, option: option(made), reversed(options), command)


def files_or_directory(function: F) -> F:
    """Add ``-f`` and ``-d`` to a command that reads; one of them has to be given."""
    return options.files(required=False, stdin=False)(_DIRECTORY(function))


def kept_files_or_directory(function: F) -> F:
    """Add ``-f`` and ``-d`` to a command whose files others read later."""
    return options.files(required=False, kept=True)(_DIRECTORY(function))


def begin_options(function: F) -> F:
    """Add the options that say of which pipelines, groups and topics a drill is."""
    return kept_files_or_directory(add_options(*_SELECTION)(function))


def switchover_options(function: F) -> F:
    """Add the options of drills that move groups while both clusters are up."""
    return add_options(*_SWITCHOVER)(function)


@dataclass(frozen=True, slots=True)
class DrillFlags:
    """What a command is given before it reads or changes drills.

    Attributes:
        as_json: print JSON, and only errors beside it.
        unlock: also in production.
        yes_to: phases and hooks that are confirmed in advance, or ``all``.
        take_over: take a drill over from who acts on it, without a question.
        cluster: with ``-d``, the cluster that is left; "" for the only one.
        only: with ``-d``, a pattern of pipelines.
        left_out: with ``-d``, pipelines that are left out in advance.
    """

    as_json: bool = False
    unlock: bool = False
    yes_to: frozenset[str] = frozenset()
    take_over: bool = False
    cluster: str = ""
    only: str | None = None
    left_out: tuple[str, ...] = ()


def take_flags(given: dict[str, Any]) -> DrillFlags:
    """Take what a command is given before it reads or changes drills out of its parameters.

    Raises:
        ConfigError: ``--yes-to`` names what is no phase.
    """
    flags = {name: given.pop(name) for name in DrillFlags.__dataclass_fields__ if name in given}
    return DrillFlags(**{**flags, "yes_to": read_phases(flags.get("yes_to"))})


def drill_options(
    groups: str | None, topics: str | None, accepted: str | None = None, **chosen: Any
) -> DrillOptions:
    """Return the options of a drill that begins.

    Raises:
        ConfigError: one of them cannot be used.
    """
    pattern_of("--groups", groups)
    topics = read_pattern("--topics", topics)
    return DrillOptions(groups=groups or "", topics=topics, accepted=read_ids(accepted), **chosen)


def failback_options(
    tail: str | None = None, export_to: str | None = None, forward: str | None = None
) -> dict[str, Any]:
    """Return the options of a failback that were given."""
    given = {
        "tail": TailChoice(tail) if tail else None,
        "export_to": os.path.abspath(export_to) if export_to else None,
        "forward": os.path.abspath(forward) if forward else None,
    }
    return {name: value for name, value in given.items() if value is not None}


def read_pattern(option: str, pattern: str | None) -> str:
    """Return the pattern of an option; "" if it was not given.

    Raises:
        ConfigError: it is empty, as that of a variable that was not set, or no regular expression.
    """
    if pattern is not None and not pattern.strip():
        raise ConfigError(
            f"{option} is empty",
            unchanged=_NOTHING_DONE,
            hint="Give a regular expression for whole names of source topics.",
        )
    pattern_of(option, pattern)
    return pattern or ""


def _words(text: str | None) -> list[str]:
    return [part.strip() for part in (text or "").split(",") if part.strip()]


def read_phases(text: str | None) -> frozenset[str]:
    """Return the phases that ``--yes-to`` names.

    Raises:
        ConfigError: one of them is no phase.
    """
    names = frozenset(_words(text))
    known = {ALL, TOPICS_STEP}
    unknown = sorted(name for name in names if name not in known and find_phase(name) is None)
    if unknown:
        raise ConfigError(
            f"--yes-to: {safe_text(unknown[0])} is not a phase",
            unchanged=_NOTHING_DONE,
            hint=f"Use {ALL} or phases, separated by commas: {', '.join(sorted(DrillPhase))}; for "
            f"the hooks of a phase before-PHASE or after-PHASE; {TOPICS_STEP} for --topics.",
        )
    return names


def read_ids(text: str | None) -> tuple[str, ...]:
    """Return the ids of checks that ``--accept`` names.

    Raises:
        ConfigError: one of them is no check.
    """
    ids = tuple(_words(text))
    if not ids:
        return ()
    # Loads all checks, which the drill then runs: not before, as help must be quick.
    from k2ktui.drill.checks.catalog import CATALOG

    unknown = [check_id for check_id in ids if check_id not in CATALOG]
    if unknown:
        raise ConfigError(
            f"--accept: {safe_text(unknown[0])} is not a check",
            unchanged=_NOTHING_DONE,
            hint=f"Use ids from {min(CATALOG)} to {max(CATALOG)}, separated by commas.",
        )
    return ids


def read_only(only: str) -> list[str]:
    """Return the ids of checks that ``--only`` names, in the order of the catalog.

    Raises:
        ConfigError: there is no check with such an id.
    """
    from k2ktui.drill.checks.catalog import CATALOG

    asked = {word.upper() for word in _words(only)}
    unknown = sorted(asked - CATALOG.keys())
    if unknown or not asked:
        names = ", ".join(map(safe_text, unknown)) or "no id"
        raise ConfigError(
            f"--only: expected ids from {min(CATALOG)} to {max(CATALOG)}, found {names}",
            unchanged="Nothing was checked.",
            hint="docs/drill-checks.md lists all checks.",
        )
    return [check_id for check_id in CATALOG if check_id in asked]
