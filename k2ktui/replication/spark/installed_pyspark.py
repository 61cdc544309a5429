"""Import the installed PySpark, not another one that comes before it on Python's path.

A pip-installed Spark has PySpark twice: as a package, with compiled modules, and as
``pyspark/python/lib/pyspark.zip``, which Python compiles again in each process: 1.4 s of processor
time at every start. Both are the same files. And ``PYTHONPATH`` often names the Python directory of
another Spark, whose release differs from that of the jars.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Sequence
from contextlib import suppress
from pathlib import Path

_ARCHIVES = ("pyspark.zip", "py4j-*-src.zip")
_PACKAGES = ("pyspark", "py4j")
_ROOT = Path(__file__).parents[3]


def prefer_installed() -> list[str]:
    """Rearrange this process's path; call it before the first import of PySpark.

    Returns:
        the entries of ``PYTHONPATH`` that hold another PySpark; they are the last ones now.
    """
    exported = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    paths = without_archives(sys.path)
    others = entries_of_others(paths, exported)
    sys.path[:] = [path for path in paths if path not in others] + others
    return others


def entries_of_others(paths: Sequence[str], exported: Collection[str]) -> list[str]:
    """Return the exported paths with PySpark or py4j, if it is installed on a path that is not.

    The path that holds this program is its own, exported or not.
    """
    with suppress(FileNotFoundError):  # the working directory is gone
        exported = [*exported, *map(os.path.abspath, exported)]
    named = [path for path in paths if path in exported]
    others = [path for path in named if _holds_spark(Path(path)) and Path(path) != _ROOT]
    kept = [Path(path) for path in paths if path not in others]
    installed = any((path / "pyspark" / "__init__.py").is_file() for path in kept)
    return others if installed else []


def _holds_spark(path: Path) -> bool:
    is_archive = any(path.match(pattern) for pattern in _ARCHIVES)
    return is_archive or any((path / name / "__init__.py").is_file() for name in _PACKAGES)


def without_archives(paths: Sequence[str]) -> list[str]:
    """Return the paths without archives of a PySpark that is installed on another of them."""
    return [path for path in paths if not _is_archive(Path(path), paths)]


def _is_archive(path: Path, paths: Sequence[str]) -> bool:
    if not any(path.match(pattern) for pattern in _ARCHIVES):
        return False
    package = path.parent.parent.parent  # pyspark/python/lib/pyspark.zip
    site = package.parent
    installed = all((site / name / "__init__.py").is_file() for name in ("pyspark", "py4j"))
    return package.name == "pyspark" and installed and str(site) in paths
