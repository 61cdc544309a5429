"""Kafka's own config providers: ``${provider:path:key}`` from files, directories, the environment.

As in Java, only the providers that ``config.providers`` declares are used, and their parameters
limit what they read. Unlike in Java, a variable without a value is an error.
"""

from __future__ import annotations

import os.path
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from k2ktui.config.bounded_yaml import BYTE_LIMIT
from k2ktui.config.inputs import note_file, note_variable
from k2ktui.config.javaprops import parse
from k2ktui.text import safe_text

PROVIDERS_KEY = "config.providers"
_VARIABLE = re.compile(r"\$\{([^}:]*):(?:([^}:]*):)?([^}]*)\}")
_PACKAGE = "org.apache.kafka.common.config.provider"
_PATHS, _PATTERN = "allowed.paths", "allowlist.pattern"

# Returns a value for a path and a key.
Provider = Callable[[str, str], str]
# Receives a property and what is wrong with it.
Report = Callable[[str, str], None]


class Unfilled(Exception):
    """A variable cannot be filled; the message gives the reason without any value."""


@dataclass(frozen=True)
class _Settings:
    """Parameters of one provider; ``paths`` None allows every path."""

    env: Mapping[str, str]
    paths: tuple[Path, ...] | None = None
    names: re.Pattern[str] | None = None

    def from_env(self, path: str, key: str) -> str:
        if path:
            raise Unfilled("this provider takes a name only, and no path")
        if self.names is not None and not self.names.fullmatch(key):
            raise Unfilled(f"{_PATTERN} of this provider does not allow the name")
        note_variable(key)
        if key not in self.env:
            raise Unfilled("the environment variable is not set")
        return self.env[key]

    def from_file(self, path: str, key: str) -> str:
        properties = parse(self._read(path), path, "utf-8")
        if key not in properties:
            raise Unfilled("the file has no such key")
        return properties[key].value

    def from_directory(self, path: str, key: str) -> str:
        if not key or key in {".", ".."} or "/" in key:
            raise Unfilled("expected the name of a file in the directory")
        return self._read(path, key).decode()

    def _read(self, path: str, name: str = "") -> bytes:
        if not path:
            raise Unfilled("this provider takes a path and a key")
        where = Path(os.path.normpath(path))
        if self.paths is not None and not any(map(where.is_relative_to, self.paths)):
            raise Unfilled(f"{_PATHS} of this provider does not allow the path")
        note_file(str(where / name))
        try:
            with (where / name).open("rb") as opened:
                content = opened.read(BYTE_LIMIT + 1)
            content.decode()
        except OSError as error:
            raise Unfilled(f"the file cannot be read: {error.strerror}") from error
        except UnicodeDecodeError:
            # The cause holds the whole file, which may be a secret.
            raise Unfilled("the file is not UTF-8 text") from None
        if len(content) > BYTE_LIMIT:
            raise Unfilled(f"the file is larger than {BYTE_LIMIT >> 10} KiB")
        return content


_CLASSES: Mapping[str, tuple[Callable[[_Settings], Provider], str]] = {
    "FileConfigProvider": (lambda settings: settings.from_file, _PATHS),
    "DirectoryConfigProvider": (lambda settings: settings.from_directory, _PATHS),
    "EnvVarConfigProvider": (lambda settings: settings.from_env, _PATTERN),
}


def read_providers(
    properties: Mapping[str, str], env: Mapping[str, str], report: Report
) -> dict[str, Provider]:
    """Return the providers that ``config.providers`` declares, by name.

    Args:
        properties: properties with Java's names.
        env: variables for ``EnvVarConfigProvider``.
        report: receives every error.
    """
    names = [part.strip() for part in properties.get(PROVIDERS_KEY, "").split(",")]
    _report_unknown(properties, names, report)
    providers: dict[str, Provider] = {}
    for name in filter(None, names):
        provider = _provider(name, properties, env, report)
        if provider is not None:
            providers[name] = provider
    return providers


def _report_unknown(properties: Mapping[str, str], names: list[str], report: Report) -> None:
    known = tuple(f"{PROVIDERS_KEY}.{name}." for name in names if name)
    for key in properties:
        if key.startswith(f"{PROVIDERS_KEY}.") and not key.startswith(known):
            report(key, f"has no effect: {PROVIDERS_KEY} does not list this provider")


def _provider(
    name: str, properties: Mapping[str, str], env: Mapping[str, str], report: Report
) -> Provider | None:
    prefix = f"{PROVIDERS_KEY}.{name}."
    package, _, kind = properties.get(f"{prefix}class", "").strip().rpartition(".")
    if kind not in _CLASSES or package != _PACKAGE:
        known = "FileConfigProvider, DirectoryConfigProvider or EnvVarConfigProvider"
        report(f"{prefix}class", f"expected Kafka's {known}; other providers are not supported")
        return None
    make, parameter = _CLASSES[kind]
    for key in properties:
        if key.startswith(prefix) and key not in {f"{prefix}class", f"{prefix}param.{parameter}"}:
            report(key, f"unknown; {kind} has class and param.{parameter}")
            return None
    key = f"{prefix}param.{parameter}"
    limit = properties.get(key, "").strip()
    if not limit:
        return make(_Settings(env))
    try:
        if parameter == _PATTERN:
            return make(_Settings(env, names=re.compile(limit)))
        return make(_Settings(env, paths=tuple(map(_allowed_path, limit.split(",")))))
    except re.error:
        report(key, "expected a regular expression")
    except ValueError:
        report(key, "expected absolute paths that exist, separated by commas")
    return None


def _allowed_path(text: str) -> Path:
    path = Path(os.path.normpath(text.strip()))
    if not path.is_absolute() or not path.exists():
        raise ValueError
    return path


def fill(text: str, providers: Mapping[str, Provider], report: Callable[[str], None]) -> str:
    """Return ``text`` with the variables of ``providers`` filled; others are kept, as in Java.

    ``report`` receives a message for each variable that cannot be filled.
    """

    def value(variable: re.Match[str]) -> str:
        provider = providers.get(variable[1])
        if provider is None:
            return variable[0]
        try:
            return provider(variable[2] or "", variable[3])
        except Unfilled as reason:
            report(f"{safe_text(variable[0])}: {reason}")
            return ""

    return _VARIABLE.sub(value, text)
