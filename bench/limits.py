"""How far a copy can get on two cores that both brokers share: ``python -m bench.limits --keep``.

Where all cores are busy, a ratio of records/s is a ratio of CPU time, that of the brokers included.
What no copy can leave out is measured, or taken from the rows: the brokers' time, the codec alone
(each record holds its offset, so a batch of other offsets is compressed again), and for batches
without one the sockets alone. MirrorMaker 2's time over the sum is the most that can be reached.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import cramjam
import lz4.frame
import zstandard

from bench.load import key_of, value_of
from bench.machine import describe
from bench.model import GB, Codec, DataSet, Results, recall
from bench.plan import REFERENCE
from bench.sections import put_section
from bench.targets import Compared, chosen, compare, usable

_OUT = Path(__file__).parent
_BYTES = 32 << 20
_PART = 64 << 10
_TURNS = 5
_ZSTD_LEVEL = 1  # as k2ktui writes merged batches
_TIMES = "\N{MULTIPLICATION SIGN}"

Convert = Callable[[bytes], bytes]
# For each codec, what compresses and what decompresses.
_CODECS: Mapping[Codec, tuple[Convert, Convert]] = {
    "lz4": (
        lambda data: lz4.frame.compress(data, block_linked=False, store_size=False),
        lz4.frame.decompress,
    ),
    "snappy": (
        lambda data: bytes(cramjam.snappy.compress_raw(data)),
        lambda data: bytes(cramjam.snappy.decompress_raw(data)),
    ),
    "zstd": (
        zstandard.ZstdCompressor(level=_ZSTD_LEVEL).compress,
        zstandard.ZstdDecompressor().decompress,
    ),
}


@dataclass(frozen=True, slots=True)
class Limit:
    """What a row can reach at most; CPU seconds per GB.

    Attributes:
        row: ours beside MirrorMaker 2.
        theirs: of the faster tuned MirrorMaker 2 and of both brokers with it.
        codec: decompressing and compressing, alone; 0 without a codec.
        sockets: receiving and sending without looking at a byte; 0 with a codec, where the bytes
            are fewer than those that are counted.
    """

    row: Compared
    theirs: float
    codec: float
    sockets: float

    @property
    def brokers(self) -> float:
        """That of both brokers with k2ktui."""
        return sum(self.row.ours.brokers_cpu_per_gb or (0.0,))

    @property
    def most(self) -> float:
        """MirrorMaker 2's records/s times this are the most that cores leave."""
        return self.theirs / (self.brokers + self.codec + self.sockets)


def codec_seconds(codec: Codec, record_bytes: int) -> float:
    """Return the CPU seconds that a codec takes for a GB, in batches of 64 KiB, both ways."""
    if codec == "none":
        return 0.0
    compress, decompress = _CODECS[codec]
    parts = _parts(record_bytes)
    compressed = [compress(part) for part in parts]
    return _seconds(compress, parts) + _seconds(decompress, compressed)


def _parts(record_bytes: int) -> Sequence[bytes]:
    parts, part, size, number = [], bytearray(), 0, 0
    while size < _BYTES:
        while len(part) < _PART:
            part += key_of(number) + value_of(number, record_bytes)
            number += 1
        parts.append(bytes(part))
        size += len(part)
        part.clear()
    return parts


def _seconds(convert: Convert, parts: Iterable[bytes]) -> float:
    """Return the least CPU seconds of several turns, for a GB before compression."""
    turns = []
    for _ in range(_TURNS):
        begun = time.thread_time()
        for part in parts:
            convert(part)
        turns.append(time.thread_time() - begun)
    return min(turns) / (_BYTES / GB)


def limits(results: Results, codecs: Callable[[Codec, int], float]) -> list[Limit]:
    """Return the limit of each data set; ``codecs`` is :func:`codec_seconds`."""
    copies = {name: one for name, one in chosen(results).items() if usable(one)}
    sockets: dict[float, float] = {}
    for (contender, _), one in copies.items():
        codec = DataSet.named(one.data, one.records).codec
        if contender == REFERENCE and codec == "none" and one.cpu_per_gb:
            least = sockets.get(one.record_bytes, one.cpu_per_gb)
            sockets[one.record_bytes] = min(least, one.cpu_per_gb)
    found = []
    for row in compare(results):
        data = row.data
        if row.ratio is None or not row.cpu_with_brokers or not row.ours.brokers_cpu_per_gb:
            continue
        alone = sockets.get(row.ours.record_bytes, 0.0) if data.codec == "none" else 0.0
        found.append(Limit(row, row.cpu_with_brokers, codecs(data.codec, data.size), alone))
    return found


def report(found: Iterable[Limit], machine: Mapping[str, str]) -> str:
    """Return the section of RESULTS.md."""
    rows = [
        f"| {one.row.data} | {one.theirs:.1f} | {one.brokers:.1f} "
        f"| {f'{one.codec:.1f}' if one.codec else '-'} "
        f"| {f'{one.sockets:.1f}' if one.sockets else '-'} "
        f"| {one.most:.2f} {_TIMES} | {one.row.ratio or 0:.2f} {_TIMES} |"
        for one in found
    ]
    lines = [f"{name}: {machine[name]}  " for name in ("Date", "CPU", "k2ktui") if name in machine]
    return "\n".join(
        [
            "## Limits: what brokers, codecs and sockets leave of two cores",
            "",
            *lines,
            "",
            "| records on the source | MirrorMaker 2 and brokers, CPU s/GB | brokers, of k2ktui "
            "| codec alone | sockets alone | at most | reached |",
            "|---|---|---|---|---|---|---|",
            *rows,
            "",
            "`python -m bench.limits`: the rows above, and each codec measured alone, in batches",
            "of 64 KiB, both ways, zstd at level 1. Both tools keep two cores busy: their rates",
            "are as their CPU time and that of the brokers. Sockets are the least that bare",
            "sockets took for records of that size without a codec. What remains of k2ktui's",
            "own time: records with other offsets, checksums, transactions, mapping.",
            "",
        ]
    )


def main() -> int:
    """Measure, print, and put the section into RESULTS.md if asked to."""
    parser = argparse.ArgumentParser(prog="python -m bench.limits", description=__doc__)
    parser.add_argument("--keep", action="store_true", help="write the section of RESULTS.md")
    keep = parser.parse_args().keep
    text = report(limits(recall(_OUT).current(), cache(codec_seconds)), describe())
    print(text)
    if keep:
        put_section(_OUT / "RESULTS.md", "limits", text)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
