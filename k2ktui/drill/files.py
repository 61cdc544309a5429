"""Names of the files of a pipeline and of the one for the way back."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Sequence
from pathlib import Path

REVERSE_SUFFIX = "-reverse"


def split_files(files: Sequence[str]) -> list[str]:
    """Return the single files of options that may hold several, separated by commas."""
    return [part.strip() for file in files for part in file.split(",") if part.strip()]


def reverse_path(files: Sequence[str]) -> Path:
    """Return where the reverse pipeline's file is written: beside the pipeline's first file."""
    first = Path(split_files(files)[0])
    return first.with_name(f"{first.stem}{REVERSE_SUFFIX}{first.suffix}")


def way_back_command(files: Sequence[str], *, written: bool, targets: Collection[str] = ()) -> str:
    """Return the command that starts the way back after a failover, to paste into a shell.

    Args:
        files: the pipeline's files on this host.
        written: whether the reverse pipeline's file exists.
        targets: the target topics of a drill over some topics; none for the whole pipeline.
    """
    reverse = str(reverse_path(files))
    given = [word for file in files for word in ("-f", file)]
    steps = [
        shlex.join(["k2ktui", "jobs", "start", "-f", reverse]),
        shlex.join(["k2ktui", "drill", "failback", "-f", reverse, *_some(targets)]),
    ]
    if not written:
        write = shlex.join(["k2ktui", "config", "reverse", *given])
        steps.insert(0, f"{write} > {shlex.quote(reverse)}")
    return " && ".join(steps)


def _some(targets: Collection[str]) -> list[str]:
    """Return the option that chooses topics; of special characters, their names have dots only."""
    pattern = "|".join(name.replace(".", r"\.") for name in sorted(targets))
    return ["--topics", pattern] if targets else []


def forward_path(files: Sequence[str]) -> Path | None:
    """Return the file whose reverse pipeline has these files; None if their name does not say."""
    first = Path(split_files(files)[0])
    if not first.stem.endswith(REVERSE_SUFFIX):
        return None
    return first.with_name(first.stem.removesuffix(REVERSE_SUFFIX) + first.suffix)
