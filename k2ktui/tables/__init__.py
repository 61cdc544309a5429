"""A pipeline as tables of Spark SQL.

``spark.dataSource.register(k2ktui.tables.Pipelines)``, then
``spark.read.format("k2ktui").option("file", "pipeline.yaml").load("ranges")``. Executors import
this package, and none of what reads a pipeline's file or its state: the driver does that.
"""

from k2ktui.errors import install_command

try:
    import pyarrow  # noqa: F401 - Spark's data sources in Python need it

    from k2ktui.tables.source import Pipelines
except ImportError as error:
    raise ImportError(
        f"k2ktui.tables needs PySpark 4.1 or newer and PyArrow ({error}): "
        f"{install_command('tables')}"
    ) from error

__all__ = ["Pipelines"]
