"""How far a copy can get on two cores that both brokers share: ``python -m bench.limits --keep``.

Where all cores are busy, a ratio of records/s is a ratio of CPU time, that of the brokers included.
What no copy can leave out is measured, or taken from the rows: the brokers' time, the core alone
(offsets and checksums; and where batches are merged, their codec: each record holds its offset, so
a batch of other offsets is compressed again), and the sockets alone. MirrorMaker 2's time over the
sum is the most that can be reached.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from bench.load import key_of, value_of
from bench.machine import describe
from bench.model import GB, DataSet, Results, recall
from bench.plan import REFERENCE
from bench.sections import put_section
from bench.targets import Compared, chosen, compare, usable
from k2ktui.log.core import core
from k2ktui.log.plain import write_batch
from k2ktui.log.varints import encode_varint
from k2ktui.native.binding import Core, Piece
from k2ktui.replication.copying.batch_router import MERGED_LEVELS, merged_bytes
from k2ktui.replication.copying.partition_reader import SMALL_BYTES
from k2ktui.replication.copying.slot_settings import CODECS

_OUT = Path(__file__).parent
_BYTES = 16 << 20
_ANSWER = 4 << 20  # bytes before compression
_LARGEST = 900 << 10
_TURNS = 15
_TIMES = "\N{MULTIPLICATION SIGN}"


@dataclass(frozen=True, slots=True)
class Alone:
    """What the core does with a data set, without brokers and sockets.

    Attributes:
        seconds: CPU seconds per GB before compression.
        merges: whether batches of this size are merged.
        read, written: bytes of batches for each byte before compression.
    """

    seconds: float
    merges: bool
    read: float
    written: float


@dataclass(frozen=True, slots=True)
class Limit:
    """What a row can reach at most; CPU seconds per GB.

    Attributes:
        row: ours beside MirrorMaker 2.
        theirs: of the faster tuned MirrorMaker 2 and of both brokers with it.
        core: the core alone.
        sockets: receiving and sending as many bytes without looking at them.
    """

    row: Compared
    theirs: float
    core: float
    sockets: float

    @property
    def brokers(self) -> float:
        """That of both brokers with k2ktui."""
        return sum(self.row.ours.brokers_cpu_per_gb or (0.0,))

    @property
    def most(self) -> float:
        """MirrorMaker 2's records/s times this are the most that cores leave."""
        return self.theirs / (self.brokers + self.core + self.sockets)


def measure(data: DataSet) -> Alone:
    """Return what the core takes for a data set, from fetch answers to batches to be sent.

    Raises:
        RuntimeError: it is not installed.
    """
    in_c = core()
    if in_c is None:
        raise RuntimeError("limits are measured with the core in C")
    answers, size = _answers(data)
    read = sum(map(len, answers)) / size
    codec = CODECS[data.codec]
    merges = len(answers[0]) * data.batch_kib / (_ANSWER >> 10) <= SMALL_BYTES[codec]
    turns, written = [], 0
    for _ in range(_TURNS):
        begun = time.thread_time()
        written = sum(_pass_on(in_c, answer, codec, merges=merges) for answer in answers)
        turns.append(time.thread_time() - begun)
    return Alone(min(turns) / (size / GB), merges, read, written / size)


def _answers(data: DataSet) -> tuple[list[bytearray], int]:
    """Return fetch answers with the batches of a data set, and the bytes of their records."""
    answers, answer, size, number = list[bytearray](), bytearray(), 0, 0
    while size < _BYTES:
        first, records, held = number, list[tuple[int, bytes]](), 0
        while held < data.batch_kib << 10:
            key, value = key_of(number), value_of(number, data.size)
            tail = encode_varint(len(key)) + key + encode_varint(len(value)) + value + b"\0"
            records.append((number, tail))
            number, held = number + 1, held + len(key) + len(value)
        batch = write_batch(records, CODECS[data.codec])
        batch[:8] = first.to_bytes(8, "big")
        answer += batch
        size += held
        if size // _ANSWER > len(answers):
            answers.append(answer)
            answer = bytearray()
    return answers, size


def _pass_on(in_c: Core, answer: bytearray, codec: int, *, merges: bool) -> int:
    """Do to the batches of an answer what a copy does; return the bytes to be sent."""
    rows, sent, sequence = in_c.scan(answer).rows, 0, 0
    rows["mergeable"] = merges
    while len(rows):
        if merges:
            merged = in_c.coalesce(
                *([Piece(answer, rows)], merged_bytes(_LARGEST), MERGED_LEVELS.get(codec, 0)),
                largest=_LARGEST,
            )
            batch, taken, count = merged.data, merged.batches, merged.count
        else:
            begin = int(rows[0]["position"])
            taken, count = 1, int(rows[0]["count"])
            batch = memoryview(answer)[begin : begin + int(rows[0]["size"])]
        in_c.stamp(batch, 1, 0, sequence, transactional=True, checksum_known=True)
        rows, sent, sequence = rows[taken:], sent + len(batch), sequence + count
    return sent


def limits(results: Results, measured: Callable[[DataSet], Alone]) -> list[Limit]:
    """Return the limit of each data set; ``measured`` is :func:`measure`."""
    copies = {name: one for name, one in chosen(results).items() if usable(one)}
    sockets: dict[float, float] = {}
    for (contender, _), one in copies.items():
        codec = DataSet.named(one.data, one.records).codec
        if contender == REFERENCE and codec == "none" and one.cpu_per_gb:
            least = sockets.get(one.record_bytes, one.cpu_per_gb)
            sockets[one.record_bytes] = min(least, one.cpu_per_gb)
    found = []
    for row in compare(results):
        if row.ratio is None or not row.cpu_with_brokers or not row.ours.brokers_cpu_per_gb:
            continue
        alone = measured(row.data)
        share = (alone.read + alone.written) / 2 if row.data.codec != "none" else 1.0
        by_sockets = share * sockets.get(row.ours.record_bytes, 0.0)
        found.append(Limit(row, row.cpu_with_brokers, alone.seconds, by_sockets))
    return found


def report(found: Iterable[Limit], machine: Mapping[str, str]) -> str:
    """Return the section of RESULTS.md."""
    rows = [
        f"| {one.row.data} | {one.theirs:.1f} | {one.brokers:.1f} | {one.core:.1f} "
        f"| {one.sockets:.1f} | {one.most:.2f} {_TIMES} | {one.row.ratio or 0:.2f} {_TIMES} |"
        for one in found
    ]
    lines = [f"{name}: {machine[name]}  " for name in ("Date", "CPU", "k2ktui") if name in machine]
    return "\n".join(
        [
            "## Limits: what brokers, the core and sockets leave of two cores",
            "",
            *lines,
            "",
            "| records on the source | MirrorMaker 2 and brokers, CPU s/GB | brokers, of k2ktui "
            "| core alone | sockets alone | at most | reached |",
            "|---|---|---|---|---|---|---|",
            *rows,
            "",
            "`python -m bench.limits`: the rows above, and the core measured alone, from fetch",
            "answers to batches to be sent: checksums, offsets, and the codec where batches are",
            "merged. Compressed batches of more than 16 KiB are not: they are copied as they are.",
            "Both tools keep two cores busy: their rates are as their CPU time and that of the",
            "brokers. Sockets are the least that bare sockets took for records of that size",
            "without a codec, times the share of these bytes that batches in a codec have. What",
            "remains of k2ktui's own time: requests, transactions, mapping, Python. It weighs most",
            "where compressed batches are not merged: a request holds one of each partition, and",
            "each takes about 112 µs in Python ([why](README.md#goals-that-are-not-met)).",
            "Both sides vary by a tenth from run to run, so that some rows reached more.",
            "",
        ]
    )


def main() -> int:
    """Measure, print, and put the section into RESULTS.md if asked to."""
    parser = argparse.ArgumentParser(prog="python -m bench.limits", description=__doc__)
    parser.add_argument("--keep", action="store_true", help="write the section of RESULTS.md")
    keep = parser.parse_args().keep
    text = report(limits(recall(_OUT).current(), cache(measure)), describe())
    print(text)
    if keep:
        put_section(_OUT / "RESULTS.md", "limits", text)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
