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

__all__ = ["Pipelines"]


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
