"""The package as it was at an earlier commit, for tests that let both work on the same records."""

from __future__ import annotations

import io
import subprocess
import tarfile
from pathlib import Path

import pytest


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
