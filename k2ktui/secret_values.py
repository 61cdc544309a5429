"""Hides the values of secrets in whatever an operator sees, wherever they turn up.

A key's name shows that its value is a secret; a library's error or a URL shows the value without
the name. So the values themselves are remembered in this process, and replaced by ``<redacted>``.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Iterator
from urllib.parse import quote, quote_plus

REDACTED = "<redacted>"
# Shorter ones are parts of ordinary words: hiding them would make messages unreadable.
SHORTEST = 6

_SECRET_NAME = re.compile(
    r"passw|passphrase|passcode|pass$|pwd|secret|token|jaas|credential|private|authorization|cookie"
    r"|user\.info|signature|api[._-]?key|[._-]key$|[._-]key\.(?!password)"
    r"|(?:^|[._-])(?:sas|auth|sig)$|^sas[._-]",
    re.IGNORECASE,
)
_PUBLIC_NAME = re.compile(
    r"\.(url|urls|location|type|class|algorithm|factory\.class|ms|seconds)$|passphraseFile$", re.I
)
# The credentials of a URL end at its last @: a password may hold @, / and spaces.
_URL = re.compile(r"(?<=://)(?:(?![a-z][a-z0-9+.-]*://).)*@", re.IGNORECASE | re.DOTALL)
# An option of a login line: its value in quotes, or one word.
_OPTION = re.compile(r"""([\w.-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s;"']+))""")
_VARIABLES = re.compile(r"(?:\$\{[^}:]*:[^}]*\})+")
_PEM_EDGE = "-----"
# For texts of others: a name with its value, a login of HTTP, a private key, what pydantic quotes
# and SASL sends.
_TEXT = r"""b?"(?:[^"\\]|\\.)*"|b?'(?:[^'\\]|\\.)*'"""
_NAMED = re.compile(
    rf"""([A-Za-z][\w.-]*)((?:\\?["'])?\s*(?:=>|[=:])\s*|\\?["']\s*,\s*(?=b?["']))"""
    rf"""(\\"[^"\\]*\\"|{_TEXT}|(?:Basic|Bearer)\s+\S+|[^\s,;)\]}}"'&]+)""",
    re.IGNORECASE,
)
_NO_SECRETS = ("", REDACTED, "None", "True", "False")
_LOGIN = re.compile(r"\b(Basic|Bearer)\s+[A-Za-z0-9+/._~-]{6,}=*")
_INPUT = re.compile(rf"(\b(?:input_value|auth_bytes)=)(?:{_TEXT}|[^\s,\]]+)")
_PEM = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*-----|\Z)", re.DOTALL)

_values: frozenset[str] = frozenset()
_pattern: re.Pattern[str] | None = None


def is_secret_key(key: str) -> bool:
    """Return whether a property of this name holds a secret."""
    return bool(_SECRET_NAME.search(key)) and not _PUBLIC_NAME.search(key)


def has_variable(value: str) -> bool:
    """Return whether a value has a variable ``${provider:path:key}``."""
    return _VARIABLES.search(value) is not None


def has_literal_secret(key: str, value: str) -> bool:
    """Return whether a property has a secret that is not a variable: only others may be copied."""
    secrets = [_VARIABLES.sub("", match[0]).strip(":@") for match in _URL.finditer(value)]
    if is_secret_key(key):
        options = _OPTION.findall(value) if "jaas" in key.lower() else []
        texts = [next(filter(None, rest), "") for name, *rest in options if is_secret_key(name)]
        secrets += [_VARIABLES.sub("", text) for text in (texts if options else [value])]
    return any(secrets)


def without_userinfo(text: str) -> str:
    """Return ``text`` with the credentials of URLs redacted."""
    return _URL.sub(f"{REDACTED}@", text) if "@" in text else text


def remember_secrets(properties: Iterable[tuple[str, str]]) -> None:
    """Remember the secrets among keys with their values, to hide them from now on."""
    global _values, _pattern
    values = _values.union(
        form
        for key, value in properties
        for secret in _secrets_in(key, value)
        if len(secret) >= SHORTEST
        for form in _forms(secret)
    )
    if values != _values:
        longest_first = sorted(values, key=len, reverse=True)
        _values, _pattern = values, re.compile("|".join(map(re.escape, longest_first)))


def forget_secrets() -> None:
    """Forget all values; for tests, which have many pipelines in one process."""
    global _values, _pattern
    _values, _pattern = frozenset(), None


def hide_secrets(text: str) -> str:
    """Return the text without the values that are remembered, and without credentials in URLs."""
    text = _pattern.sub(REDACTED, text) if _pattern else text
    return without_userinfo(text) if "://" in text else text


def _secrets_in(key: str, value: str) -> Iterator[str]:
    """Yield the secret parts of a property: of a login line its options, of a URL its password."""
    for match in _URL.finditer(value):
        user, _, password = match[0][:-1].partition(":")
        yield password or user
        yield match[0][:-1]
    if not is_secret_key(key):
        return
    if "jaas" in key.lower():
        yield from _secrets_in_login(value)
        return
    yield value
    user, colon, password = value.partition(":")
    if colon and "user.info" in key:
        yield password
    yield from (line for line in value.splitlines() if _PEM_EDGE not in line)


def _secrets_in_login(line: str) -> Iterator[str]:
    """Yield the secrets of a login line, and user and password as a Basic login has them."""
    options = {name: next(filter(None, texts), "") for name, *texts in _OPTION.findall(line)}
    if not options:
        yield line
    for name, text in options.items():
        if is_secret_key(name):
            yield text
            yield f"{options.get('username', '')}:{text}"


def _forms(secret: str) -> Iterator[str]:
    """Yield a secret as programs write it: itself, in a URL, in base64, in JSON."""
    yield secret
    yield quote(secret, safe="")
    yield quote_plus(secret)
    encoded = base64.b64encode(secret.encode(errors="surrogateescape")).decode()
    yield from (encoded, encoded.rstrip("="))
    yield json.dumps(secret)[1:-1]
    yield json.dumps(secret, ensure_ascii=False)[1:-1]


def redact(text: str) -> str:
    """Return a log text without secrets: known values, and those whose key looks like a secret's.

    The keys count because libraries also quote settings that this process has not remembered.
    """
    text = _PEM.sub(f"{_PEM_EDGE}{REDACTED}{_PEM_EDGE}", hide_secrets(text))
    text = _LOGIN.sub(rf"\1 {REDACTED}", _INPUT.sub(rf"\1{REDACTED}", text))
    return "".join(_without_named(text))


def _without_named(text: str) -> Iterator[str]:
    """Yield the parts of a text; behind the name of a secret, its value is replaced."""
    at = 0
    while (named := _NAMED.search(text, at)) is not None:
        name, _, value = named.groups()
        is_secret = is_secret_key(name) and value.strip("\"'\\") not in _NO_SECRETS
        yield text[at : named.start(3)]
        if is_secret:
            yield REDACTED
        # The value of another name may hold names itself: a URL, JSON in a string.
        at = named.end() if is_secret else named.start(3)
    yield text[at:]
