"""Make Spark's workers import the installed PySpark instead of Spark's own zip archive.

A pip-installed Spark has PySpark twice: as a package, with compiled modules, and as
``pyspark/python/lib/pyspark.zip``, which Python compiles again in each process: 1.4 s of processor
time at every start. Both are the same files.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

_ARCHIVES = ("pyspark.zip", "py4j-*-src.zip")


def prefer_installed() -> None:
    """Take the archives off this process's path; call it before the first import of PySpark."""
    sys.path[:] = without_archives(sys.path)


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
