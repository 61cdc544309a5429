"""Forks Spark's Python workers for transforms; they find loaded what each would load otherwise.

``python -m`` runs this module instead of ``pyspark.daemon`` (``spark.python.daemon.module``). It
loads nothing that starts a thread, because a fork copies only one: not pyarrow, and numpy without
the threads of its linear algebra.
"""

from __future__ import annotations

import gc
import os
import sys
from importlib.abc import MetaPathFinder

from k2ktui.replication.installed_pyspark import prefer_installed

_UNUSED = "pandas"


class _WithoutPandas(MetaPathFinder):
    """Hides pandas, which the tasks do not use.

    pyarrow looks for it when it makes its first array; loading it takes half a second.
    """

    def find_spec(self, fullname: str, path: object, target: object = None) -> None:
        if fullname == _UNUSED:
            raise ModuleNotFoundError(f"no {_UNUSED} in workers", name=fullname)


def main() -> None:
    """Load modules, and serve as PySpark's daemon does."""
    prefer_installed()
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    sys.meta_path.insert(0, _WithoutPandas())
    import pyspark.worker  # noqa: F401
    from pyspark.daemon import manager

    import k2ktui.replication.stages.job
    import k2ktui.replication.stages.read
    import k2ktui.replication.stages.write  # noqa: F401

    gc.freeze()  # a worker looks for garbage after each task
    manager()


if __name__ == "__main__":
    main()
