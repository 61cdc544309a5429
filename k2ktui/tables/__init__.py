"""A pipeline as tables of Spark SQL.

``spark.dataSource.register(k2ktui.tables.Pipelines)``, then
``spark.read.format("k2ktui").option("file", "pipeline.yaml").load("ranges")``. Executors import
this package, and none of what reads a pipeline's file or its state: the driver does that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from k2ktui.errors import install_command

if TYPE_CHECKING:
    from k2ktui.tables.source import Pipelines

__all__ = ["Pipelines", "find_java_home"]


def find_java_home() -> str:
    """Return what ``JAVA_HOME`` must be for PySpark to start, with the Java that k2ktui uses.

    It is not always the directory of a Java: PySpark asks Java for a module that some do not have.

    Raises:
        Refused: there is no Java 17 or newer; the message names those that were tried.
    """
    from k2ktui.runtime.java import spark_java_home  # not for executors

    return str(spark_java_home())


def __getattr__(name: str) -> Any:
    """Return the data source; raises ImportError where it cannot work, and says what to install."""
    if name != "Pipelines":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        import pyarrow  # noqa: F401 - Spark's data sources in Python need it
        from pyspark.sql.datasource import Filter  # noqa: F401 - since PySpark 4.1
    except ImportError as error:
        raise ImportError(
            f"k2ktui.tables needs PySpark 4.1 or newer and PyArrow ({error}): "
            f"{install_command('tables')}"
        ) from error
    from k2ktui.tables.source import Pipelines

    return Pipelines
