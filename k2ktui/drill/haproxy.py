"""Send commands to HAProxy's runtime socket, and read back what they have done."""

from __future__ import annotations

import csv
import re
import socket
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from time import monotonic, sleep

from k2ktui.config.drill import DrillHaproxy
from k2ktui.drill.hook_process import CommandEnd
from k2ktui.text import list_names, safe_text

_ANSWER_S, _POLL_S = 5.0, 0.2
_LARGEST, _NAMED = 16 << 20, 5
_SET = re.compile(r"set server (\S+) state (maint|ready)")
_SHUT = re.compile(r"shutdown sessions server (\S+)")
# Bits of srv_admin_state: by a command, by a tracked server, by a name that does not resolve.
_MAINT, _DRAIN = 0x01 | 0x02 | 0x20, 0x08 | 0x10


class ProxyError(Exception):
    """HAProxy refused a command, or did not answer."""


def ask_proxy(path: str, command: str) -> str:
    """Send one command, and return the answer.

    Raises:
        ProxyError: it cannot be reached.
    """
    answer = bytearray()
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(_ANSWER_S)
            connection.connect(path)
            connection.sendall(f"{command}\n".encode())
            while (part := connection.recv(1 << 16)) and len(answer) < _LARGEST:
                answer += part
    except OSError as error:
        reason = safe_text(error.strerror or error)
        raise ProxyError(f"the runtime socket {safe_text(path)}: {reason}") from error
    return answer.decode(errors="replace")


def read_servers(path: str) -> dict[str, str]:
    """Return the state of each server: ``ready``, ``drain`` or ``maint``.

    Raises:
        ProxyError: it cannot be reached, or answers something else.
    """
    lines = ask_proxy(path, "show servers state").splitlines()
    head = next((line[1:].split() for line in lines if line.startswith("# ")), [])
    wanted = ("be_name", "srv_name", "srv_admin_state")
    if not set(wanted) <= set(head):
        raise ProxyError(f"the runtime socket {safe_text(path)} does not list servers")
    backend, name, admin = map(head.index, wanted)
    states = {}
    for line in lines:
        fields = line.split(" ")
        if line.startswith("#") or len(fields) <= max(backend, name, admin):
            continue
        state = int(fields[admin]) if fields[admin].isdecimal() else _MAINT
        word = "maint" if state & _MAINT else "drain" if state & _DRAIN else "ready"
        states[f"{fields[backend]}/{fields[name]}"] = word
    return states


def count_sessions(path: str) -> dict[str, int]:
    """Return the number of open sessions of each server; errors as for :func:`read_servers`."""
    lines = ask_proxy(path, "show stat -1 4 -1").removeprefix("# ").splitlines()
    try:
        return {
            f"{row['pxname']}/{row['svname']}": int(row["scur"] or 0)
            for row in csv.DictReader(lines)
            if row["scur"]
        }
    except (KeyError, ValueError) as error:
        raise ProxyError(f"the runtime socket {safe_text(path)} lists no sessions") from error


def explain_servers(proxy: DrillHaproxy | None) -> str:
    """Return why HAProxy could not be told to move the name; "" if it could, or is not used."""
    if proxy is None:
        return ""
    try:
        states = read_servers(proxy.socket)
    except ProxyError as error:
        return str(error)
    missing = [server for server in (*proxy.source, *proxy.target) if server not in states]
    if missing:
        return f"HAProxy has no server {list_names(missing, _NAMED)}"
    opened = [server for server in proxy.target if states[server] != "maint"]
    if opened:
        return f"HAProxy leads clients to the target already: {list_names(opened, _NAMED)}"
    return ""


def run_commands(
    path: str,
    commands: Sequence[str],
    timeout_s: float,
    tick: Callable[[float], None],
    idle: Callable[[], AbstractContextManager[None]],
) -> CommandEnd:
    """Send commands, and read back until they have their effect, or the time is over.

    Arguments and result as for :func:`k2ktui.drill.hook_process.run_command`.
    """
    began = monotonic()
    wanted = {match[1]: match[2] for line in commands if (match := _SET.fullmatch(line))}
    shut = [match[1] for line in commands if (match := _SHUT.fullmatch(line))]
    problem = ""
    try:
        for command in commands:
            if answer := ask_proxy(path, command).strip():
                raise ProxyError(f"{command}: {safe_text(' '.join(answer.split()), 200)}")
        while True:
            tick(monotonic() - began)
            problem = _explain(path, wanted, shut)
            if not problem or monotonic() - began > timeout_s:
                break
            with idle():
                sleep(_POLL_S)
            for server in shut:  # sessions that began meanwhile
                ask_proxy(path, f"shutdown sessions server {server}")
    except ProxyError as error:
        problem = str(error)
    states = ", ".join(f"{server} {state}" for server, state in wanted.items())
    output = problem or f"read back: {states}" + (
        f"; no sessions on {', '.join(shut)}" * bool(shut)
    )
    return CommandEnd(1 if problem else 0, monotonic() - began, output)


def _explain(path: str, wanted: dict[str, str], shut: Sequence[str]) -> str:
    """Return what is not as the commands want it; "" if all is."""
    states = read_servers(path)
    other = [
        f"{name} is {states.get(name, 'unknown')}"
        for name in wanted
        if states.get(name) != wanted[name]
    ]
    sessions = count_sessions(path) if shut else {}
    other += [f"{name} has {sessions[name]:,} sessions" for name in shut if sessions.get(name)]
    return "; ".join(other)
