"""The model of capacity: its page has what the benchmark's figures give."""

from __future__ import annotations

import pytest

from bench import capacity
from bench.growth_report import Growth, report
from bench.model import CopyResult, DataSet, Results, recall


def copied(contender: str, size: int, seconds: float, cpu_s: float) -> CopyResult:
    """A GB in so many seconds, with so much CPU time."""
    data = DataSet(size, "none", 4, 1_000_000_000 // size)
    return CopyResult(
        contender,
        data.name,
        data.records,
        data.bytes,
        first_record_s=1.0,
        all_records_s=1.0 + seconds,
        cpu_s=cpu_s,
    )


COPIES = Results(
    machine={"CPU": "Some, 2 cores"},
    copies=[
        copied("k2ktui", 100, 5.0, 3.0),
        copied("k2ktui-records", 100, 12.5, 16.0),
        copied("k2ktui", 1000, 4.0, 2.5),
    ],
)


def grown(partitions: int, idle: float, mode: str = "shared") -> Growth:
    kinds = {"driver": idle / 2, "workers": idle / 2}
    delays = (10.0, 20.0, 30.0)
    return Growth(
        partitions, 1.0, 2.0, 3.0, 4.0, 5.0, idle * 2, kinds, 1.0, delays, 700 + idle, mode
    )


def results() -> str:
    brokers = {size: capacity.Broker(1.0, 2.0, 0.5, 0.25) for size in (100, 1000)}
    of_another_mode = grown(1_000, 1.0, "exclusive")
    growth = report([of_another_mode, grown(1_000, 2.0), grown(5_000, 6.0)])
    return (
        f"<!-- growth -->\n{growth}<!-- /growth -->\n"
        f"<!-- capacity -->\n{capacity.section(brokers)}<!-- /capacity -->\n"
    )


def test_the_page_has_the_tables_of_the_results() -> None:
    tables = capacity.tables(
        capacity.constants(capacity.RESULTS.read_text(), recall(capacity.RESULTS.parent))
    )
    page = capacity.PAGE.read_text()
    hint = "python -m bench.capacity --keep writes them"
    assert capacity.put_tables(page, tables) == page, hint
    assert tables in page


def test_loads_are_multiplied_and_partitions_are_extended() -> None:
    tables = capacity.tables(capacity.constants(results(), COPIES))
    assert "| 1 GB/s | verbatim | 1,000 B | 3 | 4 | 3 | 8 Gbit/s | 43 GB |" in tables
    assert "| 10 GB/s | record path | 100 B | 160 | 125 | 30 | 80 Gbit/s | 432 GB |" in tables
    assert "| 5,000 | 12.0 | 6.0 | 706 | measured |" in tables
    # Two cores less those of the run, if that is less than what the brokers took.
    known = capacity.constants(results().replace("| 1.0 | 2.0 |", "| 10.0 | 20.0 |"), COPIES)
    assert known.brokers_s("verbatim", 100) == 7.0
    # 1 percent, 2 CPU seconds and 1 MB for each thousand more.
    assert "| 100,000 | 202 | 101 | 801 | extrapolated |" in tables


def test_a_missing_section_is_named() -> None:
    with pytest.raises(LookupError, match=r"python -m bench\.capacity"):
        capacity.constants("", COPIES)
    with pytest.raises(LookupError, match="copy/k2ktui/100-none-4-64k"):
        capacity.constants(results(), Results())


def test_only_what_is_between_the_marks_changes() -> None:
    page = "a\n<!-- tables -->\nold\n<!-- /tables -->\nb\n"
    after = capacity.put_tables(page, "new\n")
    assert after == "a\n<!-- tables -->\nnew\n<!-- /tables -->\nb\n"
    assert capacity.put_tables(after, "new\n") == after
