"""YAML with bounds: a file of a few lines can neither fill the memory nor exhaust the stack.

PyYAML composes nested collections by recursion, and an alias stands for all that it names: nine
lines of ten aliases each are a thousand million values once they are followed.
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
    """Return what a file of ours holds, as plain values.

    Raises:
        OSError: it cannot be read.
        ValueError: it is too large, not UTF-8, or a value in it cannot be.
        yaml.YAMLError: it is not YAML, or beyond the bounds.
    """
    with path.open("rb") as file:
        content = file.read(BYTE_LIMIT + 1)
    if len(content) > BYTE_LIMIT:
        raise ValueError(f"larger than {BYTE_LIMIT >> 10} KiB")
    return yaml.load(content.decode(), Loader=BoundedLoader)  # noqa: S506 - a safe loader


class BoundedLoader(yaml.SafeLoader):
    """``yaml.SafeLoader`` that refuses deep nesting, too many values and recursive aliases.

    Values count as often as aliases repeat them. What is refused is a ``yaml.MarkedYAMLError``
    with the line.
    """

    def __init__(self, stream: Any) -> None:
        super().__init__(stream)
        self._counts = [0]  # values in each of the collections that are being read
        self._sizes: dict[str, int] = {}  # of what has an anchor, once it was read

    def compose_node(self, parent: Any, index: Any) -> Any:
        """Compose a node and what is below it, within the bounds."""
        event: Any = self.peek_event()  # type: ignore[no-untyped-call]
        if isinstance(event, yaml.AliasEvent):
            if event.anchor in self.anchors and event.anchor not in self._sizes:
                raise _refused("the alias stands inside what it names", event)
            node = super().compose_node(parent, index)
            self._count(self._sizes[str(event.anchor)], event)
            return node
        if len(self._counts) > DEPTH_LIMIT + 1:
            raise _refused(f"nested deeper than {DEPTH_LIMIT} levels", event)
        self._counts.append(0)
        node = super().compose_node(parent, index)
        size = self._counts.pop() + 1
        if event.anchor is not None:
            self._sizes[event.anchor] = size
        self._count(size, event)
        return node

    def _count(self, size: int, event: Any) -> None:
        # Each collection counts for itself: one that is too large ends the file early.
        self._counts[-1] += size
        if self._counts[-1] > VALUE_LIMIT:
            raise _refused(f"more than {VALUE_LIMIT:,} values, counting those of aliases", event)


def _refused(problem: str, event: Any) -> ComposerError:
    return ComposerError(None, None, problem, event.start_mark)
