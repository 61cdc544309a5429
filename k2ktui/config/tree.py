"""YAML files as trees of nodes with file positions, and layering of such trees."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import yaml

from k2ktui.config.bounded_yaml import BYTE_LIMIT, BoundedLoader
from k2ktui.config.inputs import read_file
from k2ktui.config.problems import FilePosition, Path, Problem, format_path
from k2ktui.config.scalars import Text
from k2ktui.secret_values import REDACTED

_YAML = "tag:yaml.org,2002:"
_BOOLEANS = yaml.SafeLoader.bool_values


@dataclass(frozen=True)
class Node:
    """A value with its position: a scalar's text, None, a list, or a table of nodes.

    ``written`` is the path as spelled in the file; ``secret`` marks text filled by a template.
    """

    value: Text | list[Node] | dict[str, Node] | None
    mark: FilePosition
    written: str
    secret: bool = False

    @property
    def table(self) -> dict[str, Node]:
        """The entries of a table, or an empty dict for any other value."""
        return self.value if isinstance(self.value, dict) else {}

    def at(self, path: Path) -> Node | None:
        """Return the node at ``path`` below this one, or None."""
        node: Node | None = self
        for step in path:
            if node is None:
                return None
            if isinstance(node.value, list) and isinstance(step, int):
                node = node.value[step] if step < len(node.value) else None
            else:
                node = node.table.get(str(step))
        return node

    def nearest(self, path: Path) -> Node:
        """Return the node at ``path`` or its closest existing ancestor."""
        nodes = (self.at(path[:length]) for length in range(len(path), -1, -1))
        return next((node for node in nodes if node is not None), self)

    def problem(self, path: Path, message: str) -> Problem:
        """Return what is wrong with a key, which the file may lack."""
        node = self.at(path)
        written = format_path(path) if node is None else node.written
        return Problem(self.nearest(path).mark, written, message)

    def walk(self, path: Path = ()) -> Iterator[tuple[Path, Node]]:
        """Yield this node and all nodes below it, each with its path."""
        yield path, self
        if isinstance(self.value, list):
            for index, item in enumerate(self.value):
                yield from item.walk((*path, index))
        for key, item in self.table.items():
            yield from item.walk((*path, key))

    def map_texts(self, change: Callable[[Node, Text, Path], Node], path: Path = ()) -> Node:
        """Return the tree with ``change(node, text, path)`` in place of each text's node.

        A list's items have the list's path.
        """
        if isinstance(self.value, list):
            return replace(self, value=[item.map_texts(change, path) for item in self.value])
        if isinstance(self.value, dict):
            entries = {k: n.map_texts(change, (*path, k)) for k, n in self.value.items()}
            return replace(self, value=entries)
        return self if self.value is None else change(self, self.value, path)

    def plain(self) -> Any:
        """Return the tree as dicts, lists, ``Text`` and None, without null keys."""
        if isinstance(self.value, list):
            return [item.plain() for item in self.value]
        if isinstance(self.value, dict):
            entries = ((key, item.plain()) for key, item in self.value.items())
            return {key: value for key, value in entries if value is not None}
        return self.value


def merge(base: Node, over: Node, whole: frozenset[Path], path: Path = ()) -> Node:
    """Return ``base`` overridden by ``over``.

    Tables are merged key by key. All other values, and the tables at the paths in ``whole``, are
    replaced. A null value does not override a table.
    """
    if over.value is None and isinstance(base.value, dict):
        return base
    if path in whole or not (isinstance(base.value, dict) and isinstance(over.value, dict)):
        return over
    merged = dict(base.value)
    for key, item in over.value.items():
        below = merged.get(key)
        merged[key] = merge(below, item, whole, (*path, key)) if below else item
    return replace(base, value=merged)


def read_tree(file: str, problems: list[Problem]) -> Node | None:
    """Parse one YAML file and append its errors to ``problems``.

    Returns None if the file is unusable as a whole.
    """
    content = _read(file, problems)
    if content is None:
        return None
    try:
        composed = yaml.compose(content, Loader=BoundedLoader)
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        problems.append(_yaml_problem(file, error))
        return None
    if composed is None:
        return Node({}, FilePosition(file, 1), "")
    if not isinstance(composed, yaml.MappingNode):
        problems.append(Problem(FilePosition(file, 1), "", "expected a mapping of sections"))
        return None
    return _Reader(file, problems).node(composed, ())


def parse_documents(content: bytes, file: str, problems: list[Problem]) -> list[Node]:
    """Parse YAML of any number of documents, or JSON, and append errors to ``problems``.

    Returns the documents that are not empty; none if the content is not valid.
    """
    if len(content) > BYTE_LIMIT:
        problems.append(_too_large(file))
        return []
    try:
        composed = list(yaml.compose_all(content, Loader=BoundedLoader))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        problems.append(_yaml_problem(file, error))
        return []
    reader = _Reader(file, problems)
    return [reader.node(document, ()) for document in composed if document is not None]


def _read(file: str, problems: list[Problem]) -> bytes | None:
    try:
        content = read_file(file)
    except OSError as error:
        problems.append(Problem(None, file, f"cannot be read: {error.strerror}"))
        return None
    if len(content) > BYTE_LIMIT:
        problems.append(_too_large(file))
        return None
    return content


def _too_large(file: str) -> Problem:
    return Problem(None, file, f"larger than {BYTE_LIMIT >> 10} KiB")


def _yaml_problem(file: str, error: yaml.YAMLError | UnicodeDecodeError) -> Problem:
    if isinstance(error, yaml.MarkedYAMLError):
        # The error's own text quotes the line, which may contain a password.
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        return Problem(FilePosition(file, line), "", f"not valid YAML: {_explain(error)}")
    return Problem(FilePosition(file, 1), "", "not valid YAML: not UTF-8 text")


# A name in a message of PyYAML: of an alias, an anchor or a tag, which may be an unquoted password.
# It is a repr; single characters, and names of tokens such as '<scalar>', are PyYAML's own.
_NAME = re.compile(r"""'(?!<)(?:[^'\\]|\\.){2,}'|"(?!<)(?:[^"\\]|\\.){2,}"|('[^']?'|"[^"]?")""")


def _explain(error: yaml.MarkedYAMLError) -> str:
    """Return a parser's message without values of the file."""
    problem = str(error.problem)
    text = _NAME.sub(lambda quoted: quoted[1] or REDACTED, problem)
    if "undefined alias" in problem or "alias" in str(error.context):
        return f"{text}; put a value that begins with * into quotes"
    if "duplicate anchor" in problem or "anchor" in str(error.context):
        return f"{text}; put a value that begins with & into quotes"
    return text


@dataclass(frozen=True)
class _Reader:
    file: str
    problems: list[Problem]

    def node(self, raw: yaml.Node, path: Path, mark: FilePosition | None = None) -> Node:
        mark = mark or self.mark(raw)
        if not raw.tag.startswith(_YAML):
            self.complain(raw, path, "YAML tags are not supported")
        if isinstance(raw, yaml.MappingNode):
            return Node(self.table(raw, path), mark, format_path(path))
        if isinstance(raw, yaml.SequenceNode):
            items = [self.node(item, (*path, index)) for index, item in enumerate(raw.value)]
            return Node(items, mark, format_path(path))
        return Node(_scalar(raw), mark, format_path(path))

    def table(self, raw: yaml.MappingNode, path: Path) -> dict[str, Node]:
        merged: dict[str, Node] = {}
        own: dict[str, Node] = {}
        for key, value in raw.value:
            if key.tag == f"{_YAML}merge":
                merged.update(self.merge_entries(value, path))
            elif not isinstance(key, yaml.ScalarNode):
                self.complain(key, path, "a key must be a string")
            elif key.value in own:
                first = own[key.value].mark.line
                self.complain(
                    key, (*path, key.value), f"duplicate key, first given in line {first}"
                )
            else:
                below = (*path, key.value)
                own[key.value] = self.node(value, below, self.mark(key))
        return {**merged, **own}

    def merge_entries(self, raw: yaml.Node, path: Path) -> dict[str, Node]:
        """Return the entries of ``<<``: one table, or a list of tables (the first one wins)."""
        tables = raw.value if isinstance(raw, yaml.SequenceNode) else [raw]
        entries: dict[str, Node] = {}
        for table in reversed(tables):
            if isinstance(table, yaml.MappingNode):
                entries.update(self.table(table, path))
            else:
                self.complain(table, path, "<< needs a mapping")
        return entries

    def mark(self, raw: yaml.Node) -> FilePosition:
        return FilePosition(self.file, raw.start_mark.line + 1)

    def complain(self, raw: yaml.Node, path: Path, message: str) -> None:
        self.problems.append(Problem(self.mark(raw), format_path(path), message))


def _scalar(raw: yaml.Node) -> Text | None:
    if raw.tag == f"{_YAML}null":
        return None
    boolean = _BOOLEANS.get(raw.value.lower()) if raw.tag == f"{_YAML}bool" else None
    return Text(raw.value, boolean)
