"""The documents have the tables that results.json gives, and say what is slower."""

from __future__ import annotations

from dataclasses import replace

from bench import pages
from bench.model import CopyResult, DataSet, DelayResult, Results, recall
from bench.report import markdown
from bench.sections import section_of

_HINT = "python -m bench --report writes them"
DATA = DataSet(1000, "lz4", 4, 1000, batch_kib=16)
OURS = CopyResult(
    "k2ktui",
    DATA.name,
    1000,
    1_000_000,
    visible=1000,
    distinct=1000,
    all_records_s=2.0,
    cpu_s=0.002,
    source_cpu_s=0.001,
    target_cpu_s=0.003,
    mode="shared",
    commit="abc1234",
    date="2026-11-27 01:30 UTC",
)
TUNED = [
    replace(OURS, contender=key, mode="", all_records_s=seconds, cpu_s=0.004)
    for key, seconds in (("mm2-tuned", 1.0), ("mm2-eos-tuned", 4.0))
]


def results(*copies: CopyResult) -> Results:
    machine = {"CPU": "Some, 2 cores", "Apache Kafka": "4.3.1 (brokers)"}
    return Results(machine, copies=[*copies, *TUNED])


def test_the_documents_have_the_tables_of_the_results() -> None:
    known = recall(pages.BENCH)
    assert section_of(pages.README, pages.SPEED) == pages.speed(known), _HINT
    assert section_of(pages.DEPLOYMENT, pages.SIZING) == pages.sizing(known), _HINT


def test_what_is_slower_is_in_the_table_and_says_so() -> None:
    text = pages.speed(results(OURS))
    slower = "**0.50 \N{MULTIPLICATION SIGN}: slower**"
    row = f"| 1,000 B, batches of 16 KiB, lz4 | 500 | {slower} | - | - "
    assert f"{row}| 2.0 | 1/2.0 | 4.0 | 4.0 |" in text
    assert "2026-11-27 with k2ktui at abc1234, `coordination.mode: shared`, the default" in text
    faster = pages.speed(results(replace(OURS, all_records_s=0.5)))
    assert "| 2.00 \N{MULTIPLICATION SIGN} | - | - " in faster
    other = replace(OURS, data="1000-lz4-4-1k")
    assert "batches of 1 KiB" not in pages.speed(results(other)), "others are in RESULTS.md"
    same = replace(OURS, contender="mm2-tuned-codec", mode="", all_records_s=5.0)
    assert f"{slower} | 2.50" in pages.speed(results(OURS, same))
    delays = [
        DelayResult("k2ktui", 5000, 30.0, 4, p50_ms=14.0, p99_ms=40.0),
        DelayResult("mm2-eos", 5000, 30.0, 4, p50_ms=12.0, p99_ms=50.0),
    ]
    known = Results(results().machine, delays=delays)
    assert "MirrorMaker 2 exactly-once, default: 12 and 50 ms, **faster**" in pages.speed(known)


def test_another_mode_has_a_row_only_where_it_differs() -> None:
    same = replace(OURS, contender="k2ktui-exclusive", mode="exclusive", all_records_s=2.08)
    row, note = "| k2ktui verbatim, exactly-once, `exclusive` |", "481 records/s: within 5 %"
    text = markdown(results(OURS, same))
    assert row not in text and note in text
    summed = pages.summary(results(OURS, same))
    assert "batches of 16 KiB, lz4 | 500 |" in summed and "`exclusive`" not in summed
    text = markdown(results(OURS, replace(same, all_records_s=1.5)))
    assert row in text and "within 5 %" not in text
    assert "batches of 16 KiB, lz4, `exclusive` | 667 |" in text


def test_rows_of_another_commit_are_in_no_document() -> None:
    old = replace(OURS, commit="old", date="2026-11-01 01:30 UTC")
    known = results(old)
    assert "batches of" not in pages.speed(known) and "batches of" not in pages.sizing(known)
    assert "verbatim, 1,000 B, batches of 16 KiB, lz4" in pages.sizing(results(OURS))
