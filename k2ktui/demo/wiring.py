"""The one place where the demo meets the parts that it shows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from k2ktui.config.load import load
from k2ktui.demo.status import PartitionStatus, StatusSource


def pipeline_status(config: Path) -> StatusSource:
    """Return what reads the state of the pipeline in the file ``config``.

    Raises:
        ConfigError: the file is no valid pipeline.
    """
    # Deferred: it loads the replication engine, which the first seconds of the demo do without.
    from k2ktui.replication.status import StatusReader

    reader = StatusReader(load([config]).config)

    class Source:
        def snapshot(self) -> Sequence[PartitionStatus]:
            return reader.snapshot().partitions

        def close(self) -> None:
            reader.close()

    return Source()
