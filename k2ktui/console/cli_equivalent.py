"""The CLI commands equivalent to what a screen does, for copying into a shell or a runbook."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from k2ktui.engine.drill.checks import DrillKind
from k2ktui.engine.drill.model import DrillOptions, Fence, ResumeOptions
from k2ktui.engine.drill.tail import TailChoice
from k2ktui.engine.moves.choice import RowKey, RowValue
from k2ktui.engine.moves.journal import RunKind
from k2ktui.engine.moves.plan import Rewind
from k2ktui.sync.moves.choices import choice_text
from k2ktui.text import safe_text

_NO_CHOICES: Mapping[RowKey, RowValue] = MappingProxyType({})


def pattern_of(names: Collection[str]) -> str:
    """Return a regular expression that fully matches exactly these names.

    Non-printable characters are escaped, so that the text can be displayed and copied.
    """
    return "|".join("".join(map(_escaped, name)) for name in sorted(names))


def _escaped(char: str) -> str:
    if char.isprintable() and safe_text(char) == char != "\\":
        return re.escape(char)
    return f"\\U{ord(char):08x}"


def plan_and_apply(
    files: Sequence[str],
    groups: Collection[str] | None,
    rewind: Rewind,
    path: Path | str,
    choices: Mapping[RowKey, RowValue] = _NO_CHOICES,
) -> str:
    """Return the command that makes a plan and applies it; ``groups`` None means all groups."""
    return f"{plan(files, groups, rewind, path, choices)} && {apply(path)}"


def plan(
    files: Sequence[str],
    groups: Collection[str] | None,
    rewind: Rewind,
    path: Path | str,
    choices: Mapping[RowKey, RowValue] = _NO_CHOICES,
) -> str:
    """Return the command that makes a plan; ``choices`` are the rows that it sets."""
    words = ["k2ktui", "plan", *_files(files), *_groups(groups)]
    if rewind is not Rewind.NEVER:
        words += ["--rewind", str(rewind)]
    for key, value in choices.items():
        words += ["--set", choice_text(key, value.text)]
    return shlex.join([*words, "-o", str(path)])


def parity_plan(files: Sequence[str]) -> str:
    """Return the command that compares topic settings, quotas and ACLs."""
    return shlex.join(["k2ktui", "parity", "plan", *_files(files), "-o", "parity.json"])


def compare(files: Sequence[str]) -> str:
    """Return the command that compares every record of both clusters."""
    return shlex.join(["k2ktui", "compare", *_files(files), "--resume"])


def parity_plan_and_apply(files: Sequence[str]) -> str:
    """Return the commands that compare them, and change the target."""
    return f"{parity_plan(files)}; k2ktui parity apply parity.json"


def parity_undo(files: Sequence[str], entry: str) -> str:
    """Return the command that undoes a journal entry of parity."""
    return shlex.join(["k2ktui", "parity", "undo", *_files(files), entry])


def poll(files: Sequence[str]) -> str:
    """Return the command that prints the console's figures once; empty without files."""
    return shlex.join(["k2ktui", "watch", *_files(files), "--once"]) if files else ""


def files_text(files: Sequence[str]) -> str:
    """Return the pipeline's files as they follow ``-f`` in a command."""
    return shlex.join(_files(files)[1:]) if files else "FILE"


def job(files: Sequence[str], verb: str, kind: RunKind = RunKind.COPY) -> str:
    """Return the command for a job on this host; ``verb`` is ``start``, ``stop`` or ``restart``."""
    sync = ["--sync"] if kind is RunKind.SYNC else []
    return shlex.join(["k2ktui", "jobs", verb, *_files(files), *sync])


def apply(path: Path | str) -> str:
    """Return the command that applies a plan."""
    return shlex.join(["k2ktui", "apply", str(path)])


def verify(files: Sequence[str], path: Path | str) -> str:
    """Return the command that compares the next records at a plan's offsets."""
    return shlex.join(["k2ktui", "verify", *_files(files), "--plan", str(path)])


def undo(files: Sequence[str], entry: str, *, skip_moved: bool = False) -> str:
    """Return the command that undoes a journal entry."""
    words = ["k2ktui", "undo", *_files(files), entry]
    return shlex.join([*words, "--skip-moved"] if skip_moved else words)


def drill(files: Sequence[str], kind: DrillKind, options: DrillOptions) -> str:
    """Return the command that starts a drill."""
    return shlex.join(["k2ktui", "drill", str(kind), *_files(files), *_chosen(options)])


def _chosen(options: DrillOptions) -> list[str]:
    """Return the options of the command that starts a drill, as they were chosen."""
    return [
        *(["--groups", options.groups] if options.groups else []),
        *(["--topics", options.topics] if options.topics else []),
        *(["--fence", str(options.fence)] if options.fence is not Fence.HAND else []),
        *(["--tail", str(options.tail)] if options.tail is not TailChoice.STOP else []),
    ]


def resume_words(how: ResumeOptions) -> list[str]:
    """Return the options of the command that continues a drill."""
    return [
        *(["--take-over"] if how.take_over else []),
        *(["--as", "disaster"] if how.as_disaster else []),
        *(["--from-fence"] if how.from_fence else []),
        *(["--accept", ",".join(how.accept)] if how.accept else []),
        *(word for name in how.left_out for word in ("--leave-out", name)),
        *(["--tail", str(how.chosen["tail"])] if "tail" in how.chosen else []),
    ]


def drill_on(files: Sequence[str], verb: str, drill_id: str, *more: str) -> str:
    """Return a command for an existing drill."""
    return shlex.join(["k2ktui", "drill", verb, drill_id, *_files(files), *more])


def drill_release(files: Sequence[str], topics: Collection[str]) -> str:
    """Return the command that lets moved topics be copied again."""
    pattern = pattern_of(topics)
    return shlex.join(["k2ktui", "drill", "release", *_files(files), "--topics", pattern])


def site(
    files: Sequence[str],
    kind: DrillKind,
    options: DrillOptions,
    cluster: str,
    names: Collection[str],
) -> str:
    """Return the command that starts a site drill of these files' pipelines."""
    words = ["k2ktui", "drill", str(kind), "-d", str(Path(files[0]).parent), "--from", cluster]
    return shlex.join([*words, "--only", pattern_of(names), *_chosen(options)])


def site_on(directory: str, verb: str, site_id: str, *more: str) -> str:
    """Return a command for an existing site drill."""
    return shlex.join(["k2ktui", "drill", verb, site_id, "-d", directory, *more])


def _files(files: Sequence[str]) -> list[str]:
    return [word for file in files for word in ("-f", file)]


def _groups(groups: Collection[str] | None) -> list[str]:
    return [] if groups is None else ["--group", pattern_of(groups)]


def offsets(files: Sequence[str], what: str, words: Sequence[str]) -> str:
    """Return the command for the pipeline's own positions; ``what`` is ``offsets set``, …"""
    return shlex.join(["k2ktui", *what.split(), *_files(files), *words])


def groups_reset(files: Sequence[str], group: str, option: str, value: str) -> str:
    """Return the command that resets a group of the target."""
    words = ["k2ktui", "groups", "reset", safe_text(group), *_files(files)]
    return shlex.join([*words, f"{option}={safe_text(value)}"])


def hold(files: Sequence[str], operation: str, names: Sequence[str], why: str) -> str:
    """Return the command that holds or releases topics and partitions."""
    words = ["k2ktui", operation, *_files(files), *(safe_text(name) for name in names)]
    return shlex.join([*words, *([f"--why={safe_text(why)}"] if why else [])])


def records(files: Sequence[str], place: str, around: int) -> str:
    """Return the command that lists the records before and from a place on."""
    words = ["k2ktui", "records", *_files(files), safe_text(place)]
    return shlex.join([*words, "--before", str(around), "--count", str(around)])
