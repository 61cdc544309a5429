"""Requests and responses on a connection without copying the records in them.

kafka-python copies what it receives five times on its way to a decoded fetch response, and what it
sends twice; at hundreds of megabytes a second that is most of the processor time. Here a large
response is received into a buffer of its own, from which a fetch response's records are handed
out as they lie there, and records are sent from where they lie.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

import numpy as np
from kafka.errors import CorrelationIdError, KafkaProtocolError
from kafka.protocol.frame import KafkaBytes
from kafka.protocol.parser import KafkaProtocol

from k2ktui.kafka import fetch_response, produce_request

_SIZE_BYTES = 4
_SMALL_FRAME_BYTES = 64 << 10
_FETCH = 1


@dataclass(frozen=True, slots=True)
class _Produced:
    """What is remembered of a produce request until its answer comes."""

    correlation_id: int


class ZeroCopyConnection(KafkaProtocol):  # type: ignore[misc]
    """One connection's requests and responses; takes the library's options.

    Bytes are received where ``room`` says, then ``receive_bytes`` is told of them.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.bytes_to_send: list[bytes | memoryview] = []
        self._small = memoryview(bytearray(_SMALL_FRAME_BYTES))
        self._into = self._small
        self._filled = 0

    def room(self) -> memoryview:
        """Return where the next bytes belong; never empty."""
        return self._into[self._filled :]

    def receive_bytes(self, data: memoryview) -> list[tuple[int, Any]]:
        """Take in bytes that were received into ``room``; return the responses now complete.

        Raises:
            KafkaProtocolError: what arrived is not an answer to what was asked.
        """
        self._filled += len(data)
        return self._several() if self._into is self._small else self._large()

    def _several(self) -> list[tuple[int, Any]]:
        """Take the responses that are complete; the rest moves to the front."""
        found: list[tuple[int, Any]] = []
        at = 0
        while self._filled - at >= _SIZE_BYTES:
            start = at + _SIZE_BYTES
            size = int.from_bytes(self._small[at:start], "big", signed=True)
            self._validate_frame_size(size)
            if size > _SMALL_FRAME_BYTES - _SIZE_BYTES:
                self._begin_large(start, size)
                return found
            if start + size > self._filled:
                break
            found.append(self._response(self._small[start : start + size], own=False))
            at = start + size
        rest = self._filled - at
        if at:
            self._small[:rest] = bytes(self._small[at : self._filled])
        self._filled = rest
        return found

    def _begin_large(self, start: int, size: int) -> None:
        # Not a bytearray: that would be filled with zeros first.
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
        """Decode one response; ``own`` says that the frame may be kept."""
        asked = self.in_flight_requests[0] if self.in_flight_requests else None
        try:
            if isinstance(asked, _Produced):
                return self._answered(
                    asked.correlation_id, frame
                ), produce_request.decode_produce_response(frame)
            if asked is not None and asked.request_api_key == _FETCH:
                version = asked.request_api_version
                if version in fetch_response.VERSIONS:
                    number = self._answered(asked.correlation_id, frame)
                    kept = frame if own else memoryview(bytearray(frame))
                    return number, fetch_response.decode_fetch_response(kept, version)
        except (ValueError, IndexError, struct.error) as error:
            raise KafkaProtocolError(f"response of {len(frame)} bytes: {error}") from error
        return self._by_library(frame)

    def _answered(self, expected: int, frame: memoryview) -> int:
        self.in_flight_requests.popleft()
        answered = int.from_bytes(frame[:4], "big", signed=True)
        if answered != expected:
            raise CorrelationIdError(f"answer to request {answered} instead of {expected}")
        return expected

    def _by_library(self, frame: memoryview) -> tuple[int, Any]:
        copy = KafkaBytes(len(frame))
        copy.write(frame)
        copy.seek(0)
        answer: tuple[int, Any] = self._process_response(copy)
        return answer

    def send_request(self, request: Any, correlation_id: int | None = None) -> int:
        """Encode a request; ``send_bytes`` returns it."""
        if not isinstance(request, produce_request.ProduceBatches):
            return int(super().send_request(request, correlation_id))
        if correlation_id is None:
            correlation_id = int(self._next_correlation_id())
        self.bytes_to_send += request.pieces(correlation_id, self._client_id)
        self.in_flight_requests.append(_Produced(correlation_id))
        return correlation_id

    def send_bytes(self) -> list[bytes | memoryview]:
        """Return what waits to be sent, in pieces."""
        pieces, self.bytes_to_send = self.bytes_to_send, []
        return pieces
