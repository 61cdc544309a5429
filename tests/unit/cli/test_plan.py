"""``plan``: what it refuses before it reads anything."""

from __future__ import annotations

from dataclasses import replace

import click
import pytest

from k2ktui.cli import plan
from k2ktui.cli.apply import effect_text
from k2ktui.engine.moves.plan import Plan, Rewind
from k2ktui.errors import ConfigError
from tests.support.commands.in_process import invoke


def test_json_and_csv_exclude_each_other() -> None:
    with pytest.raises(ConfigError) as refused:
        invoke(plan.command, "-f", "missing.yaml", "--json", "--csv")
    assert refused.value.message == "--json and --csv cannot be combined"


def test_the_question_before_an_apply_says_from_when_kept_commits_are() -> None:
    made = Plan("p", "S", "T", 1000.0, 1600.0, "me@here", Rewind.NEVER, ())
    assert effect_text(made, 1100.0) == "commit 0 offsets on the target"
    reported = effect_text(replace(made, commits_at=400.0), 1100.0)
    assert reported.endswith("from the source's commits of 1970-01-01 00:06:40 UTC (11 m 40 s ago)")


@pytest.mark.parametrize("seconds", ["-1", "99999999999999999999", "9" * 5000])
def test_a_lifetime_out_of_range_is_refused(seconds: str) -> None:
    with pytest.raises(click.BadParameter):
        invoke(plan.command, "-f", "missing.yaml", "--valid", seconds)
