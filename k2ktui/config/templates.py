"""Variables ``${…}`` in files: templates of pipeline files, and Kafka's own config providers.

A pipeline file has ``${env:string:NAME}`` and ``${file:/path}``, filled in memory after layering.
A cluster's client properties and MirrorMaker 2's files have ``${provider:path:key}``, from files,
directories and the environment. As in Java, only the providers that ``config.providers`` declares
are used, and their parameters limit what they read. Unlike in Java, a variable without a value is
an error.
"""

from __future__ import annotations

import os.path
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from k2ktui.config.bounded_yaml import BYTE_LIMIT
from k2ktui.config.clusters import CLIENT_SECTIONS
from k2ktui.config.inputs import note_file, note_variable, value_of
from k2ktui.config.javaprops import parse
from k2ktui.config.problems import Path as KeyPath
from k2ktui.config.problems import Problem, format_path
from k2ktui.config.scalars import Text, parse_toggle
from k2ktui.config.tree import Node
from k2ktui.text import safe_text

PROVIDERS_KEY = "config.providers"
# ``$${`` stands for ``${``.
_TEMPLATE = re.compile(r"\$\$\{|\$\{(?P<body>[^{}]*)\}")
_VARIABLE = re.compile(r"\$\{(?P<body>[^}:]*:[^}]*)\}")
_PACKAGE = "org.apache.kafka.common.config.provider"
_PATHS, _PATTERN = "allowed.paths", "allowlist.pattern"
# The classes, each with the parameter that limits what it reads.
_CLASSES = {
    "FileConfigProvider": _PATHS,
    "DirectoryConfigProvider": _PATHS,
    "EnvVarConfigProvider": _PATTERN,
}

# Returns a value for a path and a key.
Provider = Callable[[str, str], str]
Providers = Mapping[str, Provider]
# Receives a property and what is wrong with it.
Report = Callable[[str, str], None]


class Unfilled(Exception):
    """A variable cannot be filled; the message gives the reason without any value."""


def _number(text: str) -> str:
    return str(int(text))


def _decimal(text: str) -> str:
    float(text)
    return text.strip()


def _boolean(text: str) -> str:
    return "true" if parse_toggle(text) else "false"


# A mapper validates and converts the text; it raises ValueError for an invalid value.
MAPPERS: dict[str, Callable[[str], str]] = {
    "string": str,
    "trim": str.strip,
    **dict.fromkeys(("int", "integer", "long", "short"), _number),
    **dict.fromkeys(("double", "float", "decimal"), _decimal),
    **dict.fromkeys(("boolean", "bool"), _boolean),
}

_SECTIONS: tuple[KeyPath, ...] = tuple(
    (side, "kafka", section) for side in ("source", "target") for section in CLIENT_SECTIONS
)


@dataclass(frozen=True)
class Templates:
    """Fills templates from ``env`` and files; paths are relative to the YAML file's directory."""

    env: Mapping[str, str]
    problems: list[Problem]

    def fill(self, tree: Node) -> Node:
        """Return the tree with every template replaced and those values marked as secret."""
        sections = {path: self._providers(tree, path) for path in _SECTIONS}
        return tree.map_texts(
            lambda node, text, path: self._fill(node, text, path, sections.get(path[:3], {}))
        )

    def _fill(self, node: Node, text: Text, path: KeyPath, providers: Providers) -> Node:
        if "${" not in text:
            return node

        def report(message: str) -> None:
            self.problems.append(Problem(node.mark, node.written, message))

        with value_of(str(path[-1]) if path else ""):
            filled = _replace(
                _TEMPLATE, text, lambda body: self._value(body, node, providers), report
            )
        is_secret = any(match["body"] is not None for match in _TEMPLATE.finditer(text))
        return replace(node, value=Text(filled), secret=node.secret or is_secret)

    def _providers(self, tree: Node, section: KeyPath) -> Providers:
        """Return the providers of a section of client properties, with those of ``common``."""
        tables = (tree.at((*section[:2], "common")), tree.at(section))
        nodes = {
            key: node
            for table in tables
            for key, node in (table.table if table else {}).items()
            if key.startswith(PROVIDERS_KEY)
        }

        def report(key: str, message: str) -> None:
            node = nodes.get(key) or nodes[PROVIDERS_KEY]
            written = node.written if key in nodes else format_path((*section, key))
            self.problems.append(Problem(node.mark, written, message))

        filled = {
            key: node.map_texts(lambda node, text, path: self._fill(node, text, path, {}))
            for key, node in nodes.items()
        }
        return read_providers(
            {key: _property_text(node) for key, node in filled.items()}, self.env, report
        )

    def _value(self, body: str, node: Node, providers: Providers) -> str:
        loader, _, rest = body.partition(":")
        mappers, name = _split(rest)
        shown = safe_text("${" + body + "}")
        if not mappers and (provided := _value_of_provider(providers, body)) is not None:
            return provided
        if loader not in {"env", "file"} or not name:
            raise Unfilled(
                f"{shown}: expected ${{env:string:NAME}} or ${{file:/path}}; "
                "write $${ for a literal ${"
            )
        if loader == "env":
            value = _variable(self.env, name, f"the environment variable {safe_text(name)}")
        else:
            content = _read(Path(node.mark.file).parent / name, safe_text(name))
            value = content.replace("\r\n", "\n").replace("\r", "\n").removesuffix("\n")
        for mapper in mappers:
            try:
                value = MAPPERS[mapper](value)
            except ValueError:
                # The cause quotes the value, which may be a secret.
                raise Unfilled(f"{shown}: the value is not a valid {mapper}") from None
        return value


def _split(rest: str) -> tuple[list[str], str]:
    """Split ``string:trim:NAME`` into mappers and name; the name may contain colons."""
    mappers: list[str] = []
    while True:
        head, colon, tail = rest.partition(":")
        words = head.split(",")
        if not colon or not all(word in MAPPERS for word in words):
            return mappers, rest
        mappers += words
        rest = tail


def variables_of(text: str) -> list[str]:
    """Return the environment variables that ``${env:…}`` in a text names, each once."""
    bodies = (match["body"] or "" for match in _TEMPLATE.finditer(text))
    loaders = (body.partition(":") for body in bodies)
    names = (_split(rest)[1] for loader, _, rest in loaders if loader == "env")
    return list(dict.fromkeys(filter(None, names)))


def _property_text(node: Node) -> str:
    """Return the text of a property; a list is joined by commas, as for a Java client."""
    if isinstance(node.value, list):
        return ",".join(map(_property_text, node.value))
    return node.value if isinstance(node.value, Text) else ""


def fill(text: str, providers: Providers, report: Callable[[str], None]) -> str:
    """Return ``text`` with the variables of ``providers`` filled; others are kept, as in Java.

    ``report`` receives a message for each variable that cannot be filled.
    """

    def value(body: str) -> str:
        provided = _value_of_provider(providers, body)
        return "${" + body + "}" if provided is None else provided

    return _replace(_VARIABLE, text, value, report)


def _replace(
    variables: re.Pattern[str],
    text: str,
    value: Callable[[str], str],
    report: Callable[[str], None],
) -> str:
    def look_up(variable: re.Match[str]) -> str:
        if variable["body"] is None:
            return "${"
        try:
            return value(variable["body"])
        except Unfilled as reason:
            report(str(reason))
            return variable[0]

    return variables.sub(look_up, text)


def _value_of_provider(providers: Providers, body: str) -> str | None:
    """Return what a provider has for ``provider:path:key``; None if there is no such provider."""
    name, _, rest = body.partition(":")
    if name not in providers:
        return None
    path, colon, key = rest.partition(":")
    try:
        return providers[name](path, key) if colon else providers[name]("", path)
    except Unfilled as reason:
        raise Unfilled(f"{safe_text('${' + body + '}')}: {reason}") from reason


def read_providers(
    properties: Mapping[str, str], env: Mapping[str, str], report: Report
) -> Providers:
    """Return the providers that ``config.providers`` declares, by name.

    Args:
        properties: properties with Java's names.
        env: variables for ``EnvVarConfigProvider``.
        report: receives every error.
    """
    names = [part.strip() for part in properties.get(PROVIDERS_KEY, "").split(",")]
    known = tuple(f"{PROVIDERS_KEY}.{name}." for name in names if name)
    for key in properties:
        if key.startswith(f"{PROVIDERS_KEY}.") and not key.startswith(known):
            report(key, f"has no effect: {PROVIDERS_KEY} does not list this provider")
    made = {name: _provider(name, properties, env, report) for name in names if name}
    return {name: provider for name, provider in made.items() if provider is not None}


def _provider(
    name: str, properties: Mapping[str, str], env: Mapping[str, str], report: Report
) -> Provider | None:
    prefix = f"{PROVIDERS_KEY}.{name}."
    package, _, kind = properties.get(f"{prefix}class", "").strip().rpartition(".")
    if kind not in _CLASSES or package != _PACKAGE:
        known = "FileConfigProvider, DirectoryConfigProvider or EnvVarConfigProvider"
        report(f"{prefix}class", f"expected Kafka's {known}; other providers are not supported")
        return None
    parameter = _CLASSES[kind]
    for key in properties:
        if key.startswith(prefix) and key not in {f"{prefix}class", f"{prefix}param.{parameter}"}:
            report(key, f"unknown; {kind} has class and param.{parameter}")
            return None
    key = f"{prefix}param.{parameter}"
    limit = properties.get(key, "").strip()
    try:
        if parameter == _PATTERN:
            pattern = re.compile(limit) if limit else None
            # Not a partial, whose repr would have the whole environment.
            return lambda path, key: _from_env(env, pattern, path, key)
        paths = tuple(map(_allowed_path, limit.split(","))) if limit else None
        return partial(_from_file if kind == "FileConfigProvider" else _from_directory, paths)
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


def _from_env(env: Mapping[str, str], names: re.Pattern[str] | None, path: str, key: str) -> str:
    if path:
        raise Unfilled("this provider takes a name only, and no path")
    if names is not None and not names.fullmatch(key):
        raise Unfilled(f"{_PATTERN} of this provider does not allow the name")
    return _variable(env, key, "the environment variable")


def _from_file(allowed: tuple[Path, ...] | None, path: str, key: str) -> str:
    properties = parse(_read(_place(allowed, path), "the file").encode(), path, "utf-8")
    if key not in properties:
        raise Unfilled("the file has no such key")
    return properties[key].value


def _from_directory(allowed: tuple[Path, ...] | None, path: str, key: str) -> str:
    if not key or key in {".", ".."} or "/" in key:
        raise Unfilled("expected the name of a file in the directory")
    return _read(_place(allowed, path) / key, "the file")


def _place(allowed: tuple[Path, ...] | None, path: str) -> Path:
    if not path:
        raise Unfilled("this provider takes a path and a key")
    place = Path(os.path.normpath(path))
    if allowed is not None and not any(map(place.is_relative_to, allowed)):
        raise Unfilled(f"{_PATHS} of this provider does not allow the path")
    return place


def _variable(env: Mapping[str, str], name: str, shown: str) -> str:
    note_variable(name)
    if name not in env:
        raise Unfilled(f"{shown} is not set")
    return env[name]


def _read(path: Path, shown: str) -> str:
    note_file(str(path))
    try:
        with path.open("rb") as opened:
            content = opened.read(BYTE_LIMIT + 1)
        if len(content) > BYTE_LIMIT:
            raise Unfilled(f"{shown} is larger than {BYTE_LIMIT >> 10} KiB")
        return content.decode()
    except OSError as error:
        raise Unfilled(f"{shown} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError:
        # The cause holds the whole file, which may be a secret.
        raise Unfilled(f"{shown} is not UTF-8 text") from None
