"""The section ``drill.redirect``: what a drill runs, and what it refuses."""

from __future__ import annotations

import pytest

from k2ktui.config.reverse import reverse_file
from k2ktui.config.show import to_yaml
from k2ktui.drill.client_name import clients_of
from k2ktui.engine.drill.checks import DrillKind, DrillPhase
from k2ktui.engine.drill.hooks import Hook, HookRole, describe_hook, hook_json
from tests.unit.config.files import MINIMAL, Files

PROXY = "haproxy: {socket: /run/h.sock, source: [a/e, b/e], target: [a/w]}"
OTHER_A = "type: A, source: [10.0.0.1], target: [10.0.0.2]"
ALIAS = "w.Example., type: CNAME, source: [east.x], target: [West.x.]"
DNS = (
    "dns: {server: ns1, zone: Example., ttl: 1 minute, keyFile: /k, records: ["
    "{name: kafka.example, type: A, source: [192.0.2.9, 192.0.2.1], target: [198.51.100.1]}, "
    f"{{name: {ALIAS}}}]}}"
)
# With those two, one more than a file may have.
MANY = "".join(f"{{name: n{number}.example, {OTHER_A}}}, " for number in range(19))
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


def test_what_dns_is_told(files: Files) -> None:
    loaded = files.load(section(DNS, "cut: [/c]", "restore: [/r]"))
    cut, move = loaded.config.drill.list_hooks(DrillKind.PLANNED)
    assert (cut.command, cut.dns, cut.role) == (("/c",), None, HookRole.CUT_OFF)
    assert move.command == (
        "server ns1 53",
        "zone example.",
        "prereq yxrrset kafka.example. A 192.0.2.1",
        "prereq yxrrset kafka.example. A 192.0.2.9",
        "prereq yxrrset w.example. CNAME east.x.",
        "update delete kafka.example. A",
        "update add kafka.example. 60 A 198.51.100.1",
        "update delete w.example. CNAME",
        "update add w.example. 60 CNAME west.x.",
        "send",
    )
    assert "It runs: printf '%s\\n' 'server ns1 53' 'zone example.' " in describe_hook(move)
    assert " send | nsupdate -v -k /k (at most 60 s)." in describe_hook(move)
    assert hook_json(move)["key_file"] == "/k" and "An abort" not in describe_hook(move)
    other = files.load(section(DNS.replace("/k", "/other"))).config.drill
    (only,) = other.list_hooks(DrillKind.DISASTER)
    assert only.digest != move.digest, "the digest covers the key's file"
    assert files.load(to_yaml(loaded)).config.drill == loaded.config.drill


@pytest.mark.parametrize(
    ("before", "after", "error"),
    [
        ("ns1", "ns1:0", "HOST or HOST:PORT"),
        ("ns1", "'2001:db8::1'", "an IPv6 address in brackets"),
        ("ns1", "'[2001:db8::1]:54'", ""),
        ("ns1", "ns..1", "HOST or HOST:PORT"),
        ("kafka.example", "'*.example'", "without a wildcard"),
        ("kafka.example", "kafka.exampl", "records of names in the zone"),
        ("kafka.example", "notexample", "records of names in the zone"),
        ("192.0.2.9", "192.0.2.999", "IPv4 addresses in records of type A"),
        ("type: A", "type: AAAA", "IPv6 addresses in records of type AAAA"),
        ("type: A", "type: MX", "expected A, AAAA or CNAME"),
        ("type: A", "type: CNAME", "a name has one CNAME"),
        ("198.51.100.1", "192.0.2.1", "no value in both source and target"),
        ("kafka.example", "w.example", "a name with other records"),
        ("name: w.Example.", "name: Example", "no CNAME of the zone"),
        (ALIAS, f"w.example, {OTHER_A}", ""),
        (ALIAS, f"kafka.example, {OTHER_A}", "one record of a name and type"),
        ("1 minute", "1500 ms", "whole seconds"),
        ("1 minute", "2 days", "drill.redirect.dns.ttl"),
        ("/k", "k", "a whole path"),
        ("/k", "'/${env:string:TOKEN}'", "no template"),
        ("ns1", "'${env:string:TOKEN}'", "no template"),
        ("zone: Example.", "zone: '${env:string:TOKEN}'", "in the zone"),
        ("[192.0.2.9, 192.0.2.1]", "[]", "drill.redirect.dns.records"),
        ("records: [", f"records: [{MANY}", "drill.redirect.dns.records"),
    ],
)  # fmt: skip
def test_records_that_are_refused(files: Files, before: str, after: str, error: str) -> None:
    files.env = {"TOKEN": "hunter2-hunter2"}
    assert before in DNS
    text = section(DNS.replace(before, after, 1))
    lines = "\n".join(files.errors(text)) if error else ""
    assert error in lines and "hunter2" not in lines
    if not error:
        files.load(text)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (section(), "one of command, dns and haproxy"),
        (section(PROXY, "command: [/m]"), "one of command, dns and haproxy"),
        (section(DNS, "command: [/m]"), "one of command, dns and haproxy"),
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
        (section("command: [/m]", "by: x"), "unknown key"),
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
