"""Parse ``sasl.jaas.config``, the JAAS login line of one client."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

_FLAGS = frozenset({"required", "requisite", "sufficient", "optional"})
_TOKEN = re.compile(
    r"""(?P<skip>\s+|//[^\n]*|/\*.*?\*/)
      | "(?P<double>(?:[^"\\]|\\.)*)"
      | '(?P<single>(?:[^'\\]|\\.)*)'
      | (?P<sign>[=;{}])
      | (?P<word>[^\s=;{}"']+)""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(r"\\([0-7]{1,3}|.)", re.DOTALL)
_CONTROLS = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "a": "\a", "v": "\v"}


@dataclass(frozen=True)
class JaasEntry:
    """A login module's simple class name and its options (kept out of ``repr``: secrets)."""

    module: str
    options: Mapping[str, str] = field(repr=False)


def parse_jaas(text: str) -> JaasEntry:
    """Parse ``package.Module required name="value" …;``.

    Raises:
        ValueError: the text is malformed; the message says what is expected and never quotes it.
    """
    tokens = _tokens(text)
    shape = 'a line such as: package.LoginModule required username="…" password="…";'
    if any(sign in "{}" for quoted, sign in tokens if not quoted):
        raise ValueError(f"{shape} (not a whole JAAS file)")
    if tokens.count((False, ";")) != 1 or tokens[-1] != (False, ";"):
        raise ValueError(f"{shape} with one ';', at its end")
    if len(tokens) < 3 or tokens[1][1].lower() not in _FLAGS:
        raise ValueError(shape)
    return JaasEntry(tokens[0][1].rpartition(".")[2], _options(tokens[2:-1], shape))


def _options(tokens: list[tuple[bool, str]], shape: str) -> dict[str, str]:
    options: dict[str, str] = {}
    for start in range(0, len(tokens), 3):
        triple = tokens[start : start + 3]
        if len(triple) < 3 or triple[1] != (False, "=") or triple[2] == (False, "="):
            raise ValueError(shape)
        options[triple[0][1]] = triple[2][1]
    return options


def _tokens(text: str) -> list[tuple[bool, str]]:
    """Split into (quoted, text) tokens; raise ValueError for an unclosed quote."""
    tokens: list[tuple[bool, str]] = []
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise ValueError("closing quotes")
        position = match.end()
        quoted = match["double"] if match["double"] is not None else match["single"]
        if quoted is not None:
            tokens.append((True, _ESCAPE.sub(_unescape, quoted)))
        elif match["skip"] is None:
            tokens.append((False, match["sign"] or match["word"]))
    return tokens


def _unescape(match: re.Match[str]) -> str:
    # The escaping rules of java.io.StreamTokenizer, which Kafka parses these lines with.
    letter = match[1]
    if letter[0] in "01234567":
        return chr(int(letter, 8) & 0xFF)
    return _CONTROLS.get(letter, letter)
