"""The console with many partitions and groups, on a pty: ``python -m bench.console``.

A child process shows a made pipeline of thousands of partitions and 1,000 groups, rebuilt at
every poll as of a real one; reading the clusters is no part of it. Figures are of its terminal.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil

from bench.machine import describe
from bench.sections import put_section
from tests.support.terminal import Terminal
from tests.support.views import Made, StubFeed, large

SIZE = (120, 40)
# The most bytes of a refresh, by the size of the terminal.
BYTES_TARGETS = {(80, 24): 5_000, SIZE: 10_000, (200, 60): 25_000}
PARTITIONS, GROUPS = 5_000, 1_000
KEY_TARGET_MS, CPU_TARGET, RSS_TARGET_MB = 30.0, 2.0, 250.0
# The first rates and trends take a few polls.
_WARM_UP_S, _IDLE_S = 15.0, 40.0
_KEYS = 100
_APART_S = 0.1


class Ticking(StubFeed):
    """Shows the made pipeline repeatedly, with ``copied`` more records on each partition."""

    def __init__(self, made: Made, interval: float, copied: int) -> None:
        super().__init__(made)
        self.interval, self._copied = interval, copied
        self._over = threading.Event()

    def start(self, listener) -> None:  # type: ignore[no-untyped-def]
        super().start(listener)
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        while not self._over.wait(self.interval):
            self.made.now += self.interval
            if self._copied:
                self.made.copy(self._copied)
            self.tell()

    def close(self) -> None:
        self._over.set()


def child(interval: float, copied: int, partitions: int) -> None:
    """Show the console until it is left."""
    from k2ktui.console import terminal

    theme = terminal.prepare(None)
    from k2ktui.console.app import open_console
    from k2ktui.console.session import Options, Session

    made = large(partitions, GROUPS)
    open_console(Session(Ticking(made, interval, copied), made.pair, options=Options(theme=theme)))


@dataclass(frozen=True, slots=True)
class Figures:
    """What was measured of one child.

    Attributes:
        keys_ms: from a keystroke to the first byte that it paints.
        bytes_each: written for a refresh.
        cpu: percent of a core without typing.
        rss_mb: resident memory at the end.
    """

    keys_ms: list[float]
    bytes_each: list[int]
    cpu: float
    rss_mb: float


def measure(
    interval: float, copied: int, keys: int, partitions: int, size: tuple[int, int] = SIZE
) -> Figures:
    """Measure a console that is refreshed every ``interval`` seconds."""
    arguments = map(str, (interval, copied, partitions))
    command = [sys.executable, "-m", "bench.console", "--child", *arguments]
    env = {"PYTHONPATH": os.getcwd(), "XDG_CONFIG_HOME": tempfile.gettempdir()}
    with Terminal(command, size=size, env=env) as terminal:
        terminal.await_text("bastion1", 120)
        terminal.send("2")
        terminal.await_text("topic-00", 30)
        terminal.quiet(_WARM_UP_S)
        process = psutil.Process(terminal.process.pid)
        process = next(iter(process.children()), process)
        process.cpu_percent()
        began, sizes = time.monotonic(), []
        while time.monotonic() < began + _IDLE_S:
            if found := terminal.read(min(1.0, interval / 2)):
                sizes.append(len(found))
        cpu = process.cpu_percent()
        latencies = [_latency(terminal, "j" if n % 40 < 30 else "k") for n in range(keys)]
        rss = process.memory_info().rss / 1e6
        terminal.send("\x03")
        terminal.wait()
    return Figures(latencies, sizes or [0], cpu, rss)


def _latency(terminal: Terminal, key: str) -> float:
    """Milliseconds from a keystroke to the first byte after it."""
    terminal.read(_APART_S)
    began = time.monotonic()
    terminal.send(key)
    terminal.first(5.0)
    return 1000 * (time.monotonic() - began)


def report(idle: Figures, sizes: Mapping[tuple[int, int], Figures], partitions: int) -> str:
    """Return the section of RESULTS.md: idle, and busy in terminals of each size."""
    busy = sizes[SIZE]
    rows = [
        ("key to paint, nothing else running", _key(idle), f"{KEY_TARGET_MS:.0f} ms (95 %)"),
        ("key to paint, all rows change every 2 s", _key(busy), f"{KEY_TARGET_MS:.0f} ms (95 %)"),
        ("CPU, polled every 5 s, nothing changes", f"{idle.cpu:.1f} %", f"{CPU_TARGET:.0f} %"),
        ("CPU, all rows change every 2 s", f"{busy.cpu:.1f} %", "-"),
        ("memory", f"{max(idle.rss_mb, busy.rss_mb):.0f} MB", f"{RSS_TARGET_MB:.0f} MB"),
        ("largest write, nothing changes: charts move on", f"{max(idle.bytes_each):,}", "-"),
        *(
            (
                f"bytes a refresh, all rows change, {width} by {height}",
                f"{statistics.median(sizes[width, height].bytes_each):,.0f}",
                f"{most:,} (median)",
            )
            for (width, height), most in BYTES_TARGETS.items()
        ),
    ]
    lines = [
        f"## Console: {partitions:,} partitions, {GROUPS:,} groups, {SIZE[0]} by {SIZE[1]}",
        "",
        *(f"{name}: {value}  " for name, value in describe().items() if name in _SHOWN),
        f"Load average at the end: {os.getloadavg()[0]:.1f}",
        "",
        "| | measured | target |",
        "|---|---|---|",
        *(f"| {what} | {value} | {target} |" for what, value, target in rows),
        "",
        "`python -m bench.console`: a console on a pty, 256 colours, screen 2, of a made pipeline;",
        "views are put together at every poll, clusters are not read. A key is a cursor movement;",
        "its time ends with the first byte that it paints (median / 95 % / "
        f"largest of {len(idle.keys_ms)}).",
        "",
    ]
    return "\n".join(lines)


_SHOWN = ("Date", "CPU", "Python", "k2ktui")


def _key(figures: Figures) -> str:
    found = sorted(figures.keys_ms)
    values = (statistics.median(found), found[int(0.95 * len(found))], found[-1])
    return " / ".join(f"{value:.0f}" for value in values) + " ms"


def main() -> None:
    """Measure, print the section, and put it into RESULTS.md unless it is only to be printed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    parser.add_argument("--partitions", type=int, default=PARTITIONS, metavar="COUNT")
    parser.add_argument("--keep", action="store_true", help="write the figures to RESULTS.md")
    options = parser.parse_args()
    if options.child:
        interval, copied, partitions = options.child
        child(float(interval), int(copied), int(partitions))
        return
    count = options.partitions
    idle = measure(5.0, 0, _KEYS, count)
    sizes = {size: measure(2.0, 10, _KEYS, count, size) for size in BYTES_TARGETS}
    text = report(idle, sizes, count)
    print(text)
    if options.keep:
        name = "console" if count == PARTITIONS else f"console-{count}"
        put_section(Path(__file__).parent / "RESULTS.md", name, text)


if __name__ == "__main__":
    main()
