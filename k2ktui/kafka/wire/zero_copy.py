"""Encode requests and decode responses of a connection without copying their records.

kafka-python copies received data five times before it yields a decoded fetch response, and sent
data twice; at hundreds of megabytes per second these copies take most of the CPU time. Here a large
response is received into its own buffer, the records of a fetch response are views of that buffer,
and records to send are not copied.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

import numpy as np
from kafka.errors import CorrelationIdError, KafkaProtocolError
from kafka.protocol.frame import KafkaBytes

from k2ktui.kafka.wire import fetch_response, produce_request
from k2ktui.kafka.wire._kafka_python import Protocol

_SIZE_BYTES = 4
_SMALL_FRAME_BYTES = 64 << 10
_FETCH = 1


@dataclass(frozen=True, slots=True)
class _Produced:
    """A produce request in flight."""

    correlation_id: int


class ZeroCopyConnection(Protocol):
    """The protocol state of one connection; takes the library's options.

    The transport receives into the buffer from ``room`` and then calls ``receive_bytes``.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.bytes_to_send: list[bytes | memoryview] = []
        self._small = memoryview(bytearray(_SMALL_FRAME_BYTES))
        self._into = self._small
        self._filled = 0

    def room(self) -> memoryview:
        """Return the buffer for the next bytes; never empty."""
        return self._into[self._filled :]

    def receive_bytes(self, data: memoryview) -> list[tuple[int, Any]]:
        """Process bytes that were received into ``room``; return the completed responses.

        Raises:
            KafkaProtocolError: a response is malformed or does not match its request.
        """
        self._filled += len(data)
        return self._several() if self._into is self._small else self._large()

    def _several(self) -> list[tuple[int, Any]]:
        """Decode complete small responses and move the remaining bytes to the buffer's start."""
        responses: list[tuple[int, Any]] = []
        at = 0
        while self._filled - at >= _SIZE_BYTES:
            start = at + _SIZE_BYTES
            size = int.from_bytes(self._small[at:start], "big", signed=True)
            self.check_frame_size(size)
            if size > _SMALL_FRAME_BYTES - _SIZE_BYTES:
                self._begin_large(start, size)
                return responses
            if start + size > self._filled:
                break
            responses.append(self._response(self._small[start : start + size], own=False))
            at = start + size
        rest = self._filled - at
        if at:
            self._small[:rest] = bytes(self._small[at : self._filled])
        self._filled = rest
        return responses

    def _begin_large(self, start: int, size: int) -> None:
        # A bytearray would be filled with zeros first.
        into = np.empty(size, dtype=np.uint8).data
        have = self._filled - start
        into[:have] = self._small[start : self._filled]
        self._into, self._filled = into, have

    def _large(self) -> list[tuple[int, Any]]:
        if self._filled < len(self._into):
            return []
        frame, self._into, self._filled = self._into, self._small, 0
        return [self._response(frame, own=True)]

    def _response(self, frame: memoryview, *, own: bool) -> tuple[int, Any]:
        """Decode one response; ``own`` is true if the result may keep the frame."""
        asked = self.in_flight_requests[0] if self.in_flight_requests else None
        try:
            if isinstance(asked, _Produced):
                return self._check_correlation(
                    asked.correlation_id, frame
                ), produce_request.decode_produce_response(frame)
            if asked is not None and asked.request_api_key == _FETCH:
                version = asked.request_api_version
                if version in fetch_response.VERSIONS:
                    number = self._check_correlation(asked.correlation_id, frame)
                    kept = frame if own else memoryview(bytearray(frame))
                    return number, fetch_response.decode_fetch_response(kept, version)
        except (ValueError, IndexError, struct.error) as error:
            raise KafkaProtocolError(f"response of {len(frame)} bytes: {error}") from error
        return self._by_library(frame)

    def _check_correlation(self, expected: int, frame: memoryview) -> int:
        self.in_flight_requests.popleft()
        answered = int.from_bytes(frame[:4], "big", signed=True)
        if answered != expected:
            raise CorrelationIdError(f"response to request {answered} instead of {expected}")
        return expected

    def _by_library(self, frame: memoryview) -> tuple[int, Any]:
        copy = KafkaBytes(len(frame))
        copy.write(frame)
        copy.seek(0)
        answer: tuple[int, Any] = self.decode_response(copy)
        return answer

    def send_request(self, request: Any, correlation_id: int | None = None) -> int:
        """Encode a request and queue it for ``send_bytes``; return its correlation id."""
        if not isinstance(request, produce_request.ProduceBatches):
            return int(super().send_request(request, correlation_id))
        if correlation_id is None:
            correlation_id = int(self.next_correlation_id())
        self.bytes_to_send += request.pieces(correlation_id, self.client_id)
        self.in_flight_requests.append(_Produced(correlation_id))
        return correlation_id

    def send_bytes(self) -> list[bytes | memoryview]:
        """Return and clear the queued pieces."""
        pieces, self.bytes_to_send = self.bytes_to_send, []
        return pieces
