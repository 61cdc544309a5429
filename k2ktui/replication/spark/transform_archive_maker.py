"""Make the class archive of local Spark sessions with transforms: run one that transforms records.

The session has no setting of a pipeline. ``SparkRuntime`` starts this module in the background.
"""

from __future__ import annotations

import sys
from pathlib import Path

from k2ktui.config.model import SparkSettings
from k2ktui.engine.transforms.model import Format, Transform
from k2ktui.replication.spark.archive import spark_archive
from k2ktui.replication.spark.session import SparkRuntime
from k2ktui.replication.spark.settings import JAVA_OPTIONS
from k2ktui.runtime.class_archive import be_maker

_SECONDS = 240.0
_TRANSFORM = Transform(
    decode_value=Format("json", "a BIGINT, b STRING, c DOUBLE"),
    filter="value.a IS NULL OR value.a > 1",
    assignments=(("value.b", "sha2(value.b, 256)"), ("headers.h", "upper(topic)")),
    drop=("value.c",),
    encode_value="json",
)


def main() -> None:
    """Make the archive if it is missing."""
    be_maker(sys.argv)
    spark_archive(transforms=True).make(_run_session)


def _run_session(options: tuple[str, ...], _: Path) -> None:
    config = {JAVA_OPTIONS: " ".join(options)}
    settings = SparkSettings(master="local[1]", config=config)
    runtime = SparkRuntime(settings, "archive", {}, {}, transforms=True)
    runtime.run_once(1, _SECONDS, _TRANSFORM)


if __name__ == "__main__":
    main()
