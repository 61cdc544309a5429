"""Consumer groups may have any name: each command shows them harmless, and no two alike."""

from __future__ import annotations

import csv
import io
import time
from pathlib import Path

import pytest

from k2ktui.cli.groups import plan_csv
from k2ktui.engine.moves.plan import load_plan
from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.kafka import Out, create_topic, produce
from tests.support.commands.cli import k2ktui
from tests.support.oracle.group_offsets import commit_offsets
from tests.support.pipelines.copied import Copied, committed

pytestmark = pytest.mark.slow

STEMS = [
    "a",
    "a\u200b",
    "a\\u200b",
    "a\\x20",
    "a ",
    "a\u00ad",
    "caf\u00e9",
    "cafe\u0301",
    "\x1b[2J\x1b]0;x\x07",
    "\u202egnol",
    "[red]x[/]",
]


def harmless(text: str) -> bool:
    return all(line.isprintable() for line in text.splitlines())


def test_every_command(source: KafkaNode, target: KafkaNode, tmp_path: Path) -> None:
    copied = Copied(tmp_path, source, target)
    topic = create_topic(source)
    produce(source, topic, [Out(b"%d" % n) for n in range(9)])
    copied.copy(topic)
    groups = [copied.group(stem) for stem in STEMS]
    for group in groups:
        commit_offsets(source, group, {(topic, 0): 4})
    plan = tmp_path / "plan.json"
    wide = {"COLUMNS": "300"}

    def said(*arguments: str | Path, code: int = 0) -> str:
        done = k2ktui(*arguments, code=code, env=wide)
        assert harmless(done.stdout) and harmless(done.stderr), arguments
        assert "\\x5cx1b" not in done.stdout + done.stderr, "a name is escaped once"
        return done.stdout

    shown = said("groups", "-f", copied.file)
    rows = [line for line in shown.splitlines() if copied.name in line and topic in line]
    assert len({line.split(topic)[0] for line in rows}) == len(STEMS), shown
    said("plan", "-f", copied.file, "-o", plan)
    raw = k2ktui("plan", "-f", copied.file, "--csv").stdout
    assert {row[0] for row in csv.reader(io.StringIO(raw, newline=""))} == set(groups)
    assert harmless(plan_csv(load_plan(plan.read_text(), time.time()), to_terminal=True))
    said("apply", plan, "--yes")
    assert {committed(target, group, [(topic, 0)])[topic, 0] for group in groups} == {11}
    said("verify", "-f", copied.file)
    said("status", "-f", copied.file)
    said("watch", "-f", copied.file, "--once")
    said("journal", "-f", copied.file)
