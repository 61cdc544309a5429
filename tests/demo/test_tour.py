"""The tour of a failover, as a user runs it: a rehearsal, then a planned switchover."""

from __future__ import annotations

import re
import subprocess

import pytest

from tests.demo.test_real import COMMAND, mark, marked
from tests.support.verbs import k2ktui

__all__ = ["mark"]  # a fixture


@pytest.mark.slow
def test_the_tour_switches_over_exactly_and_leaves_nothing(mark: str) -> None:
    done = subprocess.run(
        [*COMMAND, "--drill"], capture_output=True, text=True, timeout=420, check=False
    )
    said = done.stdout
    assert done.returncode == 0, said + done.stderr
    assert not marked(mark)
    rehearsal, _, switchover = said.partition("The planned switchover moves every group")
    assert "5 of 5, report" in rehearsal
    assert re.search(r"done: \d+ shadow groups read [\d,]+ records as expected", rehearsal), said
    assert "The tour stops the demo's producers on the source." in switchover
    assert "The planned of demo" in switchover
    assert "RPO: 0 records on the source only" in switchover
    assert re.search(r"Groups: 5, 0 records read again, 0 skipped\n", switchover), said
    assert "done: 3 of 3 groups read on the target" in switchover
    assert re.search(r"k2ktui drill report \S+ -f \S+pipeline.yaml", switchover)
    assert re.search(r"the way back: \S+pipeline-reverse.yaml", switchover)


@pytest.mark.parametrize("option", ["--keep", "--fresh", "--with-mirrormaker"])
def test_options_about_data_are_refused_with_the_tour(option: str) -> None:
    said = k2ktui("demo", "--drill", option)
    assert said.code == 2
    assert "--drill cannot be combined" in said.err
