"""Fills ``${provider:path:key}`` in MirrorMaker 2 files, for Kafka's own config providers."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from k2ktui.config.problems import Problem
from k2ktui.mm2.javaprops import Property, parse
from k2ktui.text import safe_text

_NAMES = "config.providers"
_VARIABLE = re.compile(r"\$\{([^}:]*):(?:([^}:]*):)?([^}]*)\}")

Look = Callable[[str, str], str]


class _Unfilled(Exception):
    """A variable cannot be filled; the message gives the reason without any value."""


def fill_variables(
    properties: Mapping[str, Property], env: Mapping[str, str], problems: list[Problem]
) -> dict[str, Property]:
    """Replace ``${…}`` of the providers that the file names; others are kept, as in Java.

    Args:
        properties: the file's properties.
        env: environment variables for ``EnvVarConfigProvider``.
        problems: receives an entry for every error.
    """
    providers = _providers(properties, env, problems)
    filled = {}
    for key, property_ in properties.items():
        text = property_.value
        if not key.startswith(_NAMES) and _VARIABLE.search(text):
            text = _fill_variables(key, property_, providers, problems)
        filled[key] = replace(property_, value=text)
    return filled


def _providers(
    properties: Mapping[str, Property], env: Mapping[str, str], problems: list[Problem]
) -> dict[str, Look]:
    known: dict[str, Look] = {
        "FileConfigProvider": _from_file,
        "DirectoryConfigProvider": _from_directory,
        "EnvVarConfigProvider": lambda _, name: _from_env(env, name),
    }
    found = {}
    named = properties.get(_NAMES)
    for name in (part.strip() for part in named.value.split(",")) if named else ():
        key = f"{_NAMES}.{name}.class"
        kind = properties[key].value.strip().rpartition(".")[2] if key in properties else ""
        if kind in known:
            found[name] = known[kind]
        elif name and named is not None:
            mark = properties[key].mark if key in properties else named.mark
            wanted = "expected FileConfigProvider, DirectoryConfigProvider or EnvVarConfigProvider"
            problems.append(
                Problem(mark, safe_text(key), f"{wanted}; other providers are not supported")
            )
    return found


def _fill_variables(
    key: str, property_: Property, providers: Mapping[str, Look], problems: list[Problem]
) -> str:
    def value(found: re.Match[str]) -> str:
        look = providers.get(found[1])
        if look is None:
            return found[0]
        try:
            return look(found[2] or "", found[3])
        except _Unfilled as reason:
            message = f"{safe_text(found[0])}: {reason}"
            problems.append(Problem(property_.mark, safe_text(key), message))
            return ""

    return _VARIABLE.sub(value, property_.value)


def _from_env(env: Mapping[str, str], name: str) -> str:
    if name not in env:
        raise _Unfilled("the environment variable is not set")
    return env[name]


def _from_directory(path: str, name: str) -> str:
    return _read(Path(path) / name).decode(errors="replace")


def _from_file(path: str, key: str) -> str:
    found = parse(_read(Path(path)), path)
    if key not in found:
        raise _Unfilled("the file has no such key")
    return found[key].value


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise _Unfilled(f"the file cannot be read: {error.strerror}") from None
