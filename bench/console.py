"""The console with many partitions and groups, on a pty: ``python -m bench.console``.

A child process (``bench.console_child``) shows a made pipeline of thousands of partitions and
1,000 groups, rebuilt at every poll as of a real one; reading the clusters is no part of it. Figures
are of its terminal.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from bench.console_child import GROUPS
from bench.machine import describe
from bench.sections import put_section
from tests.support.console.terminal import Terminal

SIZE = (120, 40)
# The most bytes of a refresh, by the size of the terminal.
BYTES_TARGETS = {(80, 24): 5_000, SIZE: 10_000, (200, 60): 25_000}
PARTITIONS = 5_000
KEY_TARGET_MS, CPU_TARGET, RSS_TARGET_MB = 30.0, 2.0, 250.0
BUSY_S, IDLE_S = 2.0, 5.0
# The first rates and trends take a few polls.
_WARM_UP_S = 15.0
_KEYS, _APART_S = 100, 0.1
# After that long without a byte, a refresh is over.
_OVER_S = 0.5
_REDRAW = "\x0c"


@dataclass(frozen=True, slots=True)
class Shown:
    """A screen to measure.

    Attributes:
        name: in the report.
        keys: open it from anywhere, one after the other.
        sees: a text that is on it.
        leave: keys that return to where the next one can be opened.
        down: keys that move the cursor down before as many move it up. At an end of the table a key
            would paint nothing, and be measured until the next refresh.
    """

    name: str
    keys: Sequence[str]
    sees: str
    leave: Sequence[str] = ()
    down: int = 30


SCREENS = (
    Shown("Overview", ["1"], "Failover", down=9),
    Shown("Replication", ["2"], "topic-00"),
    Shown("Groups", ["3"], "group-00"),
    Shown("Groups by partition", ["3", "v"], "group-00", ["v"]),
    Shown("one group", ["3", "\r"], "topic-00", ["q"], down=4),
    Shown("Translate, plan of all groups", ["4", "a", "\r"], "group-00", ["q"]),
    Shown("Jobs", ["5"], "bastion1", down=1),
    Shown("Journal", ["7"], "ann@bastion1"),
    Shown("Drill, running", ["8", "\r"], "fence-producers", ["q"], down=8),
)


@dataclass(frozen=True, slots=True)
class Figures:
    """What was measured of one screen.

    Attributes:
        bytes_each: written for a refresh, of each that wrote anything.
        cpu: percent of a core without typing.
        keys_ms: from a keystroke to the first byte that it paints.
    """

    bytes_each: list[int]
    cpu: float
    keys_ms: list[float]


@dataclass(frozen=True, slots=True)
class Session:
    """What was measured of one console.

    Attributes:
        screens: by name.
        rss_mb: resident memory at the end.
    """

    screens: Mapping[str, Figures]
    rss_mb: float


def measure(
    interval: float,
    copied: int,
    partitions: int,
    size: tuple[int, int],
    screens: Sequence[Shown] = SCREENS,
    *,
    refreshes: int,
    keys: int,
) -> Session:
    """Measure screens of a console that is refreshed every ``interval`` seconds."""
    arguments = map(str, (interval, copied, partitions))
    command = [sys.executable, "-m", "bench.console_child", *arguments]
    env = {"PYTHONPATH": os.getcwd(), "XDG_CONFIG_HOME": tempfile.mkdtemp()}
    figures_by_screen = {}
    with Terminal(command, size=size, env=env) as terminal:
        terminal.await_text("bastion1", 120)
        terminal.quiet(_WARM_UP_S)
        process = psutil.Process(terminal.process.pid)
        process = next(iter(process.children()), process)
        for screen in screens:
            _press(terminal, screen.keys)
            terminal.send(_REDRAW)
            terminal.await_text(screen.sees, 30)
            terminal.quiet(2 * interval)
            figures_by_screen[screen.name] = _measure_screen(
                terminal, process, interval * refreshes, keys, screen.down
            )
            _press(terminal, screen.leave)
        rss = process.memory_info().rss / 1e6
        terminal.send("\x03")
        terminal.wait()
    return Session(figures_by_screen, rss)


def _press(terminal: Terminal, keys: Sequence[str]) -> None:
    for key in keys:
        terminal.send(key)
        terminal.read(_OVER_S)


def _measure_screen(
    terminal: Terminal, process: psutil.Process, seconds: float, keys: int, down: int
) -> Figures:
    sizes = []
    process.cpu_percent()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if data := terminal.read(_OVER_S):
            sizes.append(len(data))
    cpu = process.cpu_percent()
    latencies = [_latency(terminal, "j" if n % (2 * down) < down else "k") for n in range(keys)]
    return Figures(sizes or [0], cpu, [latency for latency in latencies if latency])


def _latency(terminal: Terminal, key: str) -> float:
    """Milliseconds from a keystroke to the first byte after it; 0 if it paints nothing."""
    terminal.read(_APART_S)
    began = time.monotonic()
    terminal.send(key)
    return 1000 * (time.monotonic() - began) if terminal.first(1.0) else 0.0


Sizes = Mapping[tuple[int, int], Session]


def report_bytes(sizes: Sizes, partitions: int, seconds: float) -> str:
    """Return the section of RESULTS.md about what is written."""
    rows = [
        [
            name,
            *(
                f"{statistics.median(session.screens[name].bytes_each):,.0f} / "
                f"{max(session.screens[name].bytes_each):,}"
                for session in sizes.values()
            ),
        ]
        for name in next(iter(sizes.values())).screens
    ]
    rows.append(["**target, median**", *(f"{BYTES_TARGETS[size]:,}" for size in sizes)])
    return "\n".join(
        [
            f"## Console: bytes a refresh, {partitions:,} partitions, {GROUPS:,} groups",
            "",
            *_machine(),
            "",
            f"| screen | {' | '.join(f'{width} by {height}' for width, height in sizes)} |",
            f"|---|{'---|' * len(sizes)}",
            *(f"| {' | '.join(row)} |" for row in rows),
            "",
            f"`python -m bench.console --only bytes --keep`: a console on a pty, 256 colours; every"
            f" {BUSY_S:.0f} s for {seconds:.0f} s all figures",
            "change (positions, ends, the lag of every partition, what four of five groups have",
            "committed on both clusters, heartbeats, the log, the drill). Median / largest: the",
            "largest is one with charts, drawn every 5 s.",
            "",
        ]
    )


def report(idle: Session, busy: Session, partitions: int) -> str:
    """Return the section of RESULTS.md about keys, CPU and memory."""
    rows = [
        [
            name,
            _key(idle.screens[name].keys_ms),
            _key(busy.screens[name].keys_ms),
            f"{idle.screens[name].cpu:.1f} %",
            f"{busy.screens[name].cpu:.1f} %",
        ]
        for name in idle.screens
    ]
    most = f"{KEY_TARGET_MS:.0f} ms (95 %)"
    rows.append(["**target**", most, most, f"{CPU_TARGET:.0f} %", "-"])
    rss = max(idle.rss_mb, busy.rss_mb)
    return "\n".join(
        [
            f"## Console: {partitions:,} partitions, {GROUPS:,} groups, {SIZE[0]} by {SIZE[1]}",
            "",
            *_machine(),
            f"Memory: {rss:.0f} MB (target {RSS_TARGET_MB:.0f} MB)",
            "",
            "| screen | key to paint, nothing changes | key to paint, all figures change | CPU, "
            "nothing changes | CPU, all figures change |",
            "|---|---|---|---|---|",
            *(f"| {' | '.join(row)} |" for row in rows),
            "",
            "`python -m bench.console --only keys --keep`: a console on a pty, 256 colours, of a"
            " made pipeline that is polled",
            f"every {IDLE_S:.0f} s (nothing changes) and every {BUSY_S:.0f} s (all figures change,"
            " also what four of five groups have committed);",
            "views are put together at every poll, clusters are not read.",
            "A key is a cursor movement; its time ends with the first byte that it paints"
            " (median / 95 % / largest).",
            "",
        ]
    )


_SHOWN = ("Date", "CPU", "Python", "k2ktui")


def _machine() -> list[str]:
    lines = [f"{name}: {value}  " for name, value in describe().items() if name in _SHOWN]
    return [*lines, f"Load average at the end: {os.getloadavg()[0]:.1f}  "]


def _key(times: Sequence[float]) -> str:
    ordered = sorted(times)
    if not ordered:
        return "-"
    values = (statistics.median(ordered), ordered[int(0.95 * len(ordered))], ordered[-1])
    return " / ".join(f"{value:.0f}" for value in values) + " ms"


def main() -> None:
    """Measure, print the sections, and put them into RESULTS.md unless only to be printed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--partitions", type=int, default=PARTITIONS, metavar="COUNT")
    parser.add_argument("--only", choices=("bytes", "keys"), help="one of the two sections")
    parser.add_argument("--screen", action="append", metavar="NAME", help="only these screens")
    parser.add_argument("--refreshes", type=int, default=12, metavar="COUNT")
    parser.add_argument("--keys", type=int, default=_KEYS, metavar="COUNT")
    parser.add_argument("--keep", action="store_true", help="write the figures to RESULTS.md")
    options = parser.parse_args()
    count, refreshes = options.partitions, options.refreshes
    screens = [screen for screen in SCREENS if not options.screen or screen.name in options.screen]
    texts = {}
    if options.only != "bytes":
        wanted = {"refreshes": refreshes, "keys": options.keys}
        idle = measure(IDLE_S, 0, count, SIZE, screens, **wanted)
        busy = measure(BUSY_S, 10, count, SIZE, screens, **wanted)
        texts["console"] = report(idle, busy, count)
    if options.only != "keys":
        sizes = {
            size: measure(BUSY_S, 10, count, size, screens, refreshes=refreshes, keys=0)
            for size in BYTES_TARGETS
        }
        texts["console-bytes"] = report_bytes(sizes, count, refreshes * BUSY_S)
    for name, text in texts.items():
        print(text)
        if options.keep:
            section = name if count == PARTITIONS else f"{name}-{count}"
            put_section(Path(__file__).parent / "RESULTS.md", section, text)


if __name__ == "__main__":
    main()
