"""Executors of a Spark cluster have few packages (docs/spark-cluster.md): tasks need no others."""

from __future__ import annotations

import subprocess
import sys

MISSING_ON_EXECUTORS = {
    "pydantic",
    "yaml",
    "confluent_kafka",
    "click",
    "rich",
    "textual",
    "pyspark",
}


def test_tasks_import_what_executors_have() -> None:
    code = (
        "import sys, k2ktui.replication.copying.worker; "
        "print(*{name.partition('.')[0] for name in sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not MISSING_ON_EXECUTORS & set(done.stdout.split())
