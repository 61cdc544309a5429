"""The rate of comparisons beside copies, on little data."""

from __future__ import annotations

import re

import pytest

from bench.compare import COPY, LOCAL, SPARK, main


@pytest.mark.slow
def test_copies_comparisons_and_a_spark_cluster(capsys: pytest.CaptureFixture[str]) -> None:
    """Every comparison must have found all records equal, or it is an error."""
    options = ["--quick", "--records", "40000", "--data", "1000-lz4-4-16k", "--executors", "2"]
    assert main(options) == 0
    text = capsys.readouterr().out
    for way in (COPY, LOCAL, SPARK):
        (row,) = re.findall(rf"^\| .* \| `{way}` \| (.*) \|$", text, re.MULTILINE)
        rate, share, cpu, _ = (cell.split(" ")[0] for cell in row.split(" | "))
        assert float(rate.replace(",", "")) > 0 and float(cpu) > 0
        assert not share if way == COPY else float(share) > 0
    (row,) = re.findall(r"^\| 2 \| (.*) \|$", text, re.MULTILINE)
    gigabytes, of_each, *_ = row.split(" | ")
    assert 0 < float(gigabytes) <= 0.08
    assert len(of_each.split(", ")) == 2
