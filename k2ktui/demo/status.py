"""Protocols of the data source of the live table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class PartitionStatus(Protocol):
    """State of one source partition, as ``k2ktui status`` reports it.

    Offsets and ``lag_seconds`` are None while unknown; ``coverage`` is a fraction from 0 to 1.
    """

    @property
    def topic(self) -> str: ...
    @property
    def partition(self) -> int: ...
    @property
    def state(self) -> str: ...
    @property
    def path(self) -> str: ...
    @property
    def source_start(self) -> int | None: ...
    @property
    def source_end(self) -> int | None: ...
    @property
    def position(self) -> int | None: ...
    @property
    def lag_records(self) -> int | None: ...
    @property
    def lag_seconds(self) -> float | None: ...
    @property
    def target_topic(self) -> str | None: ...
    @property
    def target_partition(self) -> int | None: ...
    @property
    def target_end(self) -> int | None: ...
    @property
    def mapped_records(self) -> int | None: ...
    @property
    def coverage(self) -> float | None: ...


class StatusSource(Protocol):
    """Reads the state of a pipeline; needs no running job."""

    def snapshot(self) -> Sequence[PartitionStatus]:
        """Return the state of every source partition now.

        Raises:
            K2kError: a cluster did not answer.
        """
        ...

    def close(self) -> None:
        """Close the connections."""
        ...
