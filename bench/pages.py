"""The tables of README.md, docs/deployment.md and docs/capacity.md, from results.json.

Every figure is of one commit, that of the newest row: ``python -m bench --report`` writes them.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from bench import capacity
from bench.model import MB, CopyResult, DataSet, DelayResult, Results
from bench.ours import DEFAULT_MODE
from bench.plan import EXCLUSIVE, MAIN, contenders
from bench.sections import put_section
from bench.targets import (
    EOS,
    RECORD_PATH,
    TUNED,
    Compared,
    chosen,
    compare,
    differ,
    fraction,
    usable,
)
from k2ktui.runtime.paths import write_atomically

BENCH = Path(__file__).parent
README = BENCH.parent / "README.md"
DEPLOYMENT = BENCH.parent / "docs" / "deployment.md"
SPEED, SIZING = "speed", "sizing"
_USUAL = 4  # partitions
_READ = (
    "Each figure of MirrorMaker 2 is the better\none of tuned and exactly-once tuned. It writes "
    "uncompressed batches, which is faster; the next column is over a tuned one that keeps\nthe "
    "source's codec, as k2ktui does. Uncompressed, 4 partitions if nothing else is said; "
    "RESULTS.md has all rows."
)
# What README.md shows, where k2ktui is not slower; it shows everything where it is.
_SHOWN = (
    "perf-1000-none-4-16k",
    "1000-none-4-64k",
    "100-none-4-16k",
    "1000-lz4-4-16k",
    "1000-snappy-4-16k",
    "1000-zstd-4-16k",
)
_TIMES = "\N{MULTIPLICATION SIGN}"


def write(results: Results) -> None:
    """Write all tables that are made of the results."""
    put_section(README, SPEED, speed(results))
    put_section(DEPLOYMENT, SIZING, sizing(results))
    known = capacity.constants((BENCH / "RESULTS.md").read_text(), results)
    page = capacity.put_tables(capacity.PAGE.read_text(), capacity.tables(known))
    write_atomically(capacity.PAGE, page.encode())


def speed(results: Results) -> str:
    """Return the section of README.md: copies beside MirrorMaker 2, delay and start."""
    now = results.current()
    rows = [
        one
        for one in compare(now)
        if one.data.name in _SHOWN or (one.ratio is not None and one.ratio < 1)
    ]
    sentences = " ".join((*_delays(now), *_starts(now)))
    return "\n".join(
        [*_table(rows), "", f"{_origin(now)} {_READ}", *([sentences] * bool(sentences)), ""]
    )


def summary(results: Results) -> str:
    """Return the section of RESULTS.md: all copies, and those of another mode that differ."""
    now = results.current()
    rows: list[Compared] = []
    other = {one.data.name: one for one in compare(now, EXCLUSIVE)}
    for one in compare(now):
        rows.append(one)
        second = other.get(one.data.name)
        if second is not None and differ(second.ours, one.ours):
            rows.append(second)
    if not rows:
        return ""
    return "\n".join(["## Copies beside MirrorMaker 2", "", *_table(rows), "", _origin(now), ""])


def _table(rows: Iterable[Compared]) -> list[str]:
    return [
        "| records on the source | k2ktui, records/s | over tuned MirrorMaker 2 "
        "| in the same codec | of bare sockets | CPU s/GB | of MirrorMaker 2's | brokers, CPU s/GB "
        "| with MirrorMaker 2 |",
        "|---|---|---|---|---|---|---|---|---|",
        *(_row(one) for one in rows),
    ]


def _short(data: DataSet) -> str:
    """Name a data set; uncompressed batches in four partitions are what is usual."""
    who = "`kafka-producer-perf-test` with Kafka's defaults: " if data.values == "perf" else ""
    codec = "" if data.codec == "none" else f", {data.codec}"
    partitions = "" if data.partitions == _USUAL else f", {data.partitions} partitions"
    return f"{who}{data.size:,} B, batches of {data.batch_kib} KiB{codec}{partitions}"


def _row(one: Compared) -> str:
    ours = one.ours
    ratio = "-" if one.ratio is None else f"{one.ratio:.2f} {_TIMES}"
    if one.ratio is not None and one.ratio < 1:
        ratio = f"**{ratio}: slower**"
    cpu = "-" if ours.cpu_per_gb is None else f"{ours.cpu_per_gb:.1f}"
    part = "-"
    if ours.cpu_per_gb and one.cpu_per_gb:
        part = fraction(ours.cpu_per_gb / one.cpu_per_gb)
    brokers = "-" if not one.brokers else f"{one.brokers:.1f}"
    same = "-" if one.over_same_codec is None else f"{one.over_same_codec:.2f} {_TIMES}"
    bare = "-" if one.of_bare is None else f"{one.of_bare:.2f}"
    rate = "-" if ours.rate is None else f"{ours.rate:,.0f}"
    mode = "" if ours.mode in ("", DEFAULT_MODE) else f", `{ours.mode}`"
    cells = (_short(one.data) + mode, rate, ratio, same, bare, cpu, part, _brokers(ours), brokers)
    return f"| {' | '.join(cells)} |"


def _brokers(one: CopyResult) -> str:
    both = one.brokers_cpu_per_gb
    return "-" if both is None else f"{sum(both):.1f}"


def _origin(results: Results) -> str:
    """Say when, with which commit and in which mode everything was measured."""
    dates = sorted(one.date.partition(" ")[0] for one in results.rows)
    if not dates:
        return "Nothing is measured."
    days = dates[0] if dates[0] == dates[-1] else f"{dates[0]} to {dates[-1]}"
    modes = {one.mode for one in results.rows if one.contender == MAIN and one.mode}
    mode = next(iter(modes), DEFAULT_MODE)
    default = ", the default" if mode == DEFAULT_MODE else ""
    kafka = results.machine.get("Apache Kafka", "").partition(" ")[0]
    return (
        f"Measured {days} with k2ktui at {results.commit}, `coordination.mode: {mode}`{default}, "
        f"exactly once;\nApache Kafka {kafka}, {results.machine.get('CPU', '')}, which the brokers "
        f"share{'; their data in memory' if results.settings.get('data') == 'memory' else ''}."
    )


def _delays(results: Results) -> Iterable[str]:
    known = {one.contender: one for one in results.delays if not one.error}
    if MAIN not in known:
        return
    ours = known[MAIN]
    peers = "; ".join(
        f"{_name(key)}: {_delay(known[key], ours)}" for key in (EOS, TUNED[1]) if key in known
    )
    yield (
        f"Delay at {ours.rate:,} records/s: median {ours.p50_ms:.0f} ms, p99 {ours.p99_ms:.0f} "
        f"ms.{f' {peers}.' if peers else ''}"
    )


def _delay(peer: DelayResult, ours: DelayResult) -> str:
    faster = ", **faster**" if peer.p50_ms < ours.p50_ms else ""
    return f"{peer.p50_ms:.0f} and {peer.p99_ms:.0f} ms{faster}"


def _starts(results: Results) -> Iterable[str]:
    ours = _copies_of(results, MAIN)
    if not ours:
        return
    theirs = [one for key in TUNED for one in _copies_of(results, key)]
    peers = f"; tuned MirrorMaker 2: {_span(theirs)}" if theirs else ""
    yield f"First record after a start: {_span(ours)}{peers}."


def _span(runs: list[CopyResult]) -> str:
    low, high = (f"{pick(one.first_record_s for one in runs):.1f}" for pick in (min, max))
    return f"{low} s" if low == high else f"{low} to {high} s"


def _copies_of(results: Results, key: str) -> list[CopyResult]:
    return [one for (name, _), one in chosen(results).items() if name == key and usable(one)]


def _name(key: str) -> str:
    return next(contender.label for contender in contenders() if contender.key == key)


def sizing(results: Results) -> str:
    """Return the section of docs/deployment.md: what one run needs."""
    now = results.current()
    rows = [
        (words, one)
        for key, words in ((MAIN, "verbatim"), (RECORD_PATH, "record path"))
        for one in compare(now, key)
    ]
    lines = [
        _origin(now),
        "",
        "| copied | records/s | MB/s | CPU s/GB | both brokers, CPU s/GB | peak memory, MB |",
        "|---|---|---|---|---|---|",
    ]
    for words, one in rows:
        rate, ours = one.ours.rate or 0.0, one.ours
        lines.append(
            f"| {words}, {one.data} | {rate:,.0f} | {rate * ours.record_bytes / MB:.1f} "
            f"| {ours.cpu_per_gb or 0:.1f} | {_brokers(ours)} | {ours.rss_peak / MB:.0f} |"
        )
    return "\n".join([*lines, "", *_needs(now), ""])


def _needs(results: Results) -> Iterable[str]:
    for one in results.delays:
        if one.contender == MAIN and not one.error:
            yield (
                f"- **A low load** costs more per record, because each commit has a price: "
                f"{one.rate:,} records/s of 100 B took {one.cpu:.2f} cores, with a delay from "
                f"produce to\n  visible of {one.p50_ms:.1f} ms in the median and {one.p99_ms:.1f} "
                "ms at the 99th percentile. Commits wait for the target: its round trips add to it."
            )
    for memory in results.memory:
        if memory.contender == MAIN and not memory.error:
            peaks = " and ".join(
                f"{peak / MB:.0f} MB for {count:,} records" for count, peak in memory.peaks
            )
            yield f"- **Memory** does not depend on the amount of data: {peaks}."
    ours = _copies_of(results, MAIN)
    if ours:
        yield (
            f"- **A start** takes {_span(ours)} to the first copied record; the lag grows for that "
            "long, and for the 30 s before a restart."
        )
