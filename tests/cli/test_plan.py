"""``plan``: what it refuses before it reads anything."""

from __future__ import annotations

from click.testing import CliRunner

from k2ktui.cli import plan


def test_json_and_csv_exclude_each_other() -> None:
    arguments = ["-f", "missing.yaml", "--json", "--csv"]
    done = CliRunner().invoke(plan.command, arguments, standalone_mode=False)
    assert str(done.exception) == "--json and --csv cannot be combined"
