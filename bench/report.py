"""RESULTS.md: the tables, how they were measured, and every configuration in full."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from bench import pages
from bench.model import MB, CopyResult, DataSet, DelayResult, Results, Row
from bench.ours import DEFAULT_MODE
from bench.plan import DATA_SETS, EXCLUSIVE, MAIN, contenders
from bench.targets import Verdict, chosen, differ, usable, verdicts

_METHOD = """\
Both brokers, the replicator and the measuring ran on this one machine over loopback, so compare
ratios rather than figures. One replicator ran at a time, on the same source topic, each into a
target topic of its own; between runs the brokers came to rest and what was copied was deleted.

- **records/s, MB/s**: last stable offsets of the target, asked for every 50 ms; from the first
  record visible to all visible, without those already visible at first sight. Bytes are those of
  keys and values before compression.
- **from start**: all records over the time since the process was started.
- **first record**: from the start of the process until a record was visible.
- **CPU s/GB**: user and system time of the replicator's whole process tree (ended processes
  included, brokers not), while copying, and from the start of the process on; **source, target**:
  that of either broker, while copying.
- **peak memory**: highest sum of resident memory over the process tree; shared pages count for
  each process.
- **found**: after each run, records and different records that a read_committed reader found.
- **filter and mask**: JSON records, of which four of five are kept, with a field replaced by a
  constant; records/s and bytes count those of the source. MirrorMaker 2 does it by Kafka Connect's
  `Filter`, `MaskField` and `JsonConverter`; as Kafka Connect has neither a transformation of bytes
  into JSON nor a predicate on values, it gets one of each from `bench/smt`. With the delay, all are
  kept.
- **delay**: the producer's clock in each value against the reader's when it got the record, a
  read_committed consumer with fetch.wait.max.ms=10, after warm-up.
"""


def markdown(results: Results) -> str:
    """Return the whole report."""
    mix = (
        f"Figures are of k2ktui at {results.commit}; rows of other commits say so in bold, may "
        "be of another machine, and count in no verdict and in no table of README.md and of "
        "deployment.md."
    )
    parts = [
        f"# Benchmark results\n\nWritten by `python -m bench`; do not edit. {mix}\n",
        _table(("", ""), results.machine.items()),
        _targets(verdicts(results)),
        pages.summary(results),
        *_copies(results),
        _delays(results),
        _memory(results),
        f"## How it was measured\n\n{_METHOD}\n{_settings(results)}",
        _configs(results),
    ]
    return "\n".join(part for part in parts if part)


def tuning(machine: Mapping[str, str], data: DataSet, runs: Iterable[CopyResult]) -> str:
    """Return TUNING.md: what was tried for the tuned configurations of MirrorMaker 2."""
    note = (
        "Written by `python -m bench --tune`; do not edit. Each line is the tuned configuration, "
        f"or its exactly-once form, with one change. Data: {data}, {data.records:,} records."
    )
    head = ("tuned, with", "records/s", "CPU s/GB", "first record, s", "peak memory, MB", "found")
    rows = [
        (one.contender, "failed", *[""] * 3, one.error)
        if one.error
        else (
            one.contender,
            _rate(one.rate),
            _per_gb(one.cpu_per_gb),
            f"{one.first_record_s:.1f}",
            f"{one.rss_peak / MB:.0f}",
            found(one),
        )
        for one in runs
    ]
    parts = ["# MirrorMaker 2: tuning\n", note + "\n", _table(("", ""), machine.items())]
    return "\n".join([*parts, _table(head, rows)])


def one_line(one: CopyResult) -> str:
    """A run for the progress display."""
    if one.error:
        return f"FAILED: {one.error}"
    return (
        f"{_rate(one.rate)} records/s, {_number(one.rate_from_start)} from start, "
        f"first record {one.first_record_s:.1f} s, {_per_gb(one.cpu_per_gb)} CPU s/GB, "
        f"{one.rss_peak / MB:.0f} MB, {found(one)}"
    )


def one_line_delay(one: DelayResult) -> str:
    """A run for the progress display."""
    if one.error:
        return f"FAILED: {one.error}"
    return f"median {one.p50_ms:.1f} ms, p99 {one.p99_ms:.1f} ms, {one.records:,} records"


def found(one: CopyResult) -> str:
    """Say what a reader found, against what was there to copy."""
    if one.exact:
        return "all, once"
    missing, extra = one.expected - one.distinct, one.visible - one.distinct
    parts = [f"{missing:,} missing"] * bool(missing) + [f"{extra:,} duplicates"] * bool(extra)
    return ", ".join(parts) or f"{one.visible:,}"


def _targets(verdicts: Iterable[Verdict]) -> str:
    rows = [
        (
            one.text if one.asked else f"_{one.text}_",
            one.needed,
            one.found,
            "; ".join(f"{data}: {figure}" for data, figure in one.cells),
            {True: "**met**", False: "**not met**", None: "not measured"}[one.met],
        )
        for one in verdicts
    ]
    head = ("target", "needed", "worst", "each", "verdict")
    note = (
        "Ratios of rows of one commit, that of the newest row; exactly-once on our side, with the "
        "default `coordination.mode`; over `tuned` means over the better of the two tuned "
        "configurations. Lines in italics ask more than the issues do."
    )
    return f"## Targets\n\n{note}\n\n{_table(head, rows)}"


def _copies(results: Results) -> Iterable[str]:
    runs = chosen(results)
    names = dict.fromkeys((*(one.name for one in DATA_SETS), *(data for _, data in runs)))
    for name in names:
        own = [
            runs[contender.key, name] for contender in contenders() if (contender.key, name) in runs
        ]
        if own:
            rows = [_copy_row(one, results) for one in own if not _is_like_default(one, runs)]
            title = f"{DataSet.named(name, 0)}, {own[0].records:,} records"
            yield f"## Copy: {title}\n\n{_table(_COPY_HEAD, rows)}{_modes(own, runs)}"


def _is_like_default(one: CopyResult, runs: Mapping[tuple[str, str], CopyResult]) -> bool:
    """Whether another ``coordination.mode`` makes no difference worth a row."""
    default = runs.get((MAIN, one.data))
    return one.contender == EXCLUSIVE and default is not None and not differ(one, default)


def _modes(own: Sequence[CopyResult], runs: Mapping[tuple[str, str], CopyResult]) -> str:
    like = [one for one in own if _is_like_default(one, runs)]
    return "".join(
        f"\nWith `coordination.mode: {one.mode}`, {_rate(one.rate)} records/s: within 5 %.\n"
        for one in like
    )


_COPY_HEAD = (
    "replicator",
    "records/s",
    "MB/s",
    "from start, records/s",
    "first record, s",
    "CPU s/GB",
    "with start",
    "source, CPU s/GB",
    "target",
    "peak memory, MB",
    "found",
    "measured",
)


def _copy_row(one: CopyResult, results: Results) -> Sequence[str]:
    if one.error:
        return (_label(one), "failed", *[""] * 8, one.error, _measured(one, results))
    brokers = one.brokers_cpu_per_gb or (None, None)
    verdict = found(one) if usable(one) else f"**{found(one)}**"
    return (
        _label(one),
        _rate(one.rate),
        "-" if one.rate is None else f"{one.rate * one.record_bytes / MB:.1f}",
        _number(one.rate_from_start),
        f"{one.first_record_s:.1f}",
        _per_gb(one.cpu_per_gb),
        _per_gb(one.cpu_per_gb_from_start),
        *(_per_gb(broker) for broker in brokers),
        f"{one.rss_peak / MB:.0f}",
        verdict,
        _measured(one, results),
    )


def _delays(results: Results) -> str:
    if not results.delays:
        return ""
    known = {one.contender: one for one in results.delays}
    rows = [
        _delay_row(known[contender.key], results)
        for contender in contenders()
        if contender.key in known
    ]
    first = results.delays[0]
    title = (
        f"{first.rate:,} records/s of 100 B (of filter and mask: JSON of 200 B), "
        f"{first.partitions} partitions, {first.seconds:g} s"
    )
    head = ("replicator", "median, ms", "p90", "p99", "max", "CPU, cores", "found", "measured")
    return f"## Delay: {title}\n\n{_table(head, rows)}"


def _delay_row(one: DelayResult, results: Results) -> Sequence[str]:
    if one.error:
        return (_label(one), "failed", *[""] * 4, one.error, _measured(one, results))
    figures = (one.p50_ms, one.p90_ms, one.p99_ms, one.max_ms)
    count = f"{one.records:,} of {one.expected:,}"
    return (
        _label(one),
        *(f"{figure:.1f}" for figure in figures),
        f"{one.cpu:.2f}",
        count if one.records != one.expected else f"all {one.records:,}",
        _measured(one, results),
    )


def _memory(results: Results) -> str:
    if not results.memory:
        return ""
    rows = [
        (_label(one), f"{count:,}", f"{peak / MB:.0f}", _measured(one, results))
        for one in results.memory
        for count, peak in one.peaks
    ]
    head = ("replicator", "records copied", "peak memory, MB", "measured")
    return f"## Memory\n\n{_table(head, rows)}"


def _settings(results: Results) -> str:
    settings = results.settings
    if not settings:
        return ""
    return (
        "Sizes of batches are those on the source before compression; values "
        "are words and digits that lz4 makes about half as large, keys are eight digits. Brokers: "
        f"{settings['heap']} of heap each, the server options of Kafka's own scripts, data in "
        f"{settings.get('data', 'files')}. "
        f"Runs of each: {settings['repeat']} (of several, the median by time is shown).\n"
    )


def _configs(results: Results) -> str:
    parts = ["## Configurations in full\n"]
    for contender in contenders():
        if contender.key in results.configs:
            parts.append(
                f"### {contender.label}\n\n```\n{results.configs[contender.key].rstrip()}\n```\n"
            )
    return "\n".join(parts) if len(parts) > 1 else ""


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _label(one: Row) -> str:
    key = one.contender
    label = next((contender.label for contender in contenders() if contender.key == key), key)
    return f"{label}, `{one.mode}`" if one.mode not in ("", DEFAULT_MODE) else label


def _measured(one: Row, results: Results) -> str:
    """The date; with the commit where it is another one than that of the verdicts."""
    return one.date if one.commit == results.commit else f"**{one.date} at {one.commit}**"


def _rate(rate: float | None) -> str:
    return "-" if rate is None else _number(rate)


def _number(number: float) -> str:
    return f"{number:,.0f}"


def _per_gb(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds:.1f}"
