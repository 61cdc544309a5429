"""What a run takes from the variables of its shell, and what it does not.

Shells, images and profiles export variables that choose another Spark, another Python, or another
interface of Spark; PySpark and Spark's scripts let each win over everything else. On a local master
a run has the Spark and the Python that k2ktui is installed with, and says which variables it does
not use. On a cluster they count: docs/spark-cluster.md.
"""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from pathlib import Path

from k2ktui.config.model import SparkSettings
from k2ktui.replication.spark.installed_pyspark import prefer_installed
from k2ktui.replication.spark.settings import ALLOCATOR, LOOPBACK, is_local
from k2ktui.text import safe_text

_PYTHON, _HOME, _SAFE_PATH = "PYSPARK_PYTHON", "SPARK_HOME", "PYTHONSAFEPATH"
# Spark reads no property before these, or none at all.
_CHOICES = (
    "SPARK_CONF_DIR",
    "SPARK_LOCAL_DIRS",  # else what a killed Java leaves would stay
    "SPARK_REMOTE",
    "SPARK_LOCAL_REMOTE",
    "SPARK_API_MODE",
    "SPARK_CONNECT_MODE",
    "SPARK_CONNECT_MODE_ENABLED",
    "SPARK_CONNECT_LOCAL_URL",
    "SPARK_DIST_CLASSPATH",
    "SPARK_LAUNCHER_OPTS",
    "SPARK_PREPEND_CLASSES",
    "SPARK_PYTHON_RUNTIME",
    "SPARK_TESTING",
    "SPARK_SQL_TESTING",
    "PYSPARK_PIN_THREAD",  # a job's group belongs to the thread that submits it
)


def use_own_spark(settings: SparkSettings) -> str:
    """Let a local master's run have its own Spark and Python, in this process and its children.

    Later calls find nothing more to do. On a cluster master nothing changes.

    Returns:
        a note that names the variables that are not used; "" if there are none.
    """
    if not is_local(settings.master):
        return ""
    unused = [f"PYTHONPATH ({safe_text(path)})" for path in prefer_installed()]
    home = _own_home()
    names = [*([_HOME] if home is not None else []), *_CHOICES]
    for name in names:
        exported = os.environ.pop(name, None)
        if exported is not None and not (name == _HOME and Path(exported) == home):
            unused.append(name)
    own = settings.config.get("spark.pyspark.python") or sys.executable
    if os.environ.get(_PYTHON, own) != own:
        unused.append(_PYTHON)
    os.environ[_PYTHON] = own
    if not unused:
        return ""
    return (
        f"not used: {', '.join(unused)}; with spark.master {safe_text(settings.master)}, tasks run "
        "in the Spark and the Python that k2ktui is installed with "
        "(docs/troubleshooting.md#variables-of-the-shell)"
    )


def set_environment(settings: SparkSettings, java_home: Path) -> None:
    """Set the variables of this process that Spark and its children read.

    Args:
        settings: the pipeline's ``spark`` section.
        java_home: home directory of the Java that runs Spark.
    """
    use_own_spark(settings)
    # PySpark reads only the variable; the property is for programs that spark-submit starts.
    chosen = settings.config.get("spark.pyspark.python") or os.environ.get(_PYTHON)
    os.environ[_PYTHON] = chosen or sys.executable
    os.environ["JAVA_HOME"] = str(java_home)
    for name, value in ALLOCATOR.items():
        os.environ.setdefault(name, value)
    if is_local(settings.master):
        # If the pipeline file enables the web UI, it binds to this address; no property sets it.
        os.environ.setdefault("SPARK_LOCAL_IP", LOOPBACK)
        if not _is_directory_of_program():
            # Workers would import what lies in the working directory: a random.py ends them.
            os.environ.setdefault(_SAFE_PATH, "1")


def _own_home() -> Path | None:
    """Return the Spark that the PySpark package holds; None for a package without."""
    package = find_spec("pyspark")
    if package is None or package.origin is None:
        return None
    directory = Path(package.origin).parent
    homes = (directory / "spark-distribution", directory)
    return next((home for home in homes if (home / "bin" / "spark-submit").is_file()), None)


def _is_directory_of_program() -> bool:
    """Whether workers may find this package in the working directory only, as in a checkout."""
    try:
        return Path.cwd() == Path(__file__).parents[3]
    except FileNotFoundError:
        return False
