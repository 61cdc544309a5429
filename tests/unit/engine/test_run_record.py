"""Run records are found among others by their keys."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from k2ktui.engine.records.run_record import may_be_run
from k2ktui.engine.records.state import (
    Run,
    SourcePartition,
    position_key,
    read_commit_record,
    run_key,
    run_value,
)

_GROUPS = st.text(max_size=20)


def _escaped(name: str, which: set[int]) -> str:
    return "".join(f"\\u{ord(c):04x}" if n in which else c for n, c in enumerate(name))


@given(_GROUPS, st.sampled_from(["run", "slotRun"]), st.sets(st.integers(0, 6)), st.booleans())
def test_no_run_is_missed(group: str, name: str, escaped: set[int], ascii_only: bool) -> None:
    value = run_value(Run(1, 1, shared_slot=None if name == "run" else 3))
    member = "true" if name == "run" else "3"
    group_text = json.dumps(group, ensure_ascii=ascii_only)
    key = f'{{ "group" : {group_text}, "{_escaped(name, escaped)}"\t:{member} }}'
    _, _, run = read_commit_record(key.encode(), value)
    assert isinstance(run, Run)
    assert may_be_run(key.encode())


@given(_GROUPS)
def test_keys_of_positions_are_passed_over(group: str) -> None:
    key = position_key(group, SourcePartition("orders", 1))
    assert may_be_run(key) == (b"\\" in key)
    assert may_be_run(run_key(group)) and may_be_run(run_key(group, 7))
    assert not may_be_run(None)
