"""The package as it was at an earlier commit, for tests that let both work on the same records."""

from __future__ import annotations

import io
import subprocess
import tarfile
from pathlib import Path

import pytest

#: The landing before 0.9.0: runs of both may work on one pipeline, one after the other or together.
BEFORE = "c418fbb9"


def path_of(folder: Path) -> dict[str, str]:
    """Return the environment in which ``python -m k2ktui`` is what was unpacked into a folder."""
    core = {"K2KTUI_NATIVE": ""}  # the core in C is not unpacked, and the gate requires it
    return core | {"PYTHONPATH": str(folder), "PYTHONSAFEPATH": "1", "PYTHONDONTWRITEBYTECODE": ""}


def unpack(commit: str, folder: Path) -> Path:
    """Unpack the package of a commit into a folder, and return the folder for ``PYTHONPATH``.

    The test is skipped if the clone does not have the commit.
    """
    repository = Path(__file__).parents[3]
    command = ["git", "-C", str(repository), "archive", commit, "k2ktui"]
    git = subprocess.run(command, capture_output=True)
    if git.returncode:
        pytest.skip(f"commit {commit} is not in this clone")
    with tarfile.open(fileobj=io.BytesIO(git.stdout)) as archive:
        archive.extractall(folder, filter="data")
    return folder
