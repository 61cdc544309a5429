"""Bounded YAML loading: a small file can neither exhaust memory nor overflow the stack.

PyYAML composes nested collections recursively, and every alias expands to the whole value of its
anchor: nine lines of ten aliases each expand to a billion values.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from yaml.composer import ComposerError

DEPTH_LIMIT = 40
VALUE_LIMIT = 100_000
BYTE_LIMIT = 1 << 20


def load_yaml(path: Path) -> Any:
    """Return the content of a key bindings or theme file as plain values.

    Raises:
        OSError: the file cannot be read.
        ValueError: the file is too large or not UTF-8, or holds an invalid value.
        yaml.YAMLError: the file is not valid YAML or exceeds the bounds.
    """
    with path.open("rb") as file:
        content = file.read(BYTE_LIMIT + 1)
    if len(content) > BYTE_LIMIT:
        raise ValueError(f"larger than {BYTE_LIMIT >> 10} KiB")
    return yaml.load(content.decode(), Loader=BoundedLoader)  # noqa: S506 - a safe loader


class BoundedLoader(yaml.SafeLoader):
    """``yaml.SafeLoader`` that rejects deep nesting, too many values and recursive aliases.

    A value counts once for every alias that repeats it. A violation raises a
    ``yaml.MarkedYAMLError`` with the line.
    """

    def __init__(self, stream: Any) -> None:
        super().__init__(stream)
        self._counts = [0]  # number of values in each open collection
        self._sizes: dict[str, int] = {}  # number of values per completed anchor

    def compose_node(self, parent: Any, index: Any) -> Any:
        """Compose a node and its children within the bounds."""
        event: Any = self.peek_event()  # type: ignore[no-untyped-call]
        if isinstance(event, yaml.AliasEvent):
            if event.anchor in self.anchors and event.anchor not in self._sizes:
                raise _compose_error("the alias refers to a value that contains it", event)
            node = super().compose_node(parent, index)
            self._count(self._sizes[str(event.anchor)], event)
            return node
        if len(self._counts) > DEPTH_LIMIT + 1:
            raise _compose_error(f"nested deeper than {DEPTH_LIMIT} levels", event)
        self._counts.append(0)
        node = super().compose_node(parent, index)
        size = self._counts.pop() + 1
        if event.anchor is not None:
            self._sizes[event.anchor] = size
        self._count(size, event)
        return node

    def _count(self, size: int, event: Any) -> None:
        # Counting per collection stops reading as soon as one of them is too large.
        self._counts[-1] += size
        if self._counts[-1] > VALUE_LIMIT:
            raise _compose_error(
                f"more than {VALUE_LIMIT:,} values, counting those of aliases", event
            )


def _compose_error(problem: str, event: Any) -> ComposerError:
    return ComposerError(None, None, problem, event.start_mark)
