"""CPU time of executors, on little data."""

from __future__ import annotations

import re

import pytest

from bench.executors import main


@pytest.mark.slow
def test_two_executors_with_the_same_data(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--executors", "2", "--records", "200000"]) == 0
    (row,) = re.findall(r"^\| 2 \| .*$", capsys.readouterr().out, re.MULTILINE)
    _, gigabytes, of_each, *_, complete = row.strip("| ").split(" | ")
    assert float(gigabytes) <= 0.02 and complete == "all, once"
    assert len(of_each.split(", ")) == 2
