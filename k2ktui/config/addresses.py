"""The addresses in ``bootstrap.servers``, as people write them, and quotes that are no quotes."""

from __future__ import annotations

import re

from k2ktui.text import safe_text

BOOTSTRAP = "bootstrap.servers"
_BETWEEN = re.compile(r"[,\r\n]")
_SCHEME = re.compile(r"([A-Za-z0-9_.+-]*)://")
_HOST = re.compile(r"\[[0-9A-Fa-f:.%\w-]+\]|[0-9A-Za-z._-]+")
# Double and single ones, high, low and reversed, and guillemets.
_TYPOGRAPHIC = "\u201c\u201d\u201e\u201f\u00ab\u00bb\u2018\u2019\u201a\u201b"
_QUOTES = f"\"'`{_TYPOGRAPHIC}"
# At both ends of a value, or after the equals sign of an option of a login.
_TYPED = re.compile(rf"[{_TYPOGRAPHIC}].*[{_TYPOGRAPHIC}]|.*=\s*[{_TYPOGRAPHIC}].*", re.DOTALL)
_LAST_PORT = 65535


def one_line(servers: str) -> str:
    """Return the addresses with a comma between them; in the file they may be one a line."""
    return ",".join(address for part in _BETWEEN.split(servers) if (address := part.strip()))


def address_problem(servers: str, protocol: str) -> str:
    """Return what is wrong with the first unusable address, with the likely fix; "" if nothing is.

    Args:
        servers: the value of ``bootstrap.servers``; with a variable in it, nothing is wrong.
        protocol: the client's ``security.protocol``, which an address may repeat.
    """
    if "${" in servers:
        return ""
    problems = (_problem(address, protocol) for address in one_line(servers).split(",") if address)
    return next((problem for problem in problems if problem), "")


def has_typed_quotes(value: str) -> bool:
    """Return whether a value is between typographic quotes, or an option in it is."""
    return _TYPED.fullmatch(value.strip()) is not None


def _problem(address: str, protocol: str) -> str:
    shown = safe_text(address, 80)
    bare = address.strip(_QUOTES)
    if bare != address:
        return f"{shown} has quotes; without them it is {safe_text(bare, 80)}"
    scheme = _SCHEME.match(address)
    rest = address[scheme.end() :] if scheme else address
    if scheme and scheme[1].upper() != protocol.strip().upper():
        how = "" if scheme[1].lower() in ("http", "https") else "; security.protocol chooses it"
        return f"{shown} begins with {safe_text(scheme[0])}: write {safe_text(rest, 80)}{how}"
    rest = rest.rstrip("/") if scheme else rest
    if re.search(r"[\s;]", rest):
        return f'{shown}: expected "," or a new line between addresses'
    host, colon, port = rest.rpartition(":")
    if not colon or (":" in host and not host.startswith("[")) or rest.endswith("]"):
        name = rest if rest.endswith("]") or not colon else f"[{rest}]"
        return f"{shown} has no port; brokers often have 9092: {safe_text(name, 80)}:9092"
    if not (port.isascii() and port.isdecimal() and 1 <= int(port[:6]) <= _LAST_PORT):
        return f"{shown}: expected a port from 1 to {_LAST_PORT} after the host's name"
    return "" if _HOST.fullmatch(host) else f"{shown}: expected HOST:PORT"
