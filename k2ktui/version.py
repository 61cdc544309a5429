"""The release. A module of its own, so that the package may import what is built on it."""

from __future__ import annotations

__version__ = "0.1.0"
