"""Templates ``${env:string:NAME}`` and ``${file:/path}``, filled in memory after layering.

In a cluster's client properties, also ``${provider:path:key}`` of the providers that
``config.providers`` declares there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from k2ktui.config.bounded_yaml import BYTE_LIMIT
from k2ktui.config.inputs import note_file, note_variable, value_of
from k2ktui.config.problems import Path as KeyPath
from k2ktui.config.problems import Problem, format_path
from k2ktui.config.providers import PROVIDERS_KEY, Provider, Unfilled, read_providers
from k2ktui.config.scalars import Text, parse_toggle
from k2ktui.config.tree import Node
from k2ktui.text import safe_text

_TEMPLATE = re.compile(r"\$(\$\{)|\$\{([^{}]*)\}")


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
    (side, "kafka", section)
    for side in ("source", "target")
    for section in ("common", "consumer", "producer", "admin")
)
Providers = Mapping[str, Provider]


@dataclass(frozen=True)
class Templates:
    """Fills templates from ``env`` and files; paths are relative to the YAML file's directory."""

    env: Mapping[str, str]
    problems: list[Problem]

    def fill(self, tree: Node) -> Node:
        """Return the tree with every template replaced and those values marked as secret."""
        providers = {path: self._providers(tree, path) for path in _SECTIONS}
        return self._fill(tree, (), {}, providers)

    def _fill(
        self, node: Node, path: KeyPath, providers: Providers, sections: Mapping[KeyPath, Providers]
    ) -> Node:
        providers = sections.get(path, providers)
        if isinstance(node.value, list):
            items = [self._fill(item, path, providers, sections) for item in node.value]
            return replace(node, value=items)
        if isinstance(node.value, dict):
            entries = {
                key: self._fill(item, (*path, key), providers, sections)
                for key, item in node.value.items()
            }
            return replace(node, value=entries)
        if node.value is None or "${" not in node.value:
            return node
        with value_of(str(path[-1]) if path else ""):
            return self._fill_templates(node, node.value, providers)

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

        filled = {key: self._fill(node, (), {}, {}) for key, node in nodes.items()}
        return read_providers(
            {key: _property_text(node) for key, node in filled.items()}, self.env, report
        )

    def _fill_templates(self, node: Node, text: Text, providers: Providers) -> Node:
        templated = False

        def look_up(template: re.Match[str]) -> str:
            nonlocal templated
            if template[1]:
                return "${"
            templated = True
            try:
                return self._value(template[2], node, providers)
            except Unfilled as reason:
                self.problems.append(Problem(node.mark, node.written, str(reason)))
                return template[0]

        filled = _TEMPLATE.sub(look_up, text)
        return replace(node, value=Text(filled), secret=node.secret or templated)

    def _value(self, body: str, node: Node, providers: Providers) -> str:
        loader, _, rest = body.partition(":")
        mappers, name = _split(rest)
        shown = safe_text("${" + body + "}")
        if loader in providers and not mappers:
            first, colon, second = rest.partition(":")
            try:
                return providers[loader](*((first, second) if colon else ("", first)))
            except Unfilled as reason:
                raise Unfilled(f"{shown}: {reason}") from reason
        if loader not in {"env", "file"} or not name:
            raise Unfilled(
                f"{shown}: expected ${{env:string:NAME}} or ${{file:/path}}; "
                "write $${ for a literal ${"
            )
        value = self._env(name) if loader == "env" else _file(name, node)
        for mapper in mappers:
            try:
                value = MAPPERS[mapper](value)
            except ValueError:
                # The cause quotes the value, which may be a secret.
                raise Unfilled(f"{shown}: the value is not a valid {mapper}") from None
        return value

    def _env(self, name: str) -> str:
        note_variable(name)
        if name not in self.env:
            raise Unfilled(f"the environment variable {safe_text(name)} is not set")
        return self.env[name]


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


def _file(name: str, node: Node) -> str:
    path = Path(node.mark.file).parent / name
    note_file(str(path))
    try:
        with path.open("rb") as opened:
            content = opened.read(BYTE_LIMIT + 1)
        if len(content) > BYTE_LIMIT:
            raise Unfilled(f"{safe_text(name)} is larger than {BYTE_LIMIT >> 10} KiB")
        return content.decode().replace("\r\n", "\n").replace("\r", "\n").removesuffix("\n")
    except OSError as error:
        raise Unfilled(f"{safe_text(name)} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError:
        # The cause holds the whole file, which may be a secret.
        raise Unfilled(f"{safe_text(name)} is not UTF-8 text") from None


def _property_text(node: Node) -> str:
    """Return the text of a property; a list is joined by commas, as for a Java client."""
    if isinstance(node.value, list):
        return ",".join(map(_property_text, node.value))
    return node.value if isinstance(node.value, Text) else ""
