"""What commands print to a pipe: whole names, all columns, and why."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from k2ktui.cli.terminal import tables
from k2ktui.cli.terminal.tables import print_table
from k2ktui.engine.java_patterns import compile_pattern
from k2ktui.engine.name_pattern import NamePattern, require_match
from k2ktui.errors import ConfigError, ExitCode
from k2ktui.present.columns import Column, text_column
from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.kafka import Out, create_topic, produce
from tests.support.commands.cli import k2ktui
from tests.support.oracle.group_offsets import commit_offsets
from tests.support.pipelines.copied import Copied

REASON = " ".join(["a reason of several words"] * 8)
COLUMNS: tuple[Column[str], ...] = (
    text_column("name", lambda row: row, left=True),
    text_column("wide", lambda row: REASON, left=True, wide=True),
)
LONG = "a-name-of-" + "x" * 220


def test_a_pipe_gets_all_columns_rows_and_letters(capsys: pytest.CaptureFixture[str]) -> None:
    print_table("title", COLUMNS, [LONG] * 600, most=500)
    lines = capsys.readouterr().out.splitlines()
    long_lines = [line for line in lines if LONG in line]
    assert len(long_lines) == 600
    assert all(REASON in line for line in long_lines)


def test_a_terminal_gets_what_it_can_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    out = Console(file=io.StringIO(), width=80, force_terminal=True, color_system=None)
    monkeypatch.setattr(tables, "output", lambda: out)
    print_table("title", COLUMNS, ["name"] * 600, most=500)
    text: Any = out.file
    assert "reason" not in text.getvalue()
    assert "… and 100 more; --json prints all of them" in text.getvalue()


def test_a_pattern_that_matches_nothing_names_the_nearest() -> None:
    chosen = NamePattern("--group", "biling", compile_pattern("biling"))
    with pytest.raises(ConfigError, match="no group matches biling; there are 2 groups, the near"):
        require_match(chosen, ["billing", "reports"], "group")
    require_match(chosen, ["biling"], "group")
    require_match(lambda name: False, ["billing"], "group")


def test_what_commands_say(source: KafkaNode, target: KafkaNode, tmp_path: Path) -> None:
    copied = Copied(tmp_path, source, target)
    topic = create_topic(source)
    produce(source, topic, [Out(b"%d" % n) for n in range(20)])
    landed = copied.copy(topic)[topic, 0]
    group, new = copied.group("a-name-that-is-long-" + "y" * 60), copied.group("new")
    commit_offsets(source, group, {(topic, 0): 20})
    commit_offsets(target, group, {(topic, 0): landed[19] + 1})
    commit_offsets(source, new, {(topic, 0): 5})
    produce(source, topic, [Out(b"not replicated yet")])
    assert f"{group} " in k2ktui("plan", "-f", copied.file).stdout
    refused = k2ktui("plan", "-f", copied.file, "--group", group[:-9], code=ExitCode.USAGE)
    assert f"the nearest: {group}" in refused.stderr
    said = k2ktui("verify", "-f", copied.file, "--sample", "0").stdout.splitlines()
    assert said[-3].endswith("1 could not be checked (1 not replicated yet)")
    assert said[-1] == (
        "positions of groups that were not compared: 1 (1 the group has no committed offset there)"
    )
