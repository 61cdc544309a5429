"""The issues' targets, computed from the results; nothing here is written by hand."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from bench.model import CopyResult, DataSet, DelayResult, Results
from bench.plan import DATA_SETS, MAIN, REFERENCE, SAME_CODEC, TRANSFORM, contenders

RECORD_PATH = "k2ktui-records"
EOS = "mm2-eos"
TUNED = ("mm2-tuned", "mm2-eos-tuned")
EOS_TRANSFORM, TUNED_TRANSFORM = "mm2-eos-transform", "mm2-eos-tuned-transform"
# Two runs of the same program differ by this much without any growth.
_MEMORY_SLACK = 1.10
_LARGE_KIB = 64
_START_SECONDS = 4.0
_DIFFERENT = 1.05

Figure = Callable[[CopyResult], float | None]


@dataclass(frozen=True, slots=True)
class Verdict:
    """One target.

    Attributes:
        text: what is asked.
        needed: the bound, for example ``≥ 3``.
        found: the worst figure of all runs that count.
        cells: every figure, by data set.
        met: None when nothing was measured.
        asked: False for a harder question than the issues', for information.
    """

    text: str
    needed: str
    found: str = "-"
    cells: tuple[tuple[str, str], ...] = ()
    met: bool | None = None
    asked: bool = True


def chosen(results: Results) -> dict[tuple[str, str], CopyResult]:
    """Return the run that counts of each contender and data set: of several, the median by time."""
    runs: dict[tuple[str, str], list[CopyResult]] = {}
    for one in results.copies:
        runs.setdefault((one.contender, one.data), []).append(one)
    return {name: _median(several) for name, several in runs.items()}


def _median(runs: list[CopyResult]) -> CopyResult:
    valid = [one for one in runs if usable(one)]
    if not valid:
        return runs[0]
    middle = statistics.median_low(one.all_records_s for one in valid)
    return next(one for one in valid if one.all_records_s == middle)


def usable(one: CopyResult) -> bool:
    """A run counts when it did not fail and kept its promise."""
    promised = {contender.key for contender in contenders() if contender.exactly_once}
    return not one.error and (one.exact or one.contender not in promised)


def verdicts(results: Results) -> list[Verdict]:
    """Return all targets. Only rows of the newest row's commit count."""
    results = results.current()
    everything = {name: one for name, one in chosen(results).items() if usable(one)}
    plain = {name: one for name, one in everything.items() if _set_of(one).values != "schemas"}
    slow = {name: one for name, one in plain.items() if _set_of(one).codec == "zstd"}
    usual = {name: one for name, one in plain.items() if name not in slow}
    default = {name: one for name, one in plain.items() if _set_of(one).values == "perf"}
    tiny = {name: one for name, one in usual.items() if one.record_bytes == 100}
    raw = {name: one for name, one in plain.items() if _set_of(one).codec == "none"}
    compressed = {name: one for name, one in plain.items() if name not in raw}
    copies = {name: one for name, one in plain.items() if _set_of(one).batch_kib == _LARGE_KIB}
    small = {name: one for name, one in copies.items() if one.record_bytes == 100}
    large = {name: one for name, one in copies.items() if one.record_bytes == 1000}
    return [
        _at_least("records/s over tuned MirrorMaker 2: none, lz4, snappy", 2, usual, TUNED),
        _at_least("records/s over tuned MirrorMaker 2: Kafka's producer", 2.5, default, TUNED),
        _at_least("records/s over tuned MirrorMaker 2: 100 B, not zstd", 4, tiny, TUNED),
        _at_least("records/s over tuned MirrorMaker 2: zstd", 1.5, slow, TUNED),
        _same_codec(compressed),
        _cpu("CPU per GB over tuned MirrorMaker 2, uncompressed", 3, raw),
        _cpu("CPU per GB over tuned MirrorMaker 2, compressed", 2, compressed),
        _named(results),
        _at_least("64 KiB: records/s over its exactly-once default, 100 B", 10, small, (EOS,)),
        _at_least("record path: records/s over exactly-once", 1.5, copies, (EOS,), RECORD_PATH),
        _at_least(
            "filter and mask: records/s over exactly-once with the same",
            1.5,
            copies,
            (EOS_TRANSFORM,),
            TRANSFORM,
        ),
        _at_least(
            "filter and mask: records/s over exactly-once tuned with the same",
            1,
            copies,
            (TUNED_TRANSFORM,),
            TRANSFORM,
        ),
        _at_least("64 KiB: records/s over bare sockets, 100 B", 0.9, small, (REFERENCE,)),
        _at_least("64 KiB: records/s over bare sockets, 1,000 B", 0.9, large, (REFERENCE,)),
        _cpu_at_most("64 KiB: CPU seconds per GB, 100 B", 2.0, small),
        _cpu_at_most("64 KiB: CPU seconds per GB, 1,000 B", 1.2, large),
        *_delays(results.delays),
        _delay_at_most("delay, median", 12.0, results.delays, MAIN, "median"),
        _delay_at_most("delay, p99", 50.0, results.delays, MAIN, "p99"),
        _delay_at_most("filter and mask: delay, p99", 600.0, results.delays, TRANSFORM, "p99"),
        _start(everything.values()),
        _memory(results, MAIN, "peak memory for four times the data"),
        _memory(results, TRANSFORM, "filter and mask: peak memory for four times the data"),
    ]


@dataclass(frozen=True, slots=True)
class Compared:
    """A data set: our row beside the better of both tuned MirrorMaker 2, figure by figure.

    These write uncompressed batches; ``same_codec_rate`` is that of one that writes the source's
    codec, as ours does. ``cpu_with_brokers`` is the CPU time per GB of the one that has the rate,
    with both brokers. What was not measured is None.
    """

    ours: CopyResult
    rate: float | None
    cpu_per_gb: float | None
    brokers: float | None
    bare_rate: float | None
    same_codec_rate: float | None
    cpu_with_brokers: float | None

    @property
    def data(self) -> DataSet:
        """What was copied."""
        return _set_of(self.ours)

    @property
    def ratio(self) -> float | None:
        """Our records/s over theirs."""
        return _divided(self.ours.rate, self.rate)

    @property
    def over_same_codec(self) -> float | None:
        """Our records/s over those of MirrorMaker 2 that writes the source's codec."""
        return _divided(self.ours.rate, self.same_codec_rate)

    @property
    def of_bare(self) -> float | None:
        """Our records/s over those of bare sockets."""
        return _divided(self.ours.rate, self.bare_rate)


def compare(results: Results, ours: str = MAIN) -> list[Compared]:
    """Return the data sets that a variant of ours copied, in the order of the plan."""
    copies = {name: one for name, one in chosen(results).items() if usable(one)}
    order = [one.name for one in DATA_SETS]
    names = [data for contender, data in copies if contender == ours]
    compared = []
    for name in sorted(names, key=lambda name: order.index(name) if name in order else 99):
        peers = [copies[peer, name] for peer in TUNED if (peer, name) in copies]
        bare, same = copies.get((REFERENCE, name)), copies.get((SAME_CODEC, name))
        both = peers if len(peers) == len(TUNED) else []
        compared.append(
            Compared(
                copies[ours, name],
                max((one.rate for one in both if one.rate), default=None),
                min((one.cpu_per_gb for one in both if one.cpu_per_gb), default=None),
                min((sum(one.brokers_cpu_per_gb or (0,)) for one in both), default=None),
                bare.rate if bare else None,
                same.rate if same else None,
                _with_brokers(max(both, key=lambda one: one.rate or 0.0, default=None)),
            )
        )
    return compared


def slower(results: Results) -> list[str]:
    """Name what is slower than MirrorMaker 2: in records/s than tuned, in median delay than any."""
    reasons = [
        f"{one.data.name}: {one.ratio:.2f} x"
        for one in compare(results)
        if one.ratio is not None and one.ratio < 1
    ]
    delays = {one.contender: one for one in results.delays if not one.error}
    for peer in (EOS, TUNED[1]):
        if MAIN in delays and peer in delays and delays[MAIN].p50_ms > delays[peer].p50_ms:
            ours, theirs = delays[MAIN].p50_ms, delays[peer].p50_ms
            reasons.append(f"median delay: {ours:.1f} ms, {peer}: {theirs:.1f} ms")
    return reasons


def differ(one: CopyResult, other: CopyResult) -> bool:
    """Whether two runs' records/s differ by more than 5 %."""
    ratio = _divided(one.rate, other.rate)
    return ratio is None or not 1 / _DIFFERENT < ratio < _DIFFERENT


def _named(results: Results) -> Verdict:
    names = slower(results)
    text = "rows slower than MirrorMaker 2 in records/s or median delay"
    needed = "none, or named in README.md"
    if not results.copies and not results.delays:
        return Verdict(text, needed)
    cells = tuple((name.rpartition(": ")[0], name.rpartition(": ")[2]) for name in names)
    return Verdict(text, needed, str(len(names)), cells, True)


def _same_codec(copies: dict[tuple[str, str], CopyResult]) -> Verdict:
    """Of two that write the same codec: what is asked compares with one that compresses nothing."""
    text = "records/s over tuned MirrorMaker 2 that writes the source's codec"
    return replace(_at_least(text, 2, copies, (SAME_CODEC,)), asked=False)


def _set_of(one: CopyResult) -> DataSet:
    return DataSet.named(one.data, one.records)


def _with_brokers(one: CopyResult | None) -> float | None:
    if one is None or one.cpu_per_gb is None or one.brokers_cpu_per_gb is None:
        return None
    return one.cpu_per_gb + sum(one.brokers_cpu_per_gb)


def _divided(ours: float | None, theirs: float | None) -> float | None:
    return ours / theirs if ours and theirs else None


def _rate(one: CopyResult) -> float | None:
    return one.rate


def _cpu_per_gb(one: CopyResult) -> float | None:
    return one.cpu_per_gb


def _ratios(
    copies: dict[tuple[str, str], CopyResult],
    ours: str,
    peers: tuple[str, ...],
    figure: Figure,
    best: Callable[[list[float]], float],
) -> dict[str, float]:
    """Return ours / the best peer's by data set, where ours and every peer's was measured."""
    ratios: dict[str, float] = {}
    for (contender, data), one in copies.items():
        own = figure(one)
        if contender != ours or own is None:
            continue
        others = [figure(copies[peer, data]) for peer in peers if (peer, data) in copies]
        known = [other for other in others if other]
        if len(known) == len(peers):
            ratios[data] = own / best(known)
    return ratios


def _at_least(
    text: str,
    bound: float,
    copies: dict[tuple[str, str], CopyResult],
    peers: tuple[str, ...],
    ours: str = MAIN,
) -> Verdict:
    needed = f"≥ {bound:g} x"
    ratios = _ratios(copies, ours, peers, _rate, max)
    if not ratios:
        return Verdict(text, needed)
    worst = min(ratios.values())
    cells = tuple((data, f"{ratio:.2f} x") for data, ratio in ratios.items())
    return Verdict(text, needed, f"{worst:.2f} x", cells, worst >= bound)


def _cpu(text: str, times: int, copies: dict[tuple[str, str], CopyResult]) -> Verdict:
    """Whether a GB takes at most the ``times``-th part of the peer's CPU time."""
    needed = f"≤ 1/{times}"
    ratios = _ratios(copies, MAIN, TUNED, _cpu_per_gb, min)
    if not ratios:
        return Verdict(text, needed)
    worst = max(ratios.values())
    cells = tuple((data, fraction(ratio)) for data, ratio in ratios.items())
    return Verdict(text, needed, fraction(worst), cells, worst <= 1 / times)


def _cpu_at_most(text: str, bound: float, copies: dict[tuple[str, str], CopyResult]) -> Verdict:
    needed = f"≤ {bound:g} s"
    own = {data: one.cpu_per_gb for (key, data), one in copies.items() if key == MAIN}
    seconds_by_data = {data: seconds for data, seconds in own.items() if seconds is not None}
    if not seconds_by_data:
        return Verdict(text, needed)
    worst = max(seconds_by_data.values())
    cells = tuple((data, f"{seconds:.1f} s") for data, seconds in seconds_by_data.items())
    return Verdict(text, needed, f"{worst:.1f} s", cells, worst <= bound)


def fraction(ratio: float) -> str:
    """Return ``1/4.2`` for less than one."""
    return f"1/{1 / ratio:.1f}" if 0 < ratio < 1 else f"{ratio:.2f} x"


def _delays(delays: Iterable[DelayResult]) -> list[Verdict]:
    known = {one.contender: one for one in delays if not one.error}
    ours = known.get(MAIN)
    verdicts = []
    for peer, asked in ((EOS, True), (TUNED[1], False)):
        for name in ("median", "p99"):
            words = "exactly-once" if asked else "exactly-once tuned"
            text = f"delay, {name}: no worse than its {words}"
            theirs = known.get(peer)
            if ours is None or theirs is None:
                verdicts.append(Verdict(text, "≤ its", asked=asked))
                continue
            own, other = (_percentile(one, name) for one in (ours, theirs))
            needed = f"≤ {other:.0f} ms"
            verdicts.append(Verdict(text, needed, f"{own:.0f} ms", (), own <= other, asked))
    return verdicts


def _percentile(one: DelayResult, name: str) -> float:
    return one.p50_ms if name == "median" else one.p99_ms


def _delay_at_most(
    text: str, bound_ms: float, delays: Iterable[DelayResult], contender: str, name: str
) -> Verdict:
    needed = f"≤ {bound_ms:g} ms"
    for one in delays:
        if one.contender == contender and not one.error:
            own = _percentile(one, name)
            return Verdict(text, needed, f"{own:.1f} ms", (), own <= bound_ms)
    return Verdict(text, needed)


def _start(copies: Iterable[CopyResult]) -> Verdict:
    text, needed = "start to first record, warm", f"≤ {_START_SECONDS:g} s"
    own = [one for one in copies if one.contender in (MAIN, RECORD_PATH)]
    if not own:
        return Verdict(text, needed)
    worst = max(one.first_record_s for one in own)
    cells = tuple((f"{one.contender} {one.data}", f"{one.first_record_s:.1f} s") for one in own)
    return Verdict(text, needed, f"{worst:.1f} s", cells, worst <= _START_SECONDS)


def _memory(results: Results, contender: str, text: str) -> Verdict:
    needed = f"≤ {_MEMORY_SLACK:.2f} x"
    for one in results.memory:
        counts = one.contender == contender and not one.error
        if counts and len(one.peaks) == 2 and one.peaks[0][1]:
            (_, small), (_, large) = one.peaks
            ratio = large / small
            cells = tuple(
                (f"{count:,} records", f"{peak / 1e6:.0f} MB") for count, peak in one.peaks
            )
            return Verdict(text, needed, f"{ratio:.2f} x", cells, ratio <= _MEMORY_SLACK)
    return Verdict(text, needed)
