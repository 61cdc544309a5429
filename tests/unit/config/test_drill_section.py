"""The section ``drill`` of a pipeline file."""

from __future__ import annotations

import pytest

from k2ktui.engine.drill.objectives import Objectives
from k2ktui.errors import ConfigError
from tests.unit.config.files import MINIMAL, Files


def test_there_are_no_objectives_by_default(files: Files) -> None:
    assert not files.load(MINIMAL).config.drill.objectives.values


def test_objectives(files: Files) -> None:
    given = "{rpoRecords: 500, rpoTime: 30 seconds, rtoTime: 15 minutes}"
    objectives = files.load(f"{MINIMAL}\ndrill: {{objectives: {given}}}").config.drill.objectives
    assert objectives.values == Objectives(500, 30.0, 900.0)
    one = files.load(f"{MINIMAL}\ndrill: {{objectives: {{rpoRecords: 0}}}}").config.drill.objectives
    assert one.values == Objectives(0, None, None)


WRONG = [("rpoRecords", "-1"), ("rpoTime", "soon"), ("rtoTime", "-3 s"), ("rto", "1 s")]


@pytest.mark.parametrize(("key", "value"), WRONG)
def test_wrong_values_are_refused(files: Files, key: str, value: str) -> None:
    with pytest.raises(ConfigError, match=rf"drill\.objectives\.{key}"):
        files.load(f"{MINIMAL}\ndrill: {{objectives: {{{key}: {value}}}}}")
