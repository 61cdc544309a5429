"""Forks Spark's Python workers that copy: loaded once are PySpark and what a task needs.

``python -m`` runs this module instead of ``pyspark.daemon`` (``spark.python.daemon.module``).
"""

from __future__ import annotations

import gc
import os

from k2ktui.replication.installed_pyspark import prefer_installed


def main() -> None:
    """Load modules, and serve as PySpark's daemon does."""
    prefer_installed()
    # A fork copies only one thread: none may be started here.
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    import pyspark.worker  # noqa: F401
    from pyspark.daemon import manager

    import k2ktui.replication.copying.worker  # noqa: F401

    gc.freeze()  # what all workers share is not looked at for garbage, which would copy it
    manager()


if __name__ == "__main__":
    main()
