"""How a slot fetches, writes and commits: settings that the driver gives each lap. They pickle.

The Java client properties that the copy path follows are among them. The other ones that it follows
are connection options: ``k2ktui.kafka.properties.translation.wire``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # workers have no configuration
    from k2ktui.config.model import PipelineConfig

CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
_INT_MAX = 2_147_483_647
_WAIT = "fetch.max.wait.ms"


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
    """What a slot requests from the source.

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
    """How a slot writes to the target.

    Attributes:
        request_bytes: maximum size of a produce request; a larger batch is sent alone.
        delivery_timeout_s: maximum time until a batch is acknowledged, or the lap fails.
    """

    request_bytes: int = 4 << 20
    delivery_timeout_s: float = 90.0


def fetch_settings(config: PipelineConfig) -> FetchSettings:
    """Return how the source is read; a property that is not set has k2ktui's default."""
    given, default = config.source.properties("consumer"), FetchSettings()
    wait_ms = _number(given, _WAIT, default.max_wait_ms)
    # A waiting fetch keeps the requests behind it waiting: those for the opposite pipeline's
    # registrations are urgent.
    idle_ms = wait_ms if config.bidirectional_mode == "provenance" else default.idle_wait_ms
    return FetchSettings(
        min_bytes=_number(given, "fetch.min.bytes", default.min_bytes),
        max_bytes=_number(given, "fetch.max.bytes", default.max_bytes),
        partition_bytes=_number(given, "max.partition.fetch.bytes", default.partition_bytes),
        max_wait_ms=wait_ms,
        idle_wait_ms=_number(given, _WAIT, idle_ms),
        rack=given.get("client.rack", default.rack),
    )


def produce_settings(config: PipelineConfig) -> ProduceSettings:
    """Return how the target is written to; a property that is not set has k2ktui's default."""
    given, default = config.target.properties("producer"), ProduceSettings()
    timeout_ms = _number(given, "delivery.timeout.ms", int(default.delivery_timeout_s * 1000))
    return ProduceSettings(
        request_bytes=_number(given, "max.request.size", default.request_bytes),
        delivery_timeout_s=timeout_ms / 1000,
    )


def compression_codec(config: PipelineConfig) -> int | None:
    """Return the codec of ``compression.type``; None without one: each batch keeps its own."""
    return CODECS.get(config.target.properties("producer").get("compression.type", "").strip())


def _number(given: Mapping[str, str], key: str, default: int) -> int:
    text = given.get(key, "").strip()
    return min(max(int(text), 1), _INT_MAX) if text else default
