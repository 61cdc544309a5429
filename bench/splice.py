"""What a relay of batches takes with and without its own memory: ``python -m bench.splice --keep``.

A process sends batches over loopback, another one passes them on to a third one, and changes the
header of each batch on the way. Once it receives them into a buffer and sends them from there, once
it receives and sends only the headers and splices the rest from socket to socket through a pipe.
There is no Kafka: it is the least that a copy of batches can take either way.
"""

from __future__ import annotations

import argparse
import fcntl
import multiprocessing
import os
import socket
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bench.machine import describe
from bench.model import GB
from bench.sections import put_section

_HEADER = 61
_BUFFER = 1 << 20
_F_SETPIPE_SZ = 1031
_RESULTS = Path(__file__).with_name("RESULTS.md")


@dataclass(frozen=True, slots=True)
class Relayed:
    """CPU seconds per GB of the process that passes batches on, and its GB/s."""

    user: float
    system: float
    rate: float


def _through_memory(source: socket.socket, target: socket.socket, batch: int) -> None:
    """Fill a buffer with whole batches, change their headers, send it."""
    buffer = memoryview(bytearray(_BUFFER // batch * batch or batch))
    while True:
        filled = 0
        while filled < len(buffer):
            received = source.recv_into(buffer[filled:])
            if not received:
                break
            filled += received
        for at in range(0, filled, batch):
            buffer[at : at + 8] = bytes(8)
        target.sendall(buffer[:filled])
        if filled < len(buffer):
            return


def _through_a_pipe(source: socket.socket, target: socket.socket, batch: int) -> None:
    """Receive and send the headers; the payloads stay in the kernel."""
    header = bytearray(_HEADER)
    begin, end = os.pipe()
    fcntl.fcntl(end, _F_SETPIPE_SZ, _BUFFER)
    try:
        while source.recv_into(header, _HEADER, socket.MSG_WAITALL) == _HEADER:
            header[0:8] = bytes(8)
            target.sendall(header, socket.MSG_MORE)
            left = batch - _HEADER
            while left:
                moved = os.splice(source.fileno(), end, left)
                left -= moved
                while moved:
                    moved -= os.splice(begin, target.fileno(), moved)
    finally:
        os.close(begin)
        os.close(end)


WAYS: dict[str, Callable[[socket.socket, socket.socket, int], None]] = {
    "buffer": _through_memory,
    "pipe": _through_a_pipe,
}


def measure(way: str, batch: int, gigabytes: float) -> Relayed:
    """Pass on so many GB in batches of ``batch`` bytes, and return what it took."""
    context = multiprocessing.get_context("fork")
    with (
        socket.create_server(("127.0.0.1", 0)) as into,
        socket.create_server(("127.0.0.1", 0)) as out,
    ):
        count = int(gigabytes * GB) // batch
        sender = context.Process(target=_send, args=(into.getsockname(), batch, count))
        receiver = context.Process(target=_discard, args=(out,))
        sender.start()
        receiver.start()
        source, _ = into.accept()
        with source, socket.create_connection(out.getsockname()) as target:
            before, began = os.times(), time.monotonic()
            WAYS[way](source, target, batch)
            after, took_s = os.times(), time.monotonic() - began
    sender.join()
    receiver.join()
    copied = batch * count / GB
    return Relayed(
        (after.user - before.user) / copied,
        (after.system - before.system) / copied,
        copied / took_s,
    )


def _send(address: tuple[str, int], batch: int, count: int) -> None:
    block = bytes(batch)
    with socket.create_connection(address) as target:
        for _ in range(count):
            target.sendall(block)


def _discard(server: socket.socket) -> None:
    buffer = bytearray(_BUFFER)
    source, _ = server.accept()
    with source:
        while source.recv_into(buffer):
            pass


def section(results: dict[tuple[str, int], Relayed]) -> str:
    """Return the section of RESULTS.md."""
    shown = ("Date", "CPU", "Kernel", "Python", "k2ktui")
    rows = [
        f"| {batch >> 10} KiB | {way} | {one.user:.2f} | {one.system:.2f} "
        f"| {one.user + one.system:.2f} | {one.rate:.2f} |"
        for (way, batch), one in results.items()
    ]
    return "\n".join(
        [
            "## Batches passed on through memory and through a pipe",
            "",
            *(f"{name}: {value}  " for name, value in describe().items() if name in shown),
            f"Load average at the end: {os.getloadavg()[0]:.1f}",
            "",
            "| batch | through a | user, CPU s/GB | system, CPU s/GB | together | GB/s |",
            "|---|---|---|---|---|---|",
            *rows,
            "",
            "`python -m bench.splice`: one process sends, one passes on and changes the header of",
            "each batch, one discards, over loopback and without Kafka. Buffer: `recv_into` of up",
            "to 1 MiB and one `sendall`. Pipe: the header by itself, the rest by `splice`. CPU of",
            "the process in the middle.",
            "",
        ]
    )


def main(arguments: list[str] | None = None) -> int:
    """Measure, print, and put the section into RESULTS.md if asked to."""
    parser = argparse.ArgumentParser(prog="python -m bench.splice", description=__doc__)
    parser.add_argument("--gigabytes", type=float, default=8.0, help="how much each time")
    parser.add_argument("--keep", action="store_true", help="write the section of RESULTS.md")
    options = parser.parse_args(arguments)
    results = {
        (way, batch): measure(way, batch, options.gigabytes)
        for batch in (16 << 10, 64 << 10, 256 << 10)
        for way in WAYS
    }
    text = section(results)
    print(text)
    if options.keep:
        put_section(_RESULTS, "splice", text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
