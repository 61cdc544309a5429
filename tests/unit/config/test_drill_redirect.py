"""The section ``drill.redirect``: what a drill runs, and what it refuses."""

from __future__ import annotations

import pytest

from k2ktui.config.reverse import reverse_file
from k2ktui.config.show import to_yaml
from k2ktui.drill.client_name import clients_of
from k2ktui.engine.drill.checks import DrillKind, DrillPhase
from k2ktui.engine.drill.hooks import Hook, HookRole, describe_hook
from tests.unit.config.files import MINIMAL, Files

PROXY = "haproxy: {socket: /run/h.sock, source: [a/e, b/e], target: [a/w]}"
CUT = "set server a/e state maint", "set server b/e state maint"
SHUT = "shutdown sessions server a/e", "shutdown sessions server b/e"


def section(*keys: str, name: str = "kafka.example:9092") -> str:
    return f"{MINIMAL}drill: {{redirect: {{name: '{name}', {', '.join(keys)}}}}}\n"


def test_what_it_runs(files: Files) -> None:
    loaded = files.load(section("command: [/m]", "cut: [/c, x]", "restore: [/r]", "timeout: 5 s"))
    settings = loaded.config.drill
    name = "kafka.example:9092"
    cut = Hook(
        DrillPhase.FENCE_PRODUCERS,
        False,
        f"close the clients' way to the source by {name}",
        ("/c", "x"),
        5.0,
        ("/r",),
        HookRole.CUT_OFF,
    )
    moves = f"lead clients of {name} to the target"
    move = Hook(DrillPhase.REDIRECT, False, moves, ("/m",), 5.0, (), HookRole.REDIRECT)
    assert settings.list_hooks(DrillKind.PLANNED) == (cut, move)
    lost = settings.list_hooks(DrillKind.DISASTER)
    assert lost[0].phase is DrillPhase.SOURCE_LOST
    assert lost[0].digest == cut.digest, "a drill whose source is lost goes on with its record"
    assert (
        settings.list_hooks(DrillKind.REHEARSE) == settings.list_hooks(DrillKind.PLANNED, "a") == ()
    )
    only_move = files.load(section("command: [/m]")).config.drill
    assert [hook.role for hook in only_move.list_hooks(DrillKind.DISASTER)] == [HookRole.REDIRECT]
    assert files.load(to_yaml(loaded)).config.drill == settings


def test_what_haproxy_is_told(files: Files) -> None:
    cut, move = files.load(section(PROXY)).config.drill.list_hooks(DrillKind.PLANNED)
    assert cut.command == (*CUT, *SHUT)
    assert cut.abort == ("set server a/e state ready", "set server b/e state ready")
    assert move.command == (*CUT, *SHUT, "set server a/w state ready")
    shown = describe_hook(cut)
    assert shown.startswith("cut-off, close the clients' way to the source")
    assert f"echo '{'; '.join((*CUT, *SHUT))}' | socat stdio /run/h.sock" in shown
    assert "An abort runs: echo 'set server a/e state ready;" in shown


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (section(), "either command or haproxy"),
        (section(PROXY, "command: [/m]"), "either command or haproxy"),
        (section("command: [/m]", "cut: [/c]"), "cut and restore, or neither"),
        (section(PROXY, "cut: [/c]", "restore: [/r]"), "beside haproxy"),
        (section("command: [m/x]"), "whole path"),
        (section("command: [/m]", name="kafka.example"), "has no port"),
        (section("command: [/m]", "config: {bootstrap.servers: 'a:1'}"), "the name is in name"),
        (section("command: [/m, '${env:string:TOKEN}']"), "no template"),
        (section("command: [/m]", "hosts: [[/x, 'http://u:secret@h/']]"), "no login"),
        (section("haproxy: {socket: h.sock, source: [a/e], target: [a/w]}"), "a whole path"),
        (section("haproxy: {socket: /h, source: [a/e], target: [a/e]}"), "leads to one cluster"),
        (section("haproxy: {socket: /h, source: ['a/e; x'], target: [a/w]}"), "BACKEND/SERVER"),
        (section("haproxy: {socket: /h, source: [], target: [a/w]}"), "drill.redirect"),
        (section("command: [/m]", "dns: x"), "unknown key"),
    ],
)
def test_a_section_that_is_refused(files: Files, text: str, error: str) -> None:
    files.env = {"TOKEN": "hunter2-hunter2"}
    lines = "\n".join(files.errors(text))
    assert error in lines and "hunter2" not in lines and "secret@" not in lines


def test_the_name_is_asked_with_the_targets_connection_or_its_own(files: Files) -> None:
    text = section("command: [/m]")
    config = files.load(text).config
    redirect = config.drill.redirect
    assert redirect is not None
    target = config.target.properties("admin")
    asked = clients_of(config, redirect, "a:1").properties("admin")
    assert asked == {**target, "bootstrap.servers": "a:1"}
    own = section(
        "command: [/m]", "config: {security.protocol: SASL_SSL, sasl.jaas.config: hunter2}"
    )
    loaded = files.load(own)
    assert loaded.config.drill.redirect is not None
    asked = clients_of(loaded.config, loaded.config.drill.redirect, "a:1").properties("admin")
    assert asked["security.protocol"] == "SASL_SSL" and asked["sasl.jaas.config"] == "hunter2"
    assert "hunter2" not in to_yaml(loaded)


def test_it_is_not_copied_to_the_opposite_pipeline(files: Files) -> None:
    turned = reverse_file(files.write({"a.yaml": section(PROXY)}), env={})
    assert "redirect" not in turned.text
    assert any("drill.redirect was left out" in note for note in turned.notes)
