"""The section ``drill.hooks`` of a pipeline file."""

from __future__ import annotations

import pytest

from k2ktui.config.reverse import reverse_file
from k2ktui.config.show import to_yaml
from k2ktui.engine.drill.checks import DrillKind, DrillPhase
from k2ktui.engine.drill.hooks import Hook
from tests.unit.config.files import MINIMAL, Files


def section(*hooks: str) -> str:
    return f"{MINIMAL}drill: {{hooks: [{', '.join(hooks)}]}}\n"


def test_a_hook_of_a_file(files: Files) -> None:
    full = "{before: apply, for: a b, command: [x, yes, 1.10], timeout: 2 minutes, abort: [/y]}"
    text = section(full, "{after: report, for: c, command: [/z]}")
    config = files.load(text).config
    assert config.drill.list_hooks(DrillKind.PLANNED) == (
        Hook(DrillPhase.APPLY, False, "a b", ("x", "yes", "1.10"), 120.0, ("/y",)),
        Hook(DrillPhase.REPORT, True, "c", ("/z",), 60.0),
    )
    assert files.load(MINIMAL).config.drill.list_hooks(DrillKind.PLANNED) == ()
    shown = to_yaml(files.load(text))
    assert files.load(shown).config.drill == config.drill, "config show shows them whole"


@pytest.mark.parametrize(
    ("hook", "error"),
    [
        ("{for: a, command: [x]}", "either before or after, with a phase"),
        ("{before: apply, after: apply, for: a, command: [x]}", "either before or after"),
        ("{before: shadow-groups, for: a, command: [x]}", "a phase: source-back"),
        ("{before: apply, command: [x]}", "missing"),
        ("{before: apply, for: a, command: x y}", "which no shell reads"),
        ("{before: apply, for: a, command: []}", "begins with a program"),
        ("{before: apply, for: a, command: [./x]}", "whole path"),
        ('{before: apply, for: a, command: [x, "a\\0"]}', "without the character NUL"),
        ("{before: apply, for: a, command: [x], timeout: 0 seconds}", "more than 0"),
        ("{before: apply, for: a, command: [x], timeout: 2 days}", "at most 86400"),
        ("{after: open-target, for: a, command: [x], abort: [y]}", "it would never run"),
        ("{before: report, for: a, command: [x], abort: [y]}", "it would never run"),
        ("{before: apply, for: a, command: [x, '${env:string:TOKEN}']}", "no template"),
        ("{before: apply, for: a, command: [x, 'http://u:secret@h/']}", "no login"),
        ("{before: apply, for: a, command: [x], shell: yes}", "unknown key"),
    ],
)
def test_a_hook_that_is_none(files: Files, hook: str, error: str) -> None:
    files.env = {"TOKEN": "hunter2-hunter2"}
    lines = "\n".join(files.errors(section(hook)))
    assert error in lines and "drill.hooks[0]" in lines
    assert "hunter2" not in lines and "secret@" not in lines


def test_the_same_hook_twice_is_refused(files: Files) -> None:
    one = "{before: apply, for: a, command: [x]}"
    assert "no hook twice" in "\n".join(files.errors(section(one, one)))


def test_hooks_are_not_copied_to_the_opposite_pipeline(files: Files) -> None:
    text = section("{before: apply, for: a, command: [x]}")
    reversed_pipeline = reverse_file(files.write({"a.yaml": text}), env={})
    assert "hooks" not in reversed_pipeline.text and "drill" not in reversed_pipeline.text
    assert any("drill.hooks was left out" in note for note in reversed_pipeline.notes)
