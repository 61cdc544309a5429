"""Forks Spark's Python workers for transforms; see ``spark_daemon``. It does not load pyarrow."""

from __future__ import annotations

import sys
from importlib.abc import MetaPathFinder

from k2ktui.replication.spark.daemon import serve

_UNUSED = "pandas"
_STAGES = "k2ktui.replication.transforms"


class _WithoutPandas(MetaPathFinder):
    """Hides pandas, which the tasks do not use.

    pyarrow looks for it when it makes its first array; loading it takes half a second.
    """

    def find_spec(self, fullname: str, path: object, target: object = None) -> None:
        if fullname == _UNUSED:
            raise ModuleNotFoundError(f"no {_UNUSED} in workers", name=fullname)


if __name__ == "__main__":
    sys.meta_path.insert(0, _WithoutPandas())
    serve(f"{_STAGES}.job", f"{_STAGES}.read", f"{_STAGES}.write")
