"""The class archive of local Spark sessions (see :mod:`k2ktui.runtime.class_archive`)."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

from k2ktui.config.model import SparkSettings
from k2ktui.replication.spark.settings import JAVA_OPTIONS, is_local
from k2ktui.runtime.class_archive import ClassArchive, make_in_background
from k2ktui.runtime.java import find_java

_PURPOSE = "spark-local"
_TRANSFORM_PURPOSE = "spark-transform"
ARCHIVE_MAKER = "k2ktui.replication.spark.archive_maker"
TRANSFORM_ARCHIVE_MAKER = "k2ktui.replication.spark.transform_archive_maker"
# Java options of the pipeline file that contradict an archive, or name another one.
_OWN_OPTIONS = ("-Xshare:", "SharedArchiveFile", "ArchiveClassesAtExit", "AOT")


def spark_archive(*, transforms: bool = False) -> ClassArchive:
    """Return the archive for the Java and the Spark of this process.

    Args:
        transforms: that of sessions with transforms, which load more of Spark.

    Raises:
        Refused: no Java can be used.
    """
    purpose = _TRANSFORM_PURPOSE if transforms else _PURPOSE
    return ClassArchive(purpose, find_java(), _spark_jars())


def archive_options(settings: SparkSettings, *, transforms: bool = False) -> tuple[str, ...]:
    """Return the Java options that make a session start faster; none on a cluster."""
    return spark_archive(transforms=transforms).options() if _may_use(settings) else ()


def make_missing_archive(settings: SparkSettings, *, transforms: bool = False) -> None:
    """Make the archive beside this process if a local session started without one."""
    if _may_use(settings):
        maker = TRANSFORM_ARCHIVE_MAKER if transforms else ARCHIVE_MAKER
        make_in_background(spark_archive(transforms=transforms), maker)


def _may_use(settings: SparkSettings) -> bool:
    own = settings.config.get(JAVA_OPTIONS, "")
    return is_local(settings.master) and not any(option in own for option in _OWN_OPTIONS)


def _spark_jars() -> tuple[Path, ...]:
    home = os.environ.get("SPARK_HOME", "")
    if not home:
        package = importlib.util.find_spec("pyspark")  # does not import it, which takes a second
        home = os.path.dirname(package.origin) if package and package.origin else ""
    return tuple(sorted(Path(home, "jars").glob("*.jar")))
