"""The key that signs messages to a DNS server (TSIG, RFC 8945), read from a file."""

from __future__ import annotations

import binascii
import re
from base64 import b64decode
from dataclasses import dataclass, field
from pathlib import Path

from k2ktui.private_files import why_others_may_read
from k2ktui.secret_values import remember_secrets
from k2ktui.text import safe_text

_LARGEST, _LONGEST_NAME = 64 << 10, 253
_ALGORITHMS = "hmac-sha224", "hmac-sha256", "hmac-sha384", "hmac-sha512"
_KEY = re.compile(
    r"""(?:\s|\#[^\n]*\n)*
    key\s+"?(?P<name>[A-Za-z0-9_-]{1,63}(?:\.[A-Za-z0-9_-]{1,63})*)\.?"?\s*\{
    \s*algorithm\s+"?(?P<algorithm>[A-Za-z0-9-]+)"?\s*;
    \s*secret\s+"(?P<secret>[A-Za-z0-9+/=]+)"\s*;
    \s*\}\s*;\s*""",
    re.VERBOSE,
)


class UnusableKey(Exception):
    """The file has no key, or others may read it; the message never has the secret."""


@dataclass(frozen=True, slots=True)
class TsigKey:
    """A key.

    Attributes:
        name: its name, which the server knows.
        algorithm: such as ``hmac-sha256``.
        secret: the secret's bytes.
    """

    name: str
    algorithm: str
    secret: bytes = field(repr=False)


def read_key(path: str) -> TsigKey:
    """Read the file with a key, as ``tsig-keygen`` prints it.

    Raises:
        UnusableKey: it is not safe, or no such file.
    """
    shown = f"the key file {safe_text(path)}"
    if reason := why_others_may_read(Path(path)):
        raise UnusableKey(f"{shown} is not safe: {reason}")
    try:
        with Path(path).open("rb") as file:
            text = file.read(_LARGEST).decode("ascii", "replace")
    except OSError as error:
        raise UnusableKey(f"{shown} cannot be read: {safe_text(error.strerror)}") from error
    match = _KEY.fullmatch(text)
    if match is None or len(match["name"]) > _LONGEST_NAME:
        raise UnusableKey(f"{shown} is not one key as tsig-keygen prints it")
    if (algorithm := match["algorithm"].lower()) not in _ALGORITHMS:
        raise UnusableKey(
            f"{shown} has the algorithm {safe_text(algorithm)}: one of {', '.join(_ALGORITHMS)}"
        )
    remember_secrets([("secret", match["secret"])])
    try:
        secret = b64decode(match["secret"], validate=True)
    except binascii.Error:  # its cause would show what it could not decode
        secret = b""
    if not secret:
        raise UnusableKey(f"{shown} has a secret that is not base64")
    return TsigKey(match["name"], algorithm, secret)
