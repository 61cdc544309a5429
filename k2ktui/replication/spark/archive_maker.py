"""Make the class archive of local Spark sessions: run one with one job, and stop it.

The session has no setting of a pipeline. ``SparkRuntime`` starts this module in the background.
"""

from __future__ import annotations

import sys
from pathlib import Path

from k2ktui.config.model import SparkSettings
from k2ktui.replication.spark.archive import spark_archive
from k2ktui.replication.spark.session import SparkRuntime
from k2ktui.replication.spark.settings import JAVA_OPTIONS
from k2ktui.runtime.class_archive import be_maker

_TASKS = 2
_SECONDS = 180.0


def main() -> None:
    """Make the archive if it is missing."""
    be_maker(sys.argv)
    spark_archive().make(_run_session)


def _run_session(options: tuple[str, ...], _: Path) -> None:
    config = {JAVA_OPTIONS: " ".join(options)}
    settings = SparkSettings(master=f"local[{_TASKS}]", config=config)
    SparkRuntime(settings, "archive", {}, {}).run_once(_TASKS, _SECONDS)


if __name__ == "__main__":
    main()
