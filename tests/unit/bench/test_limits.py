"""What brokers, the core and sockets leave of two cores, computed from rows."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bench.limits import Alone, Limit, limits, measure, report
from bench.model import Codec, CopyResult, DataSet, Results

LZ4, NONE = (DataSet(1000, codec, 4, 1_000_000, batch_kib=16) for codec in ("lz4", "none"))


def copied(
    contender: str, data: DataSet, seconds: float, cpu_s: float, *brokers: float
) -> CopyResult:
    """A copy of one GB."""
    count = data.records
    return CopyResult(
        contender,
        data.name,
        count,
        data.bytes,
        visible=count,
        distinct=count,
        all_records_s=seconds,
        cpu_s=cpu_s,
        source_cpu_s=brokers[0],
        target_cpu_s=brokers[1],
        commit="abc1234",
        date="2026-11-27 01:30 UTC",
    )


ROWS = [
    copied("k2ktui", LZ4, 3.0, 3.0, 0.5, 1.5),
    copied("mm2-tuned", LZ4, 5.0, 6.0, 0.4, 1.6),
    copied("mm2-eos-tuned", LZ4, 8.0, 9.0, 0.5, 2.5),
    copied("k2ktui", NONE, 2.0, 1.5, 0.5, 1.5),
    copied("mm2-tuned", NONE, 4.0, 5.0, 0.4, 1.6),
    copied("mm2-eos-tuned", NONE, 3.5, 4.5, 0.4, 1.1),
    copied("bare", NONE, 3.0, 2.0, 0.4, 2.0),
    replace(copied("bare", NONE, 3.0, 1.0, 0.4, 2.0), data="1000-none-4-64k"),
    replace(copied("bare", NONE, 3.0, 0.1, 0.4, 2.0), data="1000-lz4-4-64k"),
]


def found(*rows: CopyResult) -> dict[str, Limit]:
    alone = {LZ4: Alone(3.0, True, 0.6, 0.4), NONE: Alone(0.25, True, 1.1, 1.1)}
    every = limits(Results(copies=list(rows)), alone.__getitem__)
    return {one.row.data.name: one for one in every}


def test_the_faster_peer_is_divided_by_what_no_copy_can_leave_out() -> None:
    rows = found(*ROWS)
    lz4, none = rows[LZ4.name], rows[NONE.name]
    assert (lz4.theirs, lz4.brokers, lz4.core, lz4.sockets) == pytest.approx((8.0, 2.0, 3.0, 0.5))
    assert lz4.most == pytest.approx(8.0 / 5.5)
    assert (none.theirs, none.core, none.sockets) == pytest.approx((6.0, 0.25, 1.0))
    assert none.most == pytest.approx(6.0 / 3.25)
    text = report(rows.values(), {"CPU": "Some, 2 cores"})
    assert "| 8.0 | 2.0 | 3.0 | 0.5 | 1.45 \N{MULTIPLICATION SIGN} | 1.67" in text
    assert "| 6.0 | 2.0 | 0.2 | 1.0 | 1.85 \N{MULTIPLICATION SIGN} | 1.75" in text


def test_a_row_without_its_peers_has_no_limit() -> None:
    assert not found(*ROWS[:2])


@pytest.mark.parametrize(("codec", "kib"), [("none", 64), ("lz4", 16), ("snappy", 4), ("zstd", 16)])
def test_small_batches_are_merged(codec: Codec, kib: int) -> None:
    small = measure(DataSet(1000, codec, 4, 1000, batch_kib=kib))
    assert small.seconds > 0
    assert small.merges
    assert 0 < small.written < 1.01 * small.read


def test_large_compressed_batches_are_passed_on() -> None:
    large = measure(DataSet(1000, "lz4", 4, 1000))
    assert large.seconds > 0
    assert not large.merges
    assert large.written == large.read
