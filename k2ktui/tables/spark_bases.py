"""The classes of PySpark's data source API that tables are derived from.

Without PySpark, modules of tables can be imported nevertheless; ``k2ktui.tables`` says what is
missing when its data source is asked for.
"""

from __future__ import annotations

try:
    from pyspark.sql.datasource import (
        DataSource,
        DataSourceReader,
        InputPartition,
        SimpleDataSourceStreamReader,
    )
except ImportError:
    DataSource = DataSourceReader = InputPartition = SimpleDataSourceStreamReader = object

__all__ = ["DataSource", "DataSourceReader", "InputPartition", "SimpleDataSourceStreamReader"]
