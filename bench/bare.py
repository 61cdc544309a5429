"""The reference: the same batches through bare sockets, and nothing else.

Each process has a connection to either broker, two buffers, and some of the partitions. It receives
a fetch response X"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import socket
import struct
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from confluent_kafka import KafkaException

from bench.clusters import admin, create_topic, end_offsets, led_partitions, wait_for
from bench.model import Job, Launch
from k2ktui.kafka.wire.fetch_response import decode_fetch_response
from k2ktui.kafka.wire.produce_request import ProduceBatches, decode_produce_response

_FETCH, _FETCH_VERSION, _PRODUCE_VERSION = 1, 12, 9
_CLIENT = b"bare"
_MAX_BYTES, _PARTITION_BYTES, _SOCKET_BYTES = 16 << 20, 4 << 20, 4 << 20
_WAIT_MS, _IN_FLIGHT, _TIMEOUT_S = 500, 5, 60.0
_FRAME = struct.Struct(">i")
_HEADER = struct.Struct(">hhih")
# replica, wait, least bytes, most bytes, isolation, session, epoch of the session
_FETCH_TOP = struct.Struct(">iiiibii")
# partition, leader epoch, offset, last fetched epoch, log start offset, most bytes
_FETCH_PARTITION = struct.Struct(">iiqiqi")
_BASE, _BATCH = struct.Struct(">q"), struct.Struct(">qi")
_LAST_DELTA, _DELTA_AT = struct.Struct(">i"), 23


@dataclass(frozen=True, slots=True)
class BareSockets:
    """The reference in one configuration."""

    key: str = "bare"
    label: str = "bare sockets: no transaction, no mapping"
    exactly_once: bool = False
    transforms: bool = False
    mode: str = ""

    def prepare(self, job: Job) -> Launch:
        """Return the command; its topic has the run's name as prefix."""
        into = f"{job.run}.{job.topic}"
        command = (sys.executable, "-m", "bench.bare", job.source, job.target, job.topic, into)
        return Launch(command, into, " ".join(command[1:]), ends=not job.steady)


class _Connection:
    """A blocking connection to a broker; responses are received into two buffers in turn."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), _TIMEOUT_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for option in (socket.SO_RCVBUF, socket.SO_SNDBUF):
            self._socket.setsockopt(socket.SOL_SOCKET, option, _SOCKET_BYTES)
        self._buffer, self._other = bytearray(1 << 20), bytearray(1 << 20)

    def send(self, pieces: list[bytes | memoryview]) -> None:
        left = sum(map(len, pieces))
        while left:
            sent = self._socket.sendmsg(pieces)
            left -= sent
            while pieces and sent >= len(pieces[0]):
                sent -= len(pieces.pop(0))
            if sent:
                pieces[0] = memoryview(pieces[0])[sent:]

    def receive(self) -> memoryview:
        """Return the next frame; it is valid until the next call but one."""
        self._buffer, self._other = self._other, self._buffer
        (size,) = _FRAME.unpack(self._take(_FRAME.size))
        return self._take(size)

    def _take(self, size: int) -> memoryview:
        if size > len(self._buffer):
            self._buffer = bytearray(2 * size)
        frame = memoryview(self._buffer)[:size]
        got = 0
        while got < size:
            count = self._socket.recv_into(frame[got:])
            if not count:
                raise ConnectionError("the broker closed the connection")
            got += count
        return frame


class _Target:
    """Produce requests, a few of them in flight."""

    def __init__(self, address: str, topic: str) -> None:
        self._connection = _Connection(address)
        self._topic = topic
        self._in_flight = 0

    def send(self, batches: list[tuple[int, memoryview]]) -> None:
        """Send a batch of each of some partitions."""
        if self._in_flight == _IN_FLIGHT:
            self._await_one()
        request = ProduceBatches(None, {self._topic: batches}, _PRODUCE_VERSION)
        self._connection.send(request.pieces(0, _CLIENT.decode()))
        self._in_flight += 1

    def finish(self) -> None:
        """Wait until all that was sent is acknowledged."""
        while self._in_flight:
            self._await_one()

    def _await_one(self) -> None:
        response = decode_produce_response(self._connection.receive())
        self._in_flight -= 1
        for topic in response.responses:
            for partition in topic.partition_responses:
                if partition.error_code:
                    raise RuntimeError(
                        f"{partition.index}: error {partition.error_code} {partition.error_message}"
                    )


def _fetch_request(topic: str, offsets: Mapping[int, int]) -> list[bytes | memoryview]:
    name = topic.encode()
    assert len(name) < 127
    assert len(offsets) < 127
    parts = [_HEADER.pack(_FETCH, _FETCH_VERSION, 0, len(_CLIENT)), _CLIENT, b"\0"]
    parts += [_FETCH_TOP.pack(-1, _WAIT_MS, 1, _MAX_BYTES, 1, 0, -1), b"\x02"]
    parts += [bytes([len(name) + 1]), name, bytes([len(offsets) + 1])]
    for index, offset in offsets.items():
        parts += [_FETCH_PARTITION.pack(index, -1, offset, -1, -1, _PARTITION_BYTES), b"\0"]
    # end of the topic, no forgotten topics, no rack, no tags
    body = b"".join([*parts, b"\0\x01\x01\0"])
    return [_FRAME.pack(len(body)) + body]


def _split(records: memoryview) -> Iterator[tuple[int, memoryview]]:
    """Yield the whole batches of a partition with the offset that follows each of them."""
    at = 0
    while len(records) - at > _DELTA_AT + _LAST_DELTA.size:
        base, length = _BATCH.unpack_from(records, at)
        end = at + _BATCH.size + length
        if end > len(records):
            return
        (delta,) = _LAST_DELTA.unpack_from(records, at + _DELTA_AT)
        _BASE.pack_into(records, at, 0)  # brokers accept no other; no checksum covers it
        yield base + delta + 1, records[at:end]
        at = end


def _copy(source: str, target: str, topic: str, into: str, ends: dict[int, int]) -> None:
    """Copy partitions up to these offsets; runs in a process of its own."""
    reader, writer = _Connection(source), _Target(target, into)
    offsets = dict.fromkeys(ends, 0)

    def request_next() -> bool:
        if all(offsets[index] >= end for index, end in ends.items()):
            return False
        reader.send(_fetch_request(topic, offsets))
        return True

    requested = request_next()
    while requested:
        rounds = _rounds(reader.receive(), offsets)
        requested = request_next()  # the broker reads while these are sent
        for batches in rounds:
            writer.send(batches)
    writer.finish()


def _rounds(frame: memoryview, offsets: dict[int, int]) -> list[list[tuple[int, memoryview]]]:
    """Return the batches of a fetch response by produce request, and move the offsets on."""
    rounds: list[list[tuple[int, memoryview]]] = []
    fetched = decode_fetch_response(frame, _FETCH_VERSION)
    for part in (one for topic in fetched.responses for one in topic.partitions):
        if part.error_code:
            raise RuntimeError(f"partition {part.partition_index}: error {part.error_code}")
        for number, (following, batch) in enumerate(_split(part.records or memoryview(b""))):
            if number == len(rounds):
                rounds.append([])
            # A produce request has one batch per partition.
            rounds[number].append((part.partition_index, batch))
            offsets[part.partition_index] = following
    return rounds


def _leads(target: str, topic: str, partitions: int) -> bool:
    """Whether the broker answers as the leader; it says that it is a moment before it does."""
    try:
        end_offsets(target, topic, partitions)
    except KafkaException:
        return False
    return True


def main(arguments: list[str] | None = None) -> int:
    """Copy a topic up to its present end; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m bench.bare", description=__doc__)
    for name in ("source", "target", "topic", "into"):
        parser.add_argument(name)
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    given = parser.parse_args(arguments)
    partitions = led_partitions(admin(given.source), given.topic)
    ends = dict(enumerate(end_offsets(given.source, given.topic, partitions)))
    create_topic(given.target, given.into, partitions)
    wait_for(lambda: _leads(given.target, given.into, partitions), "the leaders", _TIMEOUT_S)
    count = min(given.processes, len(ends))
    shares = [{p: end for p, end in ends.items() if p % count == number} for number in range(count)]
    # Not forked: a client of librdkafka exists here, whose threads a fork does not have.
    start = multiprocessing.get_context("spawn").Process
    where = (given.source, given.target, given.topic, given.into)
    children = [start(target=_copy, args=(*where, share)) for share in shares]
    for child in children:
        child.start()
    for child in children:
        child.join()
    return max(abs(child.exitcode or 0) for child in children)


if __name__ == "__main__":
    sys.exit(main())
