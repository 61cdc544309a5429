"""Variables of hooks: all topics of a drill, or a file with them; no value is cut."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from k2ktui.drill.hooks import require_whole, topic_variables
from k2ktui.errors import Refused

FILE = Path("/tmp/k2ktui-hook-x/topics")


def test_topics_that_fit_are_in_the_variable() -> None:
    assert topic_variables(["a", "b"], FILE) == {
        "K2KTUI_DRILL_TOPICS": "a,b",
        "K2KTUI_DRILL_TOPICS_FILE": str(FILE),
    }


@pytest.mark.parametrize(("count", "fits"), [(12_000, True), (12_001, False), (50_000, False)])
def test_more_topics_are_named_by_their_file(count: int, fits: bool) -> None:
    variables = topic_variables([f"{number:09d}" for number in range(count)], FILE)
    names = variables["K2KTUI_DRILL_TOPICS"]
    assert names == f"@{FILE}" or (fits and names.count(",") == count - 1)
    assert names.startswith("@") is not fits
    require_whole(variables)
    subprocess.run(["true"], env=variables, check=True)


def test_a_value_that_does_not_fit_is_refused() -> None:
    with pytest.raises(Refused, match=r"K2KTUI_DRILL_SOURCE is too long .* 120,001 bytes"):
        require_whole({"K2KTUI_DRILL_SOURCE": "x" * 120_001})
