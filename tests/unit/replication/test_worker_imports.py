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
    imported = imported_with("k2ktui.replication.copying.worker", "k2ktui.kafka.auth.oauth")
    # Only logins with a token endpoint need it, when they ask for a token.
    assert not {*MISSING_ON_EXECUTORS, "httpcore2"} & imported


def test_schema_mapping_needs_the_registries_client_only() -> None:
    imported = imported_with("k2ktui.registry.mapper", "confluent_kafka.schema_registry")
    assert MISSING_ON_EXECUTORS & imported == {"confluent_kafka"}


def imported_with(*modules: str) -> set[str]:
    """Return the packages that are imported with modules."""
    code = (
        f"import sys, {', '.join(modules)}; "
        "print(*{name.partition('.')[0] for name in sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())
