"""What the processes have in common that fork Spark's Python workers.

``python -m`` runs a module of ours in place of ``pyspark.daemon`` (``spark.python.daemon.module``).
It loads PySpark and what tasks need once, and a worker that is forked finds them loaded.
"""

from __future__ import annotations

import gc
import os
from importlib import import_module

from k2ktui.replication.spark.installed_pyspark import prefer_installed


def serve(*modules: str) -> None:
    """Load modules, and serve as PySpark's daemon does.

    Args:
        modules: what tasks need. They start no thread: a fork copies only one.
    """
    prefer_installed()
    os.environ["OPENBLAS_NUM_THREADS"] = "1"  # else numpy starts threads
    import_module("pyspark.worker")
    from pyspark.daemon import manager

    for module in modules:
        import_module(module)
    gc.freeze()  # a worker would look for garbage in what all share, and copy it
    manager()
