"""Small files that would take all memory, the stack, or minutes: an error with a line, at once."""

from __future__ import annotations

from pathlib import Path
from time import process_time

import pytest

from k2ktui.config import bounded_yaml, load
from k2ktui.config.bounded_yaml import BYTE_LIMIT, DEPTH_LIMIT
from k2ktui.console.keys import KeyUse, load_keys
from k2ktui.console.themes import BadTheme, read_theme
from k2ktui.errors import ConfigError

LEVELS = 12


def laughs(kind: str) -> str:
    """Ten aliases of ten aliases of …"""
    empty, form = ("{x: 1}", "[{}]") if kind == "list" else ("{x: 1}", "{{{}}}")
    lines = [f"l0: &l0 {empty}"]
    for level in range(1, LEVELS):
        entries = (f"k{i}: *l{level - 1}" if kind == "map" else f"*l{level - 1}" for i in range(10))
        lines.append(f"l{level}: &l{level} " + form.format(", ".join(entries)))
    return "\n".join(lines)


def merges() -> str:
    lines = ["l0: &l0 {x: 1}"]
    for level in range(1, LEVELS):
        lines.append(f"l{level}: &l{level} {{<<: [{', '.join([f'*l{level - 1}'] * 10)}]}}")
    return "\n".join(lines)


BOMBS = {
    "aliases in lists": (laughs("list"), "values, counting those of aliases"),
    "aliases in tables": (laughs("map"), "values, counting those of aliases"),
    "merges": (merges(), "values, counting those of aliases"),
    "an alias of itself": ("name: x\na: &a [*a, *a]", "p.yaml:2: not valid YAML: the alias refers"),
    "a merge of itself": ("name: x\na: &a {<<: *a}", "p.yaml:2: not valid YAML: the alias refers"),
    "brackets": ("name: x\na: " + "[" * 100_000, "p.yaml:2: not valid YAML: nested deeper than 40"),
    "braces": ("name: x\na: " + "{a: " * 100_000, "p.yaml:2: not valid YAML: nested deeper"),
    "dashes": ("- " * 100_000, "p.yaml:1: not valid YAML: nested deeper"),
    "questions": ("? " * 100_000, "p.yaml:1: not valid YAML: nested deeper"),
    "size": ("#" * (BYTE_LIMIT + 1), "p.yaml: larger than 1024 KiB"),
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_does_not_go_off(name: str, tmp_path: Path) -> None:
    text, said = BOMBS[name]
    path = tmp_path / "p.yaml"
    path.write_text(text)
    began = process_time()
    with pytest.raises(ConfigError) as caught:
        load([path], env={})
    assert said in str(caught.value)
    assert process_time() - began < 1


def test_too_many_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded_yaml, "VALUE_LIMIT", 100)
    path = tmp_path / "p.yaml"
    path.write_text("a:\n" + "- x\n" * 101)
    with pytest.raises(ConfigError, match=r"p\.yaml:102: not valid YAML: more than 100 values"):
        load([path], env={})


@pytest.mark.parametrize("name", ["aliases in lists", "merges", "brackets", "an alias of itself"])
def test_the_consoles_own_files(name: str, tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_text(BOMBS[name][0])
    assert load_keys(path, [KeyUse("quit", "q")]).errors
    with pytest.raises(BadTheme):
        read_theme(path)


def test_a_value_that_cannot_be(tmp_path: Path) -> None:
    path = tmp_path / "keys.yaml"
    path.write_text("quit: 2001-99-99")
    assert load_keys(path, [KeyUse("quit", "q")]).errors


def test_what_is_within_the_bounds(tmp_path: Path) -> None:
    """As deep as allowed, and an alias used a thousand times: errors of another kind only."""
    path = tmp_path / "p.yaml"
    deep = "[" * (DEPTH_LIMIT - 1) + "]" * (DEPTH_LIMIT - 1)
    path.write_text(f"a: &a {{x: 1}}\nb: [{', '.join(['*a'] * 1000)}]\nc: {deep}")
    with pytest.raises(ConfigError) as caught:
        load([path], env={})
    assert "not valid YAML" not in str(caught.value) and "unknown key" in str(caught.value)


def test_a_secret_from_an_endless_file(tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_text("name: ${file:/dev/zero}")
    with pytest.raises(ConfigError, match="/dev/zero is larger than 1024 KiB"):
        load([path], env={})
