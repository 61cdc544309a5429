"""The Java client properties that the copy path follows, as the settings of a slot's requests.

The other ones that it follows are connection options: ``k2ktui.kafka.properties.wire``.
"""

from __future__ import annotations

from collections.abc import Mapping

from k2ktui.config.model import PipelineConfig
from k2ktui.replication.slot_settings import FetchSettings, ProduceSettings

CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
_INT_MAX = 2_147_483_647
_WAIT = "fetch.max.wait.ms"


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
