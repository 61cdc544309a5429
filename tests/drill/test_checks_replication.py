"""D06 to D13 on real clusters, each with what makes it fail."""

from __future__ import annotations

from pathlib import Path

from k2ktui.runtime.node import KafkaNode
from tests.support.drill import FAIL, PASS, Drilled
from tests.support.drill import QUICK as LIMITS


def test_d06_lag(source: KafkaNode, target: KafkaNode, tmp_path: Path) -> None:
    drilled = Drilled(tmp_path, source, target)
    found = drilled.check("D06")
    assert found.outcome is PASS
    assert found.evidence.startswith("0 of 2 partitions behind; worst lag 0 records, 0 s")

    drilled.write(LIMITS.lag_records + 1)

    found = drilled.check("D06")
    assert found.outcome is FAIL
    assert "2 of 2 partitions behind; worst lag 1,001 records" in found.evidence
    assert f"{drilled.topic}-0" in found.evidence and "k2ktui watch" in found.hint
