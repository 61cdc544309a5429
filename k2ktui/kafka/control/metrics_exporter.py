"""Encode metrics as compact JSON and write them to a topic of the target.

One record value holds one metric of one collection with up to ``POINTS`` points; a metric with more
points takes several values. docs/metrics.md documents the fields; ``v`` is the format version.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice
from time import monotonic
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from k2ktui.config.clusters import ClusterConfig
from k2ktui.errors import ConnectionFailed
from k2ktui.kafka.client_errors import LIBRARY_LOG, log_level, reason
from k2ktui.kafka.client_login import ClientLogin, flush
from k2ktui.kafka.properties.translation import librdkafka
from k2ktui.text import safe_text

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics.export import Metric, MetricsData

VERSION = 1
POINTS = 500
PIPELINE = "pipeline"

# Maximum time for a record's acknowledgment, including the time in the client's queue.
_DELIVERY_S = 10.0
_BOOKKEEPING = ("telemetry.", "k2k.")


class ExportFailed(Exception):
    """Metrics could not be exported; the message gives the reason, safe to print."""


def values(data: MetricsData) -> Iterator[tuple[int, bytes]]:
    """Yield the collection's record values, each with its timestamp in epoch milliseconds."""
    for of_resource in data.resource_metrics:
        resource = {
            key: value
            for key, value in of_resource.resource.attributes.items()
            if not key.startswith(_BOOKKEEPING)
        }
        for scope in of_resource.scope_metrics:
            for metric in scope.metrics:
                yield from _values_of(metric, {"resource": resource, "v": VERSION})


def _values_of(metric: Metric, common: dict[str, Any]) -> Iterator[tuple[int, bytes]]:
    points: Iterator[Any] = iter(metric.data.data_points)
    while chunk := list(islice(points, POINTS)):
        at = max(point.time_unix_nano for point in chunk) // 1_000_000
        started = [s for point in chunk if (s := getattr(point, "start_time_unix_nano", None))]
        body = common | {
            "at": at,
            "kind": "counter" if getattr(metric.data, "is_monotonic", False) else "gauge",
            "name": metric.name,
            "pipeline": str(chunk[0].attributes.get(PIPELINE, "")),
            "points": [_point(point) for point in chunk],
            "unit": metric.unit,
        }
        if started and body["kind"] == "counter":
            body["since"] = min(started) // 1_000_000
        text = json.dumps(body, separators=(",", ":"), sort_keys=True, default=str)
        yield at, text.encode()


def _point(point: Any) -> dict[str, Any]:
    labels = {key: value for key, value in point.attributes.items() if key != PIPELINE}
    value = point.value
    return labels | {"value": round(value, 6) if isinstance(value, float) else value}


class KafkaMetrics:
    """Writes metric collections to the metrics topic; connects on the first write.

    Args:
        cluster: the target.
        topic: the metrics topic; it must exist.
        pipeline: key of every record, which keeps a pipeline's records in one partition, in order.

    Raises:
        ConfigError: the target's producer properties cannot be used.
    """

    def __init__(self, cluster: ClusterConfig, topic: str, pipeline: str) -> None:
        self._cluster, self._login = cluster, ClientLogin(cluster, "target")
        _settings(cluster)
        self._topic = topic
        self._key = pipeline.encode()
        self._producer: Producer | None = None
        self._error: KafkaError | None = None
        self._trouble = ""

    def write(self, data: MetricsData, timeout_s: float) -> None:
        """Write a collection and wait for its acknowledgment.

        Raises:
            ExportFailed: it was not fully acknowledged within ``timeout_s`` seconds; part of it may
                have been written.
        """
        until = monotonic() + timeout_s
        refused: list[str] = []

        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                refused.append(safe_text(error.str()))

        try:
            producer = self._connect()
            for at, value in values(data):
                producer.produce(self._topic, value, self._key, timestamp=at, on_delivery=delivered)
            left = flush(producer, until, lambda: self._error)
        except BufferError as error:
            self.close()  # otherwise the buffer would stay full, and every later write would fail
            full = "the producer's buffer is full (buffer.memory)"
            raise ExportFailed(self._failure(full)) from error
        except KafkaException as error:
            self.close()  # the collection's first records would stay in the buffer
            raise ExportFailed(self._failure(reason(error))) from error
        except ConnectionFailed as error:
            raise ExportFailed(self._failure(error.message)) from error
        if left:
            self.close()  # it may have lost all brokers (see k2ktui.kafka.renewable_admin)
            raise ExportFailed(
                self._failure(self._trouble or f"no response within {timeout_s:g} s")
            )
        if refused:
            raise ExportFailed(self._failure(refused[0]))
        self._error, self._trouble = None, ""

    def close(self) -> None:
        """Close the connection and drop unwritten records."""
        if self._producer is not None:
            self._producer.purge()
            self._producer = None

    def _connect(self) -> Producer:
        if self._producer is None:
            settings = {**_settings(self._cluster), "logger": LIBRARY_LOG}
            self._producer = Producer(self._login.checked(settings, self._note_trouble))
        return self._producer

    def _note_trouble(self, error: KafkaError) -> None:
        self._error, self._trouble = error, safe_text(error.str())

    def _failure(self, why: str) -> str:
        return f"topic {safe_text(self._topic)} on the target: {why}"


def _settings(cluster: ClusterConfig) -> dict[str, Any]:
    settings = {"compression.type": "lz4", **librdkafka(cluster, "producer")}
    # delivery.timeout.ms is librdkafka's alias of message.timeout.ms; transactions are not used.
    for name in ("delivery.timeout.ms", "transactional.id"):
        settings.pop(name, None)
    return {
        **settings,
        # A duplicate metric is harmless; an idempotent producer can fail permanently.
        "enable.idempotence": False,
        "message.timeout.ms": int(_DELIVERY_S * 1000),
        "partitioner": "murmur2_random",
        "log_level": log_level(),
    }
