"""``translate --from-spark-checkpoint``; its translations are given."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from k2ktui.cli.translate import translate
from k2ktui.engine.mapping.translate import Basis, Translation
from k2ktui.engine.records.state import SourcePartition
from tests.support.commands.in_process import invoke
from tests.unit.config.files import MINIMAL

_AT = SourcePartition("t", 0)
_TRANSLATED = 'v1\n{}\n{"t":{"0":18}}\n'


@pytest.fixture
def arguments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    (tmp_path / "p.yaml").write_text(MINIMAL)
    (tmp_path / "3").write_text('v1\n{}\n{"t":{"0":11}}\n')
    translations = [Translation(("t", 0), (_AT,), 18, Basis.EXACT)]
    monkeypatch.setattr("k2ktui.cli.translate.translate_all", lambda *_: [translations])
    return ["-f", str(tmp_path / "p.yaml"), "--from-spark-checkpoint", str(tmp_path / "3")]


def test_a_checkpoint(arguments: list[str]) -> None:
    assert invoke(translate, *arguments).stdout == _TRANSLATED


def test_a_checkpoint_as_json(arguments: list[str]) -> None:
    reported = json.loads(invoke(translate, *arguments, "--json").stdout)
    (row,) = reported["positions"]
    assert (row["topic"], row["partition"], row["offset"]) == ("t", 0, 11)
    assert (row["translated_offset"], row["basis"]) == (18, "exact")
    assert (reported["pipeline"], reported["batch"], reported["unfinished"]) == ("p", 3, [])
    assert reported["content"] == _TRANSLATED
