"""How a slot fetches, writes and commits: settings that the driver gives each lap. They pickle."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CommitPolicy:
    """When a slot commits and when its lap ends.

    Attributes:
        lap_s: seconds from the start of the lap to its last commit.
        idle_commit_s: minimum seconds between commits while caught up.
        batch_timeout_s: maximum seconds that a transaction stays open under load.
        batch_size: maximum number of record batches in one transaction.
    """

    lap_s: float
    idle_commit_s: float = 0.01
    batch_timeout_s: float = 2.0
    batch_size: int = 1000


@dataclass(frozen=True, slots=True)
class FetchSettings:
    """What a slot requests from the source; see ``client_settings`` for the properties.

    Attributes:
        min_bytes: bytes that a broker waits for before it responds.
        max_bytes: maximum size of a response.
        partition_bytes: maximum size of a partition's part of a response.
        max_wait_ms: maximum time that a broker waits for ``min_bytes``.
        idle_wait_ms: the same where nothing but new records can change what is requested.
        rack: fetch from a replica in this rack if there is one (KIP-392); "" for the leader.
        waiting_bytes: fetch no more of a partition while so many bytes wait to be handed on; 0 for
            twice ``partition_bytes``.
    """

    min_bytes: int = 1
    max_bytes: int = 16 << 20
    partition_bytes: int = 2 << 20
    max_wait_ms: int = 250
    idle_wait_ms: int = 1000
    rack: str = ""
    waiting_bytes: int = 0

    def wait_ms(self, *, idle: bool) -> int:
        """Return the maximum time that a broker waits, which ends at the first record if idle."""
        return self.idle_wait_ms if idle and self.min_bytes == 1 else self.max_wait_ms

    @property
    def most_waiting_bytes(self) -> int:
        """Bytes of a partition from which on no more of it is fetched."""
        return self.waiting_bytes or 2 * self.partition_bytes


@dataclass(frozen=True, slots=True)
class ProduceSettings:
    """How a slot writes to the target; see ``client_settings`` for the properties.

    Attributes:
        request_bytes: maximum size of a produce request; a larger batch is sent alone.
        delivery_timeout_s: maximum time until a batch is acknowledged, or the lap fails.
    """

    request_bytes: int = 4 << 20
    delivery_timeout_s: float = 90.0
