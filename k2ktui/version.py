"""The release. A module of its own, so that the package may import what is built on it."""

from __future__ import annotations

__version__ = "0.9.0"

# Releases whose runs may share a pipeline with those of this one while it is upgraded
# (docs/upgrading.md). 0.1.0 is any checkout before 0.9.0: those of 2026-11-30 and later may.
_BESIDE = ("0.1.0",)


def may_run_beside(release: str) -> bool:
    """Return whether runs of another release and of this one may work on one pipeline."""
    return release in (__version__, *_BESIDE) or _series(release) == _series(__version__)


def _series(release: str) -> list[str]:
    """Patch releases change no record."""
    return release.split(".")[:2]
